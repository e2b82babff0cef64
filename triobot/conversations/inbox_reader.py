"""The inbox reader: returns the accepted events to route, in the order of acceptance.

Normally, events come through a memory channel. When the channel is full, the reader falls *behind*. The
reader then reads all events from the inbox, until the inbox has no more.

Each row has a flag, `occupied`: whether the row's chat had conversations when the row was read. The flag is
used only for chats that are not in memory. A row is *outdated* if the row's chat may have left memory since
the row was read. Only an outdated row's flag can be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final, final

import trio

from ..seams.inbox import InboxRow
from ..seams.patience import await_store
from ..wire.events import Event
from .calls.signals import stored_event
from .revival import reviving
from .shared import Shared

CHANNEL: Final = 1024


@final
class InboxReader:
    """Reads the accepted events that have to be routed, in order, each once.

    Attributes:
        cursor: newest row that `receive` has returned or skipped.
        behind: whether the next events are read from the inbox.
        from_before: newest row of earlier processes; -1 until the conversations of these processes are
            stored.
        has_begun: returns whether a row has begun a conversation in this process; such rows aren't routed.
    """

    def __init__(self, shared: Shared) -> None:
        self._store, self._commits, self._work = shared.services.store, shared.commits, shared.work
        self._sender, self._receiver = trio.open_memory_channel[tuple[InboxRow, Event] | None](CHANNEL)
        # Behind from the start: the last process may have left events in the inbox.
        self.behind = True
        self.cursor = self._sent = 0
        # Number of accepted events that were not sent to the channel, and of calls of `look_in_inbox`.
        self._news = 0
        self._page: Iterator[tuple[InboxRow, Event | None]] = iter(())
        # Rows beyond the cursor that were routed before older rows: calls that a chat's own code has made.
        self._hurried: set[int] = set()
        # In order: the newest row that was read, the newest row that is outdated, the number of evictions,
        # and the number of units up to the last eviction.
        self._read = self._outdated = self._evictions = self._evicted_at = 0
        self.from_before = -1
        self.has_begun: Callable[[InboxRow], bool] = lambda row: False

    def offer(self, row: InboxRow, event: Event) -> None:
        """Take an accepted event, in the order of acceptance; never waits.

        If the channel is full, the event is read from the inbox later.
        """
        if self._work.stopping:
            return
        if self._store.news is not None:
            # Other processes add events, so all events are read from the inbox.
            self.look_in_inbox()
        else:
            self.was_read(row.seq)
            if not self.behind:
                try:
                    self._sender.send_nowait((row, event))
                except trio.WouldBlock:
                    self.behind = True
                    self._work.count("fell_behind")
                else:
                    self._sent = row.seq
                    return
            self._news += 1

    def look_in_inbox(self) -> None:
        """Make `receive` read the inbox soon, as another process may have added events; never waits."""
        self._news += 1
        if not self.behind:
            self.behind = True
            with suppress(trio.WouldBlock):  # if the channel is full, the receiver is awake
                self._sender.send_nowait(None)

    async def receive(self) -> tuple[InboxRow, Event | None]:
        """Wait for the next event that has to be routed. Also wait while too many conversations are busy.

        Return the event's row and the event, or the row and None if the event is unreadable.

        Cancellation: *atomic*: the event stays in the inbox for the next process.
        """
        while True:
            if (received := next(self._page, None)) is None:
                try:
                    received = self._receiver.receive_nowait()
                except trio.WouldBlock:
                    if self.behind:
                        await self._read_page()
                    else:
                        received = await self._receiver.receive()
            if received is not None:
                row, event = received
                await self._work.until_not_too_busy()
                # The row may have been read from the inbox already, and must be routed only once.
                if row.seq > self.cursor:
                    self.cursor = row.seq
                    if row.seq not in self._hurried and not self.has_begun(row):
                        return row, event

    async def _read_page(self) -> None:
        """Read rows from the inbox. If there are no newer rows, the reader is no longer behind."""
        news, evictions = self._news, self._evictions
        rows = await await_store(partial(self._store.backlog, after=self.cursor, limit=reviving.PAGE))
        self.was_read(rows[-1].seq if rows else 0)
        if self._evictions != evictions:
            self._outdated = self._read
        if not rows and self._news == news:
            self.behind = False  # rows that the read didn't return have been consumed
        self._page = ((row, stored_event(row)) for row in rows)

    @property
    def keeps_up(self) -> bool:
        """Whether an event that comes now would be routed at once."""
        return not (self.behind or self._work.stopping) and not self._work.is_too_busy

    @property
    def has_routed_all(self) -> bool:
        """Whether all events that came through the channel were routed."""
        return self.cursor >= self._sent

    def skip(self, seq: int) -> None:
        """Leave out a row beyond the cursor, because the caller routes the row at once."""
        self._hurried = {hurried for hurried in self._hurried if hurried > self.cursor} | {seq}

    # --- outdated rows

    def was_read(self, seq: int) -> None:
        """Record that rows up to `seq` were read.

        While an eviction is being written, these rows are outdated.
        """
        if seq > self._read:
            self._read = seq
        if self._commits.written < self._evicted_at:
            self._outdated = self._read

    def outdate(self) -> None:
        """Mark rows as outdated after a chat's eviction: all rows that were read until now, and all rows that
        are read before the chat's last writes are stored.
        """
        self._evictions += 1
        self._evicted_at, self._outdated = self._commits.added, self._read

    def is_outdated(self, row: InboxRow) -> bool:
        """Return whether the row's chat may have left memory since the row was read."""
        return row.seq <= self._outdated
