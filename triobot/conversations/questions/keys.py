"""How a button's key travels: as text, by its value and its class's name, never by its place.

So a deploy that reorders options can't turn "No" into "Yes". What comes back may be years old, or forged:
only a text that the key itself would give is that key.
"""

from __future__ import annotations

import datetime as dt
import enum
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

import cattrs

from ...errors import ConfigError, LocalProtocolError
from ...fields import has_fields
from ...wire.json_text import read_object
from ...wire.rules import compact_json

V = TypeVar("V")

LASTING: Final = "b"
"""In front of the keys of buttons that live as long as their message."""

KEYS: Final = "str, int, bool, date, datetime, time, timedelta, Enum or frozen attrs or dataclass value"
"""What a button's key may be, for errors."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,300}", re.ASCII)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_MOMENTS: Final[Mapping[type[dt.datetime | dt.date | dt.time], str]] = {
    dt.datetime: "m",
    dt.date: "d",
    dt.time: "h",
}
_PLAIN: Final = frozenset({str, int, bool, dt.timedelta, *_MOMENTS})

_converter: Final = cattrs.Converter()
for _moment in _MOMENTS:
    _converter.register_unstructure_hook(_moment, _moment.isoformat)
    _converter.register_structure_hook(_moment, lambda text, kind: kind.fromisoformat(text))
_converter.register_unstructure_hook(dt.timedelta, lambda span: span // _MICROSECOND)
_converter.register_structure_hook(dt.timedelta, lambda number, _: int(number) * _MICROSECOND)


def encode_key(key: object) -> str:
    """Encode a key as text: a str, int, bool, date, datetime, time, timedelta, Enum or frozen attrs value.

    Raises:
        LocalProtocolError: it is something else, or can't be written down.
    """
    match key:
        case enum.Enum():
            return f"e{type(key).__name__}.{key.name}"
        case str():
            return "s" + key
        case bool():
            return f"t{int(key)}"
        case int():
            return f"i{key}"
        case dt.datetime():  # which is a date, too
            return f"m{key.isoformat()}"
        case dt.date():
            return f"d{key.isoformat()}"
        case dt.time():
            return f"h{key.isoformat()}"
        case dt.timedelta():
            return f"p{key // _MICROSECOND}"
        case _ if has_fields(type(key)):
            try:
                return f"v{type(key).__name__}{compact_json(_converter.unstructure(key))}"
            except (TypeError, ValueError):
                pass
        case _:
            pass
    raise LocalProtocolError("key", f"of a button is a {KEYS}, not a {type(key).__name__}")


def question_data(token: str, key: object) -> str:
    """Return what a question's button sends: its token and the key's text."""
    return f"{token}.{encode_key(key)}"


def check_kind(kind: object) -> None:
    """Refuse a class whose values can't be keys.

    Raises:
        ConfigError: it is none of those that `encode_key` takes.
    """
    if isinstance(kind, type) and (
        kind in _PLAIN or issubclass(kind, enum.Enum) or has_fields(cast("object", kind))
    ):
        return
    raise ConfigError(f"a button's key is a {KEYS}, not {kind!r}")


def decode_key(kind: type[V], text: str) -> V | None:
    """Decode the key of this class that gives exactly this text; return None if there is none."""
    try:
        key = _read(kind, text)
        return cast("V", key) if key is not None and encode_key(key) == text else None
    except Exception:
        # Whatever the class's own converters and validators raise: no key of theirs.
        return None


def _read(kind: type[Any], text: str) -> object | None:
    sort, rest = text[:1], text[1:]
    if issubclass(kind, enum.Enum):
        name = rest.removeprefix(f"{kind.__name__}.")
        return kind.__members__.get(name) if sort == "e" else None
    if kind is str:
        return rest if sort == "s" else None
    if kind is bool:
        return rest == "1" if sort == "t" else None
    if kind is int:
        return int(rest) if sort == "i" and _INTEGER.fullmatch(rest) else None
    if kind is dt.timedelta:
        return int(rest) * _MICROSECOND if sort == "p" and _INTEGER.fullmatch(rest) else None
    if kind in _MOMENTS:
        return kind.fromisoformat(rest) if sort == _MOMENTS[kind] else None
    if sort != "v" or not rest.startswith(kind.__name__):
        return None
    return cast("object", _converter.structure(read_object(rest.removeprefix(kind.__name__)), kind))
