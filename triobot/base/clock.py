"""The time of day, as the protocol `triobot.base.clock.WallClock` wants it, and whether it jumped.

The time of day is set: by people, by a time service that was late, on a machine without a battery at each
start. Whatever was to last an hour must last an hour all the same. So the one clock of a running bot is a
`Timepiece`, which compares the time of day with a clock that only goes forward *when it is read*: no jump
goes unnoticed. Only this machine's, which an event reads several times, isn't compared again before it says
that a tenth of a second has passed, or that it has gone back. One that is set back into that tenth, having
been read by nobody for hours, is found out when it has passed.

Somebody has to read it, then: who waits for a time of day looks again within a minute (`Timepiece.wait`).
Only a clock that says when it is set, as virtual time's does, needs no looking at as long as it isn't.

A machine that sleeps is no jump where the operating system counts the hours slept (Linux, macOS): they have
passed for all that waits. Where it doesn't, as in a virtual machine that was paused, a jump is what is seen.
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
    """The time of day. Trio's clock is for waiting; this one is for what is written down."""

    def now(self) -> int:
        """Return milliseconds since 1970 in UTC, as an integer."""
        ...


JUMPED: Final = "clock_jumped"
"""The setting of a store that says by how much the time of day has jumped since the store was made, and how
late it was when that was written: two numbers of milliseconds."""

TOLERANCE: Final = 5_000
"""Milliseconds; time services correct less than that without a word."""

_COMPARED_FOR: Final = 100  # milliseconds of its own

LOOK_AGAIN: Final = 60.0
"""Seconds within which a jump is noticed, and a machine that slept."""


class TimeOfDay(Protocol):
    """What a timepiece reads; `triobot.base.clock.WallClock`."""

    def now(self) -> int:
        """Return milliseconds since 1970 in UTC."""
        ...


@runtime_checkable
class Steady(Protocol):
    """A time of day that comes with a clock which can't be set; without one, Trio's is taken."""

    def steady(self) -> int:
        """Return milliseconds since some moment; they go on while the machine sleeps."""
        ...


def steady_time() -> int:
    """Return this machine's milliseconds since some moment, with those in which it slept."""
    if sys.platform == "linux":
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    if sys.platform == "darwin":  # where time.monotonic() is the one that stops
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000
    return time.monotonic_ns() // 1_000_000


@final
class SystemClock:
    """This machine's clock."""

    def now(self) -> int:
        """Return milliseconds since 1970 in UTC."""
        return time.time_ns() // 1_000_000

    def steady(self) -> int:
        """Return milliseconds since some moment."""
        return steady_time()


@final
@guarded
class StoppedClock:
    """A clock that stands still, for looking at what was."""

    at: int

    def now(self) -> int:
        """Return the one moment."""
        return self.at

    def steady(self) -> int:
        """Return 0: no time passes."""
        return 0


@final
class Timepiece:
    """A time of day that knows by how much it jumped.

    Attributes:
        before: by how much it had jumped in all, before this run of the program.
    """

    def __init__(self, clock: TimeOfDay) -> None:
        self._read = _reader_of(clock)
        self._compared_at = -_COMPARED_FOR
        self._waits: set[trio.CancelScope] = set()
        self._look_again = LOOK_AGAIN
        # A clock of tests says when it is set; this machine's has to be looked at.
        if (when_set := getattr(clock, "when_set", None)) is not None:
            when_set(self._look_soon)
            self._look_again = math.inf
        self.before = self._jumped = 0
        self._told: list[Callable[[int], None]] = []
        self._between: int | None = None

    def now(self) -> int:
        """Return milliseconds since 1970 in UTC."""
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
        # Once more: the program may have been stopped between the two readings.
        now, steady = self._read()
        self._compared_at, between = now, now - steady
        by, self._between = 0 if known is None else between - known, between
        if abs(by) > TOLERANCE:
            self._jump(by)
        return now

    def jumped(self) -> int:
        """Return by how many milliseconds it had jumped in all when it was read last; forward is positive."""
        return self._jumped

    @contextmanager
    def telling(self, told: Callable[[int], None]) -> Generator[None]:
        """Call `told` with each jump while the block runs: at once, from wherever the clock is read.

        Args:
            told: must be quick, and must not raise.
        """
        self._told.append(told)
        try:
            yield
        finally:
            self._told.remove(told)

    def take_up(self, jumped: int) -> None:
        """Go on from what the jumps of earlier runs came to; once, before anything reckons with that."""
        self.before = jumped
        self._jumped += jumped

    def was_seen(self, at: int) -> None:
        """Note how late it once was, in an earlier run: if it isn't now, it was set back meanwhile."""
        if (now := self.now()) < at - TOLERANCE:
            self._jump(now - at)

    async def wait(self, news: trio.Event, seconds: float) -> None:
        """Wait for news, or for a time of day: so many seconds, or until the clock is to be read again."""
        # Who waits for news alone reads no clock.
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
        for told in list(self._told):
            told(by)


def _reader_of(clock: TimeOfDay) -> Callable[[], tuple[int, int]]:
    """Return what reads the time of day, and then a time that can't be set."""
    if type(clock) is SystemClock:
        return _read_system
    steady = clock.steady if isinstance(clock, Steady) else _trios_time
    return lambda: (clock.now(), steady())


def _read_system() -> tuple[int, int]:
    return time.time_ns() // 1_000_000, steady_time()


def _trios_time() -> int:
    return int(trio.current_time() * 1000)
