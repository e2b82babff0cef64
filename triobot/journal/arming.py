"""The journal is exhausted: from here on things happen.

Whoever is parked is *armed*, in the order in which the operations began: waits take events, effects run their
bodies. What was under way when the last process died is looked at first: what is known of it, whether it may
be done again, and whether this code would do it at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .branches import Nature, Parked
from .world import Waiting

if TYPE_CHECKING:
    from .turns import Turns


def go_live(turns: Turns, *, fresh: bool) -> None:
    """Replay is over."""
    turns.live = True
    turns.world.live()
    if not fresh:
        turns.revived = turns.world.now()
        turns.in_doubt.revived(turns.parked)
    for id, kind in turns.history.unfinished().items():
        parked = turns.parked.get(id)
        if parked is None or kind not in ("", parked.kind):
            turns.get_stuck(id, "an effect began here, and has not begun now")
            return


def arm_all(turns: Turns) -> None:
    """Arm what has parked since the last time."""
    for parked in [parked for parked in turns.parked.values() if not parked.armed]:
        parked.armed = True
        if parked.nature is Nature.EFFECT:
            _arm_effect(turns, parked)
        elif parked.torn:
            turns.cut_short(parked)
        elif parked.nature is Nature.WAIT:
            turns.world.arm(Waiting(parked.id, parked.subject))


def _arm_effect(turns: Turns, parked: Parked) -> None:
    history = turns.history
    intended = history.intended.get(parked.id)
    if (outcome := history.results.get(parked.id)) is not None:
        turns.known(parked, outcome, history.result_times[parked.id])
    elif parked.felt is not None:
        turns.cut_short(parked)
    elif (turns.in_doubt.begins(parked.id) or intended is not None) and parked.in_doubt is not None:
        turns.known(parked, parked.in_doubt, turns.world.now())
    else:
        if parked.id in turns.in_doubt:
            turns.world.repeated(parked.kind)
        if turns.lanes.join(parked):
            turns.go(parked)
