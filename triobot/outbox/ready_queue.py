"""The ready queue: selects the next of the lanes that may start. Pure.

A lane is ready in the class of its most urgent operation. A lane of the most urgent class starts first, but
no class is passed over for ever. Within a class, lanes start in the order in which they became ready; in a
backlog the newest and the oldest lane alternate. Stuck lanes start after the other lanes of their class.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final, Generic, final

from typing_extensions import TypeVar

from ..seams.outbox import Urgency
from .pacing import Pace
from .slots import Slots

L = TypeVar("L", bound=Hashable)

# How often a class may be passed over although one of its lanes could start. Then a lane of this class starts
# next, before more urgent classes.
PATIENCE: Final = {
    Urgency.MONEY: 0,
    Urgency.REPLY: 4,
    Urgency.BESIDE: 16,
    Urgency.BROADCAST: 16,
    Urgency.TYPING: 32,
}

# How often stuck lanes may be passed over before a stuck lane starts.
_STUCK_PATIENCE: Final = 3

# Number of ready lanes per slot at which a backlog begins. In a backlog the newest and the oldest lane
# alternate, so that a user who writes now doesn't wait for the whole backlog.
_BACKLOG: Final = 16

# A tuple: each operation needs several loops over the classes, and a loop over an enum would create a
# generator.
URGENCIES: Final = tuple(Urgency)
_PATIENCE: Final = [PATIENCE[urgency] for urgency in Urgency]


@final
class ReadyQueue(Generic[L]):
    """The lanes that may start, by class.

    Args:
        slots: the limits of the classes.
        pace: source of the current rate; a limited rate counts as a backlog.
    """

    def __init__(self, slots: Slots, pace: Pace) -> None:
        self._slots = slots
        self._pace = pace
        self._lanes: list[dict[L, None]] = [{} for _ in Urgency]
        self._stuck: list[dict[L, None]] = [{} for _ in Urgency]
        # For each ready lane, the dictionary that contains the lane.
        self._listed: dict[L, dict[L, None]] = {}
        self._passed = [0 for _ in Urgency]
        self._stuck_passed = 0
        self._newest_next = False

    def __bool__(self) -> bool:
        """Return whether any lane is ready."""
        return bool(self._listed)

    def __iter__(self) -> Iterator[L]:
        """Yield the ready lanes, the most urgent class first."""
        for urgency in URGENCIES:
            yield from self._lanes[urgency]
            yield from self._stuck[urgency]

    def add(self, lane: L, urgency: Urgency, *, stuck: bool) -> bool:
        """Add a lane to the end of its class, or move the lane there from another class.

        Returns:
            Whether the result of `pop` may have changed.
        """
        listed = (self._stuck if stuck else self._lanes)[urgency]
        if lane in listed:
            return False
        if lane in self._listed:
            self.remove(lane)
        first = not self._lanes[urgency]
        self._listed[lane] = listed
        listed[lane] = None
        return first

    def remove(self, lane: L) -> None:
        """Remove a lane, if the lane is ready."""
        if (listed := self._listed.pop(lane, None)) is not None:
            del listed[lane]

    def startable(self) -> list[Urgency]:
        """Return the classes that have a ready lane, a slot and a connection, the most urgent class first."""
        startable: list[Urgency] = []
        for urgency in URGENCIES:
            if (self._lanes[urgency] and self._slots.may_start(urgency)) or (
                self._stuck[urgency] and self._slots.may_start(urgency, stuck=True)
            ):
                startable.append(urgency)
        return startable

    def pop(self, startable: list[Urgency]) -> L:
        """Remove and return the next lane of the `startable` classes; count the other startable classes
        as passed over.
        """
        chosen = startable[0]
        # Check the least urgent class first: this class has waited longest. When this class starts, its count
        # is reset, so more urgent classes don't wait for a second entry of this class.
        for urgency in reversed(startable):
            if urgency is not Urgency.MONEY and self._passed[urgency] >= _PATIENCE[urgency]:
                chosen = urgency
                break
        for urgency in startable:
            self._passed[urgency] += 1
        self._passed[chosen] = 0
        lane = self._next(chosen)
        del self._listed.pop(lane)[lane]
        return lane

    def _next(self, urgency: Urgency) -> L:
        """Return the next lane of a class.

        The result is a stuck lane if stuck lanes were passed over often enough, or if no other lane is ready.
        """
        lanes, stuck = self._lanes[urgency], self._stuck[urgency]
        if stuck:
            due = not lanes or self._stuck_passed >= _STUCK_PATIENCE
            if due and self._slots.may_start(urgency, stuck=True):
                self._stuck_passed = 0
                return next(iter(stuck))
            self._stuck_passed += 1
        if len(lanes) > _BACKLOG * self._slots.parallel or self._pace.rate is not None:
            self._newest_next = not self._newest_next
            if self._newest_next:
                return next(reversed(lanes))
        return next(iter(lanes))
