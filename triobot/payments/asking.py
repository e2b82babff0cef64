"""Requests to the platform about a payment, and the conversion of the answers.

The lane retries failed requests. A verify that may have taken effect isn't retried, because an inquiry must
be sent before the next verify. Each of these requests has a deadline of its own, because a payment must be
verified within an hour.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import trio

from ..errors import RefusedError, RemoteProtocolError, TransportError
from ..seams.outbox import Outbox, Urgency
from ..wire.ids import ChatId, InvoiceId
from ..wire.operations import (
    EditMessage,
    InquireInvoice,
    InquirePayment,
    Operation,
    VerifyInvoice,
    VerifyPayment,
)
from ..wire.results import PaymentState
from .entry import Entry
from .facts import AnswerWord, PaymentAnswer

To: TypeAlias = Literal["verify", "inquire"]

PATIENCE: Final = 30.0
"""Seconds for an answer, including the lane's retries."""
_WORDS: Final[dict[int, AnswerWord]] = {400: "400", 403: "403"}


async def ask(outbox: Outbox, entry: Entry, to: To) -> PaymentAnswer:
    """Verify or inquire about an entry; a missing or unreadable answer is "unknown"."""
    operation: Operation[PaymentState]
    if entry.kind == "button":
        kind = VerifyPayment if to == "verify" else InquirePayment
        operation = kind(entry.chat_id, entry.id)
    else:
        assert entry.invoice_id is not None, "the table asks about nothing that has no name"
        invoice = VerifyInvoice if to == "verify" else InquireInvoice
        operation = invoice(entry.chat_id, entry.invoice_id)
    return await _answer(outbox, operation, to)


async def look_up(outbox: Outbox, chat_id: ChatId, invoice_id: InvoiceId) -> PaymentAnswer:
    """Inquire about an invoice that may belong to this bot; nothing is captured."""
    return await _answer(outbox, InquireInvoice(chat_id, invoice_id), "inquire")


async def remove_button(outbox: Outbox, entry: Entry) -> bool:
    """Edit the message so that its buttons disappear; return False on failure."""
    if entry.message_id is None:
        return False
    with trio.move_on_after(PATIENCE):
        try:
            edit = EditMessage(entry.chat_id, entry.message_id, entry.text)
            await outbox.perform(edit, urgency=Urgency.BESIDE)
        except (RefusedError, TransportError, RemoteProtocolError):
            return False
        return True
    return False


async def _answer(outbox: Outbox, operation: Operation[PaymentState], to: To) -> PaymentAnswer:
    word: AnswerWord = "unknown"
    amount: int | None = None
    with trio.move_on_after(PATIENCE):
        try:
            state = await outbox.perform(operation, urgency=Urgency.MONEY)
        except RefusedError as error:
            word = _WORDS.get(error.status, "unknown")
        except (TransportError, RemoteProtocolError):
            pass
        else:
            word, amount = "verified" if state.verified else "error", state.amount
    return PaymentAnswer(to, word, amount)
