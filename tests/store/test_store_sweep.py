"""Deliveries that decide nothing any more go by a look at some of them for each that comes: no index tells
which these are, and yet no more of them are kept than a share of the others."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator

import pytest

from tests.store.contract.contract import DAY, MINUTE, NOON, ROOMY, arrival
from triobot.seams.inbox import InboxRow, OverQuota, Quota, Redelivered
from triobot.seams.writes import Consume
from triobot.store.rules import ONCE_FOR
from triobot.store.schema import MIGRATIONS, run_migration
from triobot.store.statements import SWEEP_AFTER, Tables
from triobot.wire.ids import ChatId


@pytest.fixture
def sql() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for migration in MIGRATIONS:
        run_migration(connection, migration, MIGRATIONS)
    yield connection
    connection.close()


def come(tables: Tables, key: str, at: int, *, once: bool) -> None:
    """Take an event in, and sweep as a writer does."""
    row = tables.accept(arrival(7, key=key, at=at, once=once), ROOMY, (), None)
    assert isinstance(row, InboxRow)
    tables.apply(Consume((row.seq,)))
    if tables.noted >= SWEEP_AFTER:
        tables.sweep_deliveries(at)


@pytest.mark.parametrize(
    ("hours", "pause", "presses"),
    [(0.2, 20, 0.1), (0.1, 10, 0.0), (18 * 24, 120_000, 1.0)],
    ids=["fifty a second", "only texts", "weeks of presses"],
)
def test_what_is_kept_too_long_is_a_share_of_the_rest(
    sql: sqlite3.Connection, hours: float, pause: int, presses: float
) -> None:
    tables, rng = Tables(sql), random.Random(5)
    until, at, most = NOON + int(hours * 60 * MINUTE), NOON, 0.0
    needed_of = {True: ONCE_FOR, False: MINUTE}
    kept: list[tuple[int, bool]] = []
    while at < until:
        once = rng.random() < presses
        come(tables, f"{rng.getrandbits(64):x}", at, once=once)
        kept.append((at, once))
        at += pause
        if len(kept) % 1_000 == 0:
            (rows,) = sql.execute("SELECT count(*) FROM deliveries").fetchone()
            needed = sum(at - accepted <= needed_of[once] for accepted, once in kept)
            assert rows >= needed
            most = max(most, (rows - needed - 2 * SWEEP_AFTER) / needed)
    assert 0 < most <= 1 / 3


def test_a_sweep_goes_on_where_the_process_before_it_was(sql: sqlite3.Connection) -> None:
    """Else one that is restarted often would never come to the last keys."""
    tables = Tables(sql)
    for n in range(12_000):
        key = f"{n:05}"
        sql.execute("INSERT INTO deliveries VALUES (?, ?, ?, NULL)", (key, NOON, int(n < 11_000)))
    for _ in range(3):
        tables = Tables(sql)
        tables.sweep(NOON + 2 * MINUTE)
    assert sql.execute("SELECT count(*), max(key) FROM deliveries").fetchone() == (11_000, "10999")

    tables.sweep(NOON + 2 * MINUTE)
    (swept_to,) = sql.execute("SELECT value FROM meta WHERE name = 'swept_to'").fetchone()
    assert swept_to == "05000"
    sql.execute("UPDATE meta SET value = 'event:7:digest' WHERE name = 'swept_to'")
    Tables(sql).forget(ChatId(7))
    assert sql.execute("SELECT value FROM meta WHERE name = 'swept_to'").fetchone() == ("",)


def test_only_what_is_noted_counts_for_the_next_sweep(sql: sqlite3.Connection) -> None:
    tables = Tables(sql)
    come(tables, "k", NOON, once=True)
    for _ in range(3):
        assert isinstance(tables.accept(arrival(7, key="k", once=True), ROOMY, (), None), Redelivered)
        assert isinstance(tables.accept(arrival(7, key="new"), Quota(0), (), None), OverQuota)
    assert tables.noted == 1
    sql.execute("DROP TABLE deliveries")
    with pytest.raises(sqlite3.OperationalError):
        tables.sweep_deliveries(NOON)
    assert tables.noted == 0


def test_a_sweep_passes_over_no_key(sql: sqlite3.Connection) -> None:
    tables = Tables(sql)
    for n in range(64):
        come(tables, f"{n:02}", NOON, once=False)
    for n in range(4):
        tables.noted = 4
        tables.sweep_deliveries(NOON + 2 * MINUTE)
        left = [key for (key,) in sql.execute("SELECT key FROM deliveries ORDER BY key")]
        assert left == [f"{n:02}" for n in range((n + 1) * 17, 64)]


def test_a_sweep_begins_anew_behind_the_last_delivery(sql: sqlite3.Connection) -> None:
    tables = Tables(sql)
    for n in range(SWEEP_AFTER):
        come(tables, f"{n:04}", NOON, once=n % 2 == 0)
    for turn in (NOON + MINUTE, NOON + MINUTE + 1, NOON + 7 * DAY, NOON + 7 * DAY + 1):
        tables.noted = SWEEP_AFTER // 16
        for _ in range(8):
            tables.sweep_deliveries(turn)
            tables.noted = SWEEP_AFTER // 16
        left = [key for (key,) in sql.execute("SELECT key FROM deliveries ORDER BY key")]
        due = {NOON + MINUTE: 256, NOON + MINUTE + 1: 128, NOON + 7 * DAY: 128, NOON + 7 * DAY + 1: 0}
        assert len(left) == due[turn]
