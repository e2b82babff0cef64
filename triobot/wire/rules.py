"""The checks that the wire's values share, each with an error that names the field and the rule.

No I/O, no state. A value that exists has passed its checks, so code that receives one never checks again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast, final

from attrs import Attribute

from ..errors import LocalProtocolError, RemoteProtocolError

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

# attrs offers no narrower type that both type checkers accept for a field of any type.
Validator: TypeAlias = Callable[[Any, "Attribute[Any]", Any], None]

# The platform's numbers travel through JSON readers that hold them as doubles; beyond this they would change.
LARGEST_INTEGER: Final = 2**53 - 1

_DIGITS: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


def is_digits(text: str) -> bool:
    """Return whether `text` is 1 to 18 ASCII digits: `int` would take ``"۱۲"``, ``"1_2"``, ``" 12"``, too."""
    return _DIGITS.fullmatch(text) is not None


def check_text(field: str, value: object, *, empty: bool = False) -> str:
    """Refuse what is not text, is empty, or holds a lone surrogate, which UTF-8 can't carry."""
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
    """Refuse what is not a tuple."""
    if not isinstance(value, tuple):
        raise LocalProtocolError(field, "must be a tuple")
    return cast("tuple[object, ...]", value)


def check_integer(field: str, value: object, *, least: int, most: int = LARGEST_INTEGER) -> None:
    """Refuse what is not an integer between the bounds; True and 1.0 are not integers here."""
    if type(value) is not int:
        raise LocalProtocolError(field, "must be an integer")
    if not least <= value <= most:
        raise LocalProtocolError(field, f"must be from {least} to {most}")


def check_is_a(field: str, value: object, *types: type) -> None:
    """Refuse what is of none of these classes."""
    if not isinstance(value, types):
        names = " or ".join(kind.__name__ for kind in types)
        raise LocalProtocolError(field, f"must be {names}")


def check_word(field: str, value: object, *words: str) -> None:
    """Refuse what is not one word of a closed list."""
    if value not in words:
        raise LocalProtocolError(field, f"must be one of {', '.join(words)}")


def is_text(*, empty: bool = False) -> Validator:
    """Return an attrs validator for text."""

    def validate(instance: object, attribute: Attribute[Any], value: object) -> None:
        if type(value) is not str or not value.isascii() or not (value or empty):
            check_text(attribute.name, value, empty=empty)

    return validate


def is_optional_text(instance: object, attribute: Attribute[Any], value: object) -> None:
    """Validate, for attrs, text that may be absent, but not empty."""
    if value is not None:
        check_text(attribute.name, value)


def is_amount(instance: object, attribute: Attribute[Any], value: object) -> None:
    """Validate, for attrs, an amount of money: an integer of at least 1 that a double holds exactly."""
    check_integer(attribute.name, value, least=1)


def is_a(*types: type) -> Validator:
    """Return an attrs validator for a value of one of these classes."""

    def validate(instance: object, attribute: Attribute[Any], value: object) -> None:
        check_is_a(attribute.name, value, *types)

    return validate


def is_optional(validator: Validator) -> Validator:
    """Return an attrs validator for a value that may be None."""

    def validate(instance: object, attribute: Attribute[Any], value: object) -> None:
        if value is not None:
            validator(instance, attribute, value)

    return validate


def is_one_of(*words: str) -> Validator:
    """Return an attrs validator for one word of a closed list."""

    def validate(instance: object, attribute: Attribute[Any], value: object) -> None:
        check_word(attribute.name, value, *words)

    return validate


def compact_json(value: JsonValue) -> str:
    """Return the JSON text of a value: no spaces, raw UTF-8, no NaN."""
    return _COMPACT.encode(value)


# Made once: `json.dumps` with settings of its own makes one for every value.
_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@final
class their_fault:
    """Reports a rule that the block's value breaks as the fault of whatever sent the value's parts.

    Args:
        field: the sender's name for it; None when the value's own name for the field is the same.

    Raises:
        RemoteProtocolError: in place of a `LocalProtocolError`.
    """

    # Not a generator: entering one costs three times as much, for each id of each event.
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
