"""Remembers, of each lane, the last operation whose outcome is not durable yet.

The next one of the lane waits for that in its place: a crash between the two would else leave the later one
sent and the earlier one to be sent again behind it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, final
from weakref import ref

import trio

from .delivery import Delivery

# So many lanes are looked through for what has been recorded, at least.
_LEAST: Final = 64


@final
class Unrecorded:
    """The events that callers set once an outcome is durable, the last of each lane.

    A caller holds its event until it is set, and from there on nobody need. Events that are set or gone are
    left out once there are twice as many as there were without them.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, ref[trio.Event]] = {}
        self._most = _LEAST

    def __len__(self) -> int:
        return len(self._last)

    def heed(self, delivery: Delivery) -> None:
        """Hold a delivery back until the outcome of the one before it is durable, if both tell."""
        if (recorded := delivery.call.recorded) is None:
            return
        if (known := self._last.get(delivery.key)) is not None:
            earlier = known()
            # It may be its own: it is tried again.
            if earlier is not None and earlier is not recorded and not earlier.is_set():
                delivery.after = earlier
        self._last[delivery.key] = ref(recorded)
        if len(self._last) > self._most:
            known_now = [(lane, one, one()) for lane, one in self._last.items()]
            self._last = {
                lane: one for lane, one, event in known_now if event is not None and not event.is_set()
            }
            self._most = 2 * len(self._last) + _LEAST
