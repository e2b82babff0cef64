"""The ledger of a branch, rebuilt from the charges' operations: journals lack the ledger's rows.

A charge that waits at the notch gets the state that it had at the notch: shown to the user, paid and not
verified, declined and under inquiry, or captured with the goods not yet delivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from ...conversations.calls.signals import Call, asked_of
from ...conversations.revival.stored import Stored, read_opening
from ...engine.records import ENDED, ENDS
from ...payments.entries import plan
from ...payments.entry import Entry
from ...payments.facts import Fact, Hint, PaymentAnswer, Plain, SendOk
from ...payments.records import numbered, row_of
from ...seams.money import Captured, PaymentNotice, PutPayment
from ...wire.ids import InvoiceId
from .past import OpenCharge, Past, notch_starts
from .staging import ChatStage

_NO_ENOUGH_MONEY: Final = 1000
_DECLINED: Final = 1001


def ledger_of(past: Past, stage: ChatStage, beside: Sequence[Stored] = ()) -> list[PutPayment]:
    """Return the writes that restore the payments as of the notch; restore the bills on the platform too.

    Args:
        beside: the chat's other conversations as of the notch; some may be asides that deliver goods.
    """
    giving = {money.id: (money, one) for one in (past.stored, *beside) if (money := _given_by(one))}
    rows = [
        _row(_entry_of(charge), _facts_of(charge, past, stage, giving.pop(charge.id, None)), past.at)
        for charge in past.charges
    ]
    given = [(_entry_given(money, past.at), _delivered(money, by)) for money, by in giving.values()]
    return [*rows, *(_row(entry, facts, past.at) for entry, facts in given)]


def _entry_of(charge: OpenCharge) -> Entry:
    asked = charge.asked
    return Entry(
        id=charge.id,
        kind=asked.kind,
        chat_id=asked.chat_id,
        amount=asked.amount,
        currency=asked.currency,
        item=asked.item,
        text=asked.text,
        owner=asked.owner,
        taker="conversation",
        late=asked.late,
        made_at=charge.made_at,
        expires_at=asked.expires_at,
    )


def _facts_of(
    charge: OpenCharge, past: Past, stage: ChatStage, given: tuple[Captured, Stored] | None
) -> Sequence[Fact]:
    """Return the facts about a charge as of the notch.

    Args:
        given: the money and the aside that received the money, if there is such an aside.
    """
    asked = charge.asked
    if not charge.sent and asked.kind == "button":
        return [Plain("send_begun")]  # the button is sent again, with the same payment number
    if not charge.sent:
        stage.invoice(past.sent.values(), past.at)  # a repeated request would make a second invoice
    invoice = stage.invoices.get((asked.amount, asked.text)) if asked.kind == "invoice" else None
    sent: list[Fact] = [
        Plain("send_begun"),
        SendOk(charge.message, None if invoice is None else InvoiceId(invoice)),
    ]
    if given is not None:
        # The aside has the money, but the conversation with the charge may not know the outcome yet.
        money, by = given
        if charge.captured is None:
            stage.paid(money, past.at)
        return [*sent, *_verified(money), *_with_aside(by)]
    if charge.captured is not None:
        return [*sent, *_verified(charge.captured)]
    if not charge.claimed:
        return sent
    code = _code_of(charge.notice)
    if code is None:
        amount = None if charge.notice is None else charge.notice.captured
        stage.pay(charge.id if invoice is None else invoice, amount or asked.amount, past.at)
    return [*sent, Hint(code, asked.chat_id, charge.message)]


def _code_of(notice: PaymentNotice | None) -> int | None:
    """Return the platform's error code for the payment; None if the payment may have succeeded."""
    match notice:
        case PaymentNotice(outcome="retry"):
            return notice.code or _NO_ENOUGH_MONEY
        case PaymentNotice(outcome="declined"):
            return notice.code or _DECLINED
        case _:
            return None


def _verified(money: Captured) -> Sequence[Fact]:
    return [
        Hint(None, money.chat_id, None, money.payer),
        Plain("verify_begun"),
        PaymentAnswer("verify", "verified", money.amount),
    ]


def _given_by(stored: Stored) -> Captured | None:
    """Return the money for which this aside delivers the goods; None for other conversations."""
    event = asked_of(read_opening(stored.records[0]).event)
    value: object = event.value if isinstance(event, Call) else None
    return value if isinstance(value, Captured) else None


def _entry_given(money: Captured, at: int) -> Entry:
    return Entry(
        id=money.id,
        kind="button" if money.key.startswith("button") else "invoice",
        chat_id=money.chat_id,
        amount=money.amount,
        currency=money.currency,
        item=money.item,
        text="-",
        owner="",
        taker="handler",
        late="handler",
        made_at=at,
        expires_at=at,
        invoice_id=None if money.key.startswith("button") else InvoiceId(money.reference),
    )


def _delivered(money: Captured, by: Stored) -> Sequence[Fact]:
    return [Plain("send_begun"), SendOk(), *_verified(money), *_with_aside(by)]


def _with_aside(by: Stored) -> Sequence[Fact]:
    """Return the ledger's facts about a payment whose money the aside `by` has received."""
    last = by.records[notch_starts(by.records)[-1]]
    if last[0] == ENDED and last[2] is not None:
        return [Plain("delivered"), Plain("handler_failed")]
    over = last[0] in ENDS or by.row.run > 1  # a function that continues the aside delivers no goods
    return [Plain("delivered"), *([Plain("settled")] if over else [])]


def _row(entry: Entry, facts: Sequence[Fact], at: int) -> PutPayment:
    after = plan(numbered(entry), facts, at).entry
    return PutPayment(row_of(attrs.evolve(after, revision=1)), "made", at)
