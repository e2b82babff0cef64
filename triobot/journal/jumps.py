"""The time of day jumps: what was to last an hour lasts an hour, and what waits for noon waits for noon.

Deadlines are wall times, for a journal holds nothing else. So those that were asked for as a length of time
move with a jump, and the journal says so, in a record of its own: replay moves them in the same place. It is
taken before anything else happens, so no turn reckons with the new time of day and the old deadlines.

A conversation that was not in memory when the clock jumped finds out from what it knows: each journal says,
where it begins and with each `Jumped`, by how much the time of day had jumped in all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..clock import TOLERANCE
from .records import Jumped

if TYPE_CHECKING:
    from .stimuli import OpenScope
    from .turns import Turns


def jump(time: int, now: int, known: int, total: int) -> Jumped | None:
    """The record of a jump that a conversation doesn't know of yet, if there is one. Pure.

    Args:
        time: its last turn's.
        known: the jumps that it knows of, in all.
        total: those that there were.
    """
    by = total - known
    if now < time + by - TOLERANCE:
        by = now - time  # nobody saw it: the program was down when the clock was set back
    if by == 0 and total == known:
        return None
    return Jumped(max(now, time + by), by, total)


def take_jump(turns: Turns, now: int) -> Jumped | None:
    """What this conversation is to record before anything else."""
    return jump(turns.time, now, turns.jumped, turns.world.jumped())


def ahead(turns: Turns) -> int:
    """By how much the time of day has jumped since this conversation's deadlines were set."""
    return turns.world.jumped() - turns.jumped


def move(turns: Turns, record: Jumped) -> None:
    """Move the deadlines that were asked for as a length of time."""
    turns.jumped = record.total
    if not record.by:
        return
    for scope in list(turns.scopes.values()):
        turns.scopes[scope.id] = moved(scope, record.by)
    for parked in turns.parked.values():
        if parked.steady and parked.due is not None:
            parked.due += record.by
    turns.world.moved(record.by)


def moved(scope: OpenScope, by: int) -> OpenScope:
    """A block whose deadline has moved, if it is one that does."""
    return attrs.evolve(scope, due=scope.due + by) if scope.steady and scope.due is not None else scope
