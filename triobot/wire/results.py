"""The platform's answers as values, and their readers (interface section 4)."""

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
from .rules import JsonValue, check_integer, is_a, is_digits, their_fault


@final
@guarded
class Sent:
    """A message of the bot. `send` returns this value; `edit` and `delete` accept it.

    Attributes:
        id: None if the platform accepted the message but its answer contains no readable id.
    """

    chat_id: Recipient = attrs.field(converter=as_recipient, repr=False)
    id: MessageId | None = attrs.field(default=None, converter=as_optional_message_id)

    @property
    def message_id(self) -> MessageId:
        """The message's id, never None.

        Raises:
            RemoteProtocolError: the platform's answer contained no id, so the message can't be edited or
                deleted. The platform's fault.
        """
        if self.id is None:
            raise RemoteProtocolError(
                "id", "was not in the answer to the send: the message can't be edited or deleted"
            )
        return self.id


@final
@guarded
class InvoiceCreated:
    """A new invoice's id. Store the id: the invoice's callback contains the id, and `VerifyInvoice` needs
    it.
    """

    id: InvoiceId = attrs.field(converter=as_invoice_id)


def _is_captured(instance: PaymentState, attribute: attrs.Attribute[int | None], value: object) -> None:
    if value is not None or instance.verified:
        check_integer("amount", value, least=0)


@final
@guarded
class PaymentState:
    """Answer to a verify or an inquiry.

    Attributes:
        verified: whether the platform answered ``verified``. The other possible answer, ``error``, only means
            that the platform regards the payment as not paid now.
        amount: captured amount; always present if verified.
    """

    verified: bool = attrs.field(validator=is_a(bool))
    amount: int | None = attrs.field(validator=_is_captured)


# --- result readers: (operation, decoded answer, answer's bytes)


def read_nothing(operation: object, answer: JsonValue, body: bytes) -> None:
    """Return None. After a 2xx the operation has taken effect, so the answer's content is ignored."""


def read_sent(operation: Any, answer: JsonValue, body: bytes) -> Sent:
    """Read the message's id. If the answer is unreadable, the id is None: the message was sent anyway."""
    id = answer.get("id") if isinstance(answer, dict) else None
    try:
        number = as_message_id(id) if isinstance(id, int | str) else None
    except LocalProtocolError:
        number = None
    return Sent(operation.chat_id, number)


def read_invoice_created(operation: object, answer: JsonValue, body: bytes) -> InvoiceCreated:
    id = _fields(answer).get("id")
    if isinstance(id, bool) or not isinstance(id, int | str):
        raise RemoteProtocolError("id", "must be text or an integer")
    with their_fault("id"):
        return InvoiceCreated(as_invoice_id(str(id)))


def read_payment_state(operation: object, answer: JsonValue, body: bytes) -> PaymentState:
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
    with their_fault("descriptor"):
        return Descriptor.from_object(_fields(answer))


def _fields(answer: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(answer, dict):
        raise RemoteProtocolError("body", "must be a JSON object")
    return answer
