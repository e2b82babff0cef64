"""Whether the time of day was set back, which would put off all that is due at a time of day."""

from __future__ import annotations

from typing import Final, final

TOLERANCE: Final = 5_000
"""Milliseconds; time services correct less than that without a word."""


@final
class Setback:
    """Compares the time of day with a clock that only goes forward; both in milliseconds."""

    def __init__(self, wall: int, steady: float) -> None:
        self._between = wall - steady

    def by(self, wall: int, steady: float) -> int:
        """By how much the time of day was set back since the last look; 0 if it wasn't."""
        between, before = wall - steady, self._between
        self._between = between
        back = before - between
        return int(back) if back > TOLERANCE else 0
