"""Conversion of values to text and back, for all values that the runtime stores in journals and data.

A decoded value equals the encoded value and has the same types: a tuple stays a tuple, and a date stays a
date. A value of a class is stored with the class's registered name, and the decoder finds the class by this
name. No module is imported because of stored data. A class is registered when its first value is encoded,
when a filter or a `Key` names the class (`expect`), or by `recorded`. The decorator `recorded` also keeps the
values of a renamed or moved class readable. For an unregistered name, the decoder searches the loaded
modules. The decoder doesn't find a class that is defined inside a function.

Stored data is never dropped silently. If a stored value has a field that its class has lost, the value is
unreadable. To prevent this, the class declares the field's new name (`formerly`), or declares that the field
is gone (`recorded`).

The text is ASCII and JSON: ``[version, node]``. Values of JSON's own types are written as JSON values, and a
list as an array. Every other value is written as an object with one entry: its key is the tag of the type,
and its value contains the value's contents.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import sys
import uuid
import zoneinfo
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from enum import Enum, Flag
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

from ..base.authors import contained, kind_of
from ..base.fields import fields_of, has_fields, is_frozen
from ..errors import ConfigError, UnreadableRecordError, UnrecordableError

Node: TypeAlias = "bool | int | float | str | list[Node] | dict[str, Node] | None"
C = TypeVar("C", bound=type)
T = TypeVar("T")

_VERSION: Final = 1
# Largest depth of a value: deeper than any value that a person would inspect, and far below Python's
# recursion limit.
_DEPTH: Final = 64
# Every JSON reader represents integers up to this number exactly.
_PLAIN_INTEGER: Final = 2**53

_names: Final[dict[type, str]] = {}
_classes: Final[dict[str, type]] = {}
_expected: Final = deque[object]()
_explored: Final[set[type]] = set()
# Cache of field names: attrs.fields would search the names again at each call. Encoding fills this cache with
# classes that are known to be frozen.
_fields: Final[dict[type, tuple[str, ...]]] = {}
# The same cache for all classes, frozen or not.
_field_names: Final[dict[type, tuple[str, ...]]] = {}
_quoted: Final = json.encoder.encode_basestring_ascii
_met: Final[set[type]] = set()
# Fields that a class no longer has.
_gone: Final[dict[type, frozenset[str]]] = {}
_FORMERLY: Final = "triobot.formerly"


# --- classes by name


def register(cls: C, /, *, name: str | None = None, aliases: Sequence[str] = ()) -> C:
    """Register the name that is stored with the values of `cls`; return `cls`. Usable as a decorator.

    Args:
        cls: a frozen attrs class or dataclass, or an Enum.
        name: name in stored values, which stays the same when the class is moved or renamed. The default is
            the module and the class's name.
        aliases: earlier names of the class, found in older stored values.

    Raises:
        ConfigError: `cls` is no such class, or another class has one of the names.

    Examples:
        >>> import attrs
        >>> @register
        ... @attrs.frozen
        ... class Moved:
        ...     minutes: int
    """
    if not (has_fields(cls) or issubclass(cls, Enum)):
        raise ConfigError(f"{cls.__name__} is neither an attrs class, nor a dataclass, nor an Enum")
    _met.discard(cls)
    known = _names.get(cls)
    if known is None or name is not None:
        _names[cls] = _claim(name or _default_name(cls), cls)
    for alias in aliases:
        _claim(alias, cls)
    return cls


def recorded(
    *, name: str | None = None, formerly: Sequence[str] = (), gone: Sequence[str] = ()
) -> Callable[[C], C]:
    """Declare how values of a class are stored.

    Put this decorator above the decorator that makes an attrs class or a dataclass.

    Args:
        name: name in stored values, which stays the same when the class is moved or renamed. The default is
            the module and the class's name.
        formerly: earlier names of the class, found in older values.
        gone: earlier fields of the class; their stored values are ignored.

    Raises:
        ConfigError: the class is neither an attrs class, nor a dataclass, nor an Enum; another class has one
            of the names; or a field in `gone` still exists.

    Examples:
        >>> import attrs
        >>> @recorded(formerly=("pizza.Meal",), gone=("floor",))
        ... @attrs.frozen
        ... class Order:
        ...     street: str
    """
    names, lost = _texts_of("formerly", formerly), frozenset(_texts_of("gone", gone))

    def decorate(cls: C) -> C:
        register(cls, name=name, aliases=names)
        if lost:
            fields = set(_names_of_fields(cls)) if has_fields(cls) else lost
            if still := sorted(lost & fields):
                raise ConfigError(f"{cls.__name__}.{still[0]} is said to be gone, and is there, or no field")
            _gone[cls] = lost
        return cls

    return decorate


def formerly(*names: str) -> Mapping[str, tuple[str, ...]]:
    """Return metadata that gives a field of an attrs class or a dataclass its former names.

    Raises:
        ConfigError: one of `names` is not a text, or `names` is empty.

    Examples:
        >>> import attrs
        >>> @attrs.frozen
        ... class Address:
        ...     street: str = attrs.field(metadata=formerly("road", "way"))
    """
    if not names:
        raise ConfigError('formerly() takes the names that the field had, as in formerly("road")')
    return {_FORMERLY: _texts_of("formerly", names)}


def _texts_of(what: str, names: Sequence[str]) -> tuple[str, ...]:
    # Check for a str first: a str is a sequence of str as well.
    found: tuple[object, ...] = (None,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) and name for name in found):
        raise ConfigError(f"{what} takes several names, as in {what}=('old',), and each is a text")
    return cast("tuple[str, ...]", found)


def expect(annotation: object, /, who: str = "") -> None:
    """Register the classes in a type such as ``Shipped | Moved``, and the classes of their fields.

    The registration is done later, when a stored value with an unregistered name is decoded.

    Args:
        who: the function that the author calls with values of this class, for the error text.

    Raises:
        ConfigError: the class isn't frozen, so its values could not be recorded.
    """
    if who and has_fields(annotation) and not is_frozen(kind := cast("type", annotation)):
        raise ConfigError(
            f"{who} takes values that never change, and those of {kind.__name__} can: declare it with"
            " @attrs.frozen or @dataclass(frozen=True)"
        )
    _expected.append(annotation)


def forget_met() -> None:
    """Remove the classes that were registered only because one of their values was encoded.

    Used by tests that simulate a new process: a new process hasn't encoded any value.
    """
    for cls in _met:
        if (name := _names.pop(cls, None)) is not None and _classes.get(name) is cls:
            del _classes[name]
    _met.clear()


def lasting_module(module: str) -> str:
    """Return a name for a module that doesn't depend on how the program was started."""
    if module == "__main__":
        # The module is `__main__` now, but the next process may import the same file under its name.
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
        # After a reload, two classes have the same default name; use the newer class.
        _names.pop(other, None)
    _classes[name] = cls
    return name


