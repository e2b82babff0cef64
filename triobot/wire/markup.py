"""Keyboards: the reply keyboard under the text field, the inline keyboard under a message.

Interface sections 2.9 and 2.10. These are the wire's values; authors build them from
`triobot.Keyboard` and `triobot.Buttons`.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, TypeAlias, final

import attrs

from ..errors import LocalProtocolError
from .ids import RefId, as_ref_id
from .rules import check_text, check_tuple, is_a, is_amount, is_one_of, is_optional, is_optional_text, is_text

Currency: TypeAlias = Literal["IRR", "coin"]
OpenIn: TypeAlias = Literal["browser", "inline_browser", "webview", "webview_full", "webview_with_header"]

SHARE_CONTACT: Final = "$contact"
SHARE_LOCATION: Final = "$location"

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^\s\x00-\x1f]+")


@final
@attrs.frozen
class Key:
    """One button of a reply keyboard: `value` arrives as a text message, `label` is what is seen."""

    value: str = attrs.field(validator=is_text())
    label: str = attrs.field(validator=is_text())


def _is_key_rows(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    for row in check_tuple("keyboard", value):
        keys = check_tuple("keyboard", row)
        if not keys or not all(isinstance(key, Key) for key in keys):
            raise LocalProtocolError("keyboard", "each row must be a tuple of at least one Key")


@final
@attrs.frozen
class ReplyKeyboard:
    """Keys in place of the text field; no rows at all removes the keyboard (gap 10).

    Attributes:
        once, selective: passed on when given; the interface doesn't say what they do (gap 9).
    """

    rows: tuple[tuple[Key, ...], ...] = attrs.field(validator=_is_key_rows)
    once: bool | None = attrs.field(default=None, validator=is_optional(is_a(bool)))
    selective: bool | None = attrs.field(default=None, validator=is_optional(is_a(bool)))


@final
@attrs.frozen
class CallbackButton:
    """A click sends the bot an event with `data`; it stays until its message is edited or deleted."""

    text: str = attrs.field(validator=is_text())
    data: str = attrs.field(validator=is_text())


def _is_address(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_text("url", value)
    if not _URL.fullmatch(str(value)):
        raise LocalProtocolError("url", "must be an absolute address without spaces")


@final
@attrs.frozen
class LinkButton:
    """A click opens `url`."""

    text: str = attrs.field(validator=is_text())
    url: str = attrs.field(validator=_is_address)
    open_in: OpenIn | None = attrs.field(
        default=None,
        validator=is_optional(
            is_one_of("browser", "inline_browser", "webview", "webview_full", "webview_with_header")
        ),
    )


@final
@attrs.frozen
class PayButton:
    """A click pays in place (interface section 2.4); `amount` is in `currency`, rials by default."""

    text: str = attrs.field(validator=is_text())
    amount: int = attrs.field(validator=is_amount)
    ref_id: RefId = attrs.field(converter=as_ref_id)
    currency: Currency = attrs.field(default="IRR", validator=is_one_of("IRR", "coin"))
    desc: str | None = attrs.field(default=None, validator=is_optional_text)


InlineButton: TypeAlias = CallbackButton | LinkButton | PayButton
BUTTONS: Final = (CallbackButton, LinkButton, PayButton)


def _is_button_rows(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    for row in check_tuple("inline_keyboard", value):
        buttons = check_tuple("inline_keyboard", row)
        if not buttons or not all(isinstance(button, BUTTONS) for button in buttons):
            raise LocalProtocolError("inline_keyboard", "each row must be a tuple of at least one button")


@final
@attrs.frozen
class InlineKeyboard:
    """Rows of buttons under a message."""

    rows: tuple[tuple[InlineButton, ...], ...] = attrs.field(validator=_is_button_rows)
