"""Values as text and back: whatever the runtime records goes through here.

What comes back is equal to what went in, and has the same types: a tuple stays a tuple, and a date is not a
text. A class is stored under a registered name and found again by it, never by importing what the data says.
A class is registered when a value of it is first encoded, when a filter or a `Key` names it (`expect`), when
a text names it and its module is loaded, or by `register`; the latter also keeps a class readable that was
renamed or moved.

The text is ASCII and JSON: ``[version, node]``. What JSON has stands for itself, a list is a list, and
everything else is an object with one entry: the tag of its type, and its parts.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import math
import sys
import uuid
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from enum import Enum, Flag
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

import attrs

from .errors import ConfigError, UnreadableRecordError, UnrecordableError

Node: TypeAlias = "bool | int | float | str | list[Node] | dict[str, Node] | None"
C = TypeVar("C", bound=type)

_VERSION: Final = 1
# Deeper than any value that a person would look at, and far from Python's own limit.
_DEPTH: Final = 64
# What every JSON reader holds exactly.
_PLAIN_INTEGER: Final = 2**53

_names: Final[dict[type, str]] = {}
_classes: Final[dict[str, type]] = {}
_expected: Final[list[object]] = []
_explored: Final[set[type]] = set()


# --- classes by name


def register(cls: C, /, *, name: str | None = None, aliases: Sequence[str] = ()) -> C:
    """Give a class the name under which its values are stored; the class comes back, as from a decorator.

    Args:
        cls: a frozen attrs class, or an Enum.
        name: stays the same when the class is moved or renamed; by default its module and name.
        aliases: names that older records use.

    Raises:
        ConfigError: it is neither, or another class has this name.

    Example:
        >>> import attrs
        >>> @register
        ... @attrs.frozen
        ... class Moved:
        ...     minutes: int
    """
    if not (attrs.has(cls) or issubclass(cls, Enum)):
        raise ConfigError(f"{cls.__name__} is neither an attrs class nor an Enum")
    known = _names.get(cls)
    if known is None or name is not None:
        _names[cls] = _claim(name or _default_name(cls), cls)
    for alias in aliases:
        _claim(alias, cls)
    return cls


def expect(annotation: object, /) -> None:
    """Register the classes of a type, such as ``Shipped | Moved`` or ``tuple[Order, ...]``, once needed.

    The classes of their fields are found as well.
    """
    _expected.append(annotation)


def lasting_module(module: str) -> str:
    """The name of a module that is the same however the program was started."""
    if module == "__main__":
        # The same file may be run by name the next time.
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        return spec.name if spec is not None else Path(getattr(main, "__file__", module)).stem
    return module


def _default_name(cls: type) -> str:
    return f"{lasting_module(cls.__module__)}.{cls.__qualname__}"


def _claim(name: str, cls: type) -> str:
    other = _classes.get(name)
    if other is not None and other is not cls:
        if _default_name(other) != _default_name(cls):
            raise ConfigError(f"two classes are recorded as {name!r}: {other!r} and {cls!r}")
        # Defined once more, as by a reload: the newer one is meant.
        _names.pop(other, None)
    _classes[name] = cls
    return name


def _name_of(cls: type) -> str:
    if cls not in _names:
        register(cls)
    return _names[cls]


def _class_of(name: Node) -> type:
    if isinstance(name, str):
        if name not in _classes:
            _explore()
        if name in _classes:
            return _classes[name]
        if (cls := _loaded(name)) is not None:
            return register(cls)
    raise UnreadableRecordError(
        f"this program knows no class {name!r}; import its module, or name it with register(cls, name=...)"
    )


def _loaded(name: str) -> type | None:
    """The class of this name in a module that is loaded already; nothing is imported for a record's sake.

    A new process has written no value of it yet, such as a button's key or what a step returned.
    """
    for module in list(sys.modules.values()):
        prefix = lasting_module(getattr(module, "__name__", "")) + "."
        if not name.startswith(prefix):
            continue
        found: object = module
        for part in name.removeprefix(prefix).split("."):
            found = vars(found).get(part) if isinstance(found, type | ModuleType) else None
        if isinstance(found, type) and _default_name(found) == name:
            return found if attrs.has(found) or issubclass(found, Enum) else None
    return None


def _explore() -> None:
    while _expected:
        annotation = _expected.pop()
        cls = get_origin(annotation) or annotation
        _expected.extend(get_args(annotation))
        if isinstance(cls, type) and cls not in _explored and (attrs.has(cls) or issubclass(cls, Enum)):
            _explored.add(cls)
            # A class that can't have its name isn't the one that a record means.
            with suppress(ConfigError):
                register(cls)
            _expected.extend(_field_types(cls))


def _field_types(cls: type) -> Iterable[object]:
    try:
        return list(get_type_hints(cls).values())
    except Exception:  # a name that exists for type checkers only
        return [field.type for field in getattr(cls, "__attrs_attrs__", ())]


# --- values to text


def encode_value(value: object) -> str:
    """Write a value down.

    Takes None, bool, int, finite float, str, bytes, date, aware datetime, time, timedelta, finite Decimal,
    UUID, Path, Enum members, and tuple, list, dict, set, frozenset and frozen attrs classes of these.

    Raises:
        UnrecordableError: it holds something else; names the type and where it is.
    """
    return json.dumps([_VERSION, _dump(value, "value", 0)], separators=(",", ":"), allow_nan=False)


def _dump(value: object, path: str, depth: int) -> Node:
    if depth > _DEPTH:
        raise _refusal(value, path, f"values nest at most {_DEPTH} deep")
    kind = type(value)
    if value is None or kind is bool:
        return cast("bool | None", value)
    if isinstance(value, Enum):
        return _dump_member(value)
    if kind in _SCALARS:
        return _SCALARS[kind](value, path)
    if kind is list:
        return _dump_all(cast("list[object]", value), path, depth)
    if kind is tuple:
        return {"tuple": _dump_all(cast("tuple[object, ...]", value), path, depth)}
    if kind is dict:
        entries = cast("dict[object, object]", value)
        keys = _dump_all(entries, path, depth)
        return {"dict": [keys, _dump_all(entries.values(), path, depth)]}
    if kind in (set, frozenset):
        members = _dump_all(cast("Iterable[object]", value), path, depth)
        # Their order differs between processes; the text of one value shouldn't.
        return {kind.__name__: sorted(members, key=json.dumps)}
    if attrs.has(kind):
        return _dump_attrs(value, kind, path, depth)
    raise _refusal(value, path, "make it a frozen attrs class, or record what it is made of")


def _dump_all(values: Iterable[object], path: str, depth: int) -> list[Node]:
    return [_dump(value, f"{path}[{number}]", depth + 1) for number, value in enumerate(values)]


def _dump_member(value: Enum) -> Node:
    name = _name_of(type(value))
    # Members joined by | have no name of their own.
    return (
        {"flag": [name, _dump_int(value.value, "")]}
        if isinstance(value, Flag)
        else {"enum": [name, value.name]}
    )


def _dump_attrs(value: object, kind: type[attrs.AttrsInstance], path: str, depth: int) -> Node:
    if kind.__setattr__.__name__ != "_frozen_setattrs" or isinstance(value, BaseException):
        raise _refusal(value, path, "an attrs class must be frozen")
    fields: dict[str, Node] = {
        field.name: _dump(getattr(value, field.name), f"{path}.{field.name}", depth + 1)
        for field in attrs.fields(kind)
    }
    return {"class": [_name_of(kind), fields]}


def _dump_str(value: str, path: str) -> Node:
    try:
        value.encode()
    except UnicodeEncodeError:
        # Two halves of a surrogate pair would come back from JSON as one character.
        return {"halves": _base64(value.encode("utf-8", "surrogatepass"))}
    return value


def _dump_int(value: int, path: str) -> Node:
    return value if abs(value) <= _PLAIN_INTEGER else {"int": hex(value)}


def _dump_float(value: float, path: str) -> Node:
    if not math.isfinite(value):
        raise _refusal(value, path, "a float must be finite")
    return value


def _dump_decimal(value: Decimal, path: str) -> Node:
    if not value.is_finite():
        raise _refusal(value, path, "a Decimal must be finite")
    return {"decimal": str(value)}


def _dump_datetime(value: dt.datetime, path: str) -> Node:
    zone = value.tzinfo
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key:
        return {"datetime": [value.replace(tzinfo=None).isoformat(), value.fold, zone.key]}
    if not isinstance(zone, dt.timezone):
        raise _refusal(value, path, "a datetime must be aware, by datetime.timezone or a ZoneInfo with a key")
    return {"datetime": [value.isoformat(), value.fold, None]}


def _dump_time(value: dt.time, path: str) -> Node:
    if value.tzinfo is not None:
        raise _refusal(value, path, "a time must be without a zone")
    return {"time": [value.isoformat(), value.fold]}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _refusal(value: object, path: str, rule: str) -> UnrecordableError:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return UnrecordableError(name, path, rule)


_SCALARS: Final[Mapping[type, Callable[[Any, str], Node]]] = {
    int: _dump_int,
    float: _dump_float,
    str: _dump_str,
    bytes: lambda value, _: {"bytes": _base64(value)},
    dt.datetime: _dump_datetime,
    dt.date: lambda value, _: {"date": value.isoformat()},
    dt.time: _dump_time,
    dt.timedelta: lambda value, _: {"timedelta": [value.days, value.seconds, value.microseconds]},
    Decimal: _dump_decimal,
    uuid.UUID: lambda value, _: {"uuid": value.hex},
    type(Path()): lambda value, path: {"path": _dump_str(str(value), path)},
}


# --- text to values


def decode_value(text: str) -> object:
    """Read what `encode_value` wrote; each call makes a fresh value.

    A field that its class has gained since gets its default; one that it has lost is left out.

    Raises:
        UnreadableRecordError: a class that this program doesn't know or that doesn't take what was stored,
            another version's words, or no such text at all.
    """
    try:
        whole: Node = json.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableRecordError("this is no recorded value") from None
    if not isinstance(whole, list) or len(whole) != 2:
        raise UnreadableRecordError("this is no recorded value")
    version, node = whole
    if version != _VERSION:
        raise UnreadableRecordError(
            f"the value was recorded in version {version!r} of the format; this is {_VERSION}"
        )
    try:
        return _load(node)
    except (
        TypeError,
        ValueError,
        KeyError,
        OverflowError,
        RecursionError,
        InvalidOperation,
        binascii.Error,
    ) as error:
        raise UnreadableRecordError(f"the recorded value is damaged ({type(error).__name__})") from None


def _load(node: Node) -> object:
    if isinstance(node, list):
        return [_load(item) for item in node]
    if not isinstance(node, dict):
        return node
    ((tag, parts),) = node.items()
    if tag not in _LOADERS:
        raise UnreadableRecordError(f"this program knows no recorded type {tag!r}")
    return _LOADERS[tag](parts)


def _load_dict(parts: Any) -> dict[object, object]:
    keys, values = parts
    return {_load(key): _load(value) for key, value in zip(keys, values, strict=True)}


def _load_datetime(parts: Any) -> dt.datetime:
    text, fold, zone = parts
    read = dt.datetime.fromisoformat(text).replace(fold=fold)
    if zone is None:
        return read
    try:
        return read.replace(tzinfo=zoneinfo.ZoneInfo(zone))
    except zoneinfo.ZoneInfoNotFoundError:
        raise UnreadableRecordError(f"this machine knows no time zone {zone!r}") from None


def _load_enum(parts: Any) -> object:
    name, member = parts
    cls = cast("type[Enum]", _class_of(name))
    try:
        return cls[member]
    except KeyError:
        raise UnreadableRecordError(f"{name} has no member {member!r}") from None


def _load_flag(parts: Any) -> object:
    name, value = parts
    return cast("type[Flag]", _class_of(name))(_load(value))


def _load_attrs(parts: Any) -> object:
    name, fields = parts
    cls = cast("type[attrs.AttrsInstance]", _class_of(name))
    known = attrs.fields(cls)
    values = {field.name: _load(fields[field.name]) for field in known if field.name in fields}
    if len(values) < len(known):
        return _made_anew(
            cls,
            name,
            {field.alias: values[field.name] for field in known if field.name in values and field.init},
        )
    # As it was: a converter need not give back what it is given back.
    made = cls.__new__(cls)
    for field_name, value in values.items():
        object.__setattr__(made, field_name, value)
    return made


def _made_anew(cls: type[Any], name: str, arguments: dict[str, object]) -> object:
    try:
        return cls(**arguments)
    except Exception as error:
        raise UnreadableRecordError(
            f"{name} doesn't take the recorded fields ({type(error).__name__}); give new fields a default"
        ) from None


_LOADERS: Final[Mapping[str, Callable[[Any], object]]] = {
    "tuple": lambda parts: tuple(_load(part) for part in parts),
    "dict": _load_dict,
    "set": lambda parts: {_load(part) for part in parts},
    "frozenset": lambda parts: frozenset(_load(part) for part in parts),
    "halves": lambda parts: base64.b64decode(parts, validate=True).decode("utf-8", "surrogatepass"),
    "int": lambda parts: int(parts, 16),
    "bytes": lambda parts: base64.b64decode(parts, validate=True),
    "decimal": Decimal,
    "datetime": _load_datetime,
    "date": dt.date.fromisoformat,
    "time": lambda parts: dt.time.fromisoformat(parts[0]).replace(fold=parts[1]),
    "timedelta": lambda parts: dt.timedelta(*parts),
    "uuid": uuid.UUID,
    "path": lambda parts: Path(cast("str", _load(parts))),
    "enum": _load_enum,
    "flag": _load_flag,
    "class": _load_attrs,
}
