"""How an incarnation dies: every operation is refused, with a cancellation that only the root takes.

Cancelling the root is not enough: an author's shield would keep an operation asleep for ever. So who sleeps
is woken, and each refusal is a real `trio.Cancelled`, taken from a scope made for it: it passes author's
scopes and shields, and leaves no trace in the journal, since nothing in it happened to the conversation.
"""

from __future__ import annotations

import ctypes
from typing import Final, NoReturn

import outcome
import trio

from .branches import Branch
from .turns import Turns

PATIENCE: Final = 50
"""Refusals before a branch is given up: some code catches everything, and goes on for ever."""

HEEDLESS: Final = 1_000
"""Operations that one block's end may cut short, one after the other: no cleanup has so many."""


async def _give_up(turns: Turns, branch: Branch) -> None:
    """End the task without its coroutine, which would catch every way to end it."""
    task = trio.lowlevel.current_task()
    if task.child_nurseries:
        # Trio lets go of no coroutine that has a nursery open. It sleeps: it must at least take no processor.
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
    # Nor may the collector try: it would throw GeneratorExit into it, which it would catch as well.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task.coro))
    turns.branch_over(branch)
    await trio.lowlevel.permanently_detach_coroutine_object(outcome.Value(None))


async def refuse(turns: Turns, branch: Branch) -> NoReturn:
    """Raise a cancellation that ends at the root."""
    branch.refused += 1
    if branch.refused == PATIENCE:
        turns.world.swallowed(branch.turn)
    # `while True: try ... except BaseException` would otherwise block everybody.
    await trio.lowlevel.cancel_shielded_checkpoint()
    while branch.refused >= PATIENCE:
        await _give_up(turns, branch)
    cancelled: trio.Cancelled | None = None
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:  # it is taken out of its scope, and raised below
            cancelled = error
    assert cancelled is not None
    raise cancelled


async def heed(turns: Turns, branch: Branch) -> None:
    """Count an operation that was begun in a block which has ended; who goes on for ever is made to die."""
    branch.heedless += 1
    if branch.heedless >= HEEDLESS:
        turns.evict()
        await refuse(turns, branch)
