"""Encode operations as requests. Encode events as text for the keys that detect repeated deliveries.

An upload is encoded as a `Request` with a file; the HTTP client makes the multipart body. `platform_side` has
the platform's encoders.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, TypeAlias, assert_never, cast, final
from urllib.parse import quote, quote_plus, urlencode

import attrs
from typing_extensions import TypeVar

from ..base.frozen import guarded
from ..errors import LocalProtocolError
from .content import Blob, Content, LocalFile
from .content import encode_content as encode_content
from .events import (
    BESIDE,
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
    beside,
)
from .json_text import MENDED
from .markup import (
    InlineKeyboard,
    ReplyKeyboard,
    encode_form_fields,
    encode_inline_keyboard,
    encode_reply_keyboard,
)
from .operations import Operation, SendMessage, Upload
from .rules import JsonValue, check_text, compact_json
from .traits import names_of

R = TypeVar("R")

Fields: TypeAlias = tuple[tuple[str, str], ...]

FORM_TYPE: Final = "application/x-www-form-urlencoded"

_TEXT: Final = json.encoder.encode_basestring
_PAYMENT_TYPES: Final = frozenset({"paycallback", "invoicecallback"})
_QUOTED: Final = {byte: quote_plus(bytes([byte])) for byte in range(256)}


@final
@guarded
class FilePart:
    """The file of an upload; `name` is the multipart field name, which is the file's kind."""

    name: str
    source: LocalFile | Blob


@final
@guarded
class Request:
    """An encoded operation.

    The client sends the fields as a form body, or as a multipart body if there is a file.
    """

    path: str
    fields: Fields = attrs.field(repr=False)
    file: FilePart | None = None


# --- operations


def encode_operation(operation: Operation[object]) -> Request:
    """Encode an operation as a request: form fields in the interface's order, structures as JSON text.

    Unset fields are omitted; booleans are ``true`` and ``false`` (gap 1).

    Raises:
        LocalProtocolError: `operation` contains media that has not been uploaded, or is no operation.

    Platform: interface section 4.
    """
    fields = tuple(_operation_fields(operation))
    file = FilePart(operation.kind, operation.source) if isinstance(operation, Upload) else None
    return Request(operation.path, fields, file)


def encode_form(fields: Iterable[tuple[str, str]]) -> bytes:
    """Encode fields as an ``application/x-www-form-urlencoded`` body in UTF-8. The fields' names are not
    quoted.

    Raises:
        LocalProtocolError: a value contains a lone surrogate.
    """
    return "&".join([f"{name}={_quoted(name, value)}" for name, value in fields]).encode("ascii")


def encode_operation_form(operation: Operation[object]) -> bytes:
    """Encode an operation without a file as a form body.

    Raises:
        LocalProtocolError: as `encode_operation` and `encode_form`.
    """
    return encode_form(_operation_fields(operation))


def _quoted(name: str, text: str) -> str:
    # Same result as `urllib.parse.quote_plus` in a tenth of the time. Each UTF-8 byte becomes the character
    # with the byte's number, because `translate` works on characters.
    if text.isascii():
        return text.translate(_QUOTED)
    return check_text(name, text, empty=True).encode().decode("latin-1").translate(_QUOTED)


def _operation_fields(operation: Operation[object]) -> list[tuple[str, str]]:
    if not isinstance(operation, SendMessage):
        return _by_their_names(operation)
    # Fast path: nearly all operations are sends. A send's content becomes two fields, type and data.
    kind, data = encode_content(operation.content)
    fields = [("chat_id", str(operation.chat_id)), ("type", kind), ("data", data)]
    if operation.reply_keyboard is not None:
        fields.append(("reply_keyboard", encode_reply_keyboard(operation.reply_keyboard)))
    if operation.inline_keyboard is not None:
        fields.append(("inline_keyboard", encode_inline_keyboard(operation.inline_keyboard)))
    if operation.form is not None:
        fields.append(("form", encode_form_fields(operation.form)))
    return fields


def _by_their_names(operation: Operation[object]) -> list[tuple[str, str]]:
    if not isinstance(cast("object", operation), Operation):
        raise LocalProtocolError("operation", "must be an operation of this package")
    return [
        (names[0], text_of_field(value))
        for field, names in names_of(type(operation))
        if len(names) == 1 and (value := getattr(operation, field)) is not None
    ]


