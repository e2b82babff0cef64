"""Rows of the inbox: what they hold, and their end once they have been dealt with.

Deleting is write-behind: a crash before it handles events again, and never loses one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, final

import trio

from ..errors import ProtocolError, StoreFullError
from ..seams import Alarm, Consume, InboxRow, RaiseAlarm, Store
from ..wire.decode import decode_event
from ..wire.events import Event
from .signals import SIGNAL, stored_signal

log: Final = logging.getLogger("triobot.conversations")

_FLUSH_DEADLINE: Final = 10.0


def stored_event(row: InboxRow) -> Event | None:
    """The event of a stored row; None if this version can't read what an earlier one could."""
    if row.content_type == SIGNAL:
        return stored_signal(row)
    try:
        return decode_event(row.content_type, row.body)
    except ProtocolError:
        return None


@final
class Consumption:
    """Deletes rows that have been dealt with, as many at once as there are."""

    def __init__(self, store: Store, raise_alarm: RaiseAlarm) -> None:
        self._store = store
        self._raise_alarm = raise_alarm
        self._done: list[int] = []
        self._some = trio.Event()

    def add(self, seqs: Sequence[int]) -> None:
        """These rows have been dealt with."""
        if seqs:
            self._done.extend(seqs)
            self._some.set()

    @property
    def waiting(self) -> int:
        """How many are not deleted yet."""
        return len(self._done)

    async def keep_flushing(self) -> None:
        """Delete whatever is added, until cancelled."""
        while True:
            await self._some.wait()
            self._some = trio.Event()
            if not await self._flush():
                await trio.sleep(1)
                self._some.set()

    async def flush_at_the_end(self) -> None:
        """Delete the last of them, in spite of cancellation, within some seconds."""
        # Shielded, so that events that were dealt with are not dealt with again after a clean stop.
        with trio.move_on_after(_FLUSH_DEADLINE, shield=True) as limit:
            await self._flush()
        if limit.cancelled_caught:
            log.warning("the last %d handled events are still in the inbox", len(self._done))

    async def _flush(self) -> bool:
        """Whether there was room to write it down."""
        done, self._done = self._done, []
        if not done:
            return True
        try:
            await self._store.commit(Consume(tuple(done)))
        except StoreFullError:
            # Nothing is lost: the rows stay in the inbox, and are handled again after a restart.
            self._done = [*done, *self._done]
            self._raise_alarm(
                Alarm("store_unwritable", "consume", "the store can't be written: free some space")
            )
            return False
        except BaseException:
            # Handed over or not: deleting twice is as good as once.
            self._done = [*done, *self._done]
            raise
        return True
