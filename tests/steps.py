"""Runs code that is cancelled at its n-th step, for tests that cancel at each step in turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio


class _CancelAt(trio.abc.Instrument):
    """Cancels a scope as its task is about to take its n-th step."""

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope, step: int) -> None:
        self._task, self._scope, self._left = task, scope, step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()


async def cancelled_at(step: int, work: Callable[[], Awaitable[object]]) -> bool:
    """Run something in a task that is cancelled at its n-th step; whether it was over before."""
    over = False

    async def run() -> None:
        nonlocal over
        scope = trio.CancelScope()
        instrument = _CancelAt(trio.lowlevel.current_task(), scope, step)
        trio.lowlevel.add_instrument(instrument)
        try:
            with scope:
                await work()
                over = not scope.cancel_called
        finally:
            trio.lowlevel.remove_instrument(instrument)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
    return over
