"""One payment as the ledger keeps it: what was asked for, how far it got, and what is due when.

An entry is the whole truth about a payment: whoever reads it after a crash knows what to do next. It is
frozen; `ledger.move` makes the next one. All times are wall milliseconds.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, final

import attrs

from ..base.frozen import guarded
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
    "prepared": "written down; nothing was sent",
    "sending": "the button or invoice is on its way to the platform",
    "unsure": "nobody knows whether it arrived",
    "open": "on the user's screen",
    "check": "to be verified soon: something was said about it",
    "verifying": "a verify has been started, and its outcome isn't known for certain",
    "closing": "nobody waits for it any more; watched until it can't be paid",
    "verified": "the money is ours; nobody has the goods yet",
    "delivered": "the aside for its item has it",
    "settled": "the goods are given",
    "mismatch": "another amount was captured; an operator pays it back by hand",
    "lapsed": "not paid, and can't be any more",
    "refused": "the platform refused to show it",
    "void": "given up before it was sent",
    "resolved": "closed by an operator",
}

UNPAID: Final[tuple[State, ...]] = (
    "prepared",
    "sending",
    "unsure",
    "open",
    "check",
    "verifying",
    "closing",
)
CAPTURED: Final[tuple[State, ...]] = ("verified", "delivered", "settled", "mismatch")
ENDED: Final[tuple[State, ...]] = ("lapsed", "refused", "void", "resolved")

Taker: TypeAlias = Literal["conversation", "handler", "nobody"]
"""Who is to get it: the conversation that waits, and once it is captured the aside for its item; or nobody,
and then it is never verified: not verifying is the only refund there is."""

NOTHING: Final = "[1,null]"
"""The record of an item that nobody knows."""

Said: TypeAlias = Literal["error", "unknown"]


@final
@guarded
class Entry:
    """One payment.

    Attributes:
        id: a button's ``ref_id``; of an invoice, a number of ours that nobody else sees.
        item: what is bought, as a record of `triobot.seams.values`.
        text: what the message says; an edit has to repeat it.
        owner: which operation of which conversation asked for it; opaque here.
        taker: who gets it when it is verified.
        late: who gets it if the conversation ends before it is captured.
        epoch: how often the store had been restored from a backup when this was written.
        expires_at: when a conversation stops waiting; of an invoice, when it can't be paid any more.
        revision: grows with every move; a move that starts from another revision is refused by the store.
        lost: the answer to a send of it was lost, so it may be on the screen twice, or without an id.
        sent_at: the earliest moment at which the user may have seen it.
        hinted_at: the last callback, whatever it said.
        claimed_at: the last callback that may mean that it was paid.
        claims: how many callbacks there were since it was certainly not paid, but those that say that no
            money left the wallet.
        tries: examinations since the last callback, but those that starts of the program brought.
        hinted: a callback came since the last verify was begun.
        ask: what an examination starts with; the inquiry, once a verify may have left.
        asked_at: when the last verify was begun.
        verify_said: what that verify answered; None until it did, and after an inquiry said "verified".
        seen_at: since when the inquiry has said "verified", without a verify that did.
        doubt_at: when the last verify was begun of which an answer was lost: it may take effect for a while
            yet. None again once it is certain that it took nothing.
        clean_at: it was certainly not paid then; the hour can't have begun earlier.
        clean: the last examination said so.
        decline: a code that will be believed once verify and inquiry have said "error" after it.
        said: what the conversation that waits was told last and may not have heard; None once it is over.
        captured: the amount that the platform says it took.
        failures: how often the author's aside has failed with it.
        ended_at: when the conversation stopped waiting for it.
        gone_at: when its button went from the user's screen.
        remove_failures: how often removing the button has failed.
        redelivered: the author's code may have seen it before.
        uncertain: the store was restored from a backup, and nobody knows whether it was captured before.
        held: it was captured before that: only an operator hands it out.
        check_at, remove_at, deliver_at: when verify or inquiry, removing the button, delivery are due.
        warned: warnings about its age that were raised and still hold.
        blind_at: when it was last said that nothing certain is heard of it.
        watched_at: since when it is watched without a break: a start, or the end of a standstill.
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
        """Return the idempotency key that the author's code gets, the same for ever."""
        return f"{self.kind}-{self.id}"

    @property
    def verifiable(self) -> bool:
        """Tell whether the platform can be asked about it: we know its name there."""
        return self.kind == "button" or self.invoice_id is not None

    @property
    def wanted(self) -> bool:
        """Tell whether a conversation or an aside would take it; anything else is never verified."""
        return self.taker != "nobody"

    def may_be_given(self, *, uncertain: bool) -> bool:
        """Tell whether the aside that has it may give the goods: it was not taken away since.

        Args:
            uncertain: the aside was told so when it got it, as what an operator hands out is marked.
        """
        if self.taker != "handler":
            return False
        # Settled by this aside itself, which has gone on as another: it may have more to give.
        mine = self.state == "delivered" and not self.held and (uncertain or not self.uncertain)
        return mine or self.state == "settled"

    @property
    def ending(self) -> PaymentGoods | None:
        """Return what became of the goods; None: they are not paid for, or on their way."""
        if self.captured is None or self.state == "mismatch":
            return None
        if self.state == "settled" and self.taker == "handler":
            return "given"
        on_its_way = self.state == "delivered" or (self.state == "verified" and self.deliver_at is not None)
        return None if on_its_way and not self.redelivered else "handed_over"
