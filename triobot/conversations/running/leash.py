"""Code that can be left: a coroutine that is run until somebody has enough of it.

A dry run has to come to an end, whatever the author's code does: it may catch every cancellation, wait for
ever behind a shield, or run in circles. Python can't end such a coroutine, but nobody has to go on with it.
What was left is kept as it is: to collect it would run its `finally` blocks.
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
    """A coroutine was left where it is."""


@final
class Leash:
    """Holds the tasks of one dry run. A ``breakpoint()`` in them does nothing: it was stopped at before.

    Args:
        seconds: of real time that their code may take; looked at whenever one of them goes on.

    Attributes:
        seconds: as they were given.
        cut: none of them goes on any more.
        line: where the first of them was then.
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
        """Await a coroutine; raises `Left` if it had to be left."""
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
                except BaseException as raised:  # it is the inner coroutine's to catch
                    error = raised
                if self.cut or self._left < 0:
                    if not self.cut:
                        self.cut, self.line = True, waiting_line(awaiting_frames(inner))
                    # For ever, not until the interpreter's end.
                    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inner))
                    raise Left
        finally:
            self._tasks.discard(task)
            self._fewer.unpark_all()

    async def leave(self) -> None:
        """Let no task go on, and return once all have ended; they were cancelled before."""
        self.cut = True
        with trio.CancelScope(shield=True):
            while self._tasks:
                for task in self._tasks:
                    lower(innermost(task))
                await self._fewer.park()


def _go_on(*_: object, **__: object) -> None:
    """Stop at no breakpoint."""


async def held(leash: Leash | None, work: Awaitable[object]) -> None:
    """Await a child's code, on the leash of a dry run."""
    if leash is None:
        await work
    else:
        await leash.run(awaited(work))


async def awaited(work: Awaitable[object]) -> None:
    """Await this, as a coroutine."""
    await work


def line_in(task: trio.lowlevel.Task | None) -> str:
    """Return ``file:line`` of an author's code where this task is, or for None the current one; or ``?``."""
    if task is None or task is trio.lowlevel.current_task():
        return calling_line()
    return waiting_line(frames_of(task))


def parting_line(id: str, task: trio.lowlevel.Task | None) -> str:
    """Return the line where code and journal part, as `line_in`; ``?`` for code that is over."""
    return line_above(sys._getframe(1)) if task is None and id == "0" else line_in(task)  # pyright: ignore[reportPrivateUsage]
