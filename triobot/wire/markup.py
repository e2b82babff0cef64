"""Reply keyboards, inline keyboards, and the JSON text of keyboards and forms.

Interface sections 2.9 and 2.10. Authors build these values with `triobot.Keyboard` and `triobot.Buttons`. On
the wire, a keyboard or form is the JSON text of one form field. The encoders are at the end of this module,
and the decoders are in `platform_side`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, assert_never, final

import attrs

from ..base.frozen import guarded
from ..errors import LocalProtocolError
from .forms import Checkbox, Form, FormField, Inbuilt, Radio, Select, Submit, TextArea, TextField
from .ids import RefId, as_ref_id
from .rules import (
    JsonValue,
    check_text,
    check_tuple,
    compact_json,
    is_a,
    is_amount,
    is_one_of,
    is_optional,
    is_optional_text,
    is_text,
)

Currency: TypeAlias = Literal["IRR", "coin"]
OpenIn: TypeAlias = Literal["browser", "inline_browser", "webview", "webview_full", "webview_with_header"]

SHARE_CONTACT: Final = "$contact"
SHARE_LOCATION: Final = "$location"

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^\s\x00-\x1f]+")


@final
@guarded
class Key:
    """A button of a reply keyboard: the app shows `label`, and a click sends `value` as a text message."""

    value: str = attrs.field(validator=is_text())
    label: str = attrs.field(validator=is_text())


def _is_key_rows(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    for row in check_tuple("keyboard", value):
        keys = check_tuple("keyboard", row)
        if not keys or not all(isinstance(key, Key) for key in keys):
            raise LocalProtocolError("keyboard", "each row must be a tuple of at least one Key")


@final
@guarded
class ReplyKeyboard:
    """Keys that replace the text field. A keyboard without rows removes the current keyboard (gap 10).

    Attributes:
        once, selective: fields that are sent if not None; the interface doesn't define their meaning (gap 9).
    """

    rows: tuple[tuple[Key, ...], ...] = attrs.field(validator=_is_key_rows)
    once: bool | None = attrs.field(default=None, validator=is_optional(is_a(bool)))
    selective: bool | None = attrs.field(default=None, validator=is_optional(is_a(bool)))


@final
@guarded
class CallbackButton:
    """A button that sends an event with `data` at each click, until its message is edited or deleted."""

    text: str = attrs.field(validator=is_text())
    data: str = attrs.field(validator=is_text())


def _is_address(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_text("url", value)
    if not _URL.fullmatch(str(value)):
        raise LocalProtocolError("url", "must be an absolute address without spaces")


@final
@guarded
class LinkButton:
    """A button that opens `url`."""

    text: str = attrs.field(validator=is_text())
    url: str = attrs.field(validator=_is_address)
    open_in: OpenIn | None = attrs.field(
        default=None,
        validator=is_optional(
            is_one_of("browser", "inline_browser", "webview", "webview_full", "webview_with_header")
        ),
    )


@final
@guarded
class PayButton:
    """A button for a payment inside the chat (interface section 2.4); `amount` is in `currency`, by default
    rials.
    """

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
@guarded
class InlineKeyboard:
    """Rows of buttons under a message."""

    rows: tuple[tuple[InlineButton, ...], ...] = attrs.field(validator=_is_button_rows)


# --- to text


def encode_reply_keyboard(keyboard: ReplyKeyboard) -> str:
    """Return the JSON text of ``reply_keyboard``."""
    rows: JsonValue = [[{key.value: key.label} for key in row] for row in keyboard.rows]
    return _object({"keyboard": rows, "once": keyboard.once, "selective": keyboard.selective})


def encode_inline_keyboard(keyboard: InlineKeyboard) -> str:
    """Return the JSON text of ``inline_keyboard``."""
    return compact_json([[_button(button) for button in row] for row in keyboard.rows])


def encode_form_fields(form: Form) -> str:
    """Return the JSON text of ``form``."""
    return compact_json([_form_field(field) for field in form.fields])


def _button(button: InlineButton) -> JsonValue:
    match button:
        case CallbackButton():
            return {"text": button.text, "cb_data": button.data}
        case LinkButton():
            return _given({"text": button.text, "url": button.url, "open_in": button.open_in})
        case PayButton():
            return _given(
                {
                    "text": button.text,
                    "amount": button.amount,
                    "currency": button.currency,
                    "ref_id": button.ref_id,
                    "desc": button.desc,
                }
            )
        case _:
            assert_never(button)


def _form_field(field: FormField) -> JsonValue:
    match field:
        case TextField():
            return _given({"name": field.name, "type": "text", "label": field.label, "value": field.value})
        case TextArea():
            return _given(
                {"name": field.name, "type": "textarea", "label": field.label, "value": field.value}
            )
        case Radio() | Select():
            kind = "radio" if isinstance(field, Radio) else "select"
            options: JsonValue = [{value: label} for value, label in field.options]
            return {"name": field.name, "type": kind, "label": field.label, "options": options}
        case Checkbox():
            return {"name": field.name, "type": "checkbox", "label": field.label}
        case Inbuilt():
            return {"name": field.name, "type": "inbuilt", "label": field.label, "value": field.reader}
        case Submit():
            return {"type": "submit", "label": field.label}
        case _:
            assert_never(field)


def _given(fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: value for key, value in fields.items() if value is not None}


def _object(fields: Mapping[str, JsonValue]) -> str:
    return compact_json(_given(fields))
