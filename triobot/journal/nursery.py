"""Children: more branches of the same conversation, which end with their block.

Two things are done here before Trio would do them, because it would do them in the order of its scheduler:
a failure cancels the siblings, and the block waits for its children.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import final

import trio
from typing_extensions import TypeVarTuple

from .branches import Branch, Nature, Parked, Place
from .operations import park
from .records import OperationId
from .refusal import refuse
from .turns import Turns

Args = TypeVarTuple("Args")


@final
class Nursery:
    """Starts children; made by `Incarnation.open_nursery`."""

    def __init__(
        self,
        turns: Turns,
        tasks: dict[trio.lowlevel.Task, Branch],
        parent: Branch,
        own: OperationId,
        nursery: trio.Nursery,
    ) -> None:
        self._turns = turns
        self._tasks = tasks
        self._parent = parent
        self._own = own
        self._nursery = nursery
        self._around = list(parent.around)
        self._children: set[Branch] = set()
        self._count = 0

    def start_soon(self, fn: Callable[[*Args], Awaitable[object]], *args: *Args) -> None:
        """Start ``fn(*args)`` as a child; an error of a child cancels its siblings and the block."""
        self._count += 1
        key = tuple(int(part) for part in self._own.replace("/", ".").split("."))
        path = f"{self._own}/{self._count}."
        child = Branch(
            path, (*key, self._count), list(self._around), Place.QUEUED, turn=OperationId(f"{path}0")
        )
        self._children.add(child)
        if self._turns.dying:
            return
        self._turns.branches.add(child)
        self._turns.later(partial(self._start, child, partial(fn, *args), repr(fn)))

    def cancel(self) -> None:
        """End the block and all children."""
        self._turns.cut(self._nursery.cancel_scope)

    def _start(self, child: Branch, fn: Callable[[], Awaitable[object]], name: str) -> None:
        self._turns.begin(child)
        self._nursery.start_soon(self._run, child, fn, name=name)

    async def _run(self, child: Branch, fn: Callable[[], Awaitable[object]]) -> None:
        task = trio.lowlevel.current_task()
        self._tasks[task] = child
        try:
            await fn()
        except BaseException:
            self.cancel()
            raise
        finally:
            del self._tasks[task]
            self._children.discard(child)
            self._turns.branch_over(child)

    async def join(self) -> None:
        """Wait for all children, whatever is cancelled: they end by that."""
        if not self._children.isdisjoint(self._turns.branches):
            task = trio.lowlevel.current_task()
            # The set itself: a child may start another one meanwhile.
            join = Parked(self._own, (), "join", "", Nature.JOIN, self._parent, task, children=self._children)
            await park(self._turns, join)


@asynccontextmanager
async def open_nursery(
    turns: Turns, tasks: dict[trio.lowlevel.Task, Branch], branch: Branch
) -> AsyncGenerator[Nursery]:
    """Open a nursery of branches; leaving the block waits for them."""
    own = branch.next_id()
    if turns.dying:
        await refuse(turns, branch)
    async with trio.open_nursery() as real:
        branch.around.append(real.cancel_scope)
        nursery = Nursery(turns, tasks, branch, own, real)
        try:
            yield nursery
        except BaseException:
            nursery.cancel()
            raise
        finally:
            await nursery.join()  # no cancellation cuts it short
            branch.around.remove(real.cancel_scope)
