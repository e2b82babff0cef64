"""A handle on one payment, for the conversation that waits for the payment."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import final

import trio

from ..seams.money import Captured, PaymentNotice
from ..wire.ids import RefId
from .entries import Entries
from .entry import CAPTURED, Entry
from .schedule import claimed_since


@final
class OpenTicket:
    """A conversation's handle on one payment.

    Every move of the payment is passed to the ticket, until `close` removes the ticket from `register`.

    Attributes:
        id: payment number: a button's ``ref_id``.
        entry: the payment as stored; None before the first move or read.

    Args:
        news: called after each change of `entry`; must not wait.
    """

    def __init__(
        self,
        entries: Entries,
        id: RefId,
        register: MutableMapping[RefId, OpenTicket],
        news: Callable[[], None],
    ) -> None:
        self.id = id
        self.entry: Entry | None = None
        self._entries = entries
        self._register = register
        self._tell = news
        self._news = trio.Event()
        register[id] = self

    def close(self) -> None:
        """Stop receiving moves."""
        if self._register.get(self.id) is self:
            del self._register[self.id]

    def heard(self, entry: Entry) -> None:
        """Replace the attribute `entry` by a durable entry of higher revision, and wake the waiting code."""
        if self.entry is None or entry.revision > self.entry.revision:
            self.entry = entry
            self._news.set()
            self._tell()

    async def read(self) -> Entry:
        """Return the payment's entry; read the store only if `entry` is None."""
        if (entry := self.entry) is None:
            stored = await self._entries.read(self.id)
            assert stored is not None, "the row is stored with the payment's number, and is never deleted"
            self.heard(stored)
            entry = self.entry or stored
        return entry

    def has_news(self, since: int) -> bool:
        """Return whether `decided` has a notice to return now, or would wait for an examination."""
        return self.entry is not None and (_notice(self.entry, since) is not None or _is_examined(self.entry))

    @property
    def captured(self) -> Captured | None:
        """The captured payment; None if the right amount isn't captured, or the payment is handed over."""
        news = None if self.entry is None else self.entry.news
        return captured_of(self.entry) if self.entry and news and news.outcome == "paid" else None

    async def decided(self, since: int) -> PaymentNotice | None:
        """Return the newest notice. If a callback is being examined, wait for the examination's result.

        Args:
            since: revision of the last notice that the conversation has handled.

        Returns:
            None if the conversation has to keep waiting.

        Cancellation: *atomic*.
        """
        entry = await self.read()
        while (notice := _notice(entry, since)) is None and _is_examined(entry):
            self._news = trio.Event()
            await self._news.wait()
            entry = await self.read()
        return notice


def _notice(entry: Entry, since: int) -> PaymentNotice | None:
    news = entry.news
    return None if news is None or 0 < news.revision <= since else news


def _is_examined(entry: Entry) -> bool:
    """Return whether the cashier now or soon examines a callback that reported a paid or declined payment.

    Only the first two examinations after a callback count: later examinations are too far in the future.
    """
    if entry.state not in ("check", "verifying") or (claimed_since(entry) is None and entry.decline is None):
        return False
    return entry.hinted or (not entry.clean and entry.tries < 2)


def captured_of(entry: Entry) -> Captured:
    """Convert a captured entry to `Captured`, for the code that gives the goods."""
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
