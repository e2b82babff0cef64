"""Slots: how many operations may be in flight, and when an operation gives up its slot. Pure.

A started operation occupies one of `parallel` slots, so a burst is sent at the speed of the platform's
answers. An operation gives up its slot when later requests of other lanes have been answered: the platform
works, but this chat is stuck. While nothing is answered at all, every operation gives up its slot after a
shorter time. Then only the number of connections bounds the operations in flight. The last connections are
reserved for urgent classes. Operations of stuck lanes leave half of the connections, and some slots, to the
other lanes.
"""

from __future__ import annotations

from typing import Final, final

import attrs

from ..seams.outbox import Urgency
from .pacing import Pace

# Seconds for which an operation keeps its slot while other lanes are answered. If twice the usual answer time
# is longer, the operation keeps its slot for that time.
_WAITS: Final = 0.5
# Divisor of `_WAITS` while nothing is answered.
_HASTE: Final = 5

# After `_SILENCE` seconds without any answer, `_IN_SILENCE` requests a second may use the second half of the
# connections. The client gives up a request after a minute, before the connections run out.
_SILENCE: Final = 2.0
_IN_SILENCE: Final = 3


def share_caps(parallel: int) -> dict[Urgency, int]:
    """Return the largest number of slots that each class may occupy, so that a slow class leaves slots
    to other classes.
    """
    return {
        Urgency.MONEY: parallel,
        Urgency.REPLY: max(1, parallel - parallel // 8),
        Urgency.BESIDE: max(1, parallel // 4),
        Urgency.BROADCAST: max(1, parallel // 2),
        Urgency.TYPING: max(1, parallel // 4),
    }


@final
@attrs.define(eq=False)
class Flight:
    """An operation in flight.

    Attributes:
        began: when the operation started; after a wait or an upload, when its request began.
        stuck: whether the operation's lane was stuck at the start.
        holds: class in which the operation occupies a slot; None once the operation has given up its slot.
    """

    began: float
    stuck: bool
    holds: Urgency | None


@final
class Slots:
    """The operations in flight, and the free slots and connections.

    Args:
        parallel: number of slots.
        connections: largest number of operations in flight, with and without a slot.
        pace: source of the usual answer time.
    """

    def __init__(self, parallel: int, connections: int, pace: Pace) -> None:
        self.parallel = parallel
        self.in_flight = 0
        self._connections = connections = max(parallel, connections)
        self._pace = pace
        # Lists indexed by class: hashing an enum member costs a call.
        self._caps = [share_caps(parallel)[urgency] for urgency in Urgency]
        # For each class, the total of operations in flight at which the class starts no further operation.
        self._connection_caps = [max(1, connections - connections // 16 * urgency) for urgency in Urgency]
        self._half = max(1, connections // 2)
        self._stuck_cap = max(1, parallel - parallel // 4)
        # Operations that occupy a slot, in the order of their starts.
        self._holding: dict[Flight, None] = {}
        self._held_by = [0 for _ in Urgency]
        # Slots and connections in use by stuck lanes.
        self._stuck_holding = self._stuck_flying = 0
        # Time of the last start with more than half of the connections in use.
        self._flew_at = 0.0
        # Time of the last answer, or of a later start that found no other operation in flight.
        self._heard_at = float("-inf")
        # Latest start time among the answered requests.
        self._answered_began = float("-inf")

    @property
    def full(self) -> bool:
        """Whether all connections are in use."""
        return self.in_flight >= self._connections

    def may_start(self, urgency: Urgency, *, stuck: bool = False) -> bool:
        """Return whether a class has a slot and a connection left.

        With `stuck`, fewer slots and connections may be used.
        """
        return (
            len(self._holding) < self.parallel
            and self._held_by[urgency] < self._caps[urgency]
            and self.in_flight < self._connection_caps[urgency]
            and (not stuck or urgency is Urgency.MONEY or self._may_start_stuck())
        )

    def opens_at(self, now: float) -> float:
        """Return when classes other than money may use a connection; `now` if at once.

        While nothing is answered, only a few requests a second may use the second half of the connections.
        Otherwise each of these connections could carry a lost request when the platform answers again, and
        new requests would wait until the lost requests time out.
        """
        if self.in_flight >= self._half and now >= self._heard_at + max(_SILENCE, 2 * self._pace.usual):
            return self._flew_at + 1 / _IN_SILENCE
        return now

    def occupy(self, urgency: Urgency, now: float, *, stuck: bool) -> Flight:
        """Count an operation that starts now, even if no slot is left: a probe needs no slot."""
        if not self.in_flight:
            self._heard_at = now
        flight = Flight(now, stuck, urgency)
        self._holding[flight] = None
        self._held_by[urgency] += 1
        self._stuck_holding += stuck
        self._stuck_flying += stuck
        self.in_flight += 1
        if self.in_flight > self._half:
            self._flew_at = now
        return flight

    def restart(self, flight: Flight, now: float) -> None:
        """Restart the timing of an operation: its request begins now."""
        flight.began = now
        if flight.holds is not None:
            del self._holding[flight]
            self._holding[flight] = None

    def answered(self, flight: Flight, now: float) -> None:
        """Register an answer of any kind."""
        self._heard_at = now
        if flight.began > self._answered_began:
            self._answered_began = flight.began

    def release(self, flight: Flight) -> None:
        """Register the end of an operation."""
        self._free(flight)
        self.in_flight -= 1
        self._stuck_flying -= flight.stuck

    def gives_up_at(self) -> float:
        """Return when the oldest operation with a slot gives up its slot if no request is answered before."""
        for oldest in self._holding:
            waits = max(_WAITS, 2 * self._pace.usual)
            if oldest.began + waits <= self._answered_began:
                return self._answered_began
            return max(self._heard_at + waits, oldest.began + waits / _HASTE)
        return float("inf")

    def give_up(self, now: float) -> bool:
        """Free the slots of operations that have waited too long; return whether any slot was freed."""
        before = len(self._holding)
        while self.gives_up_at() <= now:
            self._free(next(iter(self._holding)))
        return len(self._holding) < before

    def _may_start_stuck(self) -> bool:
        return self._stuck_holding < self._stuck_cap and self._stuck_flying < self._half

    def _free(self, flight: Flight) -> None:
        if flight.holds is not None:
            del self._holding[flight]
            self._held_by[flight.holds] -= 1
            self._stuck_holding -= flight.stuck
            flight.holds = None
