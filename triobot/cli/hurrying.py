"""Time that can be put forward: Trio's clock, and the time of day that goes with it."""

from __future__ import annotations

import time
from typing import final

import trio

from ..clock import steady_time


@final
class HurriedClock(trio.abc.Clock):
    """Trio's clock, ahead of the real one: deadlines and sleeps see the same hours pass as the time of day.

    Args:
        ahead: how far it is ahead from the start, in milliseconds.
    """

    def __init__(self, ahead: int = 0) -> None:
        self._ahead = ahead

    @property
    def ahead(self) -> int:
        """How far it is ahead, in milliseconds."""
        return self._ahead

    def hurry(self, milliseconds: int) -> None:
        """Go forward. To be called by a task of this clock's loop, which then looks who is due."""
        self._ahead += milliseconds

    def start_clock(self) -> None:
        """Nothing has to be started."""

    def current_time(self) -> float:
        """Seconds since some moment."""
        return time.perf_counter() + self._ahead / 1000

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """How long the loop may sleep for a deadline."""
        return deadline - self.current_time()


@final
class HurriedWallClock:
    """The time of day that goes with it."""

    def __init__(self, clock: HurriedClock) -> None:
        self._clock = clock

    def now(self) -> int:
        """Wall milliseconds."""
        return time.time_ns() // 1_000_000 + self._clock.ahead

    def steady(self) -> int:
        """Milliseconds since some moment: time that was put forward has passed."""
        return steady_time() + self._clock.ahead
