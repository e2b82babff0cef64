"""Decode bytes to values: events with their content, and results.

The decoders of events and answers raise only `RemoteProtocolError` for unreadable bytes; `decode_result` also
raises the platform's refusals. `shape_of` describes an unreadable answer for logs.

An event is decoded in two stages (interface sections 2.2 and 6; gaps 2 to 6 and 17). First, the bytes of a
webhook request in any body format (gap 2) are decoded to the fields of an `Envelope`. Second, the envelope is
converted to an event. The content type or the body's first bytes decide whether a body is read as multipart
or as JSON; any other body is read as a form. The first stage decodes invalid UTF-8 to lone surrogates. In a
user's text, the second stage replaces each broken character, since the rest of the text is still useful. A
broken identifier is refused. An envelope of a known type with readable data is converted to an event of this
type. Any other envelope is converted to an `UnknownEvent`, which a person can inspect; `UnknownEvent.reason`
is set if the type is known.

The module `content` decodes messages' content. The platform's emulator decodes operations' requests.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_qp
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias, cast, final
from urllib.parse import unquote

import attrs
from typing_extensions import TypeVar

from ..base.frozen import guarded
from ..errors import BadRequestError, ForbiddenError, LocalProtocolError, RefusedError, RemoteProtocolError
from .content import content_of, is_content_type
from .content import decode_content as decode_content
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
)
from .ids import (
    CallbackId,
    ChatId,
    MessageId,
    SenderId,
    as_callback_id,
    as_chat_id,
    as_invoice_id,
    as_message_id,
    as_ref_id,
)
from .json_text import LONGEST_INTEGER, mend, read_json, read_mended
from .operations import Operation, SendMessage
from .results import Sent
from .rules import LARGEST_INTEGER, JsonValue, compact_json, is_digits, their_fault

R = TypeVar("R")

MOST_FIELDS: Final = 1_000
# RFC 2046, section 5.1.1. A search for a longer boundary could take seconds.
LONGEST_BOUNDARY: Final = 70
# The platform's longest type has 15 characters. A longer type would only fill the log.
LONGEST_TYPE: Final = 64

_BOUNDARY: Final = re.compile(r'boundary="?([^";,\s]+)"?', re.IGNORECASE)
_PART_NAME: Final = re.compile(r'(?:^|[;\s])name="?([^";]*)"?', re.IGNORECASE)
_QUOTED: Final = re.compile("[+%]")
_STRAY_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")

# A body's fields by name; for a repeated name, the last value. The functions below also return the set of
# repeated names. A repeated field is ambiguous, because another program might use the first value.
RawFields: TypeAlias = dict[str, JsonValue]

# Matches invalid escapes and escapes of the bytes 0 and 1. `_read_usual_text` uses these bytes as separators,
# so the general decoder decodes bodies with such escapes.
_NOT_USUAL: Final = re.compile(b"%(?![1-9A-Fa-f][0-9A-Fa-f]|0[2-9A-Fa-f])")
_SEPARATED: Final = bytes.maketrans(b"&=+%", b"\0\1 =")
_USUAL_CHAT: Final = re.compile("-?[0-9]{1,18}", re.ASCII)
_BEYOND: Final = 10**18
_scan_plain: Final[Callable[[str, int], tuple[Any, int]]] = cast("Any", json.JSONDecoder()).scan_once

_INVOICE_KEYS: Final = ("invoiceId", "invoice_id", "id")

LONGEST_REASON: Final = 200
LONGEST_TRACE_ID: Final = 100

_PLAIN_ID: Final = re.compile(rb'\{"id": ?([1-9][0-9]{0,14})\}')
# A stand-in for a body that was not read. The stand-in is invalid JSON, so a result that needs the body
# raises an error.
_UNREAD: Final = b"?"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z_]{0,31}", re.ASCII)
_FIELDS: Final = 8
_PHONE: Final = re.compile(r"\+[0-9]{4,15}", re.ASCII)


@final
@guarded
class Envelope:
    """An event's fields before the event's type is interpreted.

    Attributes:
        chat_id: the checked chat id.
        type: received type; never empty, without lone surrogates.
        data: received ``data``; None if absent.
        sender: received ``from``; None if absent.
        beside: a message's optional fields, as received.
        repeated: names of the fields that the body contains more than once.
    """

    chat_id: ChatId
    type: str
    data: JsonValue = attrs.field(repr=False)
    sender: JsonValue = attrs.field(repr=False)
    beside: Mapping[str, JsonValue] = attrs.field(repr=False)
    repeated: frozenset[str] = frozenset()


def open_envelope(content_type: str, body: bytes) -> Envelope:
    """Read an event's chat id and type from a body; the other fields stay undecoded.

    Raises:
        RemoteProtocolError: chat id or type is missing, invalid or repeated.
    """
    fields, repeated = _read_fields(content_type, body)
    try:
        if repeated:
            for name in ("chat_id", "type"):
                if name in repeated:
                    raise RemoteProtocolError(name, "must be given once")
        return Envelope(
            _chat_id(fields.get("chat_id")),
            _type(fields.get("type")),
            fields.get("data"),
            fields.get("from"),
            {name: fields[name] for name in BESIDE if name in fields and name not in repeated},
            repeated,
        )
    except RemoteProtocolError as error:
        raise RemoteProtocolError(error.field, error.rule, raw=body) from None


def read_loosely(text: str) -> JsonValue:
    """Decode JSON without the checks of `read_json`, for callers that use only some parts of the value.

    If an object repeats a name, the last value is used.

    Raises:
        ValueError: the text is no JSON.
    """
    return _decoded(_LOOSE, text)


def _decoded(decoder: json.JSONDecoder, text: str) -> JsonValue:
    try:
        return cast("JsonValue", decoder.decode(text))
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def read_pairs(text: str) -> list[tuple[str, str]]:
    """Return the pairs of a form body or a query string; invalid UTF-8 becomes lone surrogates.

    Raises:
        ValueError: there are more than `MOST_FIELDS` pairs.
    """
    # Same result as `urllib.parse.parse_qsl` in a third of the time. The speed matters, because most events
    # are forms.
    if text.count("&") >= MOST_FIELDS:
        raise ValueError("has too many fields")
    pairs: list[tuple[str, str]] = []
    for field in text.split("&"):
        if field:
            name, _, value = field.partition("=")
            pairs.append((_unquoted(name), _unquoted(value)) if _QUOTED.search(field) else (name, value))
    return pairs


def _unquoted(text: str) -> str:
    text = text.replace("+", " ")
    if "%" not in text:
        return text
    if not text.isascii() or _STRAY_PERCENT.search(text):
        return unquote(text, errors="surrogateescape")
    # Replace each % by =, so that C code (`a2b_qp`) decodes the escapes. `unquote` takes eight times as long;
    # `unquote` alone would take a twentieth of a button event's total time.
    quoted = text.replace("=", "=3D").replace("%", "=")
    return a2b_qp(quoted).decode("utf-8", "surrogateescape")


def _chat_id(value: JsonValue) -> ChatId:
    if value is None:
        raise RemoteProtocolError("chat_id", "must be given")
    try:
        return as_chat_id(cast("int | str", value))
    except LocalProtocolError as error:
        raise RemoteProtocolError("chat_id", error.rule) from None


def _type(value: JsonValue) -> str:
    if not isinstance(value, str) or not value or len(value) > LONGEST_TYPE:
        raise RemoteProtocolError("type", f"must be text of 1 to {LONGEST_TYPE} characters")
    return mend(value)


# --- formats


def _read_fields(content_type: str, body: bytes) -> tuple[RawFields, frozenset[str]]:
    text = body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    start = text[:64].lstrip()
    media = content_type.partition(";")[0].strip().lower()
    if media == "multipart/form-data" or start.startswith("--"):
        boundary = _BOUNDARY.search(content_type)
        return _distinct(_read_multipart(text, boundary[1] if boundary else None))
    if media == "application/json" or media.endswith("+json") or start.startswith("{"):
        fields = _read_json(text)
        if fields is not None:
            return fields
    try:
        return _distinct(read_pairs(text))
    except ValueError:
        raise RemoteProtocolError("body", f"has more than {MOST_FIELDS} fields", raw=body) from None


def _distinct(pairs: Sequence[tuple[str, JsonValue]]) -> tuple[RawFields, frozenset[str]]:
    fields: RawFields = dict(pairs)
    if len(fields) == len(pairs):
        return fields, frozenset()
    fields.clear()
    repeated: set[str] = set()
    for name, value in pairs:
        if name in fields:
            repeated.add(name)
        fields[name] = value
    return fields, frozenset(repeated)


class _Repeating(dict[str, JsonValue]):
    """A JSON object with repeated names."""

    repeated: frozenset[str]


def _read_json(text: str) -> tuple[RawFields, frozenset[str]] | None:
    try:
        value = _decoded(_TELLING, text)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    return value, value.repeated if isinstance(value, _Repeating) else frozenset()


def _object_of_pairs(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    fields, repeated = _distinct(pairs)
    if not repeated:
        return fields
    repeating = _Repeating(fields)
    repeating.repeated = repeated
    return repeating


def _integer_or_text(digits: str) -> int | str:
    return int(digits) if len(digits) <= LONGEST_INTEGER else digits


# Created once: `json.loads` with options creates a decoder for each text.
_LOOSE: Final = json.JSONDecoder(parse_int=_integer_or_text)
_TELLING: Final = json.JSONDecoder(parse_int=_integer_or_text, object_pairs_hook=_object_of_pairs)


def _read_multipart(text: str, boundary: str | None) -> list[tuple[str, str]]:
    if boundary is None:
        boundary = text.lstrip().partition("\n")[0].rstrip().removeprefix("--")
    if not 0 < len(boundary) <= LONGEST_BOUNDARY:
        return []
    pairs: list[tuple[str, str]] = []
    mark = re.compile(rf"\r?\n--{re.escape(boundary)}(--)?[ \t]*(?=\r?\n|\Z)")
    # The text before the first boundary is no field. The other pieces are pairs: a boundary's ending (``--``
    # or None), and the text after this boundary.
    pieces = mark.split(f"\n{text.lstrip()}", MOST_FIELDS)[1:]
    for end, part in zip(pieces[::2], pieces[1::2], strict=True):
        if end:
            break
        head, gap, value = part.partition("\r\n\r\n")
        if not gap:
            head, gap, value = part.partition("\n\n")
        name = _PART_NAME.search(_disposition(head))
        if gap and name is not None:
            pairs.append((name[1], value))
    return pairs


def _disposition(head: str) -> str:
    for line in head.splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() == "content-disposition":
            return value
    return ""


def decode_event(content_type: str, body: bytes) -> Event:
    """Decode an event from any body format.

    Returns:
        An event of the received type. If the type is unknown or ``data`` is unreadable, the result is an
        `UnknownEvent`. `UnknownEvent.reason` is set if ``data`` is unreadable.

    Raises:
        RemoteProtocolError: chat id or type is missing or invalid; `raw` is the body.

    Platform: interface sections 2.2 and 6.
    """
    if (usual := _read_usual_text(content_type, body)) is not None:
        return usual
    envelope = open_envelope(content_type, body)
    sender = _read_sender(envelope)
    try:
        event = _read_event(envelope, sender)
    except RemoteProtocolError as error:
        return _unknown(envelope, sender, str(error))
    return _unknown(envelope, sender, "") if event is None else event


def _read_usual_text(content_type: str, body: bytes) -> Message[str] | None:
    """Decode a form of four fields with a text message; return None for any other body.

    Nearly every request is such a form. The general decoder decodes all other bodies, and would return an
    equal message for this form. One call decodes all escapes, and each check is made once. So this function
    saves 57,000 of the 860,000 instructions that answering a message takes.
    """
    if content_type != "application/x-www-form-urlencoded":
        return None
    if 0 in body or 1 in body or _NOT_USUAL.search(body):
        return None
    # As in `_unquoted`, C code decodes the escapes. Byte 0 now separates the fields, and byte 1 separates a
    # field's name from its value; the body contains neither byte elsewhere.
    quoted = body.translate(_SEPARATED)
    try:
        pairs = [field.split("\1") for field in a2b_qp(quoted).decode().split("\0")]
        fields = dict(pairs)
        chat, data, raw = fields["chat_id"], fields["data"], fields["from"]
        if len(pairs) != 4 or fields["type"] != "text" or "\\" in raw or not _USUAL_CHAT.fullmatch(chat):
            return None
        sender, end = _scan_plain(raw, 0)
        id, name, user = sender["id"], sender["name"], sender["user"]
    except (ValueError, LookupError, TypeError, StopIteration, RecursionError):
        return None
    if end != len(raw) or type(id) is not int or not -_BEYOND < id < _BEYOND:
        return None
    if type(name) is not str or type(user) is not str:
        return None
    # No value can contain a lone surrogate: the UTF-8 is valid, and the sender's JSON has no backslash.
    return Message(ChatId(int(chat)), data, Sender(SenderId(id), name, user))


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
        text = kind == "text"
        data = mend(_data_text(envelope.data)) if text else content_of(kind, _data_fields(envelope.data))
        more: dict[str, Any] = {}
        for name, value in envelope.beside.items():
            with suppress(LocalProtocolError):  # the message gets no unreadable field
                Message(chat_id, "", **{name: cast("Any", value)})
                more[name] = value
        return Message(chat_id, data, sender, **more)
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
            # A callback is only a hint to check the payment: unreadable optional fields must not make the
            # event unreadable.
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
            # The strict reader would refuse a lone surrogate in the name, and so lose the sender's id.
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
    """Return ``data`` as text; in a JSON body, ``data`` may be any JSON value."""
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
        fields = read_mended(_data_text(value), whole="path")  # never change an address
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise RemoteProtocolError("data", "must be a JSON object")
    return fields


def _press_value(value: JsonValue) -> str:
    if value is None:
        raise RemoteProtocolError("data.data", "must be given")
    return _data_text(value)


def _filled_values(value: JsonValue) -> tuple[tuple[str, str], ...]:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError):  # a query string may also begin with a brace
            value = read_mended(value)
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
    return tuple((mend(name), mend(text)) for name, text in pairs)


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
    """Return an opaque id as text; the platform may send the id as a number.

    For a value of another type, return "", which the check of the id refuses.
    """
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _optional_text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _optional_integer(value: JsonValue) -> int | None:
    if isinstance(value, str) and is_digits(value):
        return int(value)
    return value if type(value) is int and abs(value) <= LARGEST_INTEGER else None


# --- answers: results and refusals (interface sections 4 and 7; gaps 22, 23 and 30)


def is_taken(status: int) -> bool:
    """Return whether the platform accepted the request: any 2xx, although the interface names only 200."""
    return 200 <= status < 300


def decode_result(operation: Operation[R], status: int, body: bytes, retry_after: float | None = None) -> R:
    """Decode the answer to an operation.

    Args:
        retry_after: seconds from the answer's `Retry-After`, for the raised error.

    Raises:
        BadRequestError: status 400.
        ForbiddenError: status 403.
        RefusedError: another status outside 2xx, or a 2xx with an error in the body.
        RemoteProtocolError: a 2xx with a body that can't be read as this operation's result. The operation
            may or may not have taken effect. This error is never raised for a send: the platform has accepted
            the message, and an unreadable id is returned as None.

    Platform: interface sections 4 and 7; gap 36.
    """
    if status != 200 and not is_taken(status):
        raise _refusal(operation, status, body, retry_after)
    if isinstance(operation, SendMessage) and (plain := _PLAIN_ID.fullmatch(body)) is not None:
        # Fast path for nearly every answer: an id and no other field. The fast path saves 31,000 of the
        # 860,000 instructions that answering a message takes.
        sent: Any = Sent(operation.chat_id, MessageId(int(plain[1])))
        return sent  # type: ignore[no-any-return]
    try:
        answer = read_json(body)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and answer.get("error"):
        raise _refusal(operation, status, body)
    try:
        return cast("R", operation.traits.result(operation, answer, body))
    except RemoteProtocolError as error:
        raise RemoteProtocolError(error.field, error.rule, raw=body) from None


def take_unread(operation: Operation[R]) -> R:
    """Return the result of an operation whose status was 2xx, if the answer's body was not read.

    Raises:
        RemoteProtocolError: this operation's result needs the body.
    """
    return cast("R", operation.traits.result(operation, None, _UNREAD))


def shape_of(body: bytes) -> str:
    """Describe an answer's body for a log: field names and JSON types, without values."""
    if not body.strip():
        return "empty"
    try:
        value = read_json(body)
    except ValueError:
        kind = "a page" if body.lstrip().startswith(b"<") else "no JSON"
        return f"{kind} of {len(body)} bytes"
    if not isinstance(value, dict):
        return f"a JSON {_kind(value)}"
    names = list(value)[:_FIELDS]
    shown = [f"{name if _NAME.fullmatch(name) else '...'}: {_kind(value[name])}" for name in names]
    return "{" + ", ".join([*shown, *(["..."] if len(value) > _FIELDS else [])]) + "}"


