"""Requests for money: payment buttons with a ``ref_id``, and invoices (interface sections 2.3, 2.4, 3).

A bill is open until a person pays. Paid money belongs to the bot only after a verify has captured it. Money
that isn't captured within an hour is refunded. Pure: the time `now` is an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Literal, TypeAlias, final

import attrs

from ..wire.ids import ChatId, SenderId
from ..wire.markup import Currency
from ..wire.results import PaymentState
from .faults import Switches

BillState: TypeAlias = Literal["open", "paid", "captured", "refunded", "expired"]


@final
@attrs.define(eq=False)
class Taking:
    """One payment of a bill."""

    payer: SenderId
    amount: int
    currency: Currency
    paid_at: int
    captured_at: int | None = None
    refunded_at: int | None = None

    @property
    def waits(self) -> bool:
        """Whether the money still waits for a capture or a refund."""
        return self.captured_at is None and self.refunded_at is None


@final
@attrs.define(eq=False)
class Bill:
    """A request for money, and its payments.

    Attributes:
        kind: a payment button, or an invoice.
        id: the button's ``ref_id``, or the invoice's id.
        expires_at: wall milliseconds from which the bill can't be paid; None for never.
    """

    kind: Literal["payment", "invoice"]
    id: str
    chat_id: ChatId
    amount: int
    currency: Currency
    description: str = attrs.field(repr=False)
    expires_at: int | None = None
    takings: list[Taking] = attrs.field(factory=list[Taking])

    def state(self, now: int) -> BillState:
        """Return the bill's state.

        A bill with a captured payment is ``captured``. If no payment is captured, the newest payment decides.
        Without payments, the bill is ``open`` or ``expired``.
        """
        if any(taking.captured_at is not None for taking in self.takings):
            return "captured"
        if self.takings:
            return "paid" if self.takings[-1].waits else "refunded"
        return "expired" if self.is_expired(now) else "open"

    def is_expired(self, now: int) -> bool:
        return self.expires_at is not None and now >= self.expires_at

    def verify(self, now: int, switches: Switches) -> tuple[PaymentState, Taking | None]:
        """Capture paid money. Return the payment state, and the payment if this call captured its money."""
        for taking in self.takings:
            if taking.waits:
                taking.captured_at = now
                return PaymentState(True, taking.amount), taking
        captured = self._captured()
        if captured is not None and switches.second_verify == "verified":
            return PaymentState(True, captured.amount), None
        return PaymentState(False, self.amount), None

    def inquire(self, switches: Switches) -> PaymentState:
        """Return the payment state without capturing anything."""
        if (captured := self._captured()) is not None:
            return PaymentState(True, captured.amount)
        paid = next((taking for taking in self.takings if taking.waits), None)
        if paid is not None and switches.inquiry_sees_paid:
            return PaymentState(True, paid.amount)
        return PaymentState(False, self.amount)

    def _captured(self) -> Taking | None:
        return next((taking for taking in self.takings if taking.captured_at is not None), None)


@final
class Bills:
    """All bills, and the schedule of the refunds."""

    def __init__(self) -> None:
        self._payments: dict[str, Bill] = {}
        self._invoices: dict[str, Bill] = {}
        # Payments, oldest first: refunds fall due in the same order, so a check for due refunds is cheap.
        self._paid: deque[tuple[Bill, Taking]] = deque()

    def __iter__(self) -> Iterator[Bill]:
        yield from self._payments.values()
        yield from self._invoices.values()

    def payment(self, ref_id: str) -> Bill | None:
        """Return the bill of the payment button with this ``ref_id``; None if no such button was shown."""
        return self._payments.get(ref_id)

    def invoice(self, invoice_id: str) -> Bill | None:
        """Return the invoice of this id, or None."""
        return self._invoices.get(invoice_id)

    def add(self, bill: Bill) -> None:
        """Add a bill. If a bill of this kind and id exists already, the existing bill stays."""
        kept = self._payments if bill.kind == "payment" else self._invoices
        kept.setdefault(bill.id, bill)

    def restore(self, bill: Bill) -> None:
        """Add a saved bill. The refunds of uncaptured payments keep their times."""
        self.add(bill)
        self._paid.extend((bill, taking) for taking in bill.takings if taking.waits)
        self._paid = deque(sorted(self._paid, key=lambda paid: paid[1].paid_at))

    def take(self, bill: Bill, payer: SenderId, amount: int, currency: Currency, now: int) -> Taking:
        """Add a payment to the bill. The money is refunded unless a verify captures it within an hour."""
        taking = Taking(payer, amount, currency, now)
        bill.takings.append(taking)
        self._paid.append((bill, taking))
        return taking

    def lapse(self, now: int, window: int) -> Iterator[tuple[Bill, Taking, int]]:
        """Refund the payments that no verify captured within `window` ms; yield each with its refund time."""
        while self._paid:
            bill, taking = self._paid[0]
            due = taking.paid_at + window
            if taking.waits and now < due:
                return
            self._paid.popleft()
            if taking.waits:
                taking.refunded_at = due
                yield bill, taking, due
