"""The protocol `WallClock` for the time of day, and the class `Timepiece`, which detects jumps of the clock.

The time of day jumps when a person or a late time service sets the clock, and when a computer without a
battery starts. After a jump, a timer of an hour must still last an hour. So a running bot reads the time
through a `Timepiece`. At each reading, the `Timepiece` compares the time of day with a clock that can't be
set, and so detects each jump.

There is one exception, because handling an event reads the clock several times. For 100 ms after a
comparison, the `Timepiece` makes no new comparison, unless the system clock shows an earlier time. So if the
system clock is set back to a time within these 100 ms, the jump is detected only after the 100 ms.

A jump is detected only when the clock is read, so code that waits for a time of day reads the clock at least
each minute (`Timepiece.wait`). A clock that reports each change, such as virtual time, is not read between
changes.

On Linux and macOS, the clock that can't be set also counts the time during which the computer sleeps. So the
computer's sleep is no jump on these systems: the time has passed for every timer. On other systems,
`Timepiece` detects the computer's sleep, and the pause of a virtual machine, as jumps.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, Protocol, final, runtime_checkable

import trio

from .frozen import guarded


class WallClock(Protocol):
    """The time of day. Stored times come from this clock; waits use Trio's clock."""

    def now(self) -> int:
        """Return the time of day in milliseconds since 1970 UTC."""
        ...


JUMPED: Final = "clock_jumped"
"""Name of the store's setting with two numbers of milliseconds: the sum of all jumps since the store was
made, and the time of day when the setting was written.
"""

TOLERANCE: Final = 5_000
"""Largest difference in milliseconds that is no jump: time services make such corrections unannounced."""

_COMPARED_FOR: Final = 100  # milliseconds of the system clock

LOOK_AGAIN: Final = 60.0
"""Seconds within which a waiting task detects a jump or the computer's sleep."""


@runtime_checkable
class Steady(Protocol):
    """A time of day with an additional clock that can't be set.

    For a clock without `steady`, a `Timepiece` compares the time of day with Trio's clock.
    """

    def steady(self) -> int:
        """Return milliseconds since an arbitrary moment, including the time during which the computer
        slept.
        """
        ...


def steady_time() -> int:
    """Return milliseconds since an arbitrary moment, including the time during which this computer slept."""
    if sys.platform == "linux":
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    if sys.platform == "darwin":  # on macOS, time.monotonic() stops while the computer sleeps
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000
    return time.monotonic_ns() // 1_000_000


@final
class SystemClock:
    """This computer's clock."""

    def now(self) -> int:
        """Return the time of day in milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    def steady(self) -> int:
        """Return milliseconds since an arbitrary moment."""
        return steady_time()


@final
@guarded
class StoppedClock:
    """A clock that always shows the same time, used to inspect a past state."""

    at: int

    def now(self) -> int:
        """Return the fixed time, `at`."""
        return self.at

    def steady(self) -> int:
        """Return 0: no time passes."""
        return 0


@final
class Timepiece:
    """A clock for the time of day that measures the jumps of the time of day.

    Attributes:
        before: sum of all jumps before this process, in milliseconds.
    """

    def __init__(self, clock: WallClock) -> None:
        self._read = _reader_of(clock)
        self._compared_at = -_COMPARED_FOR
        self._waits: set[trio.CancelScope] = set()
        self._look_again = LOOK_AGAIN
        # A test clock reports each change, but the system clock must be read regularly.
        if (when_set := getattr(clock, "when_set", None)) is not None:
            when_set(self._look_soon)
            self._look_again = math.inf
        self.before = self._jumped = 0
        self._listeners: list[Callable[[int], None]] = []
        self._between: int | None = None

    def now(self) -> int:
        """Return the time of day in milliseconds since 1970 UTC."""
        if self._read is _read_system:
            now = time.time_ns() // 1_000_000
            if 0 <= now - self._compared_at < _COMPARED_FOR:
                return now
        now, steady = self._read()
        self._compared_at, between = now, now - steady
        known = self._between
        if known is not None and -TOLERANCE <= between - known <= TOLERANCE:
            self._between = between
            return now
        # Read both clocks again: the process may have been suspended between the two readings.
        now, steady = self._read()
        self._compared_at, between = now, now - steady
        by, self._between = 0 if known is None else between - known, between
        if abs(by) > TOLERANCE:
            self._jump(by)
        return now

    def jumped(self) -> int:
        """Return the sum of all jumps up to the last reading, in milliseconds; forward is positive."""
        return self._jumped

    @contextmanager
    def telling(self, on_jump: Callable[[int], None]) -> Generator[None]:
        """While the block runs, call `on_jump` at each jump, with the jump's milliseconds.

        Args:
            on_jump: callback, called inside the clock reading that detects the jump; must be quick, and must
                not raise.
        """
        self._listeners.append(on_jump)
        try:
            yield
        finally:
            self._listeners.remove(on_jump)

    def take_up(self, jumped: int) -> None:
        """Add the sum of the jumps in earlier processes, `jumped` milliseconds.

        Must be called once, before `jumped` is called.
        """
        self.before = jumped
        self._jumped += jumped

    def was_seen(self, at: int) -> None:
        """Compare the time of day with `at`, a time that an earlier process stored.

        If the present time is earlier than `at`, count the difference as a jump.
        """
        if (now := self.now()) < at - TOLERANCE:
            self._jump(now - at)

    async def wait(self, news: trio.Event, seconds: float) -> None:
        """Return when `news` is set, after `seconds`, or when the clock must be read again, whichever
        is first.
        """
        # A wait without a time limit needs no clock reading.
        with trio.move_on_after(seconds if seconds == math.inf else min(seconds, self._look_again)) as scope:
            self._waits.add(scope)
            try:
                await news.wait()
            finally:
                self._waits.remove(scope)
                self._compared_at = -_COMPARED_FOR

    def _look_soon(self) -> None:
        for scope in self._waits:
            scope.deadline = min(scope.deadline, trio.current_time() + LOOK_AGAIN)

    def _jump(self, by: int) -> None:
        self._jumped += by
        for on_jump in list(self._listeners):
            on_jump(by)


def _reader_of(clock: WallClock) -> Callable[[], tuple[int, int]]:
    """Return a function that reads two clocks: the time of day first, then a clock that can't be set."""
    if type(clock) is SystemClock:
        return _read_system
    steady = clock.steady if isinstance(clock, Steady) else _trios_time
    return lambda: (clock.now(), steady())


def _read_system() -> tuple[int, int]:
    return time.time_ns() // 1_000_000, steady_time()


def _trios_time() -> int:
    return int(trio.current_time() * 1000)
