"""Chats come back from the store: at the start those with something under way, later whose time comes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, final

import trio

from ...seams import Store, WallClock
from ...wire.ids import ChatId
from ..timers import LOOK_AGAIN

_PAGE: Final = 256


@final
class Waking:
    """Asks the store who has to be revived.

    Args:
        revive: takes a chat back into memory, unless it is there.
        wait_written: waits until what was handed to the store before is in it.
    """

    def __init__(
        self,
        store: Store,
        clock: WallClock,
        revive: Callable[[ChatId], None],
        wait_written: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._revive = revive
        self._wait_written = wait_written
        self._stirred = trio.Event()

    def look_again(self) -> None:
        """Look at once for what is due: a chat that has left memory may come first."""
        self._stirred.set()

    async def revive_unfinished(self) -> None:
        """Revive what was under way when the last process ended."""
        after = 0
        while rows := await self._store.unfinished(after=after, limit=_PAGE):
            for row in rows:
                after = row.id
                self._revive(row.chat_id)

    async def keep_reviving(self) -> None:
        """Revive what has a deadline and isn't in memory, until cancelled."""
        while True:
            self._stirred = trio.Event()
            await self._wait_written()
            now, after = self._clock.now(), (-1, -1)
            while rows := await self._store.due(now, after=after, limit=_PAGE):
                for row in rows:
                    after = (row.wake_at or 0, row.id)
                    self._revive(row.chat_id)
            due = await self._store.next_wake(after=now)
            left = float("inf") if due is None else min((due - self._clock.now()) / 1000, LOOK_AGAIN)
            with trio.move_on_after(max(left, 0)):
                await self._stirred.wait()
