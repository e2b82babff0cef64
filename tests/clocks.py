"""A virtual clock for tests over real sockets, so that no time limit in them depends on the machine's load.

A test module asks for it with ``pytestmark = pytest.mark.virtual_time``. The clock stands still while
anything happens, and goes on to the next deadline once nothing has happened for a while. It outruns other
processes and worker threads (a host name's look-up is one): a test that has them takes the real clock, and
waits as long as `tests.loopback.PATIENCE` says. So does one with a task that never rests.
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
