"""Callbacks on their way from the inbox into the ledger: at once, side by side, a bounded number at a time.

Each is a hint about one payment. It is never deduplicated (a failure's callback and a success's are the same
bytes), never believed, and never verified for a payment that isn't ours. An invoice whose creation answer was
lost is found by its chat and by the amount that the platform names under the unknown id.

Each stays in the inbox until the transaction that takes it. Of what comes while too many are in hand only the
place is noted: it is read from the inbox again once there is room.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias, final

import trio

from ..base.alarm_kinds import text_of
from ..errors import ProtocolError
from ..seams.money import RaiseAlarm
from ..seams.patience import await_store
from ..seams.writes import Consume, StaleRowError, Write
from ..store import ReadPayments, Store
from ..wire.decode import decode_event
from ..wire.events import InvoiceCallback, PayCallback
from ..wire.ids import ChatId, InvoiceId, RefId
from .books import Books, Commit
from .entry import Entry, State
from .facts import Adopted, Hint, PaymentAnswer
from .records import SHARED, entry_of

_WITHOUT_ID: Final[tuple[State, ...]] = ("sending", "unsure", "check", "closing", "lapsed")
_CANDIDATES: Final = 200
IN_HAND: Final = 1_024
"""Callbacks that may be in memory; what comes beyond waits in the inbox."""

AGAIN: Final = (2.0, 10.0, 60.0, *(300.0 for _ in range(15)))
"""Seconds between attempts to tell whose a callback is: for as long as its money can wait."""

_PAGE: Final = 200


class LookUp(Protocol):
    """Ask the platform about an invoice that may be ours; capture nothing."""

    def __call__(self, chat_id: ChatId, invoice_id: InvoiceId, /) -> Awaitable[PaymentAnswer]: ...


@final
class CallbackHandler:
    """Stores what callbacks hint at, and finds the invoice whose id an unknown one names.

    Args:
        look_up: an inquiry about an invoice that isn't in the books.
    """

    def __init__(
        self, books: Books, rows: ReadPayments, commit: Commit, look_up: LookUp, now: Callable[[], int]
    ) -> None:
        self._books = books
        self._rows = rows
        self._commit = commit
        self._look_up = look_up
        self._now = now

    async def take(self, event: PayCallback | InvoiceCallback, also: Sequence[Write] = ()) -> bool:
        """Store what a callback hints at, with `also` in the same transaction.

        Returns: False if it can't be told yet whose it is: nothing was stored, take it again later.
        """
        if isinstance(event, PayCallback):
            failed = event.status.lower() == "error"
            hint = Hint(event.code, event.chat_id, event.message_id, event.sender, event.charge_url, failed)
            if await self._books.move(event.ref_id, hint, also=also) is None:
                await self._foreign(event.ref_id, event.chat_id, also)
            return True
        row = await await_store(partial(self._rows.of_invoice, event.invoice_id))
        if row is not None:
            await self._books.move(row.id, _hint(event), also=also)
            return True
        return await self._adopt(event, also)

    async def _adopt(self, event: InvoiceCallback, also: Sequence[Write]) -> bool:
        lost = await self._without_id(event.chat_id)
        if any(entry.state == "sending" for entry in lost):
            return False  # the answer that tells its id may be on its way
        if not lost:
            await self._foreign(event.invoice_id, event.chat_id, also)
            return True
        answer = await self._look_up(event.chat_id, event.invoice_id)
        if answer.word in ("unknown", "403"):
            return False
        matching = [entry for entry in lost if answer.word != "400" and entry.amount == answer.amount]
        # One that can't be paid any more is not it, if there is another.
        matching = [entry for entry in matching if entry.state != "lapsed"] or matching
        if len(matching) != 1:
            # The platform knows it, and so it is no forger's: an alarm of its own keeps its number.
            key = event.invoice_id if matching else SHARED["foreign_payment"]
            await self._foreign(event.invoice_id, event.chat_id, also, key)
            return True
        try:
            await self._books.move(matching[0].id, Adopted(event.invoice_id), _hint(event), also=also)
        except StaleRowError:
            return False  # it has been found otherwise meanwhile
        return True

    async def _without_id(self, chat_id: ChatId) -> list[Entry]:
        found: list[Entry] = []
        after: RefId | None = None
        find = partial(self._rows.find, states=_WITHOUT_ID, chat_id=chat_id, limit=_CANDIDATES)
        while page := await await_store(partial(find, after=after)):
            after = page[-1].id
            entries = (entry_of(row) for row in page if row.invoice_id is None)
            found += [entry for entry in entries if entry.kind == "invoice"]
        return found

    async def _foreign(
        self,
        number: str,
        chat_id: ChatId,
        also: Sequence[Write],
        key: str = SHARED["foreign_payment"],
    ) -> None:
        self._books.counts["foreign"] += 1
        text = f"number {number} of chat {chat_id}: {text_of('foreign_payment', number)}"
        alarm = RaiseAlarm("foreign_payment", key, text, self._now())
        await self._commit(*also, alarm)


def _hint(event: InvoiceCallback) -> Hint:
    return Hint(None, event.chat_id, payer=event.sender)


Callback: TypeAlias = PayCallback | InvoiceCallback


@final
class Callbacks:
    """Callbacks that have come and are not taken yet.

    Args:
        store: has the inbox.
        counts: what happened, by word.
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
        """Take a callback up, or note its place in the inbox if too many are in hand; never waits."""
        if self._in_hand >= IN_HAND:
            self._counts["hint_left_in_the_inbox"] += 1
            first, last = self._left or (seq, seq)
            self._left = min(first, seq), max(last, seq)
            return
        self._in_hand += 1
        self._waiting.append((seq, event))
        self._news.set()

    async def keep_taking(self) -> None:
        """Take them, until cancelled.

        Cancellation: *atomic*: what is not taken is in the inbox.
        """
        async with trio.open_nursery() as nursery:
            while True:
                await self._news.wait()
                self._news = trio.Event()
                while self._waiting:
                    nursery.start_soon(self._take, *self._waiting.popleft())
                if self._left is not None and not self._in_hand:
                    # Now that there is room: whatever is in between is gone from the inbox.
                    nursery.start_soon(self._take_what_was_left, *self._left)
                    self._left = None

    async def _take(self, seq: int, event: Callback) -> None:
        try:
            for pause in (*AGAIN, None):
                if await self._handler.take(event, also=(Consume((seq,)),)) or pause is None:
                    return  # what can't be told yet is in the inbox until the next start
                await trio.sleep(pause)
        finally:
            self._in_hand -= 1
            if self._left is not None and not self._in_hand:
                self._news.set()

    async def _take_what_was_left(self, first: int, last: int) -> None:
        """Read what came from the one place to the other from the inbox again."""
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
