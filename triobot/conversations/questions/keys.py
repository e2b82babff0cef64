"""Encoding of a button's key as text, from the key's type and value, not from the button's position.

So a deploy that reorders options can't make a press of "No" count as "Yes". Callback data may be years old,
or forged. So a decoded key counts only if the key encodes to exactly the same text.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NewType,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from ...base.authors import contained
from ...base.fields import fields_of, has_fields
from ...errors import ConfigError, LocalProtocolError
from ...wire.json_text import read_object
from ...wire.rules import JsonValue, compact_json

V = TypeVar("V")

LASTING: Final = "b"
"""Prefix of the callback data of buttons without a question; such buttons work while their message exists."""

KEYS: Final = "str, int, bool, date, datetime, time, timedelta, Enum or frozen attrs or dataclass value"
"""Names of the types that a button's key may have, for the errors' texts."""

_MICROSECOND: Final = dt.timedelta(microseconds=1)
_MOMENTS: Final = (dt.datetime, dt.date, dt.time)
# Subclasses come first: `bool` is a subclass of `int`, and `datetime` of `date`.
_SORTS: Final[Mapping[type[Any], str]] = {
    str: "s",
    bool: "t",
    int: "i",
    dt.datetime: "m",
    dt.date: "d",
    dt.time: "h",
    dt.timedelta: "p",
}

_SCALARS: Final = frozenset({str, int, float, bool, NoneType})


def encode_key(key: object) -> str:
    """Encode a key as text; `KEYS` lists the types of keys.

    Raises:
        LocalProtocolError: the key has another type, or a field's value has no JSON form.
    """
    if isinstance(key, enum.Enum):
        return f"e{type(key).__name__}.{key.name}"
    if (sort := next((_SORTS[kind] for kind in _SORTS if isinstance(key, kind)), None)) is not None:
        return f"{sort}{int(key) if isinstance(key, bool) else _plain(key)}"
    if has_fields(type(key)):
        with suppress(TypeError, ValueError):
            return f"v{type(key).__name__}{compact_json(_plain(key))}"
    raise LocalProtocolError("key", f"of a button is a {KEYS}, not a {type(key).__name__}")


def question_data(token: str, key: object) -> str:
    """Return a button's callback data: the question's token and the encoded key."""
    return f"{token}.{encode_key(key)}"


def check_kind(kind: object) -> None:
    """Check that values of a class can be keys of buttons.

    Raises:
        ConfigError: `encode_key` doesn't encode values of `kind`.
    """
    if isinstance(kind, type) and (
        kind in _SORTS or issubclass(kind, enum.Enum) or has_fields(cast("object", kind))
    ):
        return
    raise ConfigError(f"a button's key is a {KEYS}, not {kind!r}")


def decode_key(kind: type[V], text: str) -> V | None:
    """Decode the key of class `kind` that encodes to exactly `text`; return None if there is no such key."""
    try:
        key = _read(kind, text)
        return cast("V", key) if key is not None and encode_key(key) == text else None
    except BaseException as error:
        contained(error)  # converters and validators may raise anything: the text is no key of the class
        return None


def _read(kind: type[Any], text: str) -> object | None:
    sort, rest = text[:1], text[1:]
    if issubclass(kind, enum.Enum):
        return kind.__members__.get(rest.removeprefix(f"{kind.__name__}.")) if sort == "e" else None
    if kind in _SORTS:
        number = int(rest) if sort in ("t", "i", "p") else None
        part = number == 1 if kind is bool else rest if number is None else number
        return part_of(kind, part) if sort == _SORTS[kind] else None
    if sort != "v" or not rest.startswith(kind.__name__):
        return None
    return _with_fields(kind, read_object(rest.removeprefix(kind.__name__)))


# Values with fields are encoded as JSON objects, and decoded by the fields' types. These texts are stored in
# messages and journals, so the encoding never changes. `triobot.seams.values` differs: it uses whole class
# names.


def _plain(value: object) -> JsonValue:
    """Convert a key, or a value within a key, to JSON.

    Raises:
        TypeError: the JSON of a value of this type could not be decoded.
    """
    match value:
        case enum.Enum():
            return _plain(cast("object", value.value))
        case dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            return value // _MICROSECOND
        case Path():
            return str(value)
        case None | str() | int() | float():
            return value
        case list() | tuple():
            return [_plain(part) for part in cast("Sequence[object]", value)]
        case dict() if all(isinstance(name, str) for name in cast("dict[object, object]", value)):
            return {name: _plain(part) for name, part in cast("dict[str, object]", value).items()}
        case _ if has_fields(type(value)):
            fields = [field for field in fields_of(type(value)) if field.init]
            return {field.name: _plain(getattr(value, field.name)) for field in fields}
        case _:
            raise TypeError(type(value).__name__)


def part_of(kind: Any, node: JsonValue) -> object:
    """Decode a value of the type `kind` from the JSON `node`.

    Raises:
        ValueError, TypeError, KeyError: no value of the type `kind` has this JSON.
        BaseException: the code of the value's class raised an error.
    """
    while isinstance(kind, NewType) or get_origin(kind) is Annotated:
        kind = kind.__supertype__ if isinstance(kind, NewType) else get_args(kind)[0]
    shape, parts = get_origin(kind) or kind, get_args(kind)
    if shape is Literal:
        return _first_with(parts, node)
    if shape in (Union, UnionType):
        return _first_with(_each(parts, node), node)
    if shape in (Any, object) or (shape in _SCALARS and type(node) is shape):
        return node
    if shape is float and type(node) is int:
        return node
    if not isinstance(shape, type):
        raise TypeError(kind)
    shape = cast("type[Any]", shape)
    if issubclass(shape, enum.Enum):
        with suppress(ValueError):
            return _first_with(shape, node)
        return cast("object", shape.__members__[cast("str", node)])
    if isinstance(node, str) and shape in _MOMENTS:
        return shape.fromisoformat(node)
    if isinstance(node, str) and issubclass(shape, Path):
        return shape(node)
    if type(node) is int and shape is dt.timedelta:
        return node * _MICROSECOND
    if isinstance(node, list):
        return _row(shape, parts, node)
    if isinstance(node, dict) and has_fields(shape):
        return _with_fields(shape, node)
    if isinstance(node, dict) and shape in (dict, Mapping):
        return {name: part_of(parts[1] if parts else Any, part) for name, part in node.items()}
    raise TypeError(kind)


def _first_with(values: Iterable[object], node: JsonValue) -> object:
    """Return the first of the values that has the JSON `node`."""
    for value in values:
        if compact_json(_plain(value)) == compact_json(node):
            return value
    raise ValueError(node)


def _each(kinds: Iterable[Any], node: JsonValue) -> Iterable[object]:
    for kind in kinds:
        try:
            part = part_of(kind, node)
        except BaseException as error:
            contained(error)  # a class may raise anything for another class's JSON
        else:
            yield part


def _row(shape: type[Any], parts: Sequence[Any], nodes: Sequence[JsonValue]) -> object:
    names: Sequence[str] | None = getattr(shape, "_fields", None)
    if names is not None:
        hints = get_type_hints(shape)
        return shape(*(part_of(hints.get(name, Any), node) for name, node in zip(names, nodes, strict=True)))
    if shape is tuple and parts and parts[-1] is not ...:
        return tuple(part_of(kind, node) for kind, node in zip(parts, nodes, strict=True))
    if shape in (list, tuple, Sequence):
        read = [part_of(parts[0] if parts else Any, node) for node in nodes]
        return read if shape is list else tuple(read)
    raise TypeError(shape)


def _with_fields(kind: type[Any], stored: Mapping[str, JsonValue]) -> object:
    hints = get_type_hints(kind, include_extras=True)
    fields = {field.name: field for field in fields_of(kind) if field.init}
    return kind(**{fields[name].argument: part_of(hints[name], node) for name, node in stored.items()})
