"""Notes that something was done to a place's values for a conversation of another shard.

Such a note stands beside the values, with what came of it, until the conversation has that durable: run again
after a crash, it asks again, and gets the same. It is one of the runtime's own values of the place, and so
goes when the place is forgotten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from ..data import OURS

NOTE: Final = f"{OURS}once."
"""What the name of a note begins with."""
EMPTIED: Final = "-"
"""What a note says where a value was taken away: no store keeps an empty text."""
_NOTED: Final = 7 * 24 * 3_600_000
"""Milliseconds after which a note goes that nobody has settled."""


def note_name(once: str, now: int) -> str:
    """Return the name of a note that is made now."""
    return f"{_named(once)}{now}"


def note_of(once: str, stored: Mapping[str, str]) -> str | None:
    """Return the name of the note that says that this was done; None if it wasn't."""
    return next((name for name in stored if name.startswith(_named(once))), None)


def old_notes(stored: Mapping[str, str], now: int) -> Sequence[str]:
    """Return the names of notes that nobody will ask for any more."""
    return [name for name in stored if name.startswith(NOTE) and int(name.rpartition(".")[2]) < now - _NOTED]


def _named(once: str) -> str:
    """Return what the name of a note begins with; the rest of it is when it was made."""
    return f"{NOTE}{hashlib.blake2b(once.encode(), digest_size=12).hexdigest()}."
