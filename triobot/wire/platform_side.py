"""Encoders and decoders of the platform's side: for posted events, answers to requests, keyboards and forms.

The emulator and tests play the platform; a bot never loads this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, cast, final

import attrs
from typing_extensions import TypeVar

from ..base.frozen import guarded
from ..errors import LocalProtocolError, RemoteProtocolError
from .content import Descriptor
from .encode import FORM_TYPE, encode_event_data, encode_form, encode_sender, text_of_field
from .events import Event, InvoiceCallback, PayCallback, beside
from .forms import Checkbox, Form, FormField, Inbuilt, Option, Radio, Select, Submit, TextArea, TextField
from .json_text import read_json
from .markup import (
    CallbackButton,
    Currency,
    InlineButton,
    InlineKeyboard,
    Key,
    LinkButton,
    OpenIn,
    PayButton,
    ReplyKeyboard,
)
from .operations import Operation
from .results import InvoiceCreated, PaymentState, Sent
from .rules import JsonValue, compact_json, is_digits, their_fault
from .undocumented import Answer

R = TypeVar("R")
V = TypeVar("V")

JSON_TYPE: Final = "application/json"
_KINDS: Final = ("cb_data", "url", "amount")


@final
@guarded
class Body:
    """A body's bytes with their content type."""

    content_type: str
    data: bytes = attrs.field(repr=False)


# --- events


def encode_event(event: Event, *, as_json: bool = False, lower_case_callbacks: bool = False) -> Body:
    """Encode an event as the body that the platform posts (gap 2).

    Args:
        event: media must have a descriptor.
        as_json: whether to make a JSON body, with ``data`` as JSON text and ``from`` as an object, instead of
            a form.
        lower_case_callbacks: whether to write ``paycallback`` and ``invoicecallback``, a spelling that bots
            have received.

    Raises:
        LocalProtocolError: the event can't be encoded, for example a press with a decoded value.
    """
    kind, data = encode_event_data(event)
    if lower_case_callbacks and isinstance(event, PayCallback | InvoiceCallback):
        kind = kind.lower()
    sender = encode_sender(event.sender)
    if as_json:
        fields: dict[str, JsonValue] = {"chat_id": event.chat_id, "type": kind, "data": data}
        if sender is not None:
            fields["from"] = sender
        return Body(JSON_TYPE, compact_json(fields | beside(event)).encode())
    pairs = [("chat_id", str(event.chat_id)), ("type", kind), ("data", data)]
    if sender is not None:
        pairs.append(("from", compact_json(sender)))
    pairs += ((name, text_of_field(value)) for name, value in beside(event).items())
    return Body(FORM_TYPE, encode_form(pairs))


# --- answers


def encode_result(operation: Operation[R], result: R) -> bytes:
    """Encode a result as the JSON body of the platform's 200 answer.

    Raises:
        LocalProtocolError: no operation returns an object of this class.
    """
    match result:
        case None:
            return b"{}"
        case Sent():
            return compact_json({"id": result.id}).encode()
        case InvoiceCreated():
            return compact_json({"id": result.id}).encode()
        case PaymentState():
            status = "verified" if result.verified else "error"
            return compact_json({"amount": result.amount, "status": status}).encode()
        case Descriptor():
            return result.json.encode()
        case Answer():
            return b"" if result.value is None else compact_json(result.value).encode()
        case _:
            raise LocalProtocolError("result", f"is none that {operation.path} has")


def encode_error(reason: str, trace_id: str | None = None) -> bytes:
    """Encode the JSON body of the platform's refusal (gap 23)."""
    fields: dict[str, JsonValue] = {"error": reason}
    if trace_id is not None:
        fields["trace_id"] = trace_id
    return compact_json(fields).encode()


# --- keyboards and forms


def decode_reply_keyboard(text: str) -> ReplyKeyboard:
    """Decode ``reply_keyboard``.

    Raises:
        RemoteProtocolError: `text` is invalid; the error's `field` is ``reply_keyboard``.
    """
    return _read("reply_keyboard", text, _reply_keyboard)


def decode_inline_keyboard(text: str) -> InlineKeyboard:
    """Decode ``inline_keyboard``.

    Raises:
        RemoteProtocolError: `text` is invalid; the error's `field` is ``inline_keyboard``.
    """
    return _read("inline_keyboard", text, _inline_keyboard)