def _name_of(cls: type) -> str:
    if cls not in _names:
        register(cls)
        _met.add(cls)
    return _names[cls]


def _class_of(name: Node) -> type:
    if isinstance(name, str):
        if name not in _classes:
            _explore()
        if name in _classes:
            return _classes[name]
        if (found := _defined(name)) is not None:
            return register(found)
    raise UnreadableRecordError(
        f"this program knows no class {name!r}; define it at the top of a module that the bot imports, or "
        f"name the one that it has become: @recorded(formerly=({name!r},))"
    )


def _defined(name: str) -> type | None:
    """Find a class by name in the loaded modules; import nothing and run no code."""
    parts = name.split(".")
    for number in range(len(parts) - 1, 0, -1):
        found: object = _module(".".join(parts[:number]))
        for part in parts[number:]:
            found = getattr(found, "__dict__", {}).get(part)
        if (
            isinstance(found, type)
            and (has_fields(found) or issubclass(found, Enum))
            and _default_name(found) == name
        ):
            return found
    return None


def _module(name: str) -> object:
    main = "__main__" in sys.modules and lasting_module("__main__") == name
    return sys.modules.get(name) or (sys.modules["__main__"] if main else None)


def _explore() -> None:
    while _expected:
        # Explore the types in the order of declaration, so that the newer of two definitions of a class is
        # registered.
        annotation = _expected.popleft()
        cls = get_origin(annotation) or annotation
        _expected.extend(get_args(annotation))
        if isinstance(cls, type) and cls not in _explored and (has_fields(cls) or issubclass(cls, Enum)):
            _explored.add(cls)
            # A ConfigError means that another class has this name; the stored values then belong to the other
            # class.
            with suppress(ConfigError):
                register(cls)
            _expected.extend(_field_types(cls))


