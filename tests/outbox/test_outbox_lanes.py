"""The laws of the lanes, over random programs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import examples
from triobot.outbox.lanes import NEVER, Lanes, Place
from triobot.outbox.ready_queue import PATIENCE
from triobot.outbox.slots import share_caps
from triobot.seams.outbox import Urgency


@attrs.define(eq=False)
class Waiting(Place):
    """Something with a place in a lane."""

    work: Any


def queue(lanes: Lanes[Waiting], key: object, work: object, urgency: Urgency, now: float) -> Waiting:
    place = Waiting(key, urgency, work)
    lanes.queue(place, now)
    return place


ACTIONS = (
    "queue queue queue start start finish postpone limited suspend resume"
    " withdraw later hold release probe drop"
)
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTIONS.split()), st.integers(0, 3), st.sampled_from(Urgency)), max_size=80
)


def check(lanes: Lanes[Waiting], flying: list[Waiting], connections: int) -> None:
    assert lanes.in_flight == len(flying) <= connections + 1  # a probe may be one more
    assert len({place.key for place in flying}) == len(flying), "two of one lane at once"
    places = list(lanes.places())
    assert len(places) == lanes.queued + lanes.in_flight


@settings(max_examples=examples(200), deadline=None)
@given(STEPS, st.integers(1, 4), st.integers(0, 2))
def test_random_programs_keep_the_order_of_each_lane_and_lose_nothing(
    steps: list[tuple[str, int, Urgency]], parallel: int, more: int
) -> None:
    lanes: Lanes[Waiting] = Lanes(parallel, parallel + more)
    now = 0.0
    queued: dict[int, list[Waiting]] = {key: [] for key in range(4)}
    gone: set[Waiting] = set()
    ended: dict[int, list[Waiting]] = {key: [] for key in range(4)}
    flying: list[Waiting] = []
    suspended: list[Waiting] = []

    def head_of(key: int) -> Waiting:
        return next(place for place in queued[key] if place not in gone and place not in ended[key])

    def began(place: Waiting | None) -> None:
        if place is not None:
            assert place is head_of(place.work), "overtaken in its own lane"
            flying.append(place)
            if place in suspended:
                suspended.remove(place)

    for action, number, urgency in steps:
        if action == "queue":
            queued[number].append(queue(lanes, number, number, urgency, now))
        elif action == "start":
            began(lanes.start(now))
        elif action == "probe" and len(flying) <= parallel + more:
            began(lanes.start_probe(now, untried_only=bool(number % 2)))
        elif action in ("hold", "release"):
            lanes.held = action == "hold"
        elif action == "later":
            now += number
        elif action == "resume" and suspended:
            lanes.resume(suspended.pop(0), now)
        elif action == "withdraw":
            waiting = [place for place in lanes.places() if place not in flying]
            if waiting:
                place = waiting[number % len(waiting)]
                assert lanes.withdraw(place, now)
                gone.add(place)
                if place in suspended:
                    suspended.remove(place)
            for place in flying:
                assert not lanes.withdraw(place, now)
        elif action == "drop":
            dropped = [place for place in lanes.standing(number).places if lanes.withdraw(place, now)]
            gone.update(dropped)
            suspended = [place for place in suspended if place not in gone]
            assert not set(dropped) & set(flying)
        elif flying:
            place = flying.pop(number % len(flying))
            if action == "finish":
                lanes.answered(place, now)
                lanes.finish(place, now)
                ended[place.work].append(place)
            elif action == "suspend":
                lanes.suspend(place, now)
                suspended.append(place)
            elif action in ("postpone", "limited"):
                lanes.pushed_back(place, now, limited=action == "limited")
                lanes.postpone(place, now + number, now)
            else:
                flying.append(place)
        check(lanes, flying, parallel + more)

    # Whatever happened, everything that is left goes out, in order, and then nothing is remembered.
    lanes.held = False
    for place in suspended:
        lanes.resume(place, now)
    for place in list(flying):
        flying.remove(place)
        lanes.finish(place, now)
        ended[place.work].append(place)
    for _ in range(2000):
        place = lanes.start(now)
        if place is not None:
            assert place is head_of(place.work)
            lanes.finish(place, now)
            ended[place.work].append(place)
            continue
        if lanes.look_again(now) == NEVER:
            break
        now = lanes.look_again(now)
    for key, places in queued.items():
        assert ended[key] == [place for place in places if place not in gone]
    assert (lanes.queued, lanes.in_flight, lanes.known, lanes.suspended) == (0, 0, 0, 0)
    # And every place is free again.
    for number in range(parallel + 1):
        queue(lanes, ("new", number), 0, Urgency.MONEY, now)
    assert fill(lanes, max(now, lanes.pace.ready_at(now))) == parallel


@settings(max_examples=examples(200), deadline=None)
@given(STEPS, st.integers(1, 4), st.integers(0, 2))
def test_what_is_queued_tells_whether_it_may_start(
    steps: list[tuple[str, int, Urgency]], parallel: int, more: int
) -> None:
    """As long as all that may start is started, at each change and when the lanes want to be looked at."""
    lanes: Lanes[Waiting] = Lanes(parallel, parallel + more)
    now = 0.0
    flying: list[Waiting] = []
    for action, number, urgency in steps:
        place = flying.pop(number % len(flying)) if flying and action not in ("queue", "later") else None
        if action == "queue":
            if not lanes.queue(Waiting(number, urgency, None), now):
                assert lanes.start(now) is None
        elif action == "later":
            now = min(now + number, max(now, lanes.look_again(now)))
        elif place is not None and action in ("postpone", "limited"):
            lanes.pushed_back(place, now, limited=action == "limited")
            lanes.postpone(place, now + number, now)
        elif place is not None:
            lanes.answered(place, now)
            lanes.finish(place, now)
        while (started := lanes.start(now)) is not None:
            flying.append(started)


def fill(lanes: Lanes[Waiting], now: float) -> int:
    """Start whatever may start now, and say how many those were."""
    started = 0
    while lanes.start(now) is not None:
        started += 1
    return started


def drain(lanes: Lanes[Waiting], starts: int) -> list[Waiting]:
    started: list[Waiting] = []
    for _ in range(starts):
        place = lanes.start(0.0)
        if place is None:
            break
        started.append(place)
        lanes.finish(place, 0.0)
    return started


def test_a_more_urgent_lane_goes_first() -> None:
    lanes: Lanes[Waiting] = Lanes(1)
    for urgency in reversed(Urgency):
        queue(lanes, urgency, None, urgency, 0.0)

    assert [place.urgency for place in drain(lanes, len(Urgency))] == list(Urgency)


def test_money_pulls_forward_what_stands_before_it_and_does_not_overtake_it() -> None:
    lanes: Lanes[Waiting] = Lanes(1)
    queue(lanes, "other", "reply", Urgency.REPLY, 0.0)
    queue(lanes, "chat", "first", Urgency.BROADCAST, 0.0)
    queue(lanes, "chat", "money", Urgency.MONEY, 0.0)

    assert [place.work for place in drain(lanes, 3)] == ["first", "money", "reply"]


def test_lanes_of_one_class_take_turns() -> None:
    lanes: Lanes[Waiting] = Lanes(1)
    for text in ("a1", "a2", "a3"):
        queue(lanes, "a", text, Urgency.REPLY, 0.0)
    queue(lanes, "b", "b1", Urgency.REPLY, 0.0)

    assert [place.work for place in drain(lanes, 4)] == ["a1", "b1", "a2", "a3"]


@pytest.mark.slow
@given(st.lists(st.sampled_from(Urgency), min_size=1, max_size=4, unique=True))
def test_no_class_starves_however_much_waits_above_it(classes: list[Urgency]) -> None:
    lanes: Lanes[Waiting] = Lanes(1)
    starts = 400
    for urgency in classes:
        for number in range(starts):
            queue(lanes, (urgency, number), None, urgency, 0.0)

    started = [place.urgency for place in drain(lanes, starts)]

    for urgency in classes:
        positions = [-1, *(at for at, other in enumerate(started) if other is urgency), starts]
        longest = max(b - a for a, b in pairwise(positions))
        bound = PATIENCE[urgency] if urgency is not min(classes) else 3
        assert longest <= bound + len(Urgency)


def test_slow_broadcasts_leave_room_for_replies_and_replies_for_money() -> None:
    lanes: Lanes[Waiting] = Lanes(32)
    for number in range(100):
        queue(lanes, ("broadcast", number), None, Urgency.BROADCAST, 0.0)
    while lanes.start(0.0):
        pass
    assert lanes.in_flight == share_caps(32)[Urgency.BROADCAST] == 16

    for number in range(100):
        queue(lanes, ("reply", number), None, Urgency.REPLY, 0.0)
    while lanes.start(0.0):
        pass
    assert lanes.in_flight == 32

    lanes = Lanes(32)
    for number in range(100):
        queue(lanes, ("reply", number), None, Urgency.REPLY, 0.0)
    while lanes.start(0.0):
        pass
    queue(lanes, "money", None, Urgency.MONEY, 0.0)
    place = lanes.start(0.0)
    assert place is not None and place.key == "money"


def test_a_limited_lane_pauses_longer_and_longer_and_recovers() -> None:
    lanes: Lanes[Waiting] = Lanes(4)
    now = 0.0
    for number in range(60):
        queue(lanes, "chat", number, Urgency.REPLY, now)
    pauses: list[float] = []
    for _ in range(4):
        place = lanes.start(now)
        assert place is not None
        lanes.pushed_back(place, now, limited=True)
        lanes.postpone(place, now, now)
        pauses.append(lanes.look_again(now) - now)
        now = lanes.look_again(now)
    assert pauses == [0.25, 0.5, 1.0, 2.0]

    while (place := lanes.start(now)) is not None:
        lanes.answered(place, now)
        lanes.finish(place, now)
        pauses.append(max(0.0, min(lanes.look_again(now), now + 60) - now))
        if lanes.look_again(now) != NEVER:
            now = lanes.look_again(now)
    assert pauses[4:] == sorted(pauses[4:], reverse=True) or pauses[-1] == 60
    assert 0.0 in pauses[4:], "the pause is forgotten in the end"


# --- places that are given up


def replies(lanes: Lanes[Waiting], many: int, now: float) -> list[Waiting]:
    return [queue(lanes, number, number, Urgency.REPLY, now) for number in range(many)]


def answer(lanes: Lanes[Waiting], place: Waiting, now: float) -> None:
    lanes.answered(place, now)
    lanes.finish(place, now)


def test_a_lane_that_others_overtake_gives_its_place_up() -> None:
    lanes: Lanes[Waiting] = Lanes(8)
    places = replies(lanes, 30, 0.0)
    assert fill(lanes, 0.0) == 7, "a place is kept for money"
    for number in range(7):
        now = number / 10
        answer(lanes, places[6 + number], now)
        assert fill(lanes, now) == (7 if number > 5 else 1)
    assert lanes.in_flight == 7 + 6, "six are overtaken by one that began half a second later"


def test_a_slow_platform_that_answers_in_order_gets_no_more_for_it() -> None:
    lanes: Lanes[Waiting] = Lanes(8)
    places = replies(lanes, 100, 0.0)
    now = 0.0
    for place in places[:90]:
        fill(lanes, now)
        assert lanes.in_flight == 7
        now += 0.45
        answer(lanes, place, now)


def test_while_nothing_is_answered_more_and_more_are_let_through() -> None:
    lanes: Lanes[Waiting] = Lanes(8, 40)
    replies(lanes, 100, 0.0)
    assert fill(lanes, 0.0) == 7
    assert lanes.look_again(0.0) == 0.5
    assert fill(lanes, 0.5) == 7
    assert lanes.look_again(0.5) == 0.6
    now = 0.5
    while (now := lanes.look_again(now)) != NEVER and now < 10:
        fill(lanes, now)
    assert lanes.in_flight == 38, "some connections are kept for money"
    queue(lanes, "money", 0, Urgency.MONEY, 10.0)
    assert fill(lanes, 10.0) == 1


def test_lanes_that_were_not_answered_leave_connections_and_places_to_the_others() -> None:
    lanes: Lanes[Waiting] = Lanes(8, 40)
    replies(lanes, 100, 0.0)
    now = 0.0
    flying: list[Waiting] = []
    while now < 10:
        while (place := lanes.start(now)) is not None:
            flying.append(place)
        now = min(10.0, lanes.look_again(now))
    for place in flying:
        lanes.pushed_back(place, 30.0, limited=False)
        lanes.postpone(place, 30.0, 30.0)
    stuck = set(flying)
    now, flying = 30.0, []
    while now < 60:
        while (place := lanes.start(now)) is not None:
            flying.append(place)
        now = min(60.0, lanes.look_again(now))
    assert sum(place in stuck for place in flying) <= 20
    assert sum(place not in stuck for place in flying) >= 18


def test_one_failure_makes_no_lane_stuck_and_money_is_never_held_up() -> None:
    lanes: Lanes[Waiting] = Lanes(4, 4)
    places = replies(lanes, 3, 0.0)
    money = queue(lanes, "money", 0, Urgency.MONEY, 0.0)
    for place in (money, *places):
        assert lanes.start(0.0) is not None
        for _ in range(3 if place is not places[0] else 1):
            lanes.pushed_back(place, 0.1, limited=False)
    for place in (money, *places):
        lanes.postpone(place, 0.1, 0.1)
    started = [lanes.start(1.0) for _ in range(4)]
    assert started[:2] == [money, places[0]]


def test_an_upload_does_not_count_as_waiting_for_the_platform() -> None:
    lanes: Lanes[Waiting] = Lanes(4)
    place = queue(lanes, "chat", 0, Urgency.REPLY, 0.0)
    assert lanes.start(0.0) is place
    lanes.began(place, 100.0)
    answer(lanes, place, 100.1)
    assert lanes.pace.usual == pytest.approx(0.1)
