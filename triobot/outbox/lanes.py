"""Lanes: decide which operation may start now. Pure.

Each recipient has one FIFO lane with at most one operation in flight. The operations in flight of all lanes
are bounded.

A started operation occupies one of `parallel` slots, so a burst is sent at the speed of the platform's
answers. A lane gives up its slot when later requests of other lanes have been answered: the platform works,
but this chat is stuck. While nothing is answered at all, every lane gives up its slot after a shorter time.
Then only the number of connections bounds the operations in flight. The last connections are reserved for
urgent classes. Lanes known to be stuck leave half of the connections, and some slots, to the other lanes.

The order within a lane is strictly the order of queueing. Urgency only selects the next *lane*. A lane is as
urgent as its most urgent operation, so a money operation also hurries the operations before it. Idle lanes
are deleted, so a million recipients cost nothing. The number of queued operations has no bound here: each
queued operation has a waiting caller, so the callers are the bound.

Time is an argument. This module never waits, and doesn't depend on the type of an operation.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from itertools import chain, count
from typing import Final, Generic, final

import attrs
from typing_extensions import TypeVar

from ..base.frozen import guarded
from ..seams.outbox import Urgency
from .pacing import Pace

P = TypeVar("P", bound="Place")

NEVER: Final = float("inf")

# How often a startable class may be passed over; then it starts next, before more urgent classes.
PATIENCE: Final = {
    Urgency.MONEY: 0,
    Urgency.REPLY: 4,
    Urgency.BESIDE: 16,
    Urgency.BROADCAST: 16,
    Urgency.TYPING: 32,
}

# Least seconds for which a lane keeps its slot while other lanes are answered. Twice the usual answer time
# applies if longer.
_WAITS: Final = 0.5
# Divisor of `_WAITS` while nothing is answered.
_HASTE: Final = 5

# Failures in a row that make a lane stuck. A single unanswered attempt also makes a lane stuck.
_STRIKES: Final = 3
# How often stuck lanes may be passed over before a stuck lane starts.
_STUCK_PATIENCE: Final = 3

# Longest pause of a payment's lane, in seconds: a payment must be verified within an hour.
_LONGEST_MONEY_REST: Final = 300.0

# Seconds without a success that count as an outage. After an outage, lanes don't wait for the end of their
# pauses.
_OUTAGE: Final = 5.0

# After `_SILENCE` seconds without any answer, `_IN_SILENCE` requests a second may use the second half of the
# connections. The client gives up a request after a minute, before the connections run out.
_SILENCE: Final = 2.0
_IN_SILENCE: Final = 3

# Number of ready lanes per slot at which a backlog begins. In a backlog the newest and the oldest lane
# alternate, so that a user who writes now doesn't wait for the whole backlog.
_BACKLOG: Final = 16

# A lane that got a 429 pauses between operations; each good answer shortens the pause.
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 10.0
_SHORTEST_PAUSE: Final = 0.05


def share_caps(parallel: int) -> dict[Urgency, int]:
    """Return each class's largest number of slots, so that one slow class leaves slots to the others."""
    return {
        Urgency.MONEY: parallel,
        Urgency.REPLY: max(1, parallel - parallel // 8),
        Urgency.BESIDE: max(1, parallel // 4),
        Urgency.BROADCAST: max(1, parallel // 2),
        Urgency.TYPING: max(1, parallel // 4),
    }


def connection_caps(connections: int) -> dict[Urgency, int]:
    """Return, for each class, the total of requests in flight at which the class no longer starts any."""
    return {urgency: max(1, connections - connections // 16 * urgency) for urgency in Urgency}


# Iterating over an enum costs a generator, several times for each operation.
_URGENCIES: Final = tuple(Urgency)
_CLASSES: Final = len(_URGENCIES)
_PATIENCE: Final = [PATIENCE[urgency] for urgency in Urgency]


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
        head: the entry that has started at least once: in flight, or put back.
        holds: class of the slot that the lane occupies.
        limited_until: end of the pause that the platform asked for.
        counts: number of entries of each class.
    """

    # No default factories: nearly every operation creates a lane, and a factory is one more call.
    key: Hashable = attrs.field(repr=False)
    queue: dict[P, None]
    counts: list[int]
    head: P | None = None
    in_flight: bool = False
    began: float = 0.0
    holds: Urgency | None = None
    began_stuck: bool = False
    suspended: bool = False
    not_before: float = 0.0
    pause: float = 0.0
    limited_until: float = 0.0
    failing_since: float | None = None
    strikes: int = 0
    listed: dict[_Lane[P], None] | None = None
    wakes_at: float = NEVER

    @property
    def urgency(self) -> Urgency:
        for urgency in _URGENCIES:
            if self.counts[urgency]:
                return urgency
        raise LookupError("a lane in which nothing waits has no urgency")

    @property
    def stuck(self) -> bool:
        return self.strikes >= _STRIKES


@final
class Lanes(Generic[P]):
    """All lanes. Every method is instant; the caller sends what `start` returns, and reports the end.

    Args:
        parallel: number of slots.
        connections: largest number of operations in flight, with and without a slot.
        pace: limits the starts of all lanes.
    """

    def __init__(self, parallel: int = 40, connections: int = 472, pace: Pace | None = None) -> None:
        self.parallel = parallel
        self.connections = max(parallel, connections)
        self.pace = pace or Pace()
        self.held = False
        self.queued = 0
        self.in_flight = 0
        # Lists indexed by class: hashing an enum member costs a call.
        self._caps = [share_caps(parallel)[urgency] for urgency in Urgency]
        self._connection_caps = [connection_caps(self.connections)[urgency] for urgency in Urgency]
        self._half = max(1, self.connections // 2)
        self._stuck_caps = (max(1, parallel - parallel // 4), self._half)
        # Lanes that occupy a slot, in start order.
        self._holding: dict[_Lane[P], None] = {}
        self._held_by = [0 for _ in Urgency]
        # Slots and connections in use by stuck lanes.
        self._stuck_holding = self._stuck_flying = 0
        self._stuck_passed = 0
        self._newest_next = False
        # Time of the last start while half of the connections were in use.
        self._flew_at = 0.0
        # End of the pause of all classes except money.
        self.limited_until = 0.0
        # End of each lane's pause that the platform asked for, and the start of the oldest of these pauses.
        self._limits: dict[Hashable, float] = {}
        self._limited_since = 0.0
        # Time of the first failure since the last success; None without such a failure.
        self._failing_since: float | None = None
        # Time of the last answer, or of a later request that started while no request was in flight.
        self._heard_at = float("-inf")
        # Latest start time among the answered requests.
        self._answered_began = float("-inf")
        self._passed = [0 for _ in Urgency]
        self._lanes: dict[Hashable, _Lane[P]] = {}
        self._ready: list[dict[_Lane[P], None]] = [{} for _ in Urgency]
        self._stuck_ready: list[dict[_Lane[P], None]] = [{} for _ in Urgency]
        self._suspended: dict[_Lane[P], None] = {}
        self._resting: list[tuple[float, int, _Lane[P]]] = []
        self._ticks = count()

    # --- queueing and withdrawing

    def queue(self, place: P, now: float) -> bool:
        """Add an entry to the end of its lane.

        Returns:
            Whether `start` may now return an operation that it would not have returned before. False if
            another lane of the same class is ready already, or if this lane has to wait.
        """
        others = bool(self._ready[place.urgency])
        lane = self._lanes.get(place.key)
        if lane is None:
            lane = self._lanes[place.key] = _Lane(place.key, {}, [0] * _CLASSES)
        lane.queue[place] = None
        lane.counts[place.urgency] += 1
        self.queued += 1
        self._arrange(lane, now)
        return lane.listed is not None and not others

    def hasten(self, place: P, urgency: Urgency, now: float) -> None:
        """Raise, but never lower, the urgency of an entry that isn't in flight."""
        lane = self._lanes[place.key]
        if urgency < place.urgency:
            lane.counts[place.urgency] -= 1
            lane.counts[urgency] += 1
            place.urgency = urgency
            self._arrange(lane, now)

    def withdraw(self, place: P, now: float) -> bool:
        """Remove an entry; return False if the entry is in flight or gone."""
        lane = self._lanes.get(place.key)
        if lane is None:
            return False
        if place in lane.queue:
            del lane.queue[place]
        elif lane.head is place and not lane.in_flight:
            lane.head = None
            self._unsuspend(lane)
        else:
            return False
        self.queued -= 1
        self._gone(lane, place, now)
        return True

    def drop(self, key: Hashable, now: float) -> list[P]:
        """Remove all entries of a lane except the entry in flight; return the removed entries in order."""
        lane = self._lanes.get(key)
        if lane is None:
            return []
        places = list(lane.queue)
        if lane.head is not None and not lane.in_flight:
            places.insert(0, lane.head)
        for place in places:
            self.withdraw(place, now)
        return places

    # --- starting

    def start(self, now: float) -> P | None:
        """Select the next entry that may start and count it as in flight; None if no entry may start."""
        if self.held or not self.queued or self.in_flight >= self.connections:
            return None
        if self._resting:
            self._wake(now)
        startable = self._startable()
        if not startable and self._gives_up_at() <= now:
            self._give_places_up(now)
            startable = self._startable()
        if startable and self._all_start_at(now) > now:
            startable = startable[:1] if startable[0] is Urgency.MONEY else []
        if not startable or self.pace.ready_at(now) > now:
            return None
        chosen = self._choose(startable)
        for urgency in startable:
            self._passed[urgency] += 1
        self._passed[chosen] = 0
        lane = self._next(chosen)
        assert lane is not None
        return self._take(lane, now)

    def start_probe(self, now: float, *, untried_only: bool) -> P | None:
        """Start one entry even while `held` is set. Entries of suspended lanes come last.

        If only suspended lanes have entries, each call starts an entry of the next suspended lane.

        Args:
            untried_only: never start an entry of a suspended lane.
        """
        self._wake(now)
        for urgency in _URGENCIES:
            for lane in chain(self._ready[urgency], self._stuck_ready[urgency]):
                return self._take(lane, now)
        if untried_only:
            return None
        for lane in self._suspended:
            self._unsuspend(lane)
            return self._take(lane, now)
        return None

    def look_again(self, now: float) -> float:
        """Return when an entry may become ready without other events; `NEVER` if none can."""
        if self.in_flight >= self.connections:
            return NEVER
        wakes_at = NEVER
        if self._resting:
            self._wake(now)
            while self._resting and self._resting[0][2].wakes_at != self._resting[0][0]:
                heapq.heappop(self._resting)
            wakes_at = self._resting[0][0] if self._resting else NEVER
        if self.queued and not self.held:
            if startable := self._startable():
                all_at = now if startable[0] is Urgency.MONEY else self._all_start_at(now)
                wakes_at = min(wakes_at, max(now, self.pace.ready_at(now), all_at))
            elif any(self._ready) or any(self._stuck_ready):
                wakes_at = min(wakes_at, max(now, self._gives_up_at()))
        return wakes_at

    # --- the ends of started operations

    def began(self, place: P, now: float) -> None:
        """Restart the timing of an entry in flight: its request begins now, after a wait or an upload."""
        lane = self._lanes[place.key]
        lane.began = now
        if lane.holds is not None:
            del self._holding[lane]
            self._holding[lane] = None

    def finish(self, place: P, now: float) -> None:
        """Remove an entry in flight; the lane continues with its next entry."""
        lane = self._landed(place)
        lane.head = None
        if not lane.queue and lane.not_before <= now:
            del self._lanes[lane.key]
        else:
            self._gone(lane, place, now)

    def postpone(self, place: P, until: float, now: float) -> None:
        """Put an entry in flight back at the head of its lane; the next attempt starts at `until`."""
        lane = self._landed(place)
        lane.not_before = max(lane.not_before, until)
        self.queued += 1
        self._arrange(lane, now)

    def suspend(self, place: P, now: float) -> None:
        """Put an entry in flight back at the head of its lane, until `resume` or a probe starts it."""
        lane = self._landed(place)
        lane.suspended = True
        self._suspended[lane] = None
        self.queued += 1
        self._arrange(lane, now)

    def resume(self, place: P, now: float) -> None:
        """Continue a suspended lane with its head `place`; do nothing if `place` isn't the suspended head."""
        lane = self._lanes.get(place.key)
        if lane is not None and lane.head is place and lane.suspended:
            self._unsuspend(lane)
            self._arrange(lane, now)

    def answered(self, place: P, now: float) -> None:
        """Record that the platform answered an entry in flight: a success, or a refusal of this operation."""
        lane = self._lanes[place.key]
        lane.failing_since = None
        lane.strikes = 0
        self._heard(lane, now)
        if self._limits and lane.began >= self._limited_since and place.urgency is not Urgency.MONEY:
            self._limits.clear()
            self.limited_until = 0.0
        if self._failing_since is not None:
            failed_for, self._failing_since = now - self._failing_since, None
            if failed_for >= _OUTAGE:
                self._wake_after_outage(now)
        if lane.pause:
            lane.pause = lane.pause * 0.8 if lane.pause * 0.8 >= _SHORTEST_PAUSE else 0.0
            lane.not_before = now + lane.pause
        self.pace.went_well(place.key, lane.began, now)

    def pushed_back(self, place: P, now: float, *, limited: bool, rests: float = 0.0) -> float:
        """Record that an entry in flight failed, got no answer, or got a 429 (`limited`).

        Args:
            rests: seconds of pause that the platform asked for (`Retry-After`). The lane pauses. All classes
                except money also pause if two lanes got such a request, without another lane's success
                between.

        Returns:
            Time of the first of the lane's present failures in a row.
        """
        lane = self._lanes[place.key]
        if lane.failing_since is None:
            lane.failing_since = now
        if self.pace.is_late(lane.began, now) and not limited:
            lane.strikes = _STRIKES
        else:
            self._heard(lane, now)
            lane.strikes += not limited
        if limited:
            lane.pause = min(_LONGEST_PAUSE, max(_FIRST_PAUSE, lane.pause * 2))
            lane.limited_until = now + lane.pause
        elif self._failing_since is None:
            self._failing_since = now
        if rests:
            self._rest(lane, place.urgency, now, rests)
        lane.not_before = max(lane.not_before, lane.limited_until)
        self.pace.pushed_back(place.key, lane.began, now, limited=limited)
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

    def last(self, key: Hashable) -> P | None:
        """Return a lane's last entry, if that entry has never started."""
        lane = self._lanes.get(key)
        return next(reversed(lane.queue), None) if lane is not None else None

    def busy(self, key: Hashable) -> bool:
        """Return whether a lane has an entry, queued or in flight."""
        lane = self._lanes.get(key)
        return lane is not None and (lane.head is not None or bool(lane.queue))

    def flying(self, key: Hashable) -> P | None:
        """Return a lane's entry in flight, if any."""
        lane = self._lanes.get(key)
        return lane.head if lane is not None and lane.in_flight else None

    def standing(self, key: Hashable) -> LaneStanding[P]:
        """Return a snapshot of a lane."""
        lane = self._lanes.get(key)
        if lane is None:
            return LaneStanding((), 0, False, 0.0)
        places = tuple(place for place in (lane.head, *lane.queue) if place is not None)
        return LaneStanding(places, int(lane.in_flight), lane.suspended, lane.not_before)

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
    def known(self) -> int:
        """Number of lanes in memory."""
        return len(self._lanes)

    @property
    def suspended(self) -> int:
        """Number of lanes that wait for `resume`."""
        return len(self._suspended)

    # --- internals

    def _all_start_at(self, now: float) -> float:
        """Return when all classes may start an entry; money always may.

        While nothing is answered, only a few requests a second may use the second half of the connections.
        Otherwise each of these connections could carry a lost request at the end of the silence, and new
        requests would wait until the lost ones time out.
        """
        at = self.limited_until
        if self.in_flight >= self._half and now >= self._heard_at + max(_SILENCE, 2 * self.pace.usual):
            at = max(at, self._flew_at + 1 / _IN_SILENCE)
        return at

    def _startable(self) -> list[Urgency]:
        if len(self._holding) >= self.parallel:
            return []
        ready, stuck, flying = self._ready, self._stuck_ready, self.in_flight
        held, caps, most = self._held_by, self._caps, self._connection_caps
        startable: list[Urgency] = []
        for urgency in _URGENCIES:
            if (
                (ready[urgency] or (stuck[urgency] and self._takes_stuck(urgency)))
                and held[urgency] < caps[urgency]
                and flying < most[urgency]
            ):
                startable.append(urgency)
        return startable

    def _choose(self, startable: list[Urgency]) -> Urgency:
        # Check the least urgent class first: it has waited longest, and starts only one entry.
        for urgency in reversed(startable):
            if urgency is not Urgency.MONEY and self._passed[urgency] >= _PATIENCE[urgency]:
                return urgency
        return startable[0]

    def _next(self, urgency: Urgency) -> _Lane[P] | None:
        """Return the next lane of a class: a stuck lane if it is due, or if no other lane is ready."""
        ready, stuck = self._ready[urgency], self._stuck_ready[urgency]
        if stuck and self._takes_stuck(urgency) and not (ready and self._stuck_passed < _STUCK_PATIENCE):
            return next(iter(stuck))
        if len(ready) > _BACKLOG * self.parallel or self.pace.rate is not None:
            self._newest_next = not self._newest_next
            if self._newest_next:
                return next(reversed(ready), None)
        return next(iter(ready), None)

    def _takes_stuck(self, urgency: Urgency) -> bool:
        places, connections = self._stuck_caps
        return urgency is Urgency.MONEY or (self._stuck_holding < places and self._stuck_flying < connections)

    def _take(self, lane: _Lane[P], now: float) -> P:
        self._unlist(lane)
        if lane.head is None:
            lane.head = next(iter(lane.queue))
            del lane.queue[lane.head]
        self.queued -= 1
        self._fly(lane, lane.urgency, now)
        return lane.head

    def _fly(self, lane: _Lane[P], urgency: Urgency, now: float) -> None:
        if not self.in_flight:
            self._heard_at = now
        lane.in_flight, lane.began, lane.began_stuck = True, now, lane.strikes >= _STRIKES
        lane.holds = urgency
        self._holding[lane] = None
        self._held_by[urgency] += 1
        if lane.began_stuck:
            self._stuck_passed = 0
            self._stuck_flying += 1
            self._stuck_holding += 1
        elif self._stuck_ready[urgency]:
            self._stuck_passed += 1
        self.in_flight += 1
        if self.in_flight > self._half:
            self._flew_at = now
        self.pace.started(now)

    def _landed(self, place: P) -> _Lane[P]:
        lane = self._lanes[place.key]
        assert lane.head is place and lane.in_flight
        self._give_place_up(lane)
        lane.in_flight = False
        self.in_flight -= 1
        self._stuck_flying -= lane.began_stuck
        return lane

    def _heard(self, lane: _Lane[P], now: float) -> None:
        self._heard_at = now
        if lane.began > self._answered_began:
            self._answered_began = lane.began

    def _gives_up_at(self) -> float:
        """Return when the lane with the oldest slot gives the slot up, if nothing is answered meanwhile."""
        for oldest in self._holding:
            waits = max(_WAITS, 2 * self.pace.usual)
            if oldest.began + waits <= self._answered_began:
                return self._answered_began
            return max(self._heard_at + waits, oldest.began + waits / _HASTE)
        return NEVER

    def _give_places_up(self, now: float) -> None:
        while self._gives_up_at() <= now:
            self._give_place_up(next(iter(self._holding)))

    def _give_place_up(self, lane: _Lane[P]) -> None:
        if lane.holds is not None:
            del self._holding[lane]
            self._held_by[lane.holds] -= 1
            self._stuck_holding -= lane.began_stuck
            lane.holds = None

    def _gone(self, lane: _Lane[P], place: P, now: float) -> None:
        lane.counts[place.urgency] -= 1
        self._arrange(lane, now)

    def _unsuspend(self, lane: _Lane[P]) -> None:
        lane.suspended = False
        self._suspended.pop(lane, None)

    def _unlist(self, lane: _Lane[P]) -> None:
        if lane.listed is not None:
            del lane.listed[lane]
            lane.listed = None

    def _arrange(self, lane: _Lane[P], now: float) -> None:
        idle = lane.head is None and not lane.queue
        if lane.in_flight or lane.suspended:
            self._unlist(lane)
            lane.wakes_at = NEVER
        elif lane.not_before > now:
            self._unlist(lane)
            if lane.wakes_at != lane.not_before:
                lane.wakes_at = lane.not_before
                heapq.heappush(self._resting, (lane.wakes_at, next(self._ticks), lane))
        elif idle:
            self._unlist(lane)
            lane.wakes_at = NEVER
            del self._lanes[lane.key]
        else:
            lane.wakes_at = NEVER
            ready = (self._stuck_ready if lane.stuck else self._ready)[lane.urgency]
            if lane.listed is not ready:
                self._unlist(lane)
                lane.listed = ready
                ready[lane] = None

    def _wake(self, now: float) -> None:
        while self._resting and self._resting[0][0] <= now:
            wakes_at, _, lane = heapq.heappop(self._resting)
            if lane.wakes_at == wakes_at:
                lane.wakes_at = NEVER
                self._arrange(lane, now)
