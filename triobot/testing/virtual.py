"""Virtual time by Trio's mock clock. Virtual time stands still while a thread works.

`VirtualWallClock` is a wall clock that follows the mock clock. If every task waits and nothing is due,
virtual time can't jump, and Trio would loop for ever. Such a loop is detected and raises an error. A
heartbeat of the bot or of the test hides the loop, since something is always due.
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

from ..conversations.running.lines import frames_of, positions
from ..errors import ConfigError

T = TypeVar("T")

# A Saturday morning, when people order pizza; any fixed time would do.
MORNING: Final = int(datetime(2027, 1, 2, 9, 0, tzinfo=UTC).timestamp() * 1000)


def run(async_fn: Callable[[], Awaitable[T]]) -> T:
    """Run ``async_fn()`` in virtual time, in tests without pytest-trio.

    Examples:
        >>> def test_hello() -> None:
        ...     run(conversation_of_a_day)
    """
    return trio.run(async_fn, clock=MockClock(autojump_threshold=0))


@final
class VirtualWallClock:
    """Wall clock that advances exactly as Trio's clock does. Each setting of the clock calls the functions
    registered by `when_set`.

    Args:
        at: wall milliseconds at the start.
    """

    def __init__(self, at: int = MORNING) -> None:
        self._at = at
        self._began = trio.current_time()
        self._set = 0
        self._listeners: list[Callable[[], None]] = []

    def now(self) -> int:
        """Return wall milliseconds."""
        return self._at + self.steady() + self._set

    def steady(self) -> int:
        """Milliseconds since creation; `set_by` has no effect."""
        return math.floor((trio.current_time() - self._began) * 1000)

    def set_by(self, milliseconds: int) -> None:
        """Set the clock forward, or back if `milliseconds` is negative; no time passes."""
        self._set += milliseconds
        for callback in self._listeners:
            callback()

    def when_set(self, callback: Callable[[], None]) -> None:
        """Register a function to call after each setting of the clock."""
        self._listeners.append(callback)


STUCK_AFTER: Final = 2.0
"""Real seconds without a running task after which a test counts as stuck. A test isn't stuck while a task is
due, or while a thread or socket can wake a task.
"""


@contextmanager
def virtual_time() -> Generator[Callable[[], Awaitable[None]]]:
    """Require virtual time. While the block runs, virtual time stands still whenever a thread works.

    Trio's mock clock alone jumps as soon as every task waits, even if a task waits for a thread. So a
    question's timeout would expire before a thread has read a file.

    Yields an async function to run beside the bot and its test. The function raises AssertionError once the
    test can only wait for ever.

    Not detected: a bot or a test with a heartbeat; a task that never lets time pass, such as ``while not
    done: await trio.lowlevel.checkpoint()``; a wait for a real socket.

    Raises:
        ConfigError: the caller doesn't run under Trio, or Trio's clock is no `MockClock`.
    """
    clock = trio.lowlevel.current_clock() if trio.lowlevel.in_trio_run() else None
    if not isinstance(clock, MockClock):
        raise ConfigError(
            "drive() needs Trio and virtual time: pytest gives both to async tests, in pytest-trio's Trio "
            "mode with its fixture autojump_clock, but to no fixture or marked test of pytest-asyncio's: "
            "have a test itself enter drive(); elsewhere use triobot.testing.run"
        )
    threads, stuck = _ThreadsFirst(clock), _StuckDetector()
    trio.lowlevel.add_instrument(threads)
    trio.lowlevel.add_instrument(stuck)
    try:
        yield stuck.watch
    finally:
        trio.lowlevel.remove_instrument(stuck)
        trio.lowlevel.remove_instrument(threads)
        threads.release()


@final
class _StuckDetector(trio.abc.Instrument):
    """Detects a test that waits for ever: every task waits, and nothing is due."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._found = trio.Event()

    async def watch(self) -> None:
        """Wait until the test is stuck; then raise AssertionError, which lists where each task waits."""
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
    """Whether no task is runnable, no deadline is set, and no thread or socket can wake a task."""
    found = trio.lowlevel.current_statistics()
    io = found.io_statistics
    if io.backend == "epoll":
        reading, writing = io.tasks_waiting_read, io.tasks_waiting_write
    else:
        reading, writing = getattr(io, "tasks_waiting", 1), 0
    alone = reading <= 1 and not writing  # Trio itself reads one socket, for results of threads
    comes = found.seconds_to_next_deadline < math.inf or found.tasks_runnable
    thread = found.run_sync_soon_queue_size or active_thread_count()
    return alone and not comes and not thread


def _waiting(root: trio.lowlevel.Task | None) -> Iterator[str]:
    """Yield a line for each task that runs author's code: the line of code, and the awaited function."""
    tasks = [] if root is None else [root]
    while tasks:
        task = tasks.pop()
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
        frames = frames_of(task)
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
        # If several driven bots run, only one of them saves and restores the threshold. A second bot would
        # save an infinite threshold, and virtual time would never pass again.
        if busy and not self._held and self._clock.autojump_threshold != math.inf:
            self._held, self._threshold = True, self._clock.autojump_threshold
            self._clock.autojump_threshold = math.inf
        elif self._held and not busy:
            self.release()

    def release(self) -> None:
        """Let time pass again."""
        if self._held:
            self._held = False
            self._clock.autojump_threshold = self._threshold
