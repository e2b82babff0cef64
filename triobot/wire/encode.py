"""Values to bytes: operations to requests, events to what the platform posts, results to its answers.

Our own direction is `encode_operation` with `encode_form`; `event_key` tells a repeated event by what is in
it. The rest speaks for the platform, for the emulator and for tests. An upload becomes a `Request` with a
file: its sender makes the multipart body.
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
from .content import Blob, Content, Descriptor, LocalFile
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
from .results import Answer, InvoiceCreated, PaymentState, Sent
from .rules import JsonValue, check_text, compact_json
from .traits import names_of

R = TypeVar("R")

Fields: TypeAlias = tuple[tuple[str, str], ...]

FORM_TYPE: Final = "application/x-www-form-urlencoded"
JSON_TYPE: Final = "application/json"

_TEXT: Final = json.encoder.encode_basestring
_PAYMENT_TYPES: Final = frozenset({"paycallback", "invoicecallback"})
_QUOTED: Final = {byte: quote_plus(bytes([byte])) for byte in range(256)}


@final
@guarded
class FilePart:
    """The file of an upload: `name` is the part's field name, which is the file's kind."""

    name: str
    source: LocalFile | Blob


@final
@guarded
class Request:
    """An operation, ready to be sent: a form body, or a multipart body when there is a file."""

    path: str
    fields: Fields = attrs.field(repr=False)
    file: FilePart | None = None


@final
@guarded
class Body:
    """Bytes with their content type."""

    content_type: str
    data: bytes = attrs.field(repr=False)


# --- operations


def encode_operation(operation: Operation[object]) -> Request:
    """Return the request of an operation: form fields in the interface's order, structures as JSON text.

    Fields that are unset are left out; booleans are ``true`` and ``false`` (gap 1).

    Raises:
        LocalProtocolError: media that has not been uploaded yet, or something that is no operation.

    Platform: interface section 4.
    """
    fields = tuple(_operation_fields(operation))
    file = FilePart(operation.kind, operation.source) if isinstance(operation, Upload) else None
    return Request(operation.path, fields, file)


def encode_form(fields: Iterable[tuple[str, str]]) -> bytes:
    """Return the body ``application/x-www-form-urlencoded`` of fields, in UTF-8; names need no quotes.

    Raises:
        LocalProtocolError: a field holds half of a surrogate pair.
    """
    return "&".join([f"{name}={_quoted(name, value)}" for name, value in fields]).encode("ascii")


def encode_operation_form(operation: Operation[object]) -> bytes:
    """Return the form of an operation without a file: that of the fields of `encode_operation`.

    Raises:
        LocalProtocolError: as these two.
    """
    return encode_form(_operation_fields(operation))


def _quoted(name: str, text: str) -> str:
    # As `urllib.parse.quote_plus`, in a tenth of its time: each byte of UTF-8 as the character of its number.
    if text.isascii():
        return text.translate(_QUOTED)
    return check_text(name, text, empty=True).encode().decode("latin-1").translate(_QUOTED)


def _operation_fields(operation: Operation[object]) -> list[tuple[str, str]]:
    if not isinstance(operation, SendMessage):
        return _by_their_names(operation)
    # Nearly all are this one; its content has two fields.
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
    """Return the fields of an operation in the interface's order, but for a file."""
    if not isinstance(cast("object", operation), Operation):
        raise LocalProtocolError("operation", "must be an operation of this package")
    return [
        (names[0], _text(value))
        for field, names in names_of(type(operation))
        if len(names) == 1 and (value := getattr(operation, field)) is not None
    ]


def _text(value: object) -> str:
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


def encode_event(event: Event, *, as_json: bool = False, lower_case_callbacks: bool = False) -> Body:
    """Return the body that the platform posts for an event (gap 2).

    Args:
        event: media in it must have its descriptor.
        as_json: a JSON body, in which ``data`` is JSON text still and ``from`` an object; else a form.
        lower_case_callbacks: write ``paycallback`` and ``invoicecallback``, the spelling that bots have met.

    Raises:
        LocalProtocolError: the event can't be written, such as a press whose value was decoded.
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
    pairs += ((name, _text(value)) for name, value in beside(event).items())
    return Body(FORM_TYPE, encode_form(pairs))


def encode_event_data(event: Event) -> tuple[str, str]:
    """Return the ``type`` and ``data`` of an event.

    Raises:
        LocalProtocolError: as `encode_event`.
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
            told: dict[str, JsonValue] = {
                "ref_id": event.ref_id,
                "message_id": event.message_id,
                "status": event.status,
                "code": event.code,
                "charge_url": event.charge_url,
            }
            return "payCallback", compact_json(
                {key: value for key, value in told.items() if value is not None}
            )
        case UnknownEvent():
            return event.type, event.data
        case _:
            assert_never(event)


def encode_sender(sender: Sender | None) -> dict[str, JsonValue] | None:
    """Return the object for ``from`` (gap 4)."""
    if sender is None:
        return None
    return {"id": sender.id, "name": sender.name, "user": sender.username}


# --- answers


def encode_result(operation: Operation[R], result: R) -> bytes:
    """Return the JSON body with which the platform answers 200.

    Raises:
        LocalProtocolError: no operation has such a result.
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
    """Return the JSON body with which the platform refuses a request (gap 23)."""
    fields: dict[str, JsonValue] = {"error": reason}
    if trace_id is not None:
        fields["trace_id"] = trace_id
    return compact_json(fields).encode()


# --- the same event twice

# So many that no two keys are equal by chance, and so few that the table of deliveries stays small.
_KEY_BYTES: Final = 16


def event_key(event: Event, content_type: str, body: bytes) -> tuple[str | None, bool]:
    """Return a key that repeated deliveries of an event share, and whether only these share it.

    Args:
        event: as it was read from `body`.
        content_type, body: used only where the event could not be read, or may have been mended: its bytes
            are compared then, so that two events that differ in what was broken stay two.

    Returns:
        For a press, and a form that came with a callback id: a key of it, and True: a second delivery is
        never new. For payment callbacks: None and False: the first may tell of a failure and the second of
        the payment, in the same bytes. For anything else: a digest of chat, type, data and sender, the same
        in both body formats, and False: users do say the same thing twice.
    """
    match event:
        case Message():  # most of them, so that no other is asked for first
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
    if MENDED in data or (kind != "text" and quote(MENDED) in data):  # what a form holds is quoted
        return _key_of_bytes(event, content_type, body)
    # The JSON of a list of these four, in less than the time that a list's takes.
    told = f"[{event.chat_id},{_TEXT(kind)},{_TEXT(data)},{_sender_text(event.sender)}]"
    if BESIDE and (more := beside(event)):
        told += compact_json(more)
    return f"event:{event.chat_id}:{blake2b(told.encode(), digest_size=_KEY_BYTES).hexdigest()}", False


def _key_of_bytes(event: Event, content_type: str, body: bytes) -> tuple[str, bool]:
    given = content_type.encode("utf-8", "replace") + b"\n" + body
    return f"bytes:{event.chat_id}:{blake2b(given, digest_size=_KEY_BYTES).hexdigest()}", False


def _sender_text(sender: Sender | None) -> str:
    if sender is None:
        return "null"
    return f'{{"id":{sender.id},"name":{_TEXT(sender.name)},"user":{_TEXT(sender.username)}}}'
