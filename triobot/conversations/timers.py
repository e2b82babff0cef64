"""Deadlines: one task wakes conversations in memory, another task loads conversations from the store.

Deadlines are wall times, as a journal has no other times. The sleep until a deadline is measured by Trio's
clock, which can't be set. `Timepiece.wait` sleeps for at most a minute at a time, and so notices a computer
that slept or a clock that was set. After such a jump of the time of day, the task wakes all sleepers, which
set new deadlines.

Conversations that are not in memory are revived from the store when their deadlines have passed. Only a
revived conversation can compute its deadlines after a jump: a journal records the sum of the clock's jumps up
to the journal's last turn (`triobot.engine.records.times_of`). So the conversations must be revived early
enough. After a jump forward, conversations are revived too early, and set their deadlines anew. After a jump
back, conversations would be revived too late, so all their deadlines in the store are moved to an earlier
time. The sum of all jumps is stored before any write that depends on the sum, because one writer stores both
in order.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeAlias, final

import trio

from ..base.clock import JUMPED, Timepiece
from ..seams.journals import WakeEarlier
from ..seams.patience import await_store
from ..seams.writes import PutSetting, Write
from ..store import Store
from ..wire.ids import ChatId
from .services import Services
from .workload import CommitQueue

_YIELD_EVERY: Final = 256

# If the heap has this many more withdrawn deadlines than valid ones, the withdrawn deadlines are removed.
# Until then, each withdrawn deadline keeps a whole conversation in memory, perhaps for a month.
_WITHDRAWN: Final = 64
_PAGE: Final = 256


class Sleeper(Protocol):
    """An object with a deadline, such as a conversation."""

    def tick(self) -> None:
        """Handle the deadlines that have passed."""
        ...


_Deadline: TypeAlias = tuple[int, int, Sleeper]
"""The time, a number that orders deadlines of the same time, and the sleeper."""


@final
class Timers:
    """Wakes sleepers at their deadlines."""

    def __init__(self, clock: Timepiece) -> None:
        self._clock = clock
        self._holds: dict[Sleeper, _Deadline] = {}
        self._heap: list[_Deadline] = []
        self._count = 0
        self._sooner = trio.Event()
        self._all = False

    def wake_at(self, sleeper: Sleeper, when: int | None) -> None:
        """Set the deadline of a sleeper, in place of an earlier deadline; None removes the deadline."""
        before = self._holds.get(sleeper)
        if when is None:
            self._holds.pop(sleeper, None)
        elif before is None or before[0] != when:
            self._count += 1
            deadline = self._holds[sleeper] = (when, self._count, sleeper)
            heapq.heappush(self._heap, deadline)
            if self._heap[0] is deadline:
                self._sooner.set()
        if len(self._heap) > 2 * len(self._holds) + _WITHDRAWN:
            self._heap = list(self._holds.values())
            heapq.heapify(self._heap)

    def wake_all(self) -> None:
        """Wake every sleeper: the time of day jumped, so that all deadlines may be wrong."""
        self._all = True
        self._sooner.set()

    async def keep_time(self) -> None:
        """Wake each sleeper at its deadline, until cancelled."""
        while True:
            now = self._clock.now()
            if self._all:
                self._all = False
                for count, sleeper in enumerate(list(self._holds)):
                    if count % _YIELD_EVERY == _YIELD_EVERY - 1:
                        await trio.lowlevel.checkpoint()
                    if sleeper in self._holds:
                        sleeper.tick()
                continue
            while self._heap and self._heap[0][0] <= now:
                deadline = heapq.heappop(self._heap)
                sleeper = deadline[2]
                if self._holds.get(sleeper) is deadline:
                    del self._holds[sleeper]
                    sleeper.tick()
            left = (self._heap[0][0] - now) / 1000 if self._heap else math.inf
            self._sooner = trio.Event()
            await self._clock.wait(self._sooner, left)


@final
class Waking:
    """Loads chats at their conversations' deadlines, and handles jumps of the time of day.

    Args:
        revive: loads a chat, unless it is in memory.
    """

    def __init__(
        self, services: Services, commits: CommitQueue, timers: Timers, revive: Callable[[ChatId], None]
    ) -> None:
        self._store: Store = services.store
        self._clock = services.clock
        self._commits = commits
        self._timers = timers
        self._revive = revive
        self._stirred = trio.Event()

    def look_again(self) -> None:
        """Read the next deadline from the store again: an evicted chat may have an earlier deadline."""
        self._stirred.set()

    async def revive_unfinished(self) -> None:
        """Load the conversations that were busy, or waited for a paid aside, when the last process ended."""
        after = 0
        while rows := await await_store(partial(self._store.unfinished, after=after, limit=_PAGE)):
            for row in rows:
                after = row.id
                self._revive(row.chat_id)

    async def keep_reviving(self) -> None:
        """Load the conversations in the store at their deadlines, until cancelled."""
        while True:
            self._stirred = trio.Event()
            await self._commits.wait_written()
            now, after = self._clock.now(), (-1, -1)
            while rows := await await_store(partial(self._store.due, now, after=after, limit=_PAGE)):
                for row in rows:
                    after = (row.wake_at or 0, row.id)
                    self._revive(row.chat_id)
            due = await await_store(partial(self._store.next_wake, after=now))
            left = math.inf if due is None else max(due - self._clock.now(), 0) / 1000
            await self._clock.wait(self._stirred, left)

    # --- jumps of the time of day

    def begin(self) -> None:
        """Handle a jump of the clock that happened before conversations ran, and isn't stored yet."""
        self.jumped(self._clock.jumped() - self._clock.before)

    def end(self) -> None:
        """Store the time. With this time, the next process detects a clock that was set back in between."""
        self._commits.add([self._written()])

    def jumped(self, by: int) -> None:
        """Record a jump of the time of day, and schedule a check of all deadlines.

        Any code that reads the clock may cause this call, so the method only schedules work.
        """
        writes: list[Write] = [self._written()]
        if by < 0:
            writes.append(WakeEarlier(-by))
        self._commits.add(writes)
        self._timers.wake_all()
        self.look_again()

    def _written(self) -> PutSetting:
        return PutSetting(JUMPED, f"{self._clock.jumped()} {self._clock.now()}")
