"""Turns that are cut in a foreign await: whoever has the turn waits for something that isn't the chat's.

No other turn can come meanwhile, but what ends a block around that branch must not wait for it; nor must an
interrupt, for the user would be locked out. That holds from a conversation's first line on; but not for the
last turn of a journal that is replayed, which may have come to its end before: unless that lasts. The record
says whose turn it cut. On replay the block is cancelled as soon as that turn begins, or as soon as it opens
the block: exact if it cut the turn's first foreign await, which is why authors put these into steps. Of two
blocks that were ended in one turn, the second one is when the first has been left.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .branches import Branch
from .jumps import ahead, moved
from .records import Fired, Interrupted
from .stimuli import Expiry, Interruption, OpenScope, Stimulus, best, due, next_due

if TYPE_CHECKING:
    from .turns import Turns


def cut_holder(turns: Turns, holder: Branch) -> None:
    """End the blocks around the branch that has the turn, if their time has come."""
    if not turns.scopes and not turns.stimuli:
        return
    parked, now = turns.parked.values(), turns.world.now()
    # The jump is taken between two turns; but an hour is an hour now, too.
    expiries = due(_scopes(turns), parked, now, turns.revived, turns.world.all_came)
    while (chosen := best([one for one in (*turns.stimuli, *expiries) if _ends(one, holder)])) is not None:
        (turns.stimuli if chosen in turns.stimuli else expiries).remove(chosen)
        turns.in_doubt.took(chosen)
        match chosen:
            case Expiry(scope, _, event, value):
                turns.draft.add(Fired(turns.time, scope.id, holder.turn, event, value))
                scope.fired(event, value)
                turns.cut(scope.scope)
            case Interruption(_, event, moves, why):
                turns.draft.add(Interrupted(turns.time, event, why, holder.turn), moves)
                turns.cut(turns.interruption)
            case _:
                raise AssertionError("only what ends a block was chosen")
    watch(turns)


def watch(turns: Turns) -> None:
    """Be told of the next deadline: whoever has the turn may not come to park before it."""
    if turns.scopes and (turns.live or turns.unended) and not turns.dying:
        now = turns.world.now()
        turns.world.wake_at(next_due(_scopes(turns), turns.parked.values(), now, turns.revived))


def _scopes(turns: Turns) -> Iterable[OpenScope]:
    """The open blocks, with the deadlines that they have by the time of day as it is."""
    by = ahead(turns)
    return [moved(scope, by) for scope in turns.scopes.values()] if by else turns.scopes.values()


def lasts(turns: Turns) -> None:
    """The last turn of the journal lasts so long that it can't have come to its end before."""
    if turns.holder is not None and turns.history.exhausted and not turns.history.unfinished():
        turns.unended = True
        turns.tick()


def replay_cuts(turns: Turns, holder: Branch) -> None:
    """End the blocks that were ended in this very turn, as far as they are open; watch over the others."""
    while isinstance(record := turns.history.next, Fired | Interrupted) and record.mid == holder.turn:
        if holder.cut_in == holder.turn and holder.cut_at in turns.scopes:
            return  # it is on its way out of there
        if isinstance(record, Interrupted):
            turns.history.advance()
            turns.cut(turns.interruption)
            continue
        scope = turns.scopes.get(record.scope)
        if scope is None or scope.scope not in holder.around:
            return
        turns.history.advance()
        holder.cut_in, holder.cut_at = holder.turn, record.scope
        scope.fired(record.event, record.value)
        turns.cut(scope.scope)
    watch(turns)


def _ends(stimulus: Stimulus, holder: Branch) -> bool:
    if isinstance(stimulus, Expiry):
        ended = stimulus.scope.scope.cancel_called or stimulus.late
        return stimulus.scope.scope in holder.around and not ended
    return isinstance(stimulus, Interruption)
