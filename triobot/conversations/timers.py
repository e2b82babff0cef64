"""When to look again: the deadlines of all conversations in memory, under one task.

They are wall times, since a journal holds nothing else. How long to sleep until then is measured by Trio's
clock, which nobody sets; and nobody sleeps for long, so that a machine that slept, and a clock that was set,
are noticed within a minute. When the time of day jumped, everybody is woken, and says anew when to be woken.
"""

from __future__ import annotations

import heapq
from typing import Final, Protocol, TypeAlias, final

import trio

from ..seams import WallClock

LOOK_AGAIN: Final = 60.0
_BREATH: Final = 256

# More withdrawn deadlines than deadlines that hold, and than this, are removed: each keeps a conversation,
# all of it, in memory until then, be it a month.
_WITHDRAWN: Final = 64


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

    def __init__(self, clock: WallClock) -> None:
        self._clock = clock
        self._holds: dict[Sleeper, _Deadline] = {}
        self._heap: list[_Deadline] = []
        self._count = 0
        self._sooner = trio.Event()
        self._all = False

    def wake_at(self, sleeper: Sleeper, when: int | None) -> None:
        """Wake it then, or not at all; the last word counts."""
        if when is None:
            self._holds.pop(sleeper, None)
        elif self.when(sleeper) != when:
            self._count += 1
            deadline = self._holds[sleeper] = (when, self._count, sleeper)
            heapq.heappush(self._heap, deadline)
            if self._heap[0] is deadline:
                self._sooner.set()
        if len(self._heap) - len(self._holds) > max(len(self._holds), _WITHDRAWN):
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
            left = (self._heap[0][0] - now) / 1000 if self._heap else float("inf")
            self._sooner = trio.Event()
            with trio.move_on_after(min(left, LOOK_AGAIN) if self._heap else left):
                await self._sooner.wait()
