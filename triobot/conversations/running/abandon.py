"""Abandon a coroutine of a dry run that doesn't end.

A dry run replays a conversation without effects (`inspection`), and must always end. But the author's code
may catch every cancellation, wait for ever behind a shield, or loop. Python can't end such a coroutine. But a
coroutine does nothing if no task resumes the coroutine. An abandoned coroutine is kept in memory, because
garbage collection would run the `finally` blocks.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Awaitable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar, cast, final

import trio

from ...engine.scopes import innermost, lower
from .lines import awaiting_frames, calling_line, frames_of, line_above, steps_inner, waiting_line

T = TypeVar("T")


class Left(BaseException):
    """Raised by `TimeLimit.run` when the coroutine was abandoned."""


@final
class TimeLimit:
    """Time limit for the tasks of one dry run; in these tasks, ``breakpoint()`` does nothing.

    The live run has stopped at the same breakpoints before.

    Args:
        seconds: real time that the tasks' code may use; checked whenever a task resumes.

    Attributes:
        seconds: the given limit.
        cut: whether the tasks are abandoned.
        line: line of the first abandoned task.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.cut = False
        self.line = "?"
        self._left = seconds
        self._tasks: set[trio.lowlevel.Task] = set()
        self._fewer = trio.lowlevel.ParkingLot()

    @steps_inner
    @coroutine
    def run(self, inner: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Await a coroutine.

        Raises:
            Left: the coroutine was abandoned.
        """
        task, sent, error = trio.lowlevel.current_task(), None, None
        self._tasks.add(task)
        try:
            while True:
                began, stop = time.perf_counter(), sys.breakpointhook
                sys.breakpointhook = _go_on
                try:
                    trap = inner.send(sent) if error is None else inner.throw(error)
                except StopIteration as stopped:
                    return cast("T", stopped.value)
                finally:
                    sys.breakpointhook = stop
                    self._left -= time.perf_counter() - began
                sent = error = None
                try:
                    sent = yield trap
                except BaseException as raised:  # the inner coroutine may catch the error
                    error = raised
                if self.cut or self._left < 0:
                    if not self.cut:
                        self.cut, self.line = True, waiting_line(awaiting_frames(inner))
                    # Never released: the coroutine outlives even the interpreter's shutdown.
                    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inner))
                    raise Left
        finally:
            self._tasks.discard(task)
            self._fewer.unpark_all()

    async def leave(self) -> None:
        """Abandon all tasks, which must be cancelled already, and return once all have ended."""
        self.cut = True
        with trio.CancelScope(shield=True):
            while self._tasks:
                for task in self._tasks:
                    lower(innermost(task))
                await self._fewer.park()


def _go_on(*_: object, **__: object) -> None: ...


async def held(limit: TimeLimit | None, work: Awaitable[object]) -> None:
    """Await a child task's code, within a dry run's time limit if there is one."""
    if limit is None:
        await work
    else:
        await limit.run(awaited(work))


async def awaited(work: Awaitable[object]) -> None:
    await work


def line_in(task: trio.lowlevel.Task | None) -> str:
    """Return the author's ``file:line`` at which `task` is, or ``?``. None stands for the current task."""
    if task is None or task is trio.lowlevel.current_task():
        return calling_line()
    return waiting_line(frames_of(task))


def parting_line(id: str, task: trio.lowlevel.Task | None) -> str:
    """Return the author's line at which code and journal differ; ``?`` for code that has ended."""
    return line_above(sys._getframe(1)) if task is None and id == "0" else line_in(task)  # pyright: ignore[reportPrivateUsage]
