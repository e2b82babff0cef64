"""What a conversation writes into what its chat keeps, and which of it has been written before.

Replay runs each write again, for the conversation's own view of the data. It must not be *stored* again:
others may have written since, and their value would be lost. A turn that is recorded came to rest, and its
data was stored with it; so only what is written by who is live is new. Of the first turn nobody knows, for it
has no record of its own: its writes are new as long as the chat keeps what it kept when the turn began. A
turn that is `Unended` begins with what the chat keeps when it runs again, and its writes are new.

What others write while a turn lasts comes after it, for everybody: the turn doesn't see it, and what the turn
writes under the same key is overwritten by it, in the store as in the conversation's own view. While the turn
has only been given, and nothing of it has run, it comes before it: of two conversations that wake at the same
moment, each sees what the other one wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from .records import DataPut
from .stimuli import Stimulus, Written

if TYPE_CHECKING:
    from .turns import Turns

Kept: TypeAlias = Callable[[str], str | None]


def put_before(turns: Turns, stimulus: Stimulus) -> bool:
    """Let what somebody else writes come before the turn that was given last, if nothing of it has run."""
    if not isinstance(stimulus, Written) or not turns.live or (turn := turns.given) is None:
        return False
    if not turns.draft.add_before(turn, DataPut(turns.time, stimulus.key, stimulus.value)):
        return False
    turns.apply_data(stimulus.key, stimulus.value)
    return True


def put_data(turns: Turns, key: str, value: str | None, kept: Kept | None) -> bool:
    """The turn writes this; returns whether it is new.

    Args:
        kept: what the chat keeps now under a key.
    """
    history = turns.history
    first = not (turns.live or history.given)
    new = turns.live or (history.exhausted and (first or history.unended))
    if new and first and turns.replays_first_turn and kept is not None and not turns.draft.puts(key):
        new = kept(key) == history.start.data.get(key)
    if new and any(isinstance(one, Written) and one.key == key for one in turns.stimuli):
        new = False  # somebody else has written it since this turn began, so after it
    if new:
        turns.draft.put(key, value)
    turns.apply_data(key, value)
    return new
