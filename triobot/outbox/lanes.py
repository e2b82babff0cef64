"""Which operation may start now: one FIFO lane a recipient, one in flight a lane, bounded overall. Pure.

What is in flight holds one of a few places, so that a burst reaches the platform at the speed of its
answers. A lane that waits while others that began later have been answered gives its place up: its chat is
stuck, not the platform. So do, sooner, all that wait while nothing is answered at all. Then the number of
connections alone bounds what is in flight. The last of them are kept for what is urgent, and lanes that are
known to be stuck leave half of them, and some places, to the others.

A lane's order is the order of queueing, strictly: urgency decides which *lane* goes first, and a lane is as
urgent as the most urgent operation that waits in it, so money pulls forward what stands before it. Lanes
that have nothing to do are forgotten, so a million recipients cost nothing. Nothing here bounds how much is
queued: each queued operation has a caller that waits for it, so the callers are the bound.

Time comes in as an argument. Nothing here waits or knows what an operation is.
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

# How often a class may be passed over while it could have started, before it goes next whatever waits.
PATIENCE: Final = {
    Urgency.MONEY: 0,
    Urgency.REPLY: 4,
    Urgency.BESIDE: 16,
    Urgency.BROADCAST: 16,
    Urgency.TYPING: 32,
}

# Seconds for which a lane keeps its place while others are answered; twice what is usual, if that is more.
_WAITS: Final = 0.5
# While nothing is answered it keeps its place for so much shorter.
_HASTE: Final = 5

# So many failures in a row make a lane a stuck one, or a single attempt that got no answer.
_STRIKES: Final = 3
# How often stuck lanes may be passed over before it is their turn.
_STUCK_PATIENCE: Final = 3

# Seconds for which a payment's lane rests at most, since it has to be verified within an hour.
_LONGEST_MONEY_REST: Final = 300.0

# Nothing went well for so many seconds: an outage. When it is over, nothing waits for the end of its pause.
_OUTAGE: Final = 5.0

# After so many seconds without any answer, so many requests a second start over the second half of the
# connections: the client's patience with them, a minute, ends before there are too many.
_SILENCE: Final = 2.0
_IN_SILENCE: Final = 3

# So many lanes for each place are a backlog. Then the newest lane and the oldest take turns, so that a person
# who writes now doesn't wait for all of it.
_BACKLOG: Final = 16

# A lane that the platform limits (429) pauses between two operations; each good answer shortens the pause.
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 10.0
_SHORTEST_PAUSE: Final = 0.05


def share_caps(parallel: int) -> dict[Urgency, int]:
    """Return how many places each class may hold, so that slow ones of one leave room for the others."""
    return {
        Urgency.MONEY: parallel,
        Urgency.REPLY: max(1, parallel - parallel // 8),
        Urgency.BESIDE: max(1, parallel // 4),
        Urgency.BROADCAST: max(1, parallel // 2),
        Urgency.TYPING: max(1, parallel // 4),
    }


def connection_caps(connections: int) -> dict[Urgency, int]:
    """Return for each class how many, of all classes, may be in flight for one of it to start."""
    return {urgency: max(1, connections - connections // 16 * urgency) for urgency in Urgency}


# Going through an enum itself costs a generator each time, several times for each operation.
_URGENCIES: Final = tuple(Urgency)
_CLASSES: Final = len(_URGENCIES)
_PATIENCE: Final = [PATIENCE[urgency] for urgency in Urgency]


@attrs.define(eq=False)
class Place:
    """What has a place in a lane: the base of whatever is queued there.

    Attributes:
        key: the lane's.
    """

    key: Hashable = attrs.field(repr=False)
    urgency: Urgency


@final
@guarded
class LaneStanding(Generic[P]):
    """A snapshot of a lane.

    Attributes:
        places: in the order in which it leaves.
        flying: how much of it, from the front, is in flight.
        suspended: it waits for `Lanes.resume`.
        not_before: until then it rests, by the caller's clock.
    """

    places: tuple[P, ...]
    flying: int
    suspended: bool
    not_before: float


@final
@attrs.define(eq=False)
class _Lane(Generic[P]):
    """A lane in which something waits, is in flight, or has to rest.

    Attributes:
        head: started at least once: in flight, or put back.
        holds: the class whose place it holds.
        limited_until: the platform asked for silence until then.
        counts: how many of each class are in it.
    """

    # Given, since a factory is a call more for each: one is made for nearly every operation.
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
    """All lanes. Every method is instant; the caller starts what `start` returns, and reports its end.

    Args:
        parallel: places.
        connections: in flight at a time, with a place and without.
        pace: of all starts.
    """

    def __init__(self, parallel: int = 40, connections: int = 472, pace: Pace | None = None) -> None:
        self.parallel = parallel
        self.connections = max(parallel, connections)
        self.pace = pace or Pace()
        self.held = False
        self.queued = 0
        self.in_flight = 0
        # Lists, by class: an enum's hash is a call of its own.
        self._caps = [share_caps(parallel)[urgency] for urgency in Urgency]
        self._connection_caps = [connection_caps(self.connections)[urgency] for urgency in Urgency]
        self._half = max(1, self.connections // 2)
        self._stuck_caps = (max(1, parallel - parallel // 4), self._half)
        # Who holds a place, in the order in which they began.
        self._holding: dict[_Lane[P], None] = {}
        self._held_by = [0 for _ in Urgency]
        # Of stuck lanes: places, and how many are in flight.
        self._stuck_holding = self._stuck_flying = 0
        self._stuck_passed = 0
        self._newest_next = False
        # When something started last while half of the connections were in use.
        self._flew_at = 0.0
        # Everything but money rests until then.
        self.limited_until = 0.0
        # Of which lanes the platform asked for silence, until when; and since when there are any.
        self._limits: dict[Hashable, float] = {}
        self._limited_since = 0.0
        # Since when nothing has gone well, if anything has failed since.
        self._failing_since: float | None = None
        # When the platform last gave an answer, or was first asked after a silence of ours.
        self._heard_at = float("-inf")
        # The youngest request that has been answered began then.
        self._answered_began = float("-inf")
        self._passed = [0 for _ in Urgency]
        self._lanes: dict[Hashable, _Lane[P]] = {}
        self._ready: list[dict[_Lane[P], None]] = [{} for _ in Urgency]
        self._stuck_ready: list[dict[_Lane[P], None]] = [{} for _ in Urgency]
        self._suspended: dict[_Lane[P], None] = {}
        self._resting: list[tuple[float, int, _Lane[P]]] = []
        self._ticks = count()

    # --- taking and leaving a place

    def queue(self, place: P, now: float) -> bool:
        """Put this at the end of its lane.

        Returns:
            Whether `start` may find something to start that it would not have found before. It would not if
            another lane of its class waits for its turn already, or its own has to wait.
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
        """Make a place that is not in flight at least this urgent."""
        lane = self._lanes[place.key]
        if urgency < place.urgency:
            lane.counts[place.urgency] -= 1
            lane.counts[urgency] += 1
            place.urgency = urgency
            self._arrange(lane, now)

    def withdraw(self, place: P, now: float) -> bool:
        """Leave a place; False if it is in flight or gone."""
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
        """Empty a lane except for what is in flight; returns what left, in order."""
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
        """Take the next operation that may start, and count it as in flight; None if none may."""
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
        """Take one operation in spite of `held`: of a lane that isn't suspended, else of one that is.

        Suspended lanes take turns.
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
        """Return when something may become ready, if nothing else happens; `NEVER` if only news helps."""
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

    # --- how a started operation ends

    def began(self, place: P, now: float) -> None:
        """Restart the time of a place in flight: its request begins now, after a wait or a file's upload."""
        lane = self._lanes[place.key]
        lane.began = now
        if lane.holds is not None:
            del self._holding[lane]
            self._holding[lane] = None

    def finish(self, place: P, now: float) -> None:
        """Remove a place in flight; its lane goes on with the next one."""
        lane = self._landed(place)
        lane.head = None
        if not lane.queue and lane.not_before <= now:
            del self._lanes[lane.key]
        else:
            self._gone(lane, place, now)

    def postpone(self, place: P, until: float, now: float) -> None:
        """Put it back at the head of its lane, to start again at `until`."""
        lane = self._landed(place)
        lane.not_before = max(lane.not_before, until)
        self.queued += 1
        self._arrange(lane, now)

    def suspend(self, place: P, now: float) -> None:
        """Put it back at the head of its lane, until `resume` or a probe."""
        lane = self._landed(place)
        lane.suspended = True
        self._suspended[lane] = None
        self.queued += 1
        self._arrange(lane, now)

    def resume(self, place: P, now: float) -> None:
        """Let a suspended lane go on with this, its head; nothing if it isn't suspended there."""
        lane = self._lanes.get(place.key)
        if lane is not None and lane.head is place and lane.suspended:
            self._unsuspend(lane)
            self._arrange(lane, now)

    def answered(self, place: P, now: float) -> None:
        """Record that the platform answered this place in flight as it should, or with a plain no."""
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
        """Record that the platform failed, didn't answer, or (`limited`) answered this place with 429.

        Args:
            rests: seconds for which the platform asked for silence. The lane keeps it. So does everything but
                money, if the platform asks two lanes for it and answers no other one meanwhile.

        Returns:
            When this lane's present row of such outcomes began.
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

    # --- looking

    def last(self, key: Hashable) -> P | None:
        """Return the last place of a lane, if it has never started."""
        lane = self._lanes.get(key)
        return next(reversed(lane.queue), None) if lane is not None else None

    def busy(self, key: Hashable) -> bool:
        """Return whether anything of this lane is queued or in flight."""
        lane = self._lanes.get(key)
        return lane is not None and (lane.head is not None or bool(lane.queue))

    def flying(self, key: Hashable) -> P | None:
        """Return what is in flight in a lane, if anything."""
        lane = self._lanes.get(key)
        return lane.head if lane is not None and lane.in_flight else None

    def standing(self, key: Hashable) -> LaneStanding[P]:
        """Return what is in flight and what waits in a lane."""
        lane = self._lanes.get(key)
        if lane is None:
            return LaneStanding((), 0, False, 0.0)
        places = tuple(place for place in (lane.head, *lane.queue) if place is not None)
        return LaneStanding(places, int(lane.in_flight), lane.suspended, lane.not_before)

    def places(self) -> Iterator[P]:
        """Yield every place that is queued or in flight, in the order of each lane."""
        for lane in self._lanes.values():
            if lane.head is not None:
                yield lane.head
            yield from lane.queue

    def is_quiet(self) -> bool:
        """Return whether nothing waits for its turn, and no lane for the end of its pause."""
        return not self.queued and not self._resting

    @property
    def known(self) -> int:
        """Return how many lanes are remembered."""
        return len(self._lanes)

    @property
    def suspended(self) -> int:
        """Return how many lanes wait for `resume`."""
        return len(self._suspended)

    # --- inside

    def _all_start_at(self, now: float) -> float:
        """Return when all classes may start something; money always may.

        While nothing is answered, half of the connections are for a few requests a second. Else each of them
        would carry a lost request at the end of the silence, and newcomers would wait for its time to end.
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
        # The least urgent first: it has waited longest for its turn, and takes one only.
        for urgency in reversed(startable):
            if urgency is not Urgency.MONEY and self._passed[urgency] >= _PATIENCE[urgency]:
                return urgency
        return startable[0]

    def _next(self, urgency: Urgency) -> _Lane[P] | None:
        """Return the lane of a class that goes next: a stuck one in its turn, or when no other is ready."""
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
        """Return when the oldest holder of a place gives it up, if nothing is answered meanwhile."""
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
        """Put a lane where it belongs: in flight, suspended, resting, ready or forgotten."""
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
