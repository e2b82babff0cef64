"""When to look again: the deadlines of all conversations in memory, under one task.

They are wall times, since a journal holds nothing else. How long to sleep until then is measured by Trio's
clock, which nobody sets; and `Timepiece.wait` sleeps for no longer than a minute, so that a machine that
slept, and a clock that was set, are noticed. When the time of day jumped, everybody is woken, and says anew
when to be woken.

Who isn't in memory is woken from the store: the rows whose time has come are read a page at a time. A jump of
the time of day is told to whoever waits for a time, and the store learns of it. Those in memory move their
deadlines at once, the others when they are revived: a journal knows by how much the clock had jumped by then
(`triobot.engine.records.times_of`). So those must come back in time. After a jump forward they are due too
early by the clock, come back, and say anew when to wake them. After one back they would be due too late: the
store lets them all wake earlier. What the jumps come to in all is stored before anything that reckons with
it, for it is written by the same writer, in order.
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

_BREATH: Final = 256

# More withdrawn deadlines than deadlines that hold, and than this, are removed: each keeps a conversation,
# all of it, in memory until then, be it a month.
_WITHDRAWN: Final = 64
_PAGE: Final = 256


class Sleeper(Protocol):
    """Who is to be woken."""

    def tick(self) -> None:
        """Do what is due by now."""
        ...


_Deadline: TypeAlias = tuple[int, int, Sleeper]
"""When, a number that tells two of the same time apart, and which sleeper."""


@final
class Timers:
    """Wakes each sleeper at its own time."""

    def __init__(self, clock: Timepiece) -> None:
        self._clock = clock
        self._holds: dict[Sleeper, _Deadline] = {}
        self._heap: list[_Deadline] = []
        self._count = 0
        self._withdrawn = 0
        self._sooner = trio.Event()
        self._all = False

    def wake_at(self, sleeper: Sleeper, when: int | None) -> None:
        """Wake it then, or not at all; the last word counts."""
        before = self._holds.get(sleeper)
        if when is None:
            if before is not None:
                del self._holds[sleeper]
                self._withdrawn += 1
        elif before is None or before[0] != when:
            self._withdrawn += before is not None
            self._count += 1
            deadline = self._holds[sleeper] = (when, self._count, sleeper)
            heapq.heappush(self._heap, deadline)
            if self._heap[0] is deadline:
                self._sooner.set()
        if self._withdrawn > _WITHDRAWN and self._withdrawn > len(self._holds):
            self._withdrawn = 0
            self._heap = list(self._holds.values())
            heapq.heapify(self._heap)

    def wake_all(self) -> None:
        """Wake every sleeper: the time of day jumped, and their times hold no more."""
        self._all = True
        self._sooner.set()

    def when(self, sleeper: Sleeper) -> int | None:
        """Return when a sleeper is to be woken, if it is."""
        deadline = self._holds.get(sleeper)
        return None if deadline is None else deadline[0]

    async def keep_time(self) -> None:
        """Wake who is due, until cancelled."""
        while True:
            now = self._clock.now()
            if self._all:
                self._all = False
                for count, sleeper in enumerate(list(self._holds)):
                    if count % _BREATH == _BREATH - 1:
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
                else:
                    self._withdrawn -= 1
            left = (self._heap[0][0] - now) / 1000 if self._heap else math.inf
            self._sooner = trio.Event()
            await self._clock.wait(self._sooner, left)


@final
class Waking:
    """Asks the store who has to be revived, and tells it and those in memory when the clock jumps.

    Args:
        revive: takes a chat back into memory, unless it is there.
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
        """Look at once for what is due: a chat that has left memory may come first."""
        self._stirred.set()

    async def revive_unfinished(self) -> None:
        """Revive what was under way when the last process ended."""
        after = 0
        while rows := await await_store(partial(self._store.unfinished, after=after, limit=_PAGE)):
            for row in rows:
                after = row.id
                self._revive(row.chat_id)

    async def keep_reviving(self) -> None:
        """Revive what has a deadline and isn't in memory, until cancelled."""
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
        """Take up a jump from before conversations run, of which the store doesn't know."""
        self.jumped(self._clock.jumped() - self._clock.before)

    def end(self) -> None:
        """Write down how late it is: the next run knows by that if the clock is set back meanwhile."""
        self._commits.add([self._written()])

    def jumped(self, by: int) -> None:
        """Note that the time of day has jumped; the clock is read anywhere, and so nothing runs yet."""
        writes: list[Write] = [self._written()]
        if by < 0:
            writes.append(WakeEarlier(self._store.lease, -by))
        self._commits.add(writes)
        self._timers.wake_all()
        self.look_again()

    def _written(self) -> PutSetting:
        return PutSetting(JUMPED, f"{self._clock.jumped()} {self._clock.now()}")
