"""When jobs are due: in gaps and doubled hours of summer time, and for ever in order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triobot.conversations.routes.schedules import Cron, Interval, Schedule

BERLIN = ZoneInfo("Europe/Berlin")
TEHRAN = ZoneInfo("Asia/Tehran")


def milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def dues(schedule: Schedule, after: datetime, many: int) -> list[str]:
    found = islice(schedule.after(milliseconds(after)), many)
    return [f"{schedule.moment(due):%m-%d %H:%M %z}" for due in found]


def test_what_summer_time_leaves_out_is_at_the_end_of_the_gap() -> None:
    cron = Cron("30 2 * * *", BERLIN)
    assert dues(cron, datetime(2026, 3, 28, 12, tzinfo=BERLIN), 2) == [
        "03-29 03:00 +0200",
        "03-30 02:30 +0200",
    ]


def test_several_times_in_a_gap_are_due_once() -> None:
    cron = Cron("0,30 2 * * *", BERLIN)
    assert dues(cron, datetime(2026, 3, 28, 12, tzinfo=BERLIN), 2) == [
        "03-29 03:00 +0200",
        "03-30 02:00 +0200",
    ]


@pytest.mark.parametrize(
    ("expression", "following"),
    [
        ("*/30 2 * * *", "03-30 02:00 +0200"),
        ("30 * * * *", "03-29 03:30 +0200"),
        ("30 */2 * * *", "03-29 04:30 +0200"),
    ],
)
def test_a_field_with_an_asterisk_has_nothing_for_a_gap(expression: str, following: str) -> None:
    cron = Cron(expression, BERLIN)
    assert dues(cron, datetime(2026, 3, 29, 1, 45, tzinfo=BERLIN), 1) == [following]


def test_what_comes_twice_is_due_once() -> None:
    cron = Cron("30 2 * * *", BERLIN)
    assert dues(cron, datetime(2026, 10, 24, 12, tzinfo=BERLIN), 2) == [
        "10-25 02:30 +0200",
        "10-26 02:30 +0100",
    ]
    # Reckoned anew from each moment of the doubled hour, as after a restart there.
    for minute in range(0, 60, 7):
        for fold in (0, 1):
            at = datetime(2026, 10, 25, 2, minute, tzinfo=BERLIN, fold=fold)
            first = dues(cron, at, 1)
            before = fold == 0 and minute < 30
            assert first == (["10-25 02:30 +0200"] if before else ["10-26 02:30 +0100"]), (minute, fold)


def test_each_half_hour_is_due_in_both_passes() -> None:
    cron = Cron("*/30 * * * *", BERLIN)
    assert dues(cron, datetime(2026, 10, 25, 1, 45, tzinfo=BERLIN), 5) == [
        "10-25 02:00 +0200",
        "10-25 02:30 +0200",
        "10-25 02:00 +0100",
        "10-25 02:30 +0100",
        "10-25 03:00 +0100",
    ]


def test_a_zone_without_summer_time() -> None:
    assert dues(Cron("0 21 * * SAT", TEHRAN), datetime(2026, 2, 1, tzinfo=TEHRAN), 1) == ["02-07 21:00 +0330"]


def test_an_interval_counts_from_1970() -> None:
    ten = Interval(timedelta(minutes=10))
    assert dues(ten, datetime(2026, 2, 1, 0, 10, tzinfo=UTC), 2) == ["02-01 00:20 +0000", "02-01 00:30 +0000"]


@given(
    st.sampled_from(["30 2 * * *", "*/30 * * * *", "0 */3 * * *", "15 2,3 * * SUN", "59 1 25 10 *"]),
    st.sampled_from([BERLIN, TEHRAN, UTC, ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe")]),
    st.integers(
        milliseconds(datetime(2026, 3, 1, tzinfo=UTC)), milliseconds(datetime(2026, 11, 30, tzinfo=UTC))
    ),
)
def test_due_times_only_go_forward_and_follow_from_one_another(
    expression: str, zone: ZoneInfo, start: int
) -> None:
    """So a bot that reckons the next one from the last, after any restart, comes by all of them."""
    cron = Cron(expression, zone)
    row = list(islice(cron.after(start), 6))
    assert row == sorted(set(row))
    assert start < row[0]
    for due, following in pairwise(row):
        assert next(cron.after(due)) == following


@pytest.mark.parametrize("schedule", [Cron("0 9 * * SAT", TEHRAN), Interval(timedelta(minutes=10))])
def test_a_schedule_has_a_name(schedule: Schedule) -> None:
    assert schedule.spec in ("0 9 * * SAT Asia/Tehran", "every 600 s")
