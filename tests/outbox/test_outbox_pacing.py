"""The overall pace: halves under push-back from several lanes, grows back, forgets."""

from __future__ import annotations

from triobot.outbox.pacing import Pace


def test_no_limit_while_all_is_well() -> None:
    pace = Pace()
    for number in range(1000):
        assert pace.ready_at(number / 1000) <= number / 1000
        pace.started(number / 1000)
        pace.went_well(number / 1000)
    assert pace.rate is None


def test_one_lane_alone_never_slows_the_rest() -> None:
    pace = Pace()
    for number in range(100):
        pace.started(number / 10)
        pace.pushed_back("stuck", number / 10)
    assert pace.rate is None


def test_a_few_failures_among_many_successes_change_nothing() -> None:
    pace = Pace()
    for number in range(2000):
        now = number / 500
        pace.started(now)
        pace.pushed_back(number, now) if number % 100 == 99 else pace.went_well(now)
    assert pace.rate is None


def test_several_lanes_halve_the_rate_once_a_while_then_it_grows_back() -> None:
    pace = Pace()
    for number in range(100):
        pace.started(number / 100)
    pace.pushed_back("a", 0.99)
    pace.pushed_back("b", 0.99)
    assert pace.rate == 50
    for number in range(50):
        pace.pushed_back(number, 1.0)
    assert pace.rate == 50, "what was in flight already says nothing of the new rate"
    assert pace.ready_at(1.0) > 1.0

    now, rates = 2.0, []
    while pace.rate is not None and now < 1000:
        rates.append(pace.rate)
        now = max(now, pace.ready_at(now))
        pace.started(now)
        pace.went_well(now)
    assert rates == sorted(rates)
    assert now > 10, "slowly"
    assert pace.rate is None


def test_a_dead_platform_is_still_tried_once_a_second() -> None:
    pace = Pace()
    now = 0.0
    for number in range(1000):
        now = max(now, pace.ready_at(now))
        pace.started(now)
        pace.pushed_back(number % 7, now)
    assert pace.rate == 1.0
    assert pace.ready_at(now) <= now + 1.0


def test_the_rate_holds_under_a_fixed_limit() -> None:
    """A platform that takes 20 a second and answers 429 beyond gets about that, for ever."""
    pace = Pace()
    now, taken, starts = 0.0, [], 0
    while now < 120:
        now = max(now + 0.001, pace.ready_at(now))
        pace.started(now)
        starts += 1
        taken = [at for at in taken if now - at < 1.0]
        if len(taken) < 20:
            taken.append(now)
            pace.went_well(now)
        else:
            pace.pushed_back(starts, now)
    assert starts < 120 * 60
