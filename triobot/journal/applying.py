"""What a record does to a conversation: the same code live as on replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .branches import Felt
from .jumps import move
from .records import (
    Continued,
    CutShort,
    DataPut,
    Done,
    Ended,
    Fired,
    Interrupted,
    Jumped,
    Noted,
    OperationId,
    Patched,
    Record,
    Resumed,
    Start,
    Unended,
)

if TYPE_CHECKING:
    from .turns import Turns


def apply(turns: Turns, record: Record) -> None:
    """Give what a record says: somebody has the turn then, or a scope is cancelled, or the code is stuck."""
    turns.time = record.time
    match record:
        case Done():
            _complete(turns, record)
        case Fired(scope=id):
            scope = turns.scopes.get(id)
            if scope is None:
                turns.get_stuck(id, "a block ended here, and is not open now")
            else:
                scope.fired(record.event, record.value)
                turns.cut(scope.scope)
        case Interrupted():
            turns.cut(turns.interruption)
        case DataPut(_, key, value):
            turns.apply_data(key, value)
        case Jumped():
            move(turns, record)
        case Ended() | Continued() | Start() | Patched() | Noted() | Unended() | Resumed():
            turns.get_stuck(OperationId("0"), "the conversation ended here, and goes on now")


def _complete(turns: Turns, record: Done) -> None:
    parked = turns.parked.get(record.id)
    if parked is None:
        turns.get_stuck(record.id, f"a {record.kind} ended here, and has not begun now")
    elif parked.kind != record.kind:
        turns.get_stuck(record.id, f"a {record.kind} ended here; now it is a {parked.kind}")
    elif not isinstance(record.outcome, CutShort):
        if differs(record.fingerprint, parked.fingerprint):
            turns.world.reworded(parked.id, parked.kind)
        turns.give(parked, record.outcome)
    elif parked.felt is None:
        turns.get_stuck(record.id, f"a {record.kind} was cut short here, and no block around it ended now")
    else:
        turns.give(parked, Felt(parked.felt))


def differs(recorded: str, now: str) -> bool:
    """Whether two fingerprints tell that an operation has other arguments than before."""
    if recorded == now:
        return False
    # A name and a digest, or either alone: an earlier version recorded less, and a dry run may know less.
    one, other = recorded.partition(" "), now.partition(" ")
    return any(mine and theirs and mine != theirs for mine, theirs in zip(one, other, strict=True))
