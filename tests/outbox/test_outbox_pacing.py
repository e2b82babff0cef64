"""The overall pace: random faults don't set it, a platform that is overloaded is spared."""

from __future__ import annotations

from itertools import pairwise

import pytest
from simulated import Platform, collapsing, faulty, limited, queueing, simulate

from triobot.outbox.lanes import NEVER
from triobot.outbox.pacing import Pace, PaceRules

MIXED = {"s500": 0.04, "s429": 0.02, "s502": 0.01, "silent": 0.02}


def test_no_limit_while_all_is_well() -> None:
    pace = Pace()
    for number in range(1000):
        now = number / 1000
        assert pace.ready_at(now) <= now
        pace.started(now)
        pace.went_well(number, now, now)
    assert pace.rate is None


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_lane_or_two_never_slow_the_rest(lanes: int) -> None:
    pace = Pace()
    for number in range(1000):
        now = number / 10
        pace.started(now)
        pace.pushed_back(number % lanes, now, now, limited=True)
    assert pace.rate is None


@pytest.mark.slow
@pytest.mark.parametrize("offered", [20, 100])
@pytest.mark.parametrize(
    "faults",
    [{"s500": 0.005}, {"s500": 0.02}, {"s500": 0.05}, MIXED, {"s500": 0.05, "s429": 0.04}],
    ids=str,
)
def test_random_faults_do_not_set_the_pace(offered: int, faults: dict[str, float]) -> None:
    # Those that are not answered take half a minute each.
    seconds = 120 if "silent" in faults else 60
    for seed in (1, 2):
        run = simulate(faulty(seed, **faults), offered=offered, seconds=seconds, seed=seed)
        assert run.carried >= 0.95
        assert run.delay() < 0.5


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_a_cut_that_did_not_help_is_taken_back(share: float) -> None:
    """One of two machines behind the platform's name is broken: fewer requests would meet it as often."""
    run = simulate(faulty(3, s500=share), offered=60, seconds=120, seed=3)
    assert run.carried >= 0.9
    assert run.rates[60:] == [None] * 60


@pytest.mark.slow
@pytest.mark.parametrize("offered", [40, 100])
@pytest.mark.parametrize("status", [429, 500])
@pytest.mark.parametrize("capacity", [5, 30])
def test_a_platform_that_takes_so_many_a_second_gets_about_those(
    capacity: int, status: int, offered: int
) -> None:
    run = simulate(limited(capacity, status), offered=offered, seconds=120)
    assert 0.8 * capacity <= run.attempts(60, 120, 200)
    assert run.attempts(60, 120) <= 1.5 * capacity
    assert run.attempts(60, 120, status) <= 0.5 * capacity


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [15, 30, 60])
def test_a_platform_that_fails_most_while_it_is_overloaded_is_spared(capacity: int) -> None:
    run = simulate(collapsing(capacity), offered=100, seconds=180)
    assert run.attempts(60, 180) <= capacity
    assert 0.5 * capacity <= run.attempts(60, 180, 200)


@pytest.mark.parametrize("capacity", [3, 5, 30])
def test_a_slow_platform_has_a_bounded_queue(capacity: int) -> None:
    """What it does is never in vain: nothing is given up and sent again."""
    run = simulate(queueing(capacity), offered=100, seconds=120)
    assert run.most_in_flight <= 40
    assert run.attempts(0, 120, 0) == 0
    assert 0.7 * capacity <= run.attempts(20, 120, 200)


def test_an_answer_that_takes_longer_and_longer_slows_us_until_it_is_quick_again() -> None:
    run = simulate(queueing(5), offered=100, seconds=120)
    slowed = [rate for rate in run.rates if rate is not None]
    assert slowed and min(slowed) < 5
    quick = simulate(queueing(200), offered=100, seconds=60)
    assert quick.rates == [None] * 60


@pytest.mark.slow
def test_a_platform_that_works_off_two_a_second_in_vain_comes_to_itself() -> None:
    """It goes on with what nobody waits for any more, and answers nothing in time."""
    run = simulate(queueing(2), offered=50, seconds=600)
    assert run.attempts(300, 600, 200) >= 1
    assert run.attempts(300, 600) <= 3


def test_a_dead_platform_is_tried_once_a_second_and_found_alive_again() -> None:
    alive, latency = faulty(1), 0.1

    def platform(now: float, chat: int) -> tuple[float, int]:
        return (latency, 503) if now < 120 else alive(now, chat)

    run = simulate(platform, offered=20, seconds=300)
    assert 0.5 <= run.attempts(60, 120) <= 1.5
    assert run.rates[-1] is None
    assert run.carried > 0.99


def test_a_platform_that_hangs_for_a_minute_is_found_again() -> None:
    alive = faulty(1)

    def platform(now: float, chat: int) -> tuple[float, int]:
        return (30.0, 0) if 30 <= now < 90 else alive(now, chat)

    run = simulate(platform, offered=20, seconds=300)
    assert run.carried > 0.99
    assert run.rates[-1] is None


def _silent(stuck: int, others: Platform) -> Platform:
    def platform(now: float, chat: int) -> tuple[float, int]:
        return (30.0, 0) if chat >= stuck else others(now, chat)

    return platform


@pytest.mark.parametrize("faults", [{}, MIXED], ids=["healthy", "faulty"])
@pytest.mark.parametrize("silent", [10, 40, 400])
def test_chats_whose_sends_are_never_answered_stop_no_other(silent: int, faults: dict[str, float]) -> None:
    """Nor do they slow the pace: the others are answered at once."""
    at_first = tuple(range(10_000, 10_000 + silent))
    platform = _silent(10_000, faulty(1, **faults))
    run = simulate(platform, offered=20, seconds=120, at_first=at_first)

    def other(chat: int) -> bool:
        return chat < 10_000

    assert run.delay(other) < 0.5
    assert run.rates == [None] * 120
    assert sum(map(other, (chat for chat, _ in run.delays))) >= 0.97 * (run.offered - silent)
    if not faults:
        assert max(took for _, took in run.delays) < 2


@pytest.mark.slow
def test_silent_chats_leave_connections_to_the_others_once_they_are_known() -> None:
    """More of them than connections: the first wave takes all, later ones don't."""
    at_first = tuple(range(10_000, 11_000))
    run = simulate(_silent(10_000, faulty(1)), offered=10, seconds=240, at_first=at_first)
    assert run.most_in_flight <= 472
    late = [took for chat, took in run.delays[-500:] if chat < 10_000]
    assert max(late) < 2


def test_offers_end_and_everything_is_carried() -> None:
    run = simulate(faulty(2, **MIXED), offered=60, seconds=400, offered_until=200, seed=5)
    assert (run.carried, run.waiting) == (1.0, [])
    assert NEVER > run.delay() > 0


def test_the_owners_limit_holds_whatever_the_platform_bears() -> None:
    pace, now, starts = Pace(PaceRules(most=5.0)), 0.0, list[float]()
    assert pace.rate == 5.0
    for number in range(600):
        now = max(now, pace.ready_at(now))
        starts.append(now)
        pace.started(now)
        # In the second third everything is too much for the platform.
        if 200 <= number < 400:
            pace.pushed_back(number % 10, now, now, limited=True)
        else:
            pace.went_well(number % 10, now, now)
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert min(gaps) > 0.2 - 1e-6
    assert max(gaps) > 0.3  # what the platform bears counts, too
    assert gaps[-1] == pytest.approx(0.2)
    assert pace.rate == 5.0
