"""What the platform answers, as values (interface section 4)."""

from __future__ import annotations

from typing import final

import attrs

from ..base.frozen import guarded
from ..errors import RemoteProtocolError
from .ids import InvoiceId, MessageId, Recipient, as_invoice_id, as_optional_message_id, as_recipient
from .rules import JsonValue, check_integer, is_a


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
