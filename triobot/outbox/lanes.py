"""Lanes: decide which operation may start now. Pure.

Each recipient has one FIFO lane with at most one operation in flight. `slots` bounds the operations in flight
of all lanes, and `ready_queue` selects the next of the lanes that may start. This module manages each lane's
entries, pauses and failures.

The order within a lane is strictly the order of queueing. Urgency only selects the next *lane*. A lane is as
urgent as its most urgent operation. So an operation of the class MONEY also speeds up the operations before
it in its lane. Idle lanes are deleted, so a million recipients cost nothing. This module doesn't bound the
number of queued operations: each operation has a waiting caller, so the number of callers is the bound.

Time is an argument. This module never waits, and doesn't depend on the type of an operation.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from itertools import count
from typing import Final, Generic, final

import attrs
from typing_extensions import TypeVar

from ..base.frozen import guarded
from ..seams.outbox import Urgency
from .pacing import Pace
from .ready_queue import URGENCIES, ReadyQueue
from .slots import Flight, Slots

P = TypeVar("P", bound="Place")

NEVER: Final = float("inf")

_CLASSES: Final = len(URGENCIES)

# Number of failures in a row after which a lane is stuck. A single unanswered attempt also makes a lane
# stuck.
_STRIKES: Final = 3

# Longest pause of a payment's lane, in seconds: a payment must be verified within an hour.
_LONGEST_MONEY_REST: Final = 300.0

# Number of seconds without a success after which the platform is regarded as down. After an outage, lanes
# don't wait for the end of their pauses.
_OUTAGE: Final = 5.0

# A lane that got a 429 pauses between operations; each success shortens the pause.
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 10.0
_SHORTEST_PAUSE: Final = 0.05


@attrs.define(eq=False)
class Place:
    """Base class of a lane's entries.

    Attributes:
        key: key of the lane.
    """

    key: Hashable = attrs.field(repr=False)
    urgency: Urgency


@final
@guarded
class LaneStanding(Generic[P]):
    """A snapshot of a lane.

    Attributes:
        places: the lane's entries in sending order.
        flying: number of entries in flight, from the front.
        suspended: whether the lane waits for `Lanes.resume`.
        not_before: end of the lane's pause, by the caller's clock.
    """

    places: tuple[P, ...]
    flying: int
    suspended: bool
    not_before: float


@final
@attrs.define(eq=False)
class _Lane(Generic[P]):
    """A lane with an entry, or with a pause that isn't over.

    Attributes:
        head: the first entry, if it has started at least once: it is in flight, or was put back for a retry.
        flight: the slot and the times of the head's attempt; None while the head is not in flight.
        limited_until: end of the pause that the platform asked for.
        counts: number of entries of each class.
    """

    # These attributes have no default factories: nearly every operation creates a lane, and a factory costs
    # one more call.
    key: Hashable = attrs.field(repr=False)
    queue: dict[P, None]
    counts: list[int]
    head: P | None = None
    flight: Flight | None = None
    not_before: float = 0.0
    pause: float = 0.0
    limited_until: float = 0.0
    failing_since: float | None = None
    strikes: int = 0
    wakes_at: float = NEVER

    @property
    def urgency(self) -> Urgency:
        for urgency in URGENCIES:
            if self.counts[urgency]:
                return urgency
        raise LookupError("a lane in which nothing waits has no urgency")

    @property
    def stuck(self) -> bool:
        return self.strikes >= _STRIKES


@final
class Lanes(Generic[P]):
    """All lanes. Every method is instant.

    The caller sends each operation that `start` returns, and reports the operation's end.

    Args:
        parallel: number of slots.
        connections: largest number of operations in flight, with and without a slot.
        pace: limits the starts of all lanes.
    """

    def __init__(self, parallel: int = 40, connections: int = 472, pace: Pace | None = None) -> None:
        self.pace = pace or Pace()
        self.held = False
        self.queued = 0
        self._slots = Slots(parallel, connections, self.pace)
        self._ready: ReadyQueue[_Lane[P]] = ReadyQueue(self._slots, self.pace)
        # End of the pause of all classes except money.
        self.limited_until = 0.0
        # For each lane, the end of the pause that the platform asked for.
        self._limits: dict[Hashable, float] = {}
        # Start of the earliest of the lanes' pauses that overlap now.
        self._limited_since = 0.0
        # Time of the first failure since the last success; None without such a failure.
        self._failing_since: float | None = None
        self._lanes: dict[Hashable, _Lane[P]] = {}
        self._suspended: dict[_Lane[P], None] = {}
        self._resting: list[tuple[float, int, _Lane[P]]] = []
        self._ticks = count()

    # --- queueing and withdrawing

    def queue(self, place: P, now: float) -> bool:
        """Add an entry to the end of its lane.

        Returns:
            Whether the result of `start` may have changed. False if another lane of the same class is ready
            already, or if the entry's lane has to wait.
        """
        lane = self._lanes.get(place.key)
        if lane is None:
            lane = self._lanes[place.key] = _Lane(place.key, {}, [0] * _CLASSES)
        lane.queue[place] = None
        lane.counts[place.urgency] += 1
        self.queued += 1
        return self._arrange(lane, now)

    def withdraw(self, place: P, now: float) -> bool:
        """Remove an entry; return False if the entry is in flight, or was removed before."""
        lane = self._lanes.get(place.key)
        if lane is None:
            return False
        if place in lane.queue:
            del lane.queue[place]
        elif lane.head is place and lane.flight is None:
            lane.head = None
            self._suspended.pop(lane, None)
        else:
            return False
        self.queued -= 1
        lane.counts[place.urgency] -= 1
        self._arrange(lane, now)
        return True

    # --- starting

    def start(self, now: float) -> P | None:
        """Select the next entry that may start, count it as in flight, and return it; return None if no
        entry may start.
        """
        if self.held or not self.queued or self._slots.full:
            return None
        if self._resting:
            self._wake(now)
        startable = self._ready.startable()
        if not startable and self._slots.give_up(now):
            startable = self._ready.startable()
        if startable and (self.limited_until > now or self._slots.opens_at(now) > now):
            startable = startable[:1] if startable[0] is Urgency.MONEY else []
        if not startable or self.pace.ready_at(now) > now:
            return None
        return self._take(self._ready.pop(startable), now)

    def start_probe(self, now: float, *, untried_only: bool) -> P | None:
        """Start one entry even while `held` is set. Entries of suspended lanes come last.

        If only suspended lanes have entries, each call starts an entry of the next suspended lane.

        Args:
            untried_only: never start an entry of a suspended lane.
        """
        self._wake(now)
        for lane in self._ready:
            self._ready.remove(lane)
            return self._take(lane, now)
        if untried_only:
            return None
        for lane in self._suspended:
            del self._suspended[lane]
            return self._take(lane, now)
        return None

    def look_again(self, now: float) -> float:
        """Return when `start` may next return an entry if no other method is called before; `NEVER`
        without such a time.
        """
        if self._slots.full:
            return NEVER
        wakes_at = NEVER
        if self._resting:
            self._wake(now)
            while self._resting and self._resting[0][2].wakes_at != self._resting[0][0]:
                heapq.heappop(self._resting)
            wakes_at = self._resting[0][0] if self._resting else NEVER
        if self.queued and not self.held:
            if startable := self._ready.startable():
                opens_at = max(self.pace.ready_at(now), now)
                if startable[0] is not Urgency.MONEY:
                    opens_at = max(opens_at, self.limited_until, self._slots.opens_at(now))
                wakes_at = min(wakes_at, opens_at)
            elif self._ready:
                wakes_at = min(wakes_at, max(now, self._slots.gives_up_at()))
        return wakes_at

    # --- the ends of started operations

    def began(self, place: P, now: float) -> None:
        """Restart the timing of an entry in flight: its request begins now, after a wait or an upload."""
        self._slots.restart(self._flying(place)[1], now)

    def finish(self, place: P, now: float) -> None:
        """Remove an entry in flight; the lane continues with its next entry."""
        lane = self._landed(place)
        lane.head = None
        if not lane.queue and lane.not_before <= now:
            del self._lanes[lane.key]
        else:
            lane.counts[place.urgency] -= 1
            self._arrange(lane, now)

    def postpone(self, place: P, until: float, now: float) -> None:
        """Move an entry in flight back to the head of its lane; the next attempt starts at `until`."""
        lane = self._landed(place)
        lane.not_before = max(lane.not_before, until)
        self.queued += 1
        self._arrange(lane, now)

    def suspend(self, place: P, now: float) -> None:
        """Move an entry in flight back to the head of its lane, where it waits for `resume` or a probe."""
        lane = self._landed(place)
        self._suspended[lane] = None
        self.queued += 1
        self._arrange(lane, now)

    def resume(self, place: P, now: float) -> None:
        """Continue a suspended lane with its head `place`; do nothing if `place` isn't the suspended head."""
        lane = self._lanes.get(place.key)
        if lane is not None and lane.head is place and lane in self._suspended:
            del self._suspended[lane]
            self._arrange(lane, now)

    def answered(self, place: P, now: float) -> None:
        """Register that the platform answered an entry in flight: a success, or a refusal of this
        operation.
        """
        lane, flight = self._flying(place)
        lane.failing_since = None
        lane.strikes = 0
        self._slots.answered(flight, now)
        if self._limits and flight.began >= self._limited_since and place.urgency is not Urgency.MONEY:
            self._limits.clear()
            self.limited_until = 0.0
        if self._failing_since is not None:
            failed_for, self._failing_since = now - self._failing_since, None
            if failed_for >= _OUTAGE:
                self._wake_after_outage(now)
        if lane.pause:
            lane.pause = lane.pause * 0.8 if lane.pause * 0.8 >= _SHORTEST_PAUSE else 0.0
            lane.not_before = now + lane.pause
        self.pace.went_well(place.key, flight.began, now)

    def pushed_back(self, place: P, now: float, *, limited: bool, rests: float = 0.0) -> float:
        """Register that an entry in flight failed, got no answer, or got a 429 (`limited`).

        Args:
            rests: seconds of pause that the platform asked for (`Retry-After`). The lane pauses. If the
                pauses of two lanes overlap, all lanes except those of the class MONEY pause too. An answer to
                a request that began after the first of these pauses ends the common pause. A pause of a MONEY
                operation applies to its own lane only.

        Returns:
            Time of the first failure since the lane's last success or refusal.
        """
        lane, flight = self._flying(place)
        if lane.failing_since is None:
            lane.failing_since = now
        if self.pace.is_late(flight.began, now) and not limited:
            lane.strikes = _STRIKES
        else:
            self._slots.answered(flight, now)
            lane.strikes += not limited
        if limited:
            lane.pause = min(_LONGEST_PAUSE, max(_FIRST_PAUSE, lane.pause * 2))
            lane.limited_until = now + lane.pause
        elif self._failing_since is None:
            self._failing_since = now
        if rests:
            self._rest(lane, place.urgency, now, rests)
        lane.not_before = max(lane.not_before, lane.limited_until)
        self.pace.pushed_back(place.key, flight.began, now, limited=limited)
        return lane.failing_since

    def _rest(self, lane: _Lane[P], urgency: Urgency, now: float, seconds: float) -> None:
        if urgency is Urgency.MONEY:
            lane.limited_until = now + min(seconds, _LONGEST_MONEY_REST)
            return
        lane.limited_until = now + seconds
        self._limits = {key: until for key, until in self._limits.items() if until > now}
        if not self._limits:
            self._limited_since = now
        self._limits[lane.key] = lane.limited_until
        if len(self._limits) > 1:
            self.limited_until = max(self._limits.values())

    def _wake_after_outage(self, now: float) -> None:
        resting, self._resting = self._resting, []
        for wakes_at, _, lane in resting:
            if lane.wakes_at == wakes_at:
                lane.wakes_at, lane.not_before = NEVER, lane.limited_until
                self._arrange(lane, now)

    # --- state

    def standing(self, key: Hashable) -> LaneStanding[P]:
        lane = self._lanes.get(key)
        if lane is None:
            return LaneStanding((), 0, False, 0.0)
        places = tuple(place for place in (lane.head, *lane.queue) if place is not None)
        return LaneStanding(places, int(lane.flight is not None), lane in self._suspended, lane.not_before)

    def places(self) -> Iterator[P]:
        """Yield every entry, queued or in flight, in the order of each lane."""
        for lane in self._lanes.values():
            if lane.head is not None:
                yield lane.head
            yield from lane.queue

    def is_quiet(self) -> bool:
        """Return whether no entry is queued and no lane pauses."""
        return not self.queued and not self._resting

    @property
    def in_flight(self) -> int:
        """Number of operations in flight."""
        return self._slots.in_flight

    @property
    def known(self) -> int:
        """Number of lanes in memory."""
        return len(self._lanes)

    @property
    def suspended(self) -> int:
        """Number of lanes that wait for `resume`."""
        return len(self._suspended)

    # --- internals

    def _take(self, lane: _Lane[P], now: float) -> P:
        if lane.head is None:
            lane.head = next(iter(lane.queue))
            del lane.queue[lane.head]
        self.queued -= 1
        lane.flight = self._slots.occupy(lane.urgency, now, stuck=lane.stuck)
        self.pace.started(now)
        return lane.head

    def _flying(self, place: P) -> tuple[_Lane[P], Flight]:
        lane = self._lanes[place.key]
        assert lane.head is place and lane.flight is not None
        return lane, lane.flight

    def _landed(self, place: P) -> _Lane[P]:
        lane, flight = self._flying(place)
        self._slots.release(flight)
        lane.flight = None
        return lane

    def _arrange(self, lane: _Lane[P], now: float) -> bool:
        """Put a lane into the ready queue or among the pausing lanes, or into neither; delete an empty lane.

        Returns:
            Whether the result of `start` may have changed.
        """
        wakes_at, ready = NEVER, False
        if lane.flight is None and lane not in self._suspended:
            if lane.not_before > now:
                wakes_at = lane.not_before
                if lane.wakes_at != wakes_at:
                    heapq.heappush(self._resting, (wakes_at, next(self._ticks), lane))
            elif lane.head is None and not lane.queue:
                del self._lanes[lane.key]
            else:
                ready = True
        lane.wakes_at = wakes_at
        if ready:
            return self._ready.add(lane, lane.urgency, stuck=lane.stuck)
        self._ready.remove(lane)
        return False

    def _wake(self, now: float) -> None:
        while self._resting and self._resting[0][0] <= now:
            wakes_at, _, lane = heapq.heappop(self._resting)
            if lane.wakes_at == wakes_at:
                lane.wakes_at = NEVER
                self._arrange(lane, now)
