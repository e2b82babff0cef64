"""Moves callbacks from the inbox into the ledger at once, a bounded number at a time.

A callback is only a hint that one payment may have changed. Callbacks are never deduplicated, since the
callback of a failure can have the same bytes as the callback of a success. A callback is never trusted, and
never causes a verify of a payment that the ledger doesn't contain. If no entry has a callback's invoice id,
the entry is found by two other values: the callback's chat, and the amount that the platform returns for the
id.

The transaction that stores a callback's hint also deletes the callback from the inbox. While too many
callbacks are in memory, only the inbox position of a new callback is kept in memory. The callback is read
from the inbox again when memory is free.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias, final

import trio

from ..base.alarm_kinds import text_of
from ..errors import ProtocolError
from ..seams.money import RaiseAlarm
from ..seams.patience import await_store
from ..seams.writes import Consume, StaleRowError, Write
from ..store import ReadPayments, Store
from ..wire.decode import decode_event
from ..wire.events import InvoiceCallback, PayCallback
from ..wire.ids import ChatId, InvoiceId
from .entries import Commit, Entries
from .entry import Entry, State
from .facts import Adopted, Hint, PaymentAnswer
from .records import SHARED

_WITHOUT_ID: Final[tuple[State, ...]] = ("sending", "unsure", "check", "closing", "lapsed")
IN_HAND: Final = 1_024
"""Largest number of callbacks in memory; further callbacks wait in the inbox."""

AGAIN: Final = (2.0, 10.0, 60.0, *(300.0 for _ in range(15)))
"""Seconds between attempts to find a callback's payment: 76 minutes in all. Uncaptured money goes back to the
user after an hour.
"""

_PAGE: Final = 200


LookUp: TypeAlias = Callable[[ChatId, InvoiceId], Awaitable[PaymentAnswer]]
"""Inquires about an invoice that may belong to this bot, without a capture."""


@final
class CallbackHandler:
    """Stores callbacks' hints, and finds the invoice for an unknown id.

    Args:
        look_up: inquires about an invoice that isn't in the ledger.
    """

    def __init__(
        self, entries: Entries, rows: ReadPayments, commit: Commit, look_up: LookUp, now: Callable[[], int]
    ) -> None:
        self._entries = entries
        self._rows = rows
        self._commit = commit
        self._look_up = look_up
        self._now = now

    async def take(self, event: PayCallback | InvoiceCallback, also: Sequence[Write] = ()) -> bool:
        """Store a callback's hint, with `also` in the same transaction.

        Returns:
            False if the callback's payment can't be determined yet. Then nothing was stored, and the caller
            must call again later.
        """
        if isinstance(event, PayCallback):
            failed = event.status.lower() == "error"
            hint = Hint(event.code, event.chat_id, event.message_id, event.sender, event.charge_url, failed)
            if await await_store(partial(self._rows.get, event.ref_id)) is None:
                await self._foreign(event.ref_id, event.chat_id, also)
            else:
                await self._entries.move(event.ref_id, hint, also=also)
            return True
        row = await await_store(partial(self._rows.of_invoice, event.invoice_id))
        if row is not None:
            await self._entries.move(row.id, _hint(event), also=also)
            return True
        return await self._adopt(event, also)

    async def _adopt(self, event: InvoiceCallback, also: Sequence[Write]) -> bool:
        lost = await self._without_id(event.chat_id)
        if any(entry.state == "sending" for entry in lost):
            return False  # the answer with the invoice's id may still arrive
        if not lost:
            await self._foreign(event.invoice_id, event.chat_id, also)
            return True
        answer = await self._look_up(event.chat_id, event.invoice_id)
        if answer.word in ("unknown", "403"):
            return False
        matching = [entry for entry in lost if answer.word != "400" and entry.amount == answer.amount]
        # An expired invoice is used only if no other invoice matches.
        matching = [entry for entry in matching if entry.state != "lapsed"] or matching
        if len(matching) != 1:
            # If several entries match, the platform has confirmed the invoice, so the callback isn't forged.
            # The alarm's key is then the invoice's number, not the key that all forged callbacks share.
            key = event.invoice_id if matching else SHARED["foreign_payment"]
            await self._foreign(event.invoice_id, event.chat_id, also, key)
            return True
        try:
            await self._entries.move(matching[0].id, Adopted(event.invoice_id), _hint(event), also=also)
        except StaleRowError:
            return False  # another fact has already stored the invoice's id
        return True

    async def _without_id(self, chat_id: ChatId) -> list[Entry]:
        found: list[Entry] = []
        async for page in self._entries.pages(_WITHOUT_ID, chat_id=chat_id):
            found += [entry for entry in page if entry.kind == "invoice" and entry.invoice_id is None]
        return found

    async def _foreign(
        self, number: str, chat_id: ChatId, also: Sequence[Write], key: str = SHARED["foreign_payment"]
    ) -> None:
        self._entries.counts["foreign"] += 1
        text = f"number {number} of chat {chat_id}: {text_of('foreign_payment', number)}"
        alarm = RaiseAlarm("foreign_payment", key, text, self._now())
        await self._commit(*also, alarm)


def _hint(event: InvoiceCallback) -> Hint:
    return Hint(None, event.chat_id, payer=event.sender)


Callback: TypeAlias = PayCallback | InvoiceCallback


@final
class Callbacks:
    """Callbacks that arrived and aren't stored in the ledger yet.

    Args:
        store: the store with the inbox.
        counts: numbers of events, by the event's name.
    """

    def __init__(self, handler: CallbackHandler, store: Store, counts: Counter[str]) -> None:
        self._handler = handler
        self._store = store
        self._counts = counts
        self._waiting: deque[tuple[int, Callback]] = deque()
        self._in_hand = 0
        self._left: tuple[int, int] | None = None
        self._news = trio.Event()

    def came(self, seq: int, event: Callback) -> None:
        """Queue a callback; with too many callbacks in memory, keep only its inbox position. Never waits."""
        if self._in_hand >= IN_HAND:
            self._counts["hint_left_in_the_inbox"] += 1
            first, last = self._left or (seq, seq)
            self._left = min(first, seq), max(last, seq)
            return
        self._in_hand += 1
        self._waiting.append((seq, event))
        self._news.set()

    async def keep_taking(self) -> None:
        """Store the queued callbacks, until cancelled.

        Cancellation: *atomic*: a callback that isn't stored stays in the inbox.
        """
        async with trio.open_nursery() as nursery:
            while True:
                await self._news.wait()
                self._news = trio.Event()
                while self._waiting:
                    nursery.start_soon(self._take, *self._waiting.popleft())
                if self._left is not None and not self._in_hand:
                    # Memory is free again. All callbacks in the inbox between the two positions still have to
                    # be stored in the ledger.
                    nursery.start_soon(self._take_what_was_left, *self._left)
                    self._left = None

    async def _take(self, seq: int, event: Callback) -> None:
        try:
            for pause in (*AGAIN, None):
                if await self._handler.take(event, also=(Consume((seq,)),)) or pause is None:
                    return  # an undetermined callback stays in the inbox until the next start
                await trio.sleep(pause)
        finally:
            self._in_hand -= 1
            if self._left is not None and not self._in_hand:
                self._news.set()

    async def _take_what_was_left(self, first: int, last: int) -> None:
        """Read the callbacks between two positions from the inbox again, and store them."""
        after = first - 1
        while after < last and (
            rows := await await_store(partial(self._store.backlog, after=after, limit=_PAGE))
        ):
            for row in rows:
                if row.seq > last:
                    return
                event = _callback(row.content_type, row.body)
                if event is not None:
                    await self._handler.take(event, also=(Consume((row.seq,)),))
            after = rows[-1].seq


def _callback(content_type: str, body: bytes) -> Callback | None:
    try:
        event = decode_event(content_type, body)
    except ProtocolError:
        return None
    return event if isinstance(event, PayCallback | InvoiceCallback) else None
