"""Turns that are cut in a foreign await: whoever has the turn waits for something that isn't the chat's.

No other turn can come meanwhile, but what ends a block around that branch must not wait for it. The record
says whose turn it cut. On replay the block is cancelled as soon as that turn begins, or as soon as it opens
the block: exact if it cut the turn's first foreign await, which is why authors put these into steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .branches import Branch
from .records import Fired, Interrupted
from .stimuli import Expiry, Interruption, Stimulus, best, due

if TYPE_CHECKING:
    from .turns import Turns


def cut_holder(turns: Turns, holder: Branch) -> None:
    """End the blocks around the branch that has the turn, if their time has come."""
    if not turns.scopes and not turns.stimuli:
        return
    parked, now = turns.parked.values(), turns.world.now()
    expiries = due(turns.scopes.values(), parked, now, turns.revived, turns.world.all_came)
    while (chosen := best([one for one in (*turns.stimuli, *expiries) if _ends(one, holder)])) is not None:
        (turns.stimuli if chosen in turns.stimuli else expiries).remove(chosen)
        match chosen:
            case Expiry(scope, _, event, value, moves):
                turns.draft.add(Fired(turns.time, scope.id, holder.turn, event, value), moves)
                scope.fired(event, value)
                turns.cut(scope.scope)
            case Interruption(_, event, moves, why):
                turns.draft.add(Interrupted(turns.time, event, why, holder.turn), moves)
                turns.cut(turns.interruption)
            case _:
                raise AssertionError("only what ends a block was chosen")


def replay_cuts(turns: Turns, holder: Branch) -> None:
    """End the blocks that were ended in this very turn, as far as they are open."""
    while isinstance(record := turns.history.next, Fired | Interrupted) and record.mid == holder.turn:
        if isinstance(record, Interrupted):
            turns.history.advance()
            turns.cut(turns.interruption)
            continue
        scope = turns.scopes.get(record.scope)
        if scope is None or scope.scope not in holder.around:
            return
        turns.history.advance()
        scope.fired(record.event, record.value)
        turns.cut(scope.scope)


def _ends(stimulus: Stimulus, holder: Branch) -> bool:
    if isinstance(stimulus, Expiry):
        return stimulus.scope.scope in holder.around and not stimulus.scope.scope.cancel_called
    return isinstance(stimulus, Interruption)