def _kind(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "list"
        case dict():
            return "object"


# --- refusals


def _refusal(
    operation: Operation[object], status: int, body: bytes, retry_after: float | None = None
) -> RefusedError:
    words, trace = _said(body)
    for text in _private(operation):
        words = words.replace(text, "...")
    reason = _short(words, LONGEST_REASON)
    trace_id = _short(trace, LONGEST_TRACE_ID) or None
    if status == 400:
        return BadRequestError(operation.path, status, reason, trace_id, retry_after)
    if status == 403:
        return ForbiddenError(operation.path, status, reason, trace_id, retry_after)
    return RefusedError(operation.path, status, reason, trace_id, retry_after)


def _private(operation: Operation[object]) -> list[str]:
    """Return an operation's texts and phone number, which a log must not contain.

    The platform's error text may contain these values.
    """
    private: list[object] = []
    for field in attrs.fields(cast("Any", type(operation))):
        value: object = getattr(operation, field.name)
        if field.name == "chat_id":
            value = value[1:] if isinstance(value, str) and value.startswith("+") else None
        if not field.repr:
            private.append(value)
    # Replacing texts of 1 to 3 characters would mutilate the platform's error text.
    return [text for text in private if isinstance(text, str) and len(text) >= 4]


def _said(body: bytes) -> tuple[str, str]:
    try:
        value = read_json(body)
    except ValueError:
        return body[: 16 * LONGEST_REASON].decode("utf-8", "replace"), ""
    if not isinstance(value, dict):
        return _plain(value), ""
    return _plain(value.get("error")), _plain(value.get("trace_id"))


def _plain(value: JsonValue) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else compact_json(value)


def _short(text: str, most: int) -> str:
    """Return the platform's error text for a log: one line of at most `most` characters, without phone
    numbers.
    """
    spaced = " ".join(text[: 16 * LONGEST_REASON].split())
    plain = "".join(character for character in spaced if character.isprintable())
    return _PHONE.sub("+...", plain)[:most].rstrip()
