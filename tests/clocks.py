"""A virtual clock for tests over real sockets, so that no time limit depends on the machine's load.

A test module selects the clock with ``pytestmark = pytest.mark.virtual_time``. The clock stands still while
the test is busy, and jumps to the next deadline once nothing has happened for a while. The clock doesn't wait
for other processes and worker threads, such as the look-up of a host name. So a test with processes or
threads uses the real clock, and waits for up to `tests.loopback.PATIENCE`. A test with a task that never
rests uses the real clock, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import trio
from trio.testing import MockClock

STILL: Final = 0.05
"""Seconds without any event after which the clock moves. The kernel hands loopback's bytes on much sooner."""


def run_in_virtual_time(
    async_fn: Callable[[], Awaitable[Any]],
    *,
    clock: trio.abc.Clock | None = None,
    instruments: Sequence[trio.abc.Instrument] = (),
) -> Any:
    """Run like `trio.run`, by a clock that moves when nothing happens; a test's own clock goes first."""
    return trio.run(async_fn, clock=clock or MockClock(autojump_threshold=STILL), instruments=instruments)
