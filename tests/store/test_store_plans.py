"""What one event costs doesn't grow with the conversations that are parked around it: no statement of its
path, and none that runs again and again, walks through a table."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tests.store.contract.contract import NOON, arrival
from triobot.seams.inbox import Quota
from triobot.seams.journals import (
    AppendRecords,
    BeginConversation,
    ContinueConversation,
    ConversationId,
    DropEffects,
    EndConversation,
    JournalWrite,
    KeepIntent,
    KeepResult,
    ParkConversation,
    PutRested,
    PutStanding,
    TakeInHand,
)
from triobot.seams.writes import Consume
from triobot.store.schema import MIGRATIONS, run_migration
from triobot.store.statements import Tables
from triobot.wire.ids import ChatId

ONE, TWO = ConversationId(1), ConversationId(2)


class _Watched(sqlite3.Connection):
    """Remembers what was asked, so that its plan can be asked for."""

    asked: list[tuple[str, Any]]

    def execute(self, sql: str, parameters: Iterable[Any] = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        self.asked.append((sql, parameters))
        return super().execute(sql, parameters)  # type: ignore[arg-type]

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:  # type: ignore[override]
        rows = list(parameters)
        self.asked.extend((sql, row) for row in rows)
        return super().executemany(sql, rows)


@pytest.fixture
def watched() -> Iterator[_Watched]:
    connection = sqlite3.connect(":memory:", isolation_level=None, factory=_Watched)
    connection.asked = []
    for migration in MIGRATIONS:
        run_migration(connection, migration, MIGRATIONS)
    yield connection
    connection.close()


def plans(watched: _Watched) -> list[str]:
    """How SQLite goes about everything that was asked since."""
    asked, watched.asked = watched.asked, []
    return [
        step
        for sql, parameters in asked
        for *_, step in sqlite3.Connection.execute(watched, f"EXPLAIN QUERY PLAN {sql}", parameters)
    ]


def write(write: JournalWrite) -> Callable[[Tables], object]:
    return lambda tables: tables.journals.apply(write)


STEPS: list[tuple[str, Callable[[Tables], object]]] = [
    ("begin", write(BeginConversation(ONE, ChatId(7), "pizza", "v", NOON))),
    ("append", write(AppendRecords(ONE, 0, ("x", "y")))),
    ("standing", write(PutStanding(ONE, NOON, True, NOON))),
    ("rested", write(PutRested(ONE, "[2,[]]", 1))),
    ("intent", write(KeepIntent(ONE, 1, "a", NOON, "x"))),
    ("result", write(KeepResult(ONE, 1, "a", NOON, "x"))),
    ("drop", write(DropEffects(ONE, 1, ("a",)))),
    ("in hand", write(TakeInHand(ONE, NOON))),
    ("accept", lambda tables: tables.accept(arrival(7), Quota(), (), None)),
    ("accept what begins", lambda tables: tables.accept(arrival(6, key="k"), Quota(), (), lambda _: "words")),
    ("pending", lambda tables: tables.pending(ChatId(7), after=0, limit=10)),
    ("pending, begun", lambda tables: tables.pending(ChatId(6), after=0, limit=10)),
    ("sweep", lambda tables: tables.sweep_deliveries(NOON)),
    ("backlog", lambda tables: tables.backlog(after=0, limit=10)),
    ("consume", lambda tables: tables.apply(Consume((1,)))),
    ("conversations", lambda tables: tables.journals.conversations(ChatId(7))),
    ("journal", lambda tables: tables.journals.journal(ONE)),
    ("unfinished", lambda tables: tables.journals.unfinished(after=0, limit=10)),
    ("due", lambda tables: tables.journals.due(NOON, limit=10)),
    ("next wake", lambda tables: tables.journals.next_wake(after=-1)),
    ("parked", lambda tables: tables.journals.parked(after=0, limit=10)),
    ("park", write(ParkConversation(ONE, NOON, "differs"))),
    ("continue", write(ContinueConversation(ONE, 2, ("z",), "pizza", "v", NOON))),
    ("begin another", write(BeginConversation(TWO, ChatId(7), "pizza", "v", NOON))),
    ("forget", lambda tables: tables.journals.forget(ChatId(8))),
    ("crash", write(EndConversation(TWO, NOON, "E"))),
    ("drop ended", lambda tables: tables.journals.drop_ended(0, most=10)),
    ("end", write(EndConversation(ONE, NOON))),
]


def test_no_statement_walks_through_a_table(watched: _Watched) -> None:
    """Every step is a search by a key or an index, and nothing has to be sorted."""
    tables = Tables(watched)
    seen: dict[str, list[str]] = {}
    for name, step in STEPS:
        watched.asked.clear()
        step(tables)
        seen[name] = plans(watched)

    walks = {
        (name, step)
        for name, steps in seen.items()
        for step in steps
        # A list that is given is no table, and SQLite's own of the last numbers has three rows.
        if step.startswith("SCAN")
        and not step.startswith(("SCAN CONSTANT ROW", "SCAN json_each ", "SCAN sqlite_sequence"))
    }
    assert walks == set()
    sorts = {(name, step) for name, steps in seen.items() for step in steps if "TEMP B-TREE" in step}
    assert sorts == set()
    for name, index in (
        ("accept", "conversations_chat"),
        ("pending", "inbox_waiting"),
        ("pending, begun", "inbox_waiting"),
        ("sweep", "PRIMARY KEY (key>?"),
        ("conversations", "conversations_chat"),
        ("unfinished", "conversations_unfinished"),
        ("due", "conversations_due"),
        ("next wake", "conversations_due"),
        ("parked", "conversations_parked"),
        ("drop ended", "conversations_ended"),
    ):
        assert any(index in step for step in seen[name]), (name, seen[name])


def test_an_append_is_one_statement(watched: _Watched) -> None:
    tables = Tables(watched)
    tables.journals.apply(BeginConversation(ONE, ChatId(7), "pizza", "v", NOON))
    watched.asked.clear()

    tables.journals.apply(AppendRecords(ONE, 0, tuple("abcdefgh")))

    assert len(watched.asked) == 1
    assert [step for step in plans(watched) if step.startswith("SEARCH")] == [
        "SEARCH journal USING PRIMARY KEY (conversation=?)",
        "SEARCH conversations USING INTEGER PRIMARY KEY (rowid=?)",
    ]
