"""Validators that the value classes of `triobot.wire` share; the errors name the field and the rule.

No I/O, no state. The constructors do all checks, so code that receives a value never checks it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast, final

from attrs import Attribute

from ..errors import LocalProtocolError, RemoteProtocolError

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

# mypy and pyright accept no narrower type of validator for all fields.
Validator: TypeAlias = Callable[[Any, "Attribute[Any]", Any], None]

# A larger integer would change in a JSON reader that stores numbers as doubles.
LARGEST_INTEGER: Final = 2**53 - 1

_DIGITS: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


def is_digits(text: str) -> bool:
    """Return whether `text` is 1 to 18 ASCII digits.

    `int` would also accept ``"۱۲"``, ``"1_2"`` and ``" 12"``.
    """
    return _DIGITS.fullmatch(text) is not None


def check_text(field: str, value: object, *, empty: bool = False) -> str:
    """Check that a value is text without lone surrogates, which UTF-8 can't encode.

    Args:
        empty: whether the text may be empty.
    """
    if type(value) is not str and not isinstance(value, str):
        raise LocalProtocolError(field, "must be text")
    if not value and not empty:
        raise LocalProtocolError(field, "must not be empty")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise LocalProtocolError(field, "must be text that UTF-8 can carry") from None
    return value


def check_tuple(field: str, value: object) -> tuple[object, ...]:
    if not isinstance(value, tuple):
        raise LocalProtocolError(field, "must be a tuple")
    return cast("tuple[object, ...]", value)


def check_integer(field: str, value: object, *, least: int, most: int = LARGEST_INTEGER) -> None:
    """Check that a value is an integer within the bounds; True and 1.0 are refused."""
    if type(value) is not int:
        raise LocalProtocolError(field, "must be an integer")
    if not least <= value <= most:
        raise LocalProtocolError(field, f"must be from {least} to {most}")


def check_is_a(field: str, value: object, *types: type) -> None:
    if not isinstance(value, types):
        names = " or ".join(kind.__name__ for kind in types)
        raise LocalProtocolError(field, f"must be {names}")


def check_word(field: str, value: object, *words: str) -> None:
    if value not in words:
        raise LocalProtocolError(field, f"must be one of {', '.join(words)}")


def is_text(*, empty: bool = False) -> Validator:
    """Return an attrs validator for text."""

    def validate(instance: object, attribute: Attribute[Any], value: object) -> None:
        if type(value) is not str or not value.isascii() or not (value or empty):
            check_text(attribute.name, value, empty=empty)

    return validate


def is_optional_text(instance: object, attribute: Attribute[Any], value: object) -> None:
    """attrs validator for None or a text that is not empty."""
    if value is not None:
        check_text(attribute.name, value)


def is_amount(instance: object, attribute: Attribute[Any], value: object) -> None:
    """attrs validator for an amount of money: an integer of at least 1 that a double stores exactly."""
    check_integer(attribute.name, value, least=1)


def is_a(*types: type) -> Validator:
    """Return an attrs validator for an instance of one of `types`."""

    def validate(instance: object, attribute: Attribute[Any], value: object) -> None:
        check_is_a(attribute.name, value, *types)

    return validate


def is_optional(validator: Validator) -> Validator:
    """Return an attrs validator that accepts None, and checks other values with `validator`."""

    def validate(instance: object, attribute: Attribute[Any], value: object) -> None:
        if value is not None:
            validator(instance, attribute, value)

    return validate


def is_one_of(*words: str) -> Validator:
    """Return an attrs validator for one of `words`."""

    def validate(instance: object, attribute: Attribute[Any], value: object) -> None:
        check_word(attribute.name, value, *words)

    return validate


def compact_json(value: JsonValue) -> str:
    """Encode a value as JSON text: no spaces, raw UTF-8, no NaN."""
    return _COMPACT.encode(value)


# Created once: `json.dumps` with options creates an encoder for each value.
_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@final
class their_fault:
    """Context manager that converts a `LocalProtocolError` in the block into a `RemoteProtocolError`.

    Used where received data is converted to value objects, because the constructors of these objects raise
    `LocalProtocolError`.

    Args:
        field: name of the field in the received data; None if the value class uses the same name.

    Raises:
        RemoteProtocolError: instead of a `LocalProtocolError`.
    """

    # A function with `@contextmanager` would cost three times as much as this class.
    __slots__ = ("_field",)

    def __init__(self, field: str | None = None) -> None:
        self._field = field

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: object
    ) -> None:
        if isinstance(error, LocalProtocolError):
            field = self._field
            if field is None or field.rpartition(".")[2] == error.field:
                raise RemoteProtocolError(field or error.field, error.rule) from None
            raise RemoteProtocolError(field, f"{error.field} {error.rule}") from None
