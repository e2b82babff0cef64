"""Machines that can stand still: while one does, none of its tasks runs, and those of the others do.

All run in one loop and by one virtual clock. What a machine has begun belongs to it: its tasks carry it in
their context, and so do the tasks that they start. A task of a machine that stands still is put aside when it
would run, as the kernel puts a stopped process aside. Its deadlines pass meanwhile.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVarTuple

import attrs
import trio
from trio._core._traps import WaitTaskRescheduled

from triobot.testing.virtual import VirtualWallClock

Ts = TypeVarTuple("Ts")

_MACHINE: Final[contextvars.ContextVar[Machine | None]] = contextvars.ContextVar("machine", default=None)


@attrs.define(eq=False)
class Machine:
    """A machine with one process on it.

    Attributes:
        wall: its time of day, which may differ from that of the others, and be set.
        still: it stands still.
        stood: how often it has.
        dead: its process was killed; it stands still for good.
        trap: if there is one, it stands still, and sets this, as soon as it is about to send what it may.
    """

    name: str
    wall: VirtualWallClock
    still: bool = False
    stood: int = 0
    dead: bool = False
    trap: trio.Event | None = None
    _set: int = 0
    _aside: list[tuple[trio.lowlevel.Task, Any, Any]] = attrs.Factory(
        list[tuple[trio.lowlevel.Task, Any, Any]]
    )

    def steady(self) -> int:
        """Return its milliseconds that go on while it stands still."""
        return int(trio.current_time() * 1000)

    def set_clock(self, by: int) -> None:
        """Set its time of day forward, or back."""
        self._set += by
        self.wall.set_by(by)

    def right_clock(self) -> None:
        """Take all of that back."""
        self.set_clock(-self._set)

    def stand_still(self) -> None:
        """Let none of its tasks run from now on."""
        self.still = True
        self.stood += 1

    async def about_to_send(self) -> None:
        """Pass the moment between a look at the lease and what is sent by it."""
        if self.trap is not None:
            self.trap.set()
            self.trap = None
            self.stand_still()
            await trio.lowlevel.checkpoint()

    def go_on(self) -> None:
        """Let them run."""
        self.still = False
        aside, self._aside = self._aside, []
        for task, send, what in aside:
            trio.lowlevel.reschedule(task)
            task._next_send_fn, task._next_send = send, what

    def put_aside(self, task: trio.lowlevel.Task) -> None:
        """Have a task wait that is about to run, until the machine goes on."""
        self._aside.append((task, task._next_send_fn, task._next_send))
        task._next_send_fn = lambda _: WaitTaskRescheduled(lambda _: trio.lowlevel.Abort.FAILED)

    def start(self, nursery: trio.Nursery, run: Callable[[*Ts], Awaitable[Any]], *args: *Ts) -> None:
        """Start a task of its own."""
        _started(self, nursery, run, *args)


def outside(nursery: trio.Nursery, run: Callable[[*Ts], Awaitable[Any]], *args: *Ts) -> None:
    """Start a task that belongs to no machine, whoever asks for it."""
    _started(None, nursery, run, *args)


def _started(
    machine: Machine | None, nursery: trio.Nursery, run: Callable[[*Ts], Awaitable[Any]], *args: *Ts
) -> None:
    context = contextvars.copy_context()
    context.run(_MACHINE.set, machine)
    context.run(nursery.start_soon, run, *args)


def this_machine() -> Machine:
    """Return the machine on which the caller runs."""
    machine = _MACHINE.get()
    assert machine is not None
    return machine


class StandingStill(trio.abc.Instrument):
    """Keeps the tasks of machines that stand still from running, while it is in the loop."""

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Put the task aside if it is of such a machine."""
        machine = task.context.get(_MACHINE)
        if machine is not None and machine.still:
            machine.put_aside(task)
