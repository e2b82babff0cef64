"""Whether new code may go the new way, in a conversation that began with older code; see `Chat.patched`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .records import Patched

if TYPE_CHECKING:
    from .turns import Turns


def patched(turns: Turns, patch: str) -> bool:
    """Whether this patch is in force; recorded where it is asked for first."""
    patches = turns.history.patches
    if patch not in patches and not turns.history.went_the_old_way(patch):
        patches.add(patch)
        turns.draft.add(Patched(turns.time, patch))
    return patch in patches
