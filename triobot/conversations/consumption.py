"""Rows of the inbox: what they hold, and their end once they have been dealt with.

Deleting is write-behind: a crash before it handles events again, and never loses one. What a conversation
wrote into its chat's data while it had an event in hand goes into the same commit as that event's end.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, cast, final

import trio

from ..errors import ProtocolError, StoreFullError
from ..seams import Alarm, Consume, InboxRow, PutData, RaiseAlarm, Store
from ..wire.decode import decode_event
from ..wire.events import Event
from ..wire.ids import ChatId
from .calls import CALL, stored_call
from .signals import SIGNAL, stored_signal

log: Final = logging.getLogger("triobot.conversations")

_FLUSH_DEADLINE: Final = 10.0


def stored_event(row: InboxRow) -> Event | None:
    """The event of a stored row; None if this version can't read what an earlier one could."""
    if row.content_type == SIGNAL:
        return stored_signal(row)
    if row.content_type == CALL:
        # As a signal's: the wire's own union stays closed.
        return cast("Event | None", stored_call(row))
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
        self._data: dict[ChatId, dict[str, PutData]] = {}
        self._leaving: dict[ChatId, dict[str, PutData]] = {}
        self._added = 0
        self._written = 0
        self._more_written = trio.lowlevel.ParkingLot()
        self._over = False
        self._some = trio.Event()

    def add(self, seqs: Sequence[int], data: Sequence[PutData] = ()) -> None:
        """These rows have been dealt with, and this was kept meanwhile."""
        if seqs or data:
            self._done.extend(seqs)
            for put in data:
                self._data.setdefault(put.chat_id, {})[put.key] = put
            self._added += 1
            self._some.set()

    async def wait_written(self, chat_id: ChatId | None = None) -> None:
        """Wait until what was added is durable; with a chat's id, only if there is data of that chat.

        Raises:
            trio.ClosedResourceError: the bot stops, and it could not be written.
        """
        if chat_id is None or chat_id in self._data or chat_id in self._leaving:
            added = self._added
            while self._written < added:
                if self._over:
                    raise trio.ClosedResourceError("the bot has stopped")
                await self._more_written.park()

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
        self._over = True
        self._more_written.unpark_all()
        if limit.cancelled_caught:
            log.warning("the last %d handled events are still in the inbox", len(self._done))

    async def _flush(self) -> bool:
        """Whether there was room to write it down."""
        done, self._done = self._done, []
        self._leaving, self._data = self._data, {}
        added = self._added
        kept = [put for puts in self._leaving.values() for put in puts.values()]
        try:
            if done or kept:
                await self._store.commit(*([Consume(tuple(done))] if done else []), *kept)
        except StoreFullError:
            # Nothing is lost: the rows stay in the inbox, and are handled again after a restart.
            self._take_back(done)
            self._raise_alarm(
                Alarm("store_unwritable", "consume", "the store can't be written: free some space")
            )
            return False
        except BaseException:
            # Handed over or not: deleting twice is as good as once.
            self._take_back(done)
            raise
        self._leaving = {}
        self._written = added
        self._more_written.unpark_all()
        return True

    def _take_back(self, done: list[int]) -> None:
        self._done = [*done, *self._done]
        for chat_id, puts in self._leaving.items():
            self._data[chat_id] = puts | self._data.get(chat_id, {})
        self._leaving = {}
