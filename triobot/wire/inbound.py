"""What the platform posts, to events (interface sections 2.2 and 6; gaps 2 to 6 and 17).

A readable event becomes the one of its type; any other that names a chat and a type becomes an `UnknownEvent`
that says why, so that a person can look at it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

from ..errors import LocalProtocolError, RemoteProtocolError
from .content_text import decode_content, is_content_type
from .envelope import Envelope, mend, open_envelope, read_loosely, read_pairs
from .events import (
    Event,
    InvoiceCallback,
    Join,
    Leave,
    Message,
    PayCallback,
    Press,
    Sender,
    Submission,
    UnknownEvent,
)
from .ids import CallbackId, MessageId, as_callback_id, as_invoice_id, as_message_id, as_ref_id
from .json_text import read_json, read_object
from .rules import LARGEST_INTEGER, JsonValue, check_text, compact_json, is_digits, their_fault

_INVOICE_KEYS: Final = ("invoiceId", "invoice_id", "id")


def decode_event(content_type: str, body: bytes) -> Event:
    """Read one event, whatever the bytes.

    Returns:
        The event of its type; or an `UnknownEvent`, with a reason when its type is known and its ``data``
        is not readable as that type.

    Raises:
        RemoteProtocolError: there is no chat id or no type that can be used; `raw` is the body.

    Platform: interface sections 2.2 and 6.
    """
    envelope = open_envelope(content_type, body)
    sender = _read_sender(envelope)
    try:
        event = _read_event(envelope, sender)
    except RemoteProtocolError as error:
        return _unknown(envelope, sender, str(error))
    return _unknown(envelope, sender, "") if event is None else event


def _read_event(envelope: Envelope, sender: Sender | None) -> Event | None:
    chat_id = envelope.chat_id
    kind = envelope.type.lower()
    if kind == "join":
        return Join(chat_id, sender)
    if kind == "leave":
        return Leave(chat_id, sender)
    if "data" in envelope.repeated:
        raise RemoteProtocolError("data", "must be given once")
    if is_content_type(kind):
        return Message(chat_id, decode_content(kind, _data_text(envelope.data)), sender)
    match kind:
        case "triggerbutton":
            fields = _data_fields(envelope.data)
            return Press(
                chat_id,
                _press_value(fields.get("data")),
                _message_id(fields.get("message_id")),
                _callback_id(fields.get("callback_id")),
                sender,
            )
        case "submitform":
            fields = _data_fields(envelope.data)
            return Submission(
                chat_id,
                _filled_values(fields.get("data")),
                _message_id(fields.get("message_id")),
                _optional_callback_id(fields.get("callback_id")),
                sender,
            )
        case "invoicecallback":
            fields = _data_fields(envelope.data)
            given = [fields[key] for key in _INVOICE_KEYS if fields.get(key) is not None]
            with their_fault("data.invoiceId"):
                return InvoiceCallback(chat_id, as_invoice_id(_opaque(given[0] if given else None)), sender)
        case "paycallback":
            fields = _data_fields(envelope.data)
            with their_fault("data.ref_id"):
                ref_id = as_ref_id(_opaque(fields.get("ref_id")))
            # A callback is a hint: what else it says is worth having, and never worth losing the hint for.
            return PayCallback(
                chat_id,
                ref_id,
                _optional_message_id(fields.get("message_id")),
                _optional_text(fields.get("status")) or "",
                _optional_integer(fields.get("code")),
                _optional_text(fields.get("charge_url")),
                sender,
            )
        case _:
            return None


def _unknown(envelope: Envelope, sender: Sender | None, reason: str) -> UnknownEvent:
    return UnknownEvent(envelope.chat_id, envelope.type, mend(_as_text(envelope.data)), reason, sender)


# --- from


def _read_sender(envelope: Envelope) -> Sender | None:
    value = envelope.sender
    if "from" in envelope.repeated:
        return None
    try:
        if isinstance(value, str):
            # Not the strict reader: half of a surrogate pair in a name must not cost us who it was.
            value = read_loosely(value)
        if not isinstance(value, dict):
            return None
        id = value.get("id")
        if not isinstance(id, int | str):
            return None
        return Sender(id, _name(value.get("name")), _name(value.get("user")))
    except (ValueError, LocalProtocolError):
        return None


def _name(value: JsonValue) -> str:
    return mend(value) if isinstance(value, str) else ""


# --- data


def _as_text(value: JsonValue) -> str:
    """Return ``data`` as text: in a JSON body it may be any value."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return ""


def _data_text(value: JsonValue) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return compact_json(value)
    except (ValueError, RecursionError):
        raise RemoteProtocolError("data", "must be text or plain JSON") from None


def _data_fields(value: JsonValue) -> dict[str, JsonValue]:
    try:
        return read_object(_data_text(value))
    except ValueError:
        raise RemoteProtocolError("data", "must be a JSON object") from None


def _press_value(value: JsonValue) -> str:
    if value is None:
        raise RemoteProtocolError("data.data", "must be given")
    return _data_text(value)


def _filled_values(value: JsonValue) -> tuple[tuple[str, str], ...]:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError):  # a query string may begin like that, too
            value = read_json(value)
    if isinstance(value, dict):
        return tuple(
            (name, _data_text(item))
            for name, items in value.items()
            for item in (items if isinstance(items, list) else [items])
        )
    if value is None:
        return ()
    if not isinstance(value, str):
        raise RemoteProtocolError("data.data", "must be a query string or an object")
    prefix, mark, query = value.partition("?")
    try:
        pairs = read_pairs(query if mark and "=" not in prefix else value)
    except ValueError:
        raise RemoteProtocolError("data.data", "has too many values") from None
    with their_fault("data.data"):
        for pair in pairs:
            for text in pair:
                check_text("data", text, empty=True)
    return tuple(pairs)


def _message_id(value: JsonValue) -> MessageId:
    if not isinstance(value, int | str):
        raise RemoteProtocolError("data.message_id", "must be an integer")
    with their_fault("data.message_id"):
        return as_message_id(value)


def _optional_message_id(value: JsonValue) -> MessageId | None:
    try:
        return _message_id(value)
    except RemoteProtocolError:
        return None


def _callback_id(value: JsonValue) -> CallbackId:
    with their_fault("data.callback_id"):
        return as_callback_id(_opaque(value))


def _optional_callback_id(value: JsonValue) -> CallbackId | None:
    try:
        return _callback_id(value)
    except RemoteProtocolError:
        return None


def _opaque(value: JsonValue) -> str:
    """Return an opaque id, which may come as a number; for other values "", which its check refuses."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _optional_text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _optional_integer(value: JsonValue) -> int | None:
    if isinstance(value, str) and is_digits(value):
        return int(value)
    return value if type(value) is int and abs(value) <= LARGEST_INTEGER else None
