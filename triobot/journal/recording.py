"""What happens now becomes a record, and is given: the same step that replay makes from the record alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..seams import Write
from .applying import apply
from .branches import Nature
from .jumps import take_jump
from .records import CutShort, DataPut, Done, Fired, Interrupted, OperationId, Record, Value
from .stimuli import Awake, Completion, Expiry, Interruption, Stimulus, Written, due

if TYPE_CHECKING:
    from .turns import Turns


def take(turns: Turns, stimulus: Stimulus, now: int) -> None:
    """Let this be what comes next."""
    turns.in_doubt.took(stimulus)
    time = max(turns.time, now)
    match stimulus:
        case Completion(parked, outcome, _, event, moves, time=known):
            time = time if known is None else max(turns.time, known)
            record = Done(time, parked.id, parked.kind, parked.fingerprint, outcome, event)
            if parked.nature is Nature.EFFECT and not isinstance(outcome, CutShort):
                turns.draft.finish(record, moves)
                apply(turns, record)
            else:
                write_down(turns, record, moves)
        case Awake(parked):
            none = Value("[1,null]")
            write_down(turns, Done(time, parked.id, parked.kind, parked.fingerprint, none))
        case Expiry(scope, _, event, value):
            write_down(turns, Fired(time, scope.id, None, event, value))
        case Interruption(_, event, moves, why):
            write_down(turns, Interrupted(time, event, why), moves)
        case Written(_, key, value):
            write_down(turns, DataPut(time, key, value))


def next_turn(turns: Turns, id: OperationId) -> int | None:
    """When the turn would be in which this operation takes what it waits for; None if another comes first."""
    now = turns.world.now()
    if not turns.quiescent or turns.over or turns.expects(id) is None or take_jump(turns, now) is not None:
        return None
    if due(turns.scopes.values(), turns.parked.values(), now, turns.revived, turns.world.all_came):
        return None
    return max(turns.time, now)


def write_down(turns: Turns, record: Record, moves: Sequence[Write] = ()) -> None:
    """Let this be the next record."""
    turns.draft.add(record, moves)
    apply(turns, record)
