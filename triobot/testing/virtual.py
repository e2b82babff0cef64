"""Virtual time: Trio's own mock clock, a time of day that goes with it, and threads that it waits for.

Where every task waits and nothing is due, time has nowhere to jump to, and Trio turns on the spot for ever:
that is found out, and is an error.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, TypeVar, final

import trio
from trio.testing import MockClock, active_thread_count

from ..conversations.running.lines import positions
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


STUCK_AFTER: Final = 2.0
"""Real seconds in which no task goes on and none is due: a thread of somebody else's may still come."""


@contextmanager
def virtual_time() -> Generator[Callable[[], Awaitable[None]]]:
    """Make sure that time is virtual, and let it stand still while a thread works.

    Trio's mock clock jumps as soon as every task waits, even for a thread: a question's timeout would be
    over before a file was read.

    Yields what is to run as a task: it raises AssertionError once every task waits and nothing is due.

    Raises:
        ConfigError: the clock is a real one.
    """
    clock = trio.lowlevel.current_clock()
    if not isinstance(clock, MockClock):
        raise ConfigError(
            "drive() needs virtual time: give the test the fixture autojump_clock of pytest-trio, or run it "
            "with triobot.testing.run"
        )
    threads, stuck = _ThreadsFirst(clock), _Stuck()
    trio.lowlevel.add_instrument(threads)
    trio.lowlevel.add_instrument(stuck)
    try:
        yield stuck.watch
    finally:
        trio.lowlevel.remove_instrument(stuck)
        trio.lowlevel.remove_instrument(threads)
        threads.release()


@final
class _Stuck(trio.abc.Instrument):
    """Finds out that every task waits, and nothing is due."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._found = trio.Event()

    async def watch(self) -> None:
        """Raise then, with what each task waits for."""
        await self._found.wait()
        lines = list(_waiting(trio.lowlevel.current_root_task()))
        raise AssertionError(
            "in virtual time every task waits, and nothing is due: this would last for ever\n"
            + "\n".join(lines or ["no task has code outside of the libraries"])
        )

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._since = None

    def after_io_wait(self, timeout: float) -> None:
        now = time.monotonic()
        if self._since is None:
            self._since = now
        elif now - self._since >= STUCK_AFTER and _nothing_comes():
            self._found.set()


def _nothing_comes() -> bool:
    """Whether neither time, nor a thread, nor a socket can wake a task."""
    found = trio.lowlevel.current_statistics()
    io = found.io_statistics
    if io.backend == "epoll":
        reading, writing = io.tasks_waiting_read, io.tasks_waiting_write
    else:
        reading, writing = getattr(io, "tasks_waiting", 1), 0
    alone = reading <= 1 and not writing  # one is Trio's own, which hears of threads
    due = found.seconds_to_next_deadline < math.inf or found.tasks_runnable
    return alone and not due and not found.run_sync_soon_queue_size and not active_thread_count()


def _waiting(root: trio.lowlevel.Task | None) -> Iterator[str]:
    """A line for each task that has an author's code: where it is, and what it awaits there."""
    tasks = [] if root is None else [root]
    while tasks:
        task = tasks.pop()
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
        frames = list(task.iter_await_frames())
        own = [place for place, frame in enumerate(frames) if positions([frame])]
        if own:
            frame, line = frames[own[-1]]
            inner = frames[own[-1] + 1][0].f_code.co_qualname if own[-1] + 1 < len(frames) else "its children"
            yield f"task {task.name} at {frame.f_code.co_filename}:{line} waits for {inner}"


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
