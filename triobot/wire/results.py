"""What the platform answers, as values (interface section 4)."""

from __future__ import annotations

from typing import final

import attrs

from .ids import InvoiceId, MessageId, Recipient, as_invoice_id, as_message_id, as_recipient
from .rules import JsonValue, check_integer, is_a


@final
@attrs.frozen
class Sent:
    """A message of ours: what `send` returns, and `edit` and `delete` take."""

    chat_id: Recipient = attrs.field(converter=as_recipient, repr=False)
    id: MessageId = attrs.field(converter=as_message_id)


@final
@attrs.frozen
class InvoiceCreated:
    """An invoice's id, to be kept: its callback and its verification name it."""

    id: InvoiceId = attrs.field(converter=as_invoice_id)


def _is_captured(instance: PaymentState, attribute: attrs.Attribute[int | None], value: object) -> None:
    if value is not None or instance.verified:
        check_integer("amount", value, least=0)


@final
@attrs.frozen
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
@attrs.frozen
class Answer:
    """The JSON of an operation outside the interface, unread; None for an empty body."""

    value: JsonValue = attrs.field(repr=False)
