"""A handle on one payment, for the conversation that waits for it.

A ticket receives every move of its payment. The conversation's own moves are writes. Such a write has no
effect on a payment with another taker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, MutableMapping
from typing import Final, Literal, final

import trio

from ..seams.money import Captured, MovePayment, PaymentGoods, PaymentNotice
from ..wire.ids import InvoiceId, MessageId, RefId
from .entries import Entries, moving
from .entry import CAPTURED, ENDED, Entry
from .facts import Plain, PlainName, SendOk
from .ledger import Moved

_SENT: Final[dict[str, PlainName]] = {
    "refused": "send_refused",
    "never_left": "send_never_left",
    "unknown": "send_unknown",
}
_HINTS: Final = ("callback", "declined_retry", "declined_final")


@final
class OpenTicket:
    """A conversation's handle on one payment.

    The ticket receives every move of its payment while it is in `register`.

    The methods for moves return writes: store each write together with the conversation's own record.
    """

    def __init__(
        self,
        entries: Entries,
        entry: Entry,
        now: Callable[[], int],
        register: MutableMapping[RefId, OpenTicket],
        since: int = 0,
    ) -> None:
        self._entries = entries
        self._entry = entry
        self._now = now
        self._register = register
        self._notices: deque[PaymentNotice | None] = deque()
        self._news = trio.Event()
        self._tell: Callable[[], None] | None = None
        register[entry.id] = self
        self._catch_up(since)

    @property
    def id(self) -> RefId:
        """Payment number: a button's ``ref_id``."""
        return self._entry.id

    @property
    def to_send(self) -> bool:
        """Whether the message still has to be sent: it wasn't sent, or the outcome is unknown."""
        entry = self._entry
        if entry.state in ("prepared", "sending", "unsure"):
            return True
        # A start of the program examines unclear payments, and so changes their state. In these states only
        # an id or a callback shows that the user has the message.
        named = entry.message_id is not None or entry.invoice_id is not None or entry.hinted_at is not None
        return entry.state in ("check", "verifying") and not named

    @property
    def in_doubt(self) -> bool:
        """Whether the answer to a send was lost."""
        return self._entry.lost

    @property
    def message_id(self) -> MessageId | None:
        """Id of the message with the button; None while the id is unknown."""
        return self._entry.message_id

    @property
    def revision(self) -> int:
        """Revision of the ticket's entry."""
        return self._entry.revision

    def heard(self, moved: Moved) -> None:
        """Update the ticket after a durable move, and wake the waiting code."""
        self._entry = moved.entry
        if moved.notice is not None:
            self._notices.append(moved.notice)
        elif moved.fact in _HINTS and moved.entry.state in ("check", "verifying"):
            self._notices.append(None)
        self._news.set()
        if self._tell is not None and (self._notices or self.ending is not None):
            self._tell()

    def listen(self, news: Callable[[], None] | None) -> None:
        """Register `news`, which the ticket calls when it has a notice, or when the goods' state is final.

        `news` must not wait.

        With None, the ticket receives no more moves.
        """
        self._tell = news
        if news is None:
            self._close()

    @property
    def has_news(self) -> bool:
        """Whether `wait_notice` would return at once."""
        return bool(self._notices)

    def _catch_up(self, since: int) -> None:
        """Queue the notices for a conversation that comes back to its payment."""
        said = self._entry.said
        if self.captured is not None and self._entry.ending != "handed_over":
            self._notices.append(PaymentNotice("paid", captured=self._entry.captured))
        elif self._entry.taker != "conversation" or self._entry.state in ENDED:
            self._notices.append(PaymentNotice("handed_over"))
        elif self._entry.state == "mismatch":
            self._notices.append(PaymentNotice("mismatch", captured=self._entry.captured))
        else:
            if said is not None and said.revision > since:
                self._notices.append(said)
            if self._looked_at():
                self._notices.append(None)

    # --- the lane

    def sent(
        self, *, message_id: MessageId | None = None, invoice_id: InvoiceId | None = None, twice: bool = False
    ) -> MovePayment:
        """Return the write for an accepted send; `twice`: a second message may exist."""
        return moving(self._entries, self.id, SendOk(message_id, invoice_id, twice), now=self._now())

    def not_sent(self, why: Literal["refused", "never_left", "unknown"]) -> MovePayment:
        """Return the write for a send that was refused, never left this machine, or got no answer."""
        return moving(self._entries, self.id, Plain(_SENT[why]), now=self._now())

    # --- waiting

    async def wait_notice(self) -> PaymentNotice | None:
        """Wait for the next notice; None: a callback came, and the payment is being examined."""
        while not self._notices:
            await self._wait_news()
        return self._notices.popleft()

    async def wait_decided(self) -> PaymentNotice | None:
        """Wait until the current examination is decided; None: no examination is in progress, keep waiting.

        Cancellation: *atomic*.
        """
        while True:
            while self._notices:
                notice = self._notices.popleft()
                if notice is not None:
                    return notice
            if not self._looked_at():
                await trio.lowlevel.checkpoint()
                return None
            await self._wait_news()

    async def _wait_news(self) -> None:
        self._news = trio.Event()
        await self._news.wait()

    def _looked_at(self) -> bool:
        entry = self._entry
        if entry.state not in ("check", "verifying"):
            return False
        # Wait only for the first two examinations after a callback: later ones are too far in the future.
        return entry.hinted or (not entry.clean and entry.tries < 2)

    # --- after the capture

    @property
    def captured(self) -> Captured | None:
        """The captured money, for the aside that gives the goods; None if nothing is captured."""
        paid = self._entry.state in CAPTURED and self._entry.state != "mismatch"
        return captured_of(self._entry) if paid else None

    @property
    def ending(self) -> PaymentGoods | None:
        """State of the goods; None while the payment is unpaid, or while the goods are being given."""
        return self._entry.ending

    def _close(self) -> None:
        if self._register.get(self.id) is self:
            del self._register[self.id]


def captured_of(entry: Entry) -> Captured:
    """Return a captured entry as `Captured`, for the code that gives the goods."""
    assert entry.state in CAPTURED
    return Captured(
        entry.id,
        entry.key,
        entry.chat_id,
        entry.amount,
        entry.currency,
        entry.item,
        entry.payer,
        entry.redelivered,
        entry.uncertain,
        entry.id if entry.kind == "button" else str(entry.invoice_id),
    )
