"""Whether new code may go the new way, in a conversation that began with older code; see `Chat.patched`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .records import Patched

if TYPE_CHECKING:
    from .turns import Turns


def patched(turns: Turns, patch: str) -> bool:
    """Whether this patch is in force; recorded where it is asked for first."""
    history = turns.history
    if patch in history.patches:
        return True
    if not history.exhausted:
        # For good: what went the old way once goes it everywhere, or the next replay would not fit.
        history.unpatched.add(patch)
    if patch in history.unpatched:
        return False
    history.patches.add(patch)
    turns.draft.add(Patched(turns.time, patch))
    return True
