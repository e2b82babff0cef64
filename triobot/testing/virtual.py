"""Virtual time: Trio's own mock clock, a time of day that goes with it, and threads that it waits for."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, TypeVar, final

import trio
from trio.testing import MockClock, active_thread_count

from ..errors import ConfigError

T = TypeVar("T")

# A Saturday morning, when people order pizza; any fixed moment does.
MORNING: Final = int(datetime(2027, 1, 2, 9, 0, tzinfo=UTC).timestamp() * 1000)


def run(async_fn: Callable[[], Awaitable[T]]) -> T:
    """Run ``async_fn()`` in virtual time: for tests without pytest-trio.

    Example:
        >>> def test_hello() -> None:
        ...     run(conversation_of_a_day)
    """
    return trio.run(async_fn, clock=MockClock(autojump_threshold=0))


@final
class VirtualWallClock:
    """The time of day, as Trio's clock goes."""

    def __init__(self) -> None:
        self._began = trio.current_time()
        self._set = 0

    def now(self) -> int:
        """Wall milliseconds."""
        return MORNING + self.steady() + self._set

    def steady(self) -> int:
        """Milliseconds since it began, whatever it was set to."""
        return math.floor((trio.current_time() - self._began) * 1000)

    def set_by(self, milliseconds: int) -> None:
        """Set it forward, or back: no time passes."""
        self._set += milliseconds


@contextmanager
def virtual_time() -> Generator[None]:
    """Make sure that time is virtual, and let it stand still while a thread works.

    Trio's mock clock jumps as soon as every task waits, even for a thread: a question's timeout would be
    over before a file was read.

    Raises:
        ConfigError: the clock is a real one.
    """
    clock = trio.lowlevel.current_clock()
    if not isinstance(clock, MockClock):
        raise ConfigError(
            "drive() needs virtual time: give the test the fixture autojump_clock of pytest-trio, or run it "
            "with triobot.testing.run"
        )
    threads = _ThreadsFirst(clock)
    trio.lowlevel.add_instrument(threads)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(threads)
        threads.release()


@final
class _ThreadsFirst(trio.abc.Instrument):
    def __init__(self, clock: MockClock) -> None:
        self._clock = clock
        self._threshold = clock.autojump_threshold
        self._held = False

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        busy = active_thread_count() > 0
        # Beside another driven bot one of the two holds it: what the other would put back is "never".
        if busy and not self._held and self._clock.autojump_threshold != math.inf:
            self._held, self._threshold = True, self._clock.autojump_threshold
            self._clock.autojump_threshold = math.inf
        elif self._held and not busy:
            self.release()

    def release(self) -> None:
        """Let time go on."""
        if self._held:
            self._held = False
            self._clock.autojump_threshold = self._threshold