def text_of_field(value: object) -> str:
    """Return `value` as the text of a form field."""
    match value:
        case bool():
            return "true" if value else "false"
        case ReplyKeyboard():
            return encode_reply_keyboard(value)
        case InlineKeyboard():
            return encode_inline_keyboard(value)
        case str() | int():
            return str(value)
        case _:
            return encode_content(cast("Content", value))[1]


# --- events


def encode_event_data(event: Event) -> tuple[str, str]:
    """Return the ``type`` and ``data`` of an event.

    Raises:
        LocalProtocolError: the event can't be encoded, for example a press with a decoded value.
    """
    match event:
        case Message():
            content: Content = event.content
            return encode_content(content)
        case Join():
            return "join", ""
        case Leave():
            return "leave", ""
        case Press():
            return "triggerButton", compact_json(
                {
                    "data": check_text("data", event.value, empty=True),
                    "message_id": event.message_id,
                    "callback_id": event.callback_id,
                }
            )
        case Submission():
            filled: dict[str, JsonValue] = {
                "data": urlencode(event.values, quote_via=quote, safe=""),
                "message_id": event.message_id,
            }
            if event.callback_id is not None:
                filled["callback_id"] = event.callback_id
            return "submitForm", compact_json(filled)
        case InvoiceCallback():
            return "invoiceCallback", compact_json({"invoiceId": event.invoice_id})
        case PayCallback():
            fields: dict[str, JsonValue] = {
                "ref_id": event.ref_id,
                "message_id": event.message_id,
                "status": event.status,
                "code": event.code,
                "charge_url": event.charge_url,
            }
            return "payCallback", compact_json(
                {key: value for key, value in fields.items() if value is not None}
            )
        case UnknownEvent():
            return event.type, event.data
        case _:
            assert_never(event)


def encode_sender(sender: Sender | None) -> dict[str, JsonValue] | None:
    """Return the JSON object of ``from`` (gap 4)."""
    if sender is None:
        return None
    return {"id": sender.id, "name": sender.name, "user": sender.username}


# --- keys that show whether two deliveries are the same event

# With 16 bytes, no two keys collide by chance, and the table of deliveries stays small.
_KEY_BYTES: Final = 16


def event_key(event: Event, content_type: str, body: bytes) -> tuple[str | None, bool]:
    """Return the common key of an event's deliveries, and whether an equal key always means the same event.

    Args:
        event: the event decoded from `body`.
        content_type, body: used only if the event was unreadable, or if a broken character in its text may
            have been replaced. The key of such an event is a digest of both. So two events that differ only
            in a broken character have two keys.

    Returns:
        For a press, or a form with a callback id: a key with the callback id, and True. A second delivery is
        never a new event. For payment callbacks: None and False. The same bytes may first report a failure,
        and later the payment. For all other events: a digest of chat, type, data and sender, and False. Users
        may send the same text twice. The digest is equal in both body formats.
    """
    match event:
        case Message():  # checked first, since most events are messages
            pass
        case Press():
            return f"press:{event.chat_id}:{event.callback_id}", True
        case Submission() if event.callback_id is not None:
            return f"submission:{event.chat_id}:{event.callback_id}", True
        case PayCallback() | InvoiceCallback():
            return None, False
        case UnknownEvent() if event.type.lower() in _PAYMENT_TYPES:
            return None, False
        case UnknownEvent() if event.reason:
            return _key_of_bytes(event, content_type, body)
        case _:
            pass
    kind, data = encode_event_data(event)
    if MENDED in data or (kind != "text" and quote(MENDED) in data):  # a form's data has percent escapes
        return _key_of_bytes(event, content_type, body)
    # This text equals the JSON of a list of the four values; the JSON encoder is slower.
    text = f"[{event.chat_id},{_TEXT(kind)},{_TEXT(data)},{_sender_text(event.sender)}]"
    if BESIDE and (more := beside(event)):
        text += compact_json(more)
    return f"event:{event.chat_id}:{blake2b(text.encode(), digest_size=_KEY_BYTES).hexdigest()}", False


def _key_of_bytes(event: Event, content_type: str, body: bytes) -> tuple[str, bool]:
    given = content_type.encode("utf-8", "replace") + b"\n" + body
    return f"bytes:{event.chat_id}:{blake2b(given, digest_size=_KEY_BYTES).hexdigest()}", False


def _sender_text(sender: Sender | None) -> str:
    if sender is None:
        return "null"
    return f'{{"id":{sender.id},"name":{_TEXT(sender.name)},"user":{_TEXT(sender.username)}}}'