def _field_types(cls: type) -> Iterable[object]:
    try:
        return list(get_type_hints(cls).values())
    except BaseException as error:
        contained(error)  # an annotation contains a name that only type checkers import
        annotations: dict[str, object] = getattr(cls, "__annotations__", {})
        return list(annotations.values())


# --- values to text


def encode_value(value: object) -> str:
    """Encode a value as text.

    Accepts None, bool, int, finite float, str, bytes, date, aware datetime, time without a zone, timedelta,
    finite Decimal, UUID, Path and Enum members. Also accepts tuple, list, dict, set, frozenset, frozen attrs
    classes and frozen dataclasses whose members are accepted.

    Raises:
        UnrecordableError: the value contains an object that is not accepted; the error names the object's
            type and the path to the object.
    """
    try:
        return f"[{_VERSION},{_text(value, 0)}]"
    except _UnfitValueError as refused:
        raise _refusal(refused.value, "value" + "".join(reversed(refused.path)), refused.rule) from None


def encoded(value: object) -> str | None:
    """Encode a value as `encode_value` does; return None for a value that can't be recorded."""
    with suppress(UnrecordableError):
        return encode_value(value)
    return None


def node_of_value(value: object) -> Node:
    """Encode a value as `encode_value` does, but return the JSON node instead of text.

    Raises:
        UnrecordableError: as `encode_value`.
    """
    if value is None or type(value) is bool or (type(value) is str and value.isascii()):
        return cast("Node", value)  # the usual case: most results are JSON values and need no conversion
    return cast("Node", json.loads(encode_value(value))[1])


def _each(make: Callable[[object, int], T], values: Iterable[object], depth: int) -> list[T]:
    done: list[T] = []
    try:
        for value in values:
            done.append(make(value, depth + 1))
    except _UnfitValueError as refused:
        refused.path.append(f"[{len(done)}]")
        raise
    return done


class _UnfitValueError(Exception):
    """The value can't be encoded.

    While the error passes through the enclosing containers, each adds its element to `path`.
    """

    def __init__(self, value: object, rule: str) -> None:
        super().__init__(rule)
        self.value = value
        self.rule = rule
        self.path: list[str] = []


# For speed, builds the text without a tree of nodes: every event and every answer is encoded here.
def _text(value: object, depth: int) -> str:
    if depth > _DEPTH:
        raise _UnfitValueError(value, f"values nest at most {_DEPTH} deep")
    if value is None:
        return "null"
    kind = type(value)
    scalar = _SCALARS.get(kind)
    if scalar is not None:
        return scalar(value)
    if kind in _CONTAINERS:
        return _container_text(value, kind, depth)
    if kind in _fields:
        return _attrs_text(value, kind, depth)
    if isinstance(value, Enum):
        return _member_text(value)
    if has_fields(kind):
        if not is_frozen(kind) or isinstance(value, BaseException):
            raise _UnfitValueError(value, "it must be frozen: @attrs.frozen or @dataclass(frozen=True)")
        _fields[kind] = _names_of_fields(kind)
        return _attrs_text(value, kind, depth)
    raise _UnfitValueError(value, "make it a frozen attrs class or dataclass, or record what it is made of")


def _container_text(value: object, kind: type, depth: int) -> str:
    if kind is list:
        return f"[{','.join(_each(_text, cast('list[object]', value), depth))}]"
    if kind is tuple:
        return f'{{"tuple":[{",".join(_each(_text, cast("tuple[object, ...]", value), depth))}]}}'
    if kind is dict:
        entries = cast("dict[object, object]", value)
        keys, values = _each(_text, entries, depth), _each(_text, entries.values(), depth)
        return f'{{"dict":[[{",".join(keys)}],[{",".join(values)}]]}}'
    # Sort: the iteration order of a set differs between processes, but the text of a value must be the same.
    members = sorted(_each(_text, cast("Iterable[object]", value), depth))
    return f'{{"{kind.__name__}":[{",".join(members)}]}}'


