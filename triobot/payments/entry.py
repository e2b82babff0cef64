"""One payment in the ledger: the request, its progress, and the times of its duties.

An entry contains all data about a payment: after a crash, the next duties follow from the entry alone. An
entry is frozen; `ledger.move` returns the next entry. All times are wall milliseconds.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, final

import attrs

from ..seams.money import PaymentGoods, PaymentNotice
from ..wire.events import Sender
from ..wire.ids import ChatId, InvoiceId, MessageId, RefId
from ..wire.markup import Currency

Kind: TypeAlias = Literal["button", "invoice"]

State: TypeAlias = Literal[
    "prepared",
    "sending",
    "unsure",
    "open",
    "check",
    "verifying",
    "closing",
    "verified",
    "delivered",
    "settled",
    "mismatch",
    "lapsed",
    "refused",
    "void",
    "resolved",
]

STATES: Final[dict[State, str]] = {
    "prepared": "the payment is stored, and nothing was sent yet",
    "sending": "the button or invoice is being sent to the platform",
    "unsure": "the button or invoice was sent, but the outcome of the send is unknown",
    "open": "the button or invoice is on the user's screen",
    "check": "the platform reported something about the payment, and triobot will verify soon",
    "verifying": "a verify has begun, and its outcome isn't certain yet",
    "closing": "no conversation waits any more, but the user may still pay",
    "verified": "the money is captured, but the goods aren't given yet",
    "delivered": "the aside has the payment, and has not ended normally yet",
    "settled": "the goods are given",
    "mismatch": "a wrong amount was captured, and an operator must pay it back by hand",
    "lapsed": "the user did not pay, and can't pay any more",
    "refused": "the platform refused to show the button or invoice",
    "void": "the conversation ended before anything was sent",
    "resolved": "an operator closed the payment",
}

UNPAID: Final[tuple[State, ...]] = ("prepared", "sending", "unsure", "open", "check", "verifying", "closing")
CAPTURED: Final[tuple[State, ...]] = ("verified", "delivered", "settled", "mismatch")
ENDED: Final[tuple[State, ...]] = ("lapsed", "refused", "void", "resolved")

Taker: TypeAlias = Literal["conversation", "handler", "nobody"]
"""Recipient of the payment once captured.

