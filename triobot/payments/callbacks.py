"""Callbacks on their way from the inbox to the desk: at once, side by side, and a bounded number at a time.

Each stays in the inbox until the transaction that takes it. Of what comes while too many are in hand only the
place is noted: it is read from the inbox again once there is room.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Final, TypeAlias, final

import trio

from ..errors import ProtocolError
from ..seams import Consume, Store
from ..wire.decode import decode_event
from ..wire.events import InvoiceCallback, PayCallback
from .desk import Desk

Callback: TypeAlias = PayCallback | InvoiceCallback

IN_HAND: Final = 1_024
"""Callbacks that may be in memory; what comes beyond waits in the inbox."""

AGAIN: Final = (2.0, 10.0, 60.0, *(300.0 for _ in range(15)))
"""Seconds between attempts to tell whose a callback is: for as long as its money can wait."""

_PAGE: Final = 200


@final
class Callbacks:
    """Callbacks that have come and are not taken yet.

    Args:
        store: has the inbox.
        counts: what happened, by word.
    """

    def __init__(self, desk: Desk, store: Store, counts: Counter[str]) -> None:
        self._desk = desk
        self._store = store
        self._counts = counts
        self._waiting: deque[tuple[int, Callback]] = deque()
        self._in_hand = 0
        self._left: tuple[int, int] | None = None
        self._news = trio.Event()

    def came(self, seq: int, event: Callback) -> None:
        """One is in the inbox, with this place; never waits."""
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
                if await self._desk.take(event, also=(Consume((seq,)),)) or pause is None:
                    return  # what can't be told yet is in the inbox until the next start
                await trio.sleep(pause)
        finally:
            self._in_hand -= 1
            if self._left is not None and not self._in_hand:
                self._news.set()

    async def _take_what_was_left(self, first: int, last: int) -> None:
        """Read what came from the one place to the other from the inbox again."""
        after = first - 1
        while after < last and (rows := await self._store.backlog(after=after, limit=_PAGE)):
            for row in rows:
                if row.seq > last:
                    return
                event = _callback(row.content_type, row.body)
                if event is not None:
                    await self._desk.take(event, also=(Consume((row.seq,)),))
            after = rows[-1].seq


def _callback(content_type: str, body: bytes) -> Callback | None:
    try:
        event = decode_event(content_type, body)
    except ProtocolError:
        return None
    return event if isinstance(event, PayCallback | InvoiceCallback) else None
