"""The platform's answers to results and refusals (interface sections 4 and 7; gaps 22, 23 and 30)."""

from __future__ import annotations

import re
from typing import Final, cast

from typing_extensions import TypeVar

from ..errors import (
    BadRequestError,
    ForbiddenError,
    LocalProtocolError,
    RefusedError,
    RemoteProtocolError,
)
from .content import Descriptor
from .ids import MessageId, as_invoice_id, as_message_id
from .json_text import read_json
from .operations import (
    AnswerCallback,
    CreateInvoice,
    DeleteMessage,
    EditMessage,
    InquireInvoice,
    InquirePayment,
    Operation,
    SendAction,
    SendMessage,
    Upload,
    VerifyInvoice,
    VerifyPayment,
)
from .results import Answer, InvoiceCreated, PaymentState, Sent
from .rules import JsonValue, compact_json, is_digits, their_fault

R = TypeVar("R")

LONGEST_REASON: Final = 200
LONGEST_TRACE_ID: Final = 100

_PLAIN_ID: Final = re.compile(rb'\{"id": ?([1-9][0-9]{0,14})\}')
# Not JSON, for those that read the body themselves.
_UNREAD: Final = b"?"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z_]{0,31}", re.ASCII)
_FIELDS: Final = 8
_PHONE: Final = re.compile(r"\+[0-9]{4,15}", re.ASCII)


def is_taken(status: int) -> bool:
    """Return whether a status says that the platform took the request. The interface names 200 alone."""
    return 200 <= status < 300


def decode_result(operation: Operation[R], status: int, body: bytes) -> R:
    """Read the answer to an operation.

    Raises:
        BadRequestError: status 400.
        ForbiddenError: status 403.
        RefusedError: any other status but 2xx; or a 2xx whose body names an error.
        RemoteProtocolError: a 2xx that isn't readable as this operation's result. Whether the operation
            took effect is then unknown. Never for a send: what was answered 2xx was taken, and a message
            whose id can't be read has none.

    Platform: interface sections 4 and 7; gap 36.
    """
    if status != 200 and not is_taken(status):
        raise _refusal(operation, status, body)
    if isinstance(operation, SendMessage) and (plain := _PLAIN_ID.fullmatch(body)) is not None:
        # Nearly every answer of all is this one, and there is nothing else to be read in it.
        return cast("R", Sent(operation.chat_id, MessageId(int(plain[1]))))
    try:
        answer = read_json(body)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and answer.get("error"):
        raise _refusal(operation, status, body)
    try:
        return cast("R", _read_result(operation, answer, body))
    except RemoteProtocolError as error:
        raise RemoteProtocolError(error.field, error.rule, raw=body) from None


def _read_result(operation: Operation[object], answer: JsonValue, body: bytes) -> object:
    match operation:
        case EditMessage() | DeleteMessage() | SendAction() | AnswerCallback():
            return None
        case SendMessage():
            return Sent(operation.chat_id, _message_id(answer))
        case CreateInvoice():
            id = _fields(answer).get("id")
            if isinstance(id, bool) or not isinstance(id, int | str):
                raise RemoteProtocolError("id", "must be text or an integer")
            with their_fault("id"):
                return InvoiceCreated(as_invoice_id(str(id)))
        case VerifyInvoice() | InquireInvoice() | VerifyPayment() | InquirePayment():
            return _payment_state(_fields(answer))
        case Upload():
            with their_fault("descriptor"):
                return Descriptor.from_object(_fields(answer))
        case _:
            return _answer(body)


def take_unread(operation: Operation[R]) -> R:
    """Return the result of an operation that got a 2xx whose body was not read.

    Raises:
        RemoteProtocolError: the operation's result is in the body.
    """
    return cast("R", _read_result(operation, None, _UNREAD))


def shape_of(body: bytes) -> str:
    """Describe the shape of an answer for a log, without its content."""
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


def _message_id(answer: JsonValue) -> MessageId | None:
    id = answer.get("id") if isinstance(answer, dict) else None
    try:
        return as_message_id(id) if isinstance(id, int | str) else None
    except LocalProtocolError:
        return None


def _fields(answer: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(answer, dict):
        raise RemoteProtocolError("body", "must be a JSON object")
    return answer


def _payment_state(fields: dict[str, JsonValue]) -> PaymentState:
    status, amount = fields.get("status"), fields.get("amount")
    if status != "verified" and status != "error":
        raise RemoteProtocolError("status", "must be verified or error")
    if isinstance(amount, str) and is_digits(amount):
        amount = int(amount)
    if amount is None and status == "error":
        return PaymentState(verified=False, amount=None)
    if not isinstance(amount, int):
        raise RemoteProtocolError("amount", "must be an integer, and is needed when verified")
    with their_fault():
        return PaymentState(verified=status == "verified", amount=amount)


def _answer(body: bytes) -> Answer:
    if not body.strip():
        return Answer(None)
    try:
        return Answer(read_json(body))
    except ValueError:
        raise RemoteProtocolError("body", "must be JSON") from None


# --- refusals


def _refusal(operation: Operation[object], status: int, body: bytes) -> RefusedError:
    words, trace = _said(body)
    for told in _private(operation):
        words = words.replace(told, "...")
    reason = _short(words, LONGEST_REASON)
    trace_id = _short(trace, LONGEST_TRACE_ID) or None
    if status == 400:
        return BadRequestError(operation.path, status, reason, trace_id)
    if status == 403:
        return ForbiddenError(operation.path, status, reason, trace_id)
    return RefusedError(operation.path, status, reason, trace_id)


def _private(operation: Operation[object]) -> list[str]:
    """List the operation's texts and phone number, which a log must not show if the platform repeats them."""
    private: list[str] = []
    match operation:
        case SendMessage(content=str(text)) | EditMessage(content=str(text)):
            private.append(text)
        case AnswerCallback(text=text) | CreateInvoice(description=text):
            private.append(text)
        case _:
            pass
    recipient: object = getattr(operation, "chat_id", None)
    if isinstance(recipient, str) and recipient.startswith("+"):
        private.append(recipient[1:])
    # Shorter ones would cut the platform's own words to pieces.
    return [told for told in private if len(told) >= 4]


def _said(body: bytes) -> tuple[str, str]:
    """Return the platform's reason and its trace id, out of JSON, plain text or nothing."""
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
    """Make the platform's reason fit for a log: one line of at most `most` characters, no phone numbers."""
    spaced = " ".join(text[: 16 * LONGEST_REASON].split())
    plain = "".join(character for character in spaced if character.isprintable())
    return _PHONE.sub("+...", plain)[:most].rstrip()