def decode_form_fields(text: str) -> Form:
    """Decode ``form``.

    Raises:
        RemoteProtocolError: `text` is invalid; the error's `field` is ``form``.
    """
    return _read("form", text, _form)


def _read(field: str, text: str, build: Callable[[JsonValue], V]) -> V:
    try:
        value = read_json(text)
    except ValueError:
        raise RemoteProtocolError(field, "must be JSON text") from None
    with their_fault(field):
        return build(value)


def _reply_keyboard(value: JsonValue) -> ReplyKeyboard:
    if not isinstance(value, dict):
        raise LocalProtocolError("reply_keyboard", "must be an object with the key 'keyboard'")
    rows = tuple(
        tuple(Key(*_pair("keyboard", key)) for key in _list("keyboard", row))
        for row in _list("keyboard", value.get("keyboard"))
    )
    return ReplyKeyboard(rows, _flag(value, "once"), _flag(value, "selective"))


def _inline_keyboard(value: JsonValue) -> InlineKeyboard:
    return InlineKeyboard(
        tuple(
            tuple(_read_button(button) for button in _list("inline_keyboard", row))
            for row in _list("inline_keyboard", value)
        )
    )


def _read_button(value: JsonValue) -> InlineButton:
    if not isinstance(value, dict):
        raise LocalProtocolError("inline_keyboard", "each button must be an object")
    kinds = [kind for kind in _KINDS if value.get(kind) is not None]
    if len(kinds) != 1:
        raise LocalProtocolError("inline_keyboard", "each button needs one of cb_data, url and amount")
    text = _text(value, "text")
    if kinds == ["cb_data"]:
        return CallbackButton(text, _text(value, "cb_data"))
    if kinds == ["url"]:
        return LinkButton(text, _text(value, "url"), cast("OpenIn | None", value.get("open_in")))
    amount = value["amount"]
    return PayButton(
        text,
        # Some clients send the amount as text.
        int(amount) if isinstance(amount, str) and is_digits(amount) else cast("int", amount),
        _text(value, "ref_id"),
        cast("Currency", value.get("currency")),
        _optional_text(value, "desc"),
    )


def _form(value: JsonValue) -> Form:
    return Form(tuple(_read_form_field(field) for field in _list("form", value)))


def _read_form_field(value: JsonValue) -> FormField:
    if not isinstance(value, dict):
        raise LocalProtocolError("form", "each field must be an object")
    kind = _text(value, "type")
    label = _text(value, "label")
    if kind == "submit":
        return Submit(label)
    name = _text(value, "name")
    match kind:
        case "text":
            return TextField(name, label, _optional_text(value, "value"))
        case "textarea":
            return TextArea(name, label, _optional_text(value, "value"))
        case "radio":
            return Radio(name, label, _options(value))
        case "select":
            return Select(name, label, _options(value))
        case "checkbox":
            return Checkbox(name, label)
        case "inbuilt":
            return Inbuilt(name, label, cast('Literal["barcode", "qrcode"]', value.get("value")))
        case _:
            raise LocalProtocolError("type", "must be a form field's type")


def _options(field: dict[str, JsonValue]) -> tuple[Option, ...]:
    return tuple(_pair("options", option) for option in _list("options", field.get("options")))


def _list(field: str, value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise LocalProtocolError(field, "must be a list")
    return value


def _pair(field: str, value: JsonValue) -> tuple[str, str]:
    if isinstance(value, dict) and len(value) == 1:
        [(key, label)] = value.items()
        if isinstance(label, str):
            return key, label
    raise LocalProtocolError(field, "each entry must be an object with one key and a text")


def _text(fields: dict[str, JsonValue], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str):
        raise LocalProtocolError(key, "must be text")
    return value


def _optional_text(fields: dict[str, JsonValue], key: str) -> str | None:
    return _text(fields, key) or None if fields.get(key) is not None else None


def _flag(fields: dict[str, JsonValue], key: str) -> bool | None:
    value = fields.get(key)
    if value is not None and not isinstance(value, bool):
        raise LocalProtocolError(key, "must be true or false")
    return value
