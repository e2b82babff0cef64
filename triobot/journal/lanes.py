"""Effects of one lane, such as sends to one chat: one after another, as they were begun. Pure."""

from __future__ import annotations

from collections import deque
from typing import final

from .branches import Parked


@final
class Lanes:
    """Who performs an effect now, and who waits for that. An effect without a lane waits for nobody."""

    def __init__(self) -> None:
        self._lanes: dict[str, deque[Parked]] = {}

    def join(self, parked: Parked) -> bool:
        """Whether it may begin at once."""
        if parked.lane is None:
            return True
        lane = self._lanes.setdefault(parked.lane, deque())
        lane.append(parked)
        return lane[0] is parked

    def leave(self, parked: Parked) -> Parked | None:
        """It is over, or given up: the one that begins now."""
        lane = self._lanes.get(parked.lane or "")
        if lane is None or parked not in lane:
            return None
        first = lane[0] is parked
        lane.remove(parked)
        if not lane:
            del self._lanes[parked.lane or ""]
            return None
        return lane[0] if first else None