"conversation": the conversation that waits; after the capture, the aside for the item. "handler": the aside
for the item. "nobody": no recipient. Such a payment is never verified, because only unverified money goes
back to the user.
"""

NOTHING: Final = "[1,null]"
"""The record of an unknown item."""

Said: TypeAlias = Literal["error", "unknown"]


@final
@attrs.frozen
class Entry:
    """One payment.

    Attributes:
        id: a button's ``ref_id``; for an invoice, an internal number that is never sent.
        item: the bought item, as a text of `triobot.seams.values.encode_value`.
        text: the message's text; an edit has to repeat the text.
        owner: opaque key of the operation and conversation that requested the payment.
        taker: recipient of the payment if the payment is captured now.
        late: the next taker if the conversation ends before the capture.
        epoch: number of restores of the store from a backup when the entry was created.
        expires_at: when the conversation stops waiting; for an invoice, when the user can no longer pay.
        revision: grows with every move; the store refuses a move that was decided from another revision.
        lost: whether the answer to a send was lost: the button may be on the screen twice, or without a known
            id.
        sent_at: earliest moment at which the user may have seen the button or invoice.
        hinted_at: time of the last callback, whatever its content.
        claimed_at: time of the last callback that may mean that the payment was paid.
        claims: number of callbacks since the last time at which the payment was certainly unpaid. Callbacks
            with a code in `UNTAKEN` don't count.
        tries: number of examinations since the last callback. Examinations caused by a start of the program
            or by a standstill don't count.
        hinted: whether a callback came since the last verify began.
        ask: first request of the next examination; "inquire" once a verify may have been sent.
        asked_at: when the last verify began.
        verify_said: answer of the last verify; None before the answer, and after an inquiry's first
            "verified".
        seen_at: when an inquiry first said "verified"; None once a verify has said "verified".
        doubt_at: start of the last verify with a lost answer. This verify may still take effect for a while.
            None once the verify certainly captured nothing.
        clean_at: latest known moment at which no paid money waited for its capture. The hour in which a
            verify can capture money begins no earlier.
        clean: whether the last examination found the payment certainly unpaid.
        decline: a callback's code for a decline, not yet confirmed by an "error" of both verify and inquiry.
        said: last retry or decline notice for the waiting conversation; None once the notice is outdated.
        captured: captured amount, according to the platform.
        failures: number of failures of the author's aside for the payment.
        ended_at: when the conversation stopped waiting.
        gone_at: when the button disappeared from the user's screen.
        remove_failures: number of failed attempts to remove the button.
        redelivered: whether the author's code may have received the payment before.
        uncertain: whether the store was restored from a backup, and an earlier capture is possible.
        held: whether the payment was captured before a restore. Such a payment is delivered only on an
            operator's request.
        check_at, remove_at, deliver_at: due times of an examination, of the button's removal, and of the
            delivery.
        warned: the warnings about the payment's age that were raised and still apply.
        blind_at: when the warning about missing answers was last raised.
        watched_at: start of the unbroken watch: the program's start, or the end of a standstill.
    """

    id: RefId
    kind: Kind
    chat_id: ChatId
    amount: int
    currency: Currency
    item: str = attrs.field(repr=False)
    text: str = attrs.field(repr=False)
    owner: str
    taker: Taker
    late: Taker
    made_at: int
    expires_at: int
    epoch: int = 0
    state: State = "prepared"
    revision: int = 0
    invoice_id: InvoiceId | None = None
    message_id: MessageId | None = None
    payer: Sender | None = attrs.field(default=None, repr=False)
    lost: bool = False
    sent_at: int | None = None
    hinted_at: int | None = None
    claimed_at: int | None = None
    claims: int = 0
    tries: int = 0
    hinted: bool = False
    ask: Literal["verify", "inquire"] = "verify"
    asked_at: int | None = None
    verify_said: Said | None = None
    seen_at: int | None = None
    doubt_at: int | None = None
    clean_at: int | None = None
    clean: bool = False
    decline: int | None = None
    said: PaymentNotice | None = attrs.field(default=None, repr=False)
    captured: int | None = None
    verified_at: int | None = None
    delivered_at: int | None = None
    settled_at: int | None = None
    failures: int = 0
    ended_at: int | None = None
    gone_at: int | None = None
    remove_failures: int = 0
    redelivered: bool = False
    uncertain: bool = False
    held: bool = False
    check_at: int | None = None
    remove_at: int | None = None
    deliver_at: int | None = None
    warned: tuple[str, ...] = ()
    blind_at: int | None = None
    watched_at: int | None = None

    @property
    def key(self) -> str:
        """Idempotency key for the author's code; never changes."""
        return f"{self.kind}-{self.id}"

    @property
    def verifiable(self) -> bool:
        """Whether the payment has an id that can be sent to the platform in a verify."""
        return self.kind == "button" or self.invoice_id is not None

    @property
    def wanted(self) -> bool:
        """Whether a conversation or an aside is the taker; an unwanted payment is never verified."""
        return self.taker != "nobody"

    @property
    def to_send(self) -> bool:
        """Whether the message still has to be sent: it wasn't sent, or the outcome is unknown."""
        if self.state in ("prepared", "sending", "unsure"):
            return True
        # After a start of the program, unclear payments are examined, which changes their state. In "check"
        # and "verifying", only an id or a callback shows that the user has the message.
        named = self.message_id is not None or self.invoice_id is not None or self.hinted_at is not None
        return self.state in ("check", "verifying") and not named

    def may_be_given(self, *, uncertain: bool) -> bool:
        """Return whether the aside that got the payment may still give the goods.

        Args:
            uncertain: the value of `Captured.uncertain` when the aside got the payment.
        """
        if self.taker != "handler":
            return False
        # If the payment is settled, the aside that settled it has continued as another aside
        # (`Chat.continue_as`), which may give more goods.
        mine = self.state == "delivered" and not self.held and (uncertain or not self.uncertain)
        return mine or self.state == "settled"

    @property
    def news(self) -> PaymentNotice | None:
        """Newest notice for the conversation that requested the payment; None: keep waiting."""
        if self.captured is not None and self.state != "mismatch" and self.ending != "handed_over":
            return PaymentNotice("paid", captured=self.captured)
        if self.taker != "conversation" or self.state in ENDED:
            return PaymentNotice("handed_over", captured=self.captured)
        if self.state == "mismatch":
            return PaymentNotice("mismatch", captured=self.captured)
        return self.said

    @property
    def ending(self) -> PaymentGoods | None:
        """State of the goods; None while the payment is unpaid, or while the goods are being given."""
        if self.captured is None or self.state == "mismatch":
            return None
        if self.state == "settled" and self.taker == "handler":
            return "given"
        on_its_way = self.state == "delivered" or (self.state == "verified" and self.deliver_at is not None)
        return None if on_its_way and not self.redelivered else "handed_over"