def _attrs_text(value: object, kind: type, depth: int) -> str:
    fields = _fields[kind]
    done: list[str] = []
    try:
        for field in fields:
            done.append(f"{_quoted(field)}:{_text(getattr(value, field), depth + 1)}")
    except _UnfitValueError as refused:
        refused.path.append(f".{fields[len(done)]}")
        raise
    return f'{{"class":[{_quoted(_name_of(kind))},{{{",".join(done)}}}]}}'


def _names_of_fields(cls: type) -> tuple[str, ...]:
    if (names := _field_names.get(cls)) is None:
        names = _field_names[cls] = tuple(field.name for field in fields_of(cls))
    return names


def _member_text(value: Enum) -> str:
    name = _quoted(_name_of(type(value)))
    # A combination such as `A | B` has no name, so a flag is stored by its integer.
    if isinstance(value, Flag):
        return f'{{"flag":[{name},{_int_text(value.value)}]}}'
    return f'{{"enum":[{name},{_quoted(value.name)}]}}'


def _str_text(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            # JSON would join two separate halves of a surrogate pair into one character.
            return f'{{"halves":"{_base64(value.encode("utf-8", "surrogatepass"))}"}}'
    return _quoted(value)


def _int_text(value: int) -> str:
    return int.__repr__(value) if abs(value) <= _PLAIN_INTEGER else f'{{"int":"{hex(value)}"}}'


def _float_text(value: float) -> str:
    if not math.isfinite(value):
        raise _UnfitValueError(value, "a float must be finite")
    return float.__repr__(value)


def _decimal_text(value: Decimal) -> str:
    if not value.is_finite():
        raise _UnfitValueError(value, "a Decimal must be finite")
    return f'{{"decimal":"{value}"}}'


def _datetime_text(value: dt.datetime) -> str:
    zone = value.tzinfo
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key:
        plain = value.replace(tzinfo=None).isoformat()
        return f'{{"datetime":["{plain}",{value.fold},{_quoted(zone.key)}]}}'
    if not isinstance(zone, dt.timezone):
        raise _UnfitValueError(
            value, "a datetime must be aware, by datetime.timezone or a ZoneInfo with a key"
        )
    return f'{{"datetime":["{value.isoformat()}",{value.fold},null]}}'


def _time_text(value: dt.time) -> str:
    if value.tzinfo is not None:
        raise _UnfitValueError(value, "a time must be without a zone")
    return f'{{"time":["{value.isoformat()}",{value.fold}]}}'


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _refusal(value: object, path: str, rule: str) -> UnrecordableError:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return UnrecordableError(name, path, rule)


_CONTAINERS: Final = frozenset((list, tuple, dict, set, frozenset))

_SCALARS: Final[Mapping[type, Callable[[Any], str]]] = {
    str: _str_text,
    int: _int_text,
    bool: lambda value: "true" if value else "false",
    float: _float_text,
    bytes: lambda value: f'{{"bytes":"{_base64(value)}"}}',
    dt.datetime: _datetime_text,
    dt.date: lambda value: f'{{"date":"{value.isoformat()}"}}',
    dt.time: _time_text,
    dt.timedelta: lambda value: f'{{"timedelta":[{value.days},{value.seconds},{value.microseconds}]}}',
    Decimal: _decimal_text,
    uuid.UUID: lambda value: f'{{"uuid":"{value.hex}"}}',
    type(Path()): lambda value: f'{{"path":{_str_text(str(value))}}}',
}


# --- text to values


@contextmanager
def reading(what: str) -> Generator[None]:
    """Replace errors that damaged data causes in the `with` block; also usable as a decorator.

    Raises:
        UnreadableRecordError: the data doesn't have the form that the block expects.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise UnreadableRecordError(f"{what} is damaged ({kind_of(error)})") from None


def decode_value(text: str) -> object:
    """Decode the text of `encode_value`; each call makes a fresh value.

    A field that was added to the class later gets its default. A renamed field is found by `formerly`. A
    field that is declared gone is ignored.

    Raises:
        UnreadableRecordError: the text is damaged, or has another format version. Or the text names a class
            that this program doesn't have, a class that rejects the stored fields, or a field that the class
            has lost.
    """
    with reading("the recorded value"):
        version, node = json.loads(text)
    if version != _VERSION:
        raise UnreadableRecordError(
            f"the value was recorded in version {version!r} of the format; this is {_VERSION}"
        )
    return value_of_node(node)


def value_of_node(node: Node) -> object:
    """Decode a node of `node_of_value` into a fresh value.

    Raises:
        UnreadableRecordError: as `decode_value`.
    """
    try:
        return _load(node)
    except UnreadableRecordError:
        raise
    except BaseException as error:
        raise UnreadableRecordError(f"the recorded value is damaged ({kind_of(contained(error))})") from None


# The types of nodes (JSON forms of values) that need decoding. Most nodes are of other types: such a node is
# the decoded value itself.
_NESTED: Final = frozenset((dict, list))


def _load(node: Node) -> object:
    if isinstance(node, dict):
        ((tag, parts),) = node.items()
        loader = _LOADERS.get(tag)
        if loader is None:
            raise UnreadableRecordError(f"this program knows no recorded type {tag!r}")
        return loader(parts)
    return _load_all(node) if isinstance(node, list) else node


def _load_all(nodes: Iterable[Node]) -> list[object]:
    return [_load(node) if type(node) in _NESTED else node for node in nodes]


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
    if type(fields) is not dict:
        raise TypeError("fields are an object")
    stored = cast("dict[str, Node]", fields)
    cls = _class_of(name)
    names = _names_of_fields(cls)
    # Check the usual case first: the fields are stored in the order of their declaration.
    if tuple(stored) == names or stored.keys() == set(names):
        return _as_it_was(object.__new__(cls), stored)
    return _made_anew(cls, name, _renamed(cls, name, stored))


def _as_it_was(made: Any, stored: Mapping[str, Node]) -> object:
    # Set the fields without running converters: a converter might change the recorded value.
    put = object.__setattr__
    for field, node in stored.items():
        put(made, field, _load(node) if type(node) in _NESTED else node)
    return made


def _renamed(cls: type, name: str, stored: Mapping[str, Node]) -> Mapping[str, Node]:
    known = known_fields(cls)
    found: dict[str, Node] = {}
    for field_name, node in stored.items():
        if (now := known.get(field_name)) is not None:
            if now in found:
                raise UnreadableRecordError(f"{name} was recorded with two fields that are its {now!r} now")
            found[now] = node
        elif field_name not in known:
            raise UnreadableRecordError(
                f"{name} has no field {field_name!r}, and a stored value has; give what it has become "
                f"metadata=formerly({field_name!r}), or the class @recorded(gone=({field_name!r},))"
            )
    return found


def known_fields(cls: type) -> Mapping[str, str | None]:
    """Return a mapping from a class's current and former field names to the current names; None stands
    for a field that is gone.
    """
    fields = fields_of(cls)
    known: dict[str, str | None] = {name: None for base in cls.__mro__ for name in _gone.get(base, ())}
    known |= {old: field.name for field in fields for old in field.metadata.get(_FORMERLY, ())}
    return known | {field.name: field.name for field in fields}


def _made_anew(cls: type, name: str, stored: Mapping[str, Node]) -> object:
    fields = fields_of(cls)
    if len(stored) == len(fields):
        return _as_it_was(object.__new__(cls), stored)
    known = [field for field in fields if field.init and field.name in stored]
    try:
        made = cast("type[Any]", cls)(**{field.argument: _load(stored[field.name]) for field in known})
    except UnreadableRecordError:
        raise
    except BaseException as error:
        kind = kind_of(contained(error))
        raise UnreadableRecordError(
            f"{name} doesn't take the recorded fields ({kind}); give new fields a default"
        ) from None
    return _as_it_was(made, stored)


_LOADERS: Final[dict[str, Callable[[Any], object]]] = {
    "tuple": lambda parts: tuple(_load_all(parts)),
    "dict": _load_dict,
    "set": lambda parts: set(_load_all(parts)),
    "frozenset": lambda parts: frozenset(_load_all(parts)),
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

TAGS: Final = _LOADERS.keys()
"""Tags of all types that JSON lacks."""


def read_form(tag: str, load: Callable[[Any], object]) -> None:
    """Register `load` as the decoder of nodes with `tag`, the short form of a frequently recorded type."""
    _LOADERS[tag] = load
