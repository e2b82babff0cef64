"""What follows an outage, and what a platform asks for by `Retry-After`."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
from scripted_platform import Alarms, ScriptedPlatform

from tests.benchmarks.recovery import OUTAGES, recover
from triobot.errors import RefusedError
from triobot.outbox import open_outbox
from triobot.outbox.lanes import NEVER, Lanes, Place
from triobot.outbox.pacing import Pace
from triobot.seams.outbox import Urgency
from triobot.wire.operations import SendMessage, VerifyPayment


@pytest.mark.parametrize(
    "waiting",
    [5, 300, pytest.param(2_000, marks=pytest.mark.slow), pytest.param(10_000, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("outage", OUTAGES)
async def test_the_former_rate_is_back_in_seconds(waiting: int, outage: str, autojump_clock: Any) -> None:
    after = await recover(waiting, outage)
    assert after.half <= max(3, waiting / 500)
    # A request that the platform swallowed is found out by its time alone.
    assert after.all <= (65 if outage == "silent" else max(5, waiting / 500))
    assert max(after.newcomers) <= 3


async def test_a_platform_that_comes_back_slower_is_spared(autojump_clock: Any) -> None:
    """Forty requests at a time, each of which takes 2 s, are twenty a second and no more."""
    after = await recover(300, "503", answers_in=2.0)
    assert after.all <= 40
    assert max(after.newcomers) <= 10


def test_a_slow_start_doubles_and_halves() -> None:
    pace = Pace()
    for number in range(96):
        pace.started(number / 50)
        pace.pushed_back(number, number / 50, number / 50, limited=False)
    now = 10.0
    while pace.rate != 1.0:
        pace.pushed_back(int(now), now, now, limited=False)
        now += 1
    rates: list[float | None] = []
    for ok in (True, True, True, False, True, True, True, True, True):
        if ok:
            pace.went_well("chat", now, now)
        else:
            pace.pushed_back("chat", now, now, limited=False)
        rates.append(pace.rate)
        now += 0.1
    assert rates == [2, 4, 8, 4, 8, 16, 32, None, None]


def test_an_outage_ends_all_pauses_and_a_limit_ends_its_own() -> None:
    lanes: Lanes[Place] = Lanes(8)
    places = [Place(key, Urgency.REPLY) for key in range(3)]
    for place in places:
        lanes.queue(place, 0.0)
        assert lanes.start(0.0) is place
    lanes.pushed_back(places[0], 0.1, limited=False)
    lanes.postpone(places[0], 40.0, 0.1)
    lanes.pushed_back(places[1], 0.1, limited=True, rests=30.0)
    lanes.postpone(places[1], 40.0, 0.1)
    lanes.answered(places[2], 20.0)
    lanes.finish(places[2], 20.0)
    assert lanes.start(20.0) is places[0]
    assert lanes.start(20.0) is None
    assert lanes.look_again(20.0) == 30.1


def _limited(lanes: Lanes[Place], keys: str, now: float, seconds: float) -> None:
    for key in keys:
        place = Place(key, Urgency.REPLY)
        lanes.queue(place, now)
        assert lanes.start(now) is place
        lanes.pushed_back(place, now, limited=True, rests=seconds)
        lanes.postpone(place, now, now)


def test_two_lanes_that_are_asked_for_silence_silence_all_but_money() -> None:
    lanes: Lanes[Place] = Lanes(8)
    _limited(lanes, "a", 0.0, 60.0)
    _limited(lanes, "b", 1.0, 20.0)  # it starts: one lane's limit may be its chat's
    third, money = Place("c", Urgency.REPLY), Place("money", Urgency.MONEY)
    lanes.queue(third, 2.0)
    lanes.queue(money, 2.0)
    assert lanes.start(2.0) is money
    assert lanes.start(2.0) is None
    assert lanes.start(59.0) is None
    assert lanes.start(60.0) is not None


def test_an_answer_meanwhile_says_that_the_limits_are_the_chats_own() -> None:
    lanes: Lanes[Place] = Lanes(8)
    _limited(lanes, "a", 0.0, 60.0)
    good = Place("good", Urgency.REPLY)
    lanes.queue(good, 1.0)
    assert lanes.start(1.0) is good
    lanes.answered(good, 2.0)
    lanes.finish(good, 2.0)
    _limited(lanes, "b", 3.0, 60.0)
    assert lanes.limited_until == 0
    assert lanes.start(10.0) is None
    assert lanes.look_again(10.0) == 60.0


def test_a_payments_lane_rests_for_minutes_at_most() -> None:
    lanes: Lanes[Place] = Lanes(8)
    money = Place("money", Urgency.MONEY)
    lanes.queue(money, 0.0)
    assert lanes.start(0.0) is money
    lanes.pushed_back(money, 0.0, limited=True, rests=3600.0)
    lanes.postpone(money, 0.0, 0.0)
    assert lanes.look_again(0.0) == 300.0 != NEVER


@pytest.mark.parametrize("begins", [True, False], ids=["caller", "courier"])
async def test_a_platform_that_punishes_early_requests_serves_everybody(
    begins: bool, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each one that comes before the time that was named makes the ban two seconds longer."""
    monkeypatch.setattr(ScriptedPlatform, "begins", begins)
    first = trio.current_time()
    until, early = first + 8, 0

    async def script(operation: Any) -> None:
        nonlocal until, early
        now = trio.current_time()
        if isinstance(operation, SendMessage) and now < until:
            if now > first + 2:
                until, early = until + 2, early + 1
            raise RefusedError(operation.path, 429, retry_after=until - now)

    platform = ScriptedPlatform(script)
    async with (
        open_outbox(platform, raise_alarm=Alarms(), random=random.Random(7).random) as outbox,
        trio.open_nursery() as nursery,
    ):
        for chat in range(20):
            nursery.start_soon(outbox.perform, SendMessage(chat, "hello"))
            await trio.sleep(0.25)
        await outbox.perform(VerifyPayment(1, "123"), urgency=Urgency.MONEY)
        assert trio.current_time() < until, "money waits for no other's limit"
    assert early == 0
    assert len(platform.texts()) == 20
    assert trio.current_time() < first + 12
