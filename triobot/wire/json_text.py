"""Strict JSON readers: an accepted value can be stored, encoded again and read by any program.

The readers raise `ValueError` for invalid JSON, NaN, infinities (also as ``1e999``) and integers of more than
309 digits. The readers refuse repeated names in an object, since some programs read the first value and some
read the last. The readers refuse deep nesting, which could exhaust another reader's stack. The readers also
refuse lone surrogates. Only `read_mended` replaces lone surrogates, so that a broken character in a user's
text doesn't lose the event.
"""

from __future__ import annotations

import json
import math
import re
from typing import Final, NoReturn, cast

from .rules import JsonValue, compact_json

_BOM: Final = b"\xef\xbb\xbf"

DEEPEST: Final = 32
LONGEST_INTEGER: Final = 309  # number of digits of the largest double

# With `surrogateescape`, one undecodable character becomes one or more surrogates, which are replaced
# together.
_SURROGATE: Final = re.compile("[\udcc2-\udcf4][\udc80-\udcbf]{1,2}|[\ud800-\udfff]")

MENDED: Final = "\N{REPLACEMENT CHARACTER}"
"""Replacement for a broken character."""


def mend(text: str) -> str:
    """Replace lone surrogates, which UTF-8 can't encode, so that the text can be stored and sent."""
    return text if text.isascii() else _SURROGATE.sub(MENDED, text)


def read_mended(text: str, *, whole: str = "") -> JsonValue:
    """Decode JSON text as `read_json` does, but replace lone surrogates in strings.

    Args:
        whole: name of an entry of the object. A lone surrogate in this entry raises an error.

    Raises:
        ValueError: as `read_json`.
    """
    try:
        return read_json(text)
    except UnicodeEncodeError:
        value = cast("JsonValue", _STRICT.decode(text))
    if isinstance(value, dict):
        _check(value.get(whole))
    try:
        return read_json(mend(compact_json(value)))
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def read_json(text: str | bytes) -> JsonValue:
    """Decode JSON text, or JSON bytes in UTF-8.

    Raises:
        ValueError: invalid JSON, or JSON that another reader might refuse.
    """
    try:
        decoded = text if isinstance(text, str) else text.removeprefix(_BOM).decode()
        value = cast("JsonValue", _STRICT.decode(decoded))
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    _check(value)
    return value


def read_object(text: str | bytes) -> dict[str, JsonValue]:
    """Decode a JSON object.

    Raises:
        ValueError: as `read_json`, or the value is no object.
    """
    value = read_json(text)
    if isinstance(value, dict):
        return value
    raise ValueError("is no JSON object")


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("holds an object with a repeated name")
    return fields


def _integer(digits: str) -> int:
    if len(digits) > LONGEST_INTEGER:
        raise ValueError("holds an integer that is too long")
    return int(digits)


def _no_number(name: str) -> NoReturn:
    raise ValueError("holds what is not a number")


# Created once: `json.loads` with options creates a decoder for each text.
_STRICT: Final = json.JSONDecoder(parse_int=_integer, parse_constant=_no_number, object_pairs_hook=_object)


def _check(value: JsonValue) -> None:
    # The check uses no recursion, because deep nesting would exhaust the stack.
    waiting: list[tuple[JsonValue, int]] = [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, str):
            _check_text(item)
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise ValueError("holds what is not a number")
        elif isinstance(item, list | dict):
            if depth > DEEPEST:
                raise ValueError("is nested too deeply")
            if isinstance(item, dict):
                for key in item:
                    _check_text(key)
                waiting.extend((child, depth + 1) for child in item.values())
            else:
                waiting.extend((child, depth + 1) for child in item)


def _check_text(text: str) -> None:
    if not text.isascii():
        text.encode()  # raises UnicodeEncodeError, a ValueError, for a lone surrogate
