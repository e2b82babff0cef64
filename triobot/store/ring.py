"""The bounded ring of requests that could not be read. Pure.

Such a request is kept so that an operator can see what the platform sent. Anyone who knows the webhook's
address can fill the ring, so it is small, its rows are cut, and the oldest go first.
"""

from __future__ import annotations

from typing import Final

from ..seams import KeepRaw

MOST_ROWS: Final = 1_000
MOST_BYTES: Final = 16 * 1024 * 1024
MOST_BYTES_A_ROW: Final = 64 * 1024
_MOST_CHARACTERS: Final = 500


def as_kept(write: KeepRaw) -> KeepRaw:
    """The row as it is kept: cut, and with text that any engine can hold.

    What could not be read is often unreadable in its headers too, so nothing is refused here.
    """
    return KeepRaw(
        write.at, _storable(write.reason), _storable(write.content_type), write.body[:MOST_BYTES_A_ROW]
    )


def overflows(rows: int, size: int) -> bool:
    """Whether the oldest row of a ring of this many rows and bytes must go."""
    return rows > MOST_ROWS or size > MOST_BYTES


def _storable(text: str) -> str:
    # U+0000 is text to SQLite, but not to every engine.
    return text[:_MOST_CHARACTERS].encode(errors="replace").decode().replace("\0", "?")
