"""A simulation of the lanes, the pace and the repetitions before a platform: pure, seeded, in no time.

What is simulated is the platform and the clock; lanes, pace and verdicts are the outbox's own.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from statistics import median
from typing import Final

import attrs

from triobot.errors import DeliveryUnknownError, RefusedError
from triobot.outbox.lanes import NEVER, Lanes, Place
from triobot.outbox.retry import Again, RetryRules, is_limit, judge
from triobot.seams.outbox import OnUnknown, Urgency
from triobot.wire.operations import SendMessage

PATIENCE: Final = 30.0
"""Seconds after which the client gives an attempt up."""

LATENCY: Final = 0.1


@attrs.define(eq=False)
class Waiting(Place):
    """A request of a chat, and when it was queued."""

    since: float


Platform = Callable[[float, int], tuple[float, int]]
"""Takes a request of a chat at a time; says for how long, and with which status: 0 is no answer."""


def faulty(seed: int, *, latency: float = LATENCY, **faults: float) -> Platform:
    """A platform that answers so many with ``s500``, ``s429`` and so on, at random; ``silent``: never."""
    dice = random.Random(seed)

    def platform(now: float, chat: int) -> tuple[float, int]:
        drawn = dice.random()
        for name, share in faults.items():
            drawn -= share
            if drawn < 0:
                return (PATIENCE, 0) if name == "silent" else (latency, int(name.removeprefix("s")))
        return latency * dice.uniform(0.5, 2), 200

    return platform


def limited(capacity: int, status: int) -> Platform:
    """A platform that takes so many a second, and answers the others with this status."""
    taken = deque[float]()

    def platform(now: float, chat: int) -> tuple[float, int]:
        while taken and now - taken[0] >= 1:
            taken.popleft()
        if len(taken) < capacity:
            taken.append(now)
            return LATENCY, 200
        return LATENCY, status

    return platform


def collapsing(capacity: int) -> Platform:
    """A platform that takes so many a second, and fails two thirds of all while more than that come."""
    dice, came = random.Random(1), deque[float]()

    def platform(now: float, chat: int) -> tuple[float, int]:
        came.append(now)
        while now - came[0] >= 1:
            came.popleft()
        failed = len(came) > capacity and dice.random() < 2 / 3
        return LATENCY, 500 if failed else 200

    return platform


def queueing(capacity: float) -> Platform:
    """A platform that works through a queue at so many a second, also what nobody waits for any more."""
    free_at = 0.0

    def platform(now: float, chat: int) -> tuple[float, int]:
        nonlocal free_at
        free_at = max(now, free_at) + 1 / capacity
        took = free_at - now + LATENCY
        return (took, 200) if took <= PATIENCE else (PATIENCE, 0)

    return platform


@attrs.define
class Run:
    """What became of it.

    Attributes:
        delays: of each operation that was carried, seconds from its queueing to its end, by chat.
        waiting: seconds for which those that were not carried had waited at the end, by chat.
        began: when each attempt began, and with which status it ended.
        rates: the pace's rate at each whole second.
        most_in_flight: at a time.
    """

    offered: int = 0
    delays: list[tuple[int, float]] = attrs.Factory(list)
    waiting: list[tuple[int, float]] = attrs.Factory(list)
    began: list[tuple[float, int]] = attrs.Factory(list)
    rates: list[float | None] = attrs.Factory(list)
    most_in_flight: int = 0

    @property
    def carried(self) -> float:
        """Which part of what was offered was carried within the time."""
        return len(self.delays) / self.offered

    def delay(self, among: Callable[[int], bool] = lambda chat: True) -> float:
        """The median delay of these chats; what still waits counts with what it has waited."""
        return median(took for chat, took in [*self.delays, *self.waiting] if among(chat))

    def attempts(self, since: float, until: float, *statuses: int) -> float:
        """How many attempts a second began in this time; those that ended with one of these statuses."""
        here = [status for at, status in self.began if since <= at < until]
        return sum(not statuses or status in statuses for status in here) / (until - since)


def simulate(
    platform: Platform,
    *,
    offered: float,
    seconds: float,
    chats: int = 500,
    seed: int = 1,
    lanes: Lanes[Waiting] | None = None,
    at_first: tuple[int, ...] = (),
    offered_until: float = NEVER,
) -> Run:
    """Offer so many sends a second to chats at random, and let the outbox's own rules decide.

    Args:
        at_first: these chats have one send each before all others.
        offered_until: nothing more is offered after so many seconds.
    """
    dice, ticks, run = random.Random(seed), itertools.count(), Run()
    lanes = lanes or Lanes()
    rules, operation = RetryRules(), SendMessage(1, "x")
    due: list[tuple[float, int, Waiting | None, int]] = [(0.0, next(ticks), None, 0)]
    attempts: dict[Waiting, int] = {}
    looking = NEVER

    def queue(chat: int, now: float) -> None:
        run.offered += 1
        lanes.queue(Waiting(chat, Urgency.REPLY, now), now)

    def end(place: Waiting, status: int, now: float) -> None:
        chat = place.key
        assert isinstance(chat, int)
        if status == 200:
            lanes.answered(place, now)
            lanes.finish(place, now)
            run.delays.append((chat, now - place.since))
            return
        error = RefusedError("sendMessage", status) if status else DeliveryUnknownError("sendMessage", "-")
        since = lanes.pushed_back(place, now, limited=is_limit(error))
        attempts[place] = attempts.get(place, 0) + 1
        verdict = judge(
            operation,
            error,
            on_unknown=OnUnknown.RESEND,
            attempts=attempts[place],
            failing_for=now - since,
            doubtful=False,
            rules=rules,
            random=dice.random,
        )
        assert isinstance(verdict, Again)
        lanes.postpone(place, now + verdict.pause, now)

    for chat in at_first:
        queue(chat, 0.0)
    while due and due[0][0] < seconds:
        now, _, landed, status = heapq.heappop(due)
        while len(run.rates) <= now:
            run.rates.append(lanes.pace.rate)
        if landed is not None:
            end(landed, status, now)
        elif status == 0 and now < offered_until:
            queue(dice.randrange(chats), now)
            heapq.heappush(due, (now + dice.expovariate(offered), next(ticks), None, 0))
        elif status == -1:
            looking = NEVER
        while (place := lanes.start(now)) is not None:
            chat = place.key
            assert isinstance(chat, int)
            took, answer = platform(now, chat)
            run.began.append((now, answer))
            heapq.heappush(due, (now + took, next(ticks), place, answer))
        run.most_in_flight = max(run.most_in_flight, lanes.in_flight)
        again = lanes.look_again(now)
        if again < looking:
            looking = max(again, now + 1e-6)
            heapq.heappush(due, (looking, next(ticks), None, -1))
    for place in lanes.places():
        chat = place.key
        assert isinstance(chat, int)
        run.waiting.append((chat, seconds - place.since))
    return run
