"""What the platform answers, as values, and how each is read (interface section 4)."""

from __future__ import annotations

from typing import Any, final

import attrs

from ..base.frozen import guarded
from ..errors import LocalProtocolError, RemoteProtocolError
from .content import Descriptor
from .ids import (
    InvoiceId,
    MessageId,
    Recipient,
    as_invoice_id,
    as_message_id,
    as_optional_message_id,
    as_recipient,
)
from .json_text import read_json
from .rules import JsonValue, check_integer, is_a, is_digits, their_fault


@final
@guarded
class Sent:
    """A message of ours: what `send` returns, and `edit` and `delete` take.

    Attributes:
        id: None if the platform took the message, and its answer named no id that can be read.
    """

    chat_id: Recipient = attrs.field(converter=as_recipient, repr=False)
    id: MessageId | None = attrs.field(default=None, converter=as_optional_message_id)

    @property
    def message_id(self) -> MessageId:
        """Return the id, for code that can't do without it.

        Raises:
            RemoteProtocolError: the platform named none; so the message can't be edited or deleted. The
                platform's fault.
        """
        if self.id is None:
            raise RemoteProtocolError(
                "id", "was not in the answer to the send: the message can't be edited or deleted"
            )
        return self.id


@final
@guarded
class InvoiceCreated:
    """An invoice's id, to be kept: its callback and its verification name it."""

    id: InvoiceId = attrs.field(converter=as_invoice_id)


def _is_captured(instance: PaymentState, attribute: attrs.Attribute[int | None], value: object) -> None:
    if value is not None or instance.verified:
        check_integer("amount", value, least=0)


@final
@guarded
class PaymentState:
    """The answer of verify and inquiry.

    Attributes:
        verified: the platform's word was ``verified``; else it was ``error``, which means "not paid as far
            as the platform says now" and nothing stronger.
        amount: what was captured; always there when verified.
    """

    verified: bool = attrs.field(validator=is_a(bool))
    amount: int | None = attrs.field(validator=_is_captured)


@final
@guarded
class Answer:
    """The JSON of an operation outside the interface, unread; None for an empty body."""

    value: JsonValue = attrs.field(repr=False)


# --- from the operation, the answer's JSON, and its bytes


def read_nothing(operation: object, answer: JsonValue, body: bytes) -> None:
    """Return nothing: whatever the answer says, the operation has taken effect."""


def read_sent(operation: Any, answer: JsonValue, body: bytes) -> Sent:
    """Read the message's id. A message was sent even if nothing can be read."""
    id = answer.get("id") if isinstance(answer, dict) else None
    try:
        number = as_message_id(id) if isinstance(id, int | str) else None
    except LocalProtocolError:
        number = None
    return Sent(operation.chat_id, number)


def read_invoice_created(operation: object, answer: JsonValue, body: bytes) -> InvoiceCreated:
    """Read the invoice's id."""
    id = _fields(answer).get("id")
    if isinstance(id, bool) or not isinstance(id, int | str):
        raise RemoteProtocolError("id", "must be text or an integer")
    with their_fault("id"):
        return InvoiceCreated(as_invoice_id(str(id)))


def read_payment_state(operation: object, answer: JsonValue, body: bytes) -> PaymentState:
    """Read where a payment stands."""
    fields = _fields(answer)
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


def read_descriptor(operation: object, answer: JsonValue, body: bytes) -> Descriptor:
    """Read what stands for an uploaded file."""
    with their_fault("descriptor"):
        return Descriptor.from_object(_fields(answer))


def read_answer(operation: object, answer: JsonValue, body: bytes) -> Answer:
    """Take the JSON as it is."""
    if not body.strip():
        return Answer(None)
    try:
        return Answer(read_json(body))
    except ValueError:
        raise RemoteProtocolError("body", "must be JSON") from None


def _fields(answer: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(answer, dict):
        raise RemoteProtocolError("body", "must be a JSON object")
    return answer
