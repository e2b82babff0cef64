"""Random histories of conversations: the tables do what a model of the promises does.

The model is written from `triobot.seams.journals` alone, as plainly as possible, and each batch is checked to
be all or nothing in it and in the tables.
"""

from __future__ import annotations

import copy
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import examples
from tests.store.contract.contract import NOON
from triobot.seams.journals import (
    AppendRecords,
    BeginConversation,
    ContinueConversation,
    ConversationId,
    DropEffects,
    EndConversation,
    Journal,
    JournalWrite,
    KeepIntent,
    KeepResult,
    ParkConversation,
    PutRested,
    PutStanding,
    TakeInHand,
    WakeEarlier,
)
from triobot.seams.writes import JournalConflictError
from triobot.store.schema import MIGRATIONS, run_migration
from triobot.store.statements import Tables
from triobot.wire.ids import ChatId

IDS = [ConversationId(n) for n in (1, 2, 3)]

ids = st.sampled_from(IDS)
ats = st.integers(NOON, NOON + 9)
positions = st.integers(0, 6)
texts = st.lists(st.sampled_from(["{}", '"é"', "1"]), min_size=1, max_size=3).map(tuple)
runs = st.integers(1, 2)
operations = st.sampled_from(["0", "0.1"])
errors = st.none() | st.just("E-1")
wakes = st.none() | st.integers(0, 5)

writes: st.SearchStrategy[JournalWrite] = st.one_of(
    st.builds(
        lambda id_, wake, at: BeginConversation(id_, ChatId(id_ % 2), "r", "v", at, wake_at=wake),
        ids,
        wakes,
        ats,
    ),
    st.builds(lambda *rest: AppendRecords(*rest), ids, positions, texts),
    st.builds(lambda *rest: AppendRecords(*rest), ids, positions, texts),
    st.builds(lambda *rest: PutStanding(*rest), ids, ats, st.booleans(), wakes),
    st.builds(lambda *rest: PutRested(*rest), ids, st.sampled_from((None, "[1,[]]")), ats),
    st.builds(lambda *rest: KeepIntent(*rest), ids, runs, operations, ats, st.just("meant")),
    st.builds(lambda *rest: KeepResult(*rest), ids, runs, operations, ats, st.sampled_from(["a", "b"])),
    st.builds(lambda *rest: DropEffects(*rest), ids, runs, operations.map(lambda one: (one,))),
    st.builds(
        lambda id_, position, records, at: ContinueConversation(id_, position, records, "r2", "v2", at),
        ids,
        positions,
        texts,
        ats,
    ),
    st.builds(lambda *rest: ParkConversation(*rest), ids, ats, st.none() | st.just("why"), errors),
    st.builds(lambda *rest: TakeInHand(*rest), ids, ats),
    st.builds(lambda by: WakeEarlier(by), ats),
    st.builds(lambda *rest: EndConversation(*rest), ids, ats, errors),
)


class Refused(Exception):
    pass


class Model:
    """What is promised, without regard for anything else."""

    def __init__(self) -> None:
        self.all: dict[int, dict[str, Any]] = {}

    def alive(self, id_: int) -> dict[str, Any]:
        found = self.all.get(id_)
        if found is None or found["ended_at"] is not None:
            raise Refused
        return found

    def apply(self, write: JournalWrite) -> None:
        match write:
            case BeginConversation():
                if write.id in self.all:
                    raise Refused
                self.all[write.id] = {
                    "chat": write.chat_id,
                    "first": 0,
                    "records": [],
                    "effects": {},
                    "run": 1,
                    "unfinished": True,
                    "wake_at": write.wake_at,
                    "parked": None,
                    "error": None,
                    "in_hand": 0,
                    "updated_at": write.at,
                    "ended_at": None,
                }
            case AppendRecords():
                one = self.alive(write.conversation)
                if write.position != one["first"] + len(one["records"]):
                    raise Refused
                one["records"] += write.records
            case PutStanding():
                one = self.alive(write.conversation)
                one.update(unfinished=write.unfinished, wake_at=write.wake_at, updated_at=write.at)
                one["in_hand"] *= write.unfinished
            case PutRested():
                self.alive(write.conversation)
            case KeepIntent():
                one = self.alive(write.conversation)
                if one["run"] != write.run:
                    raise Refused
                effect = one["effects"].setdefault(write.operation, [None] * 4)
                effect[:2] = write.at, write.text
            case KeepResult():
                with suppress(Refused):
                    one = self.alive(write.conversation)
                    if one["run"] == write.run:
                        effect = one["effects"].setdefault(write.operation, [None] * 4)
                        if effect[3] is None:
                            effect[2:] = write.at, write.text
            case DropEffects():
                with suppress(Refused):
                    one = self.alive(write.conversation)
                    if one["run"] == write.run:
                        for operation in write.operations:
                            one["effects"].pop(operation, None)
            case ContinueConversation():
                one = self.alive(write.conversation)
                if write.position != one["first"] + len(one["records"]):
                    raise Refused
                one.update(first=write.position, records=list(write.records), effects={}, run=one["run"] + 1)
                one.update(unfinished=True, wake_at=None, updated_at=write.at)
            case ParkConversation():
                one = self.alive(write.conversation)
                one.update(parked=write.because, error=write.error, updated_at=write.at)
            case TakeInHand():
                one = self.alive(write.conversation)
                one["in_hand"] += 1
                one["updated_at"] = write.at
            case WakeEarlier():
                for one in self.all.values():
                    if one["wake_at"] is not None:
                        one["wake_at"] = max(one["wake_at"] - write.by, 0)
            case EndConversation():
                with suppress(Refused):
                    one = self.alive(write.conversation)
                    if write.error is None:
                        del self.all[write.conversation]
                    else:
                        one.update(error=write.error, ended_at=write.at, updated_at=write.at)
                        one.update(unfinished=False, wake_at=None)

    def batch(self, batch: Sequence[JournalWrite]) -> bool:
        before = copy.deepcopy(self.all)
        try:
            for write in batch:
                self.apply(write)
        except Refused:
            self.all = before
            return False
        return True

    def view(self, id_: int) -> dict[str, Any] | None:
        return self.all.get(id_)

    def ids_of(self, wanted: Any) -> list[int]:
        return sorted(id_ for id_, one in self.all.items() if one["ended_at"] is None and wanted(one))


def seen(journal: Journal | None) -> dict[str, Any] | None:
    """What an engine tells of a conversation, in the model's words."""
    if journal is None:
        return None
    row = journal.row
    assert row.position == journal.first + len(journal.records)
    return {
        "chat": row.chat_id,
        "first": journal.first,
        "records": list(journal.records),
        "effects": {id_: list(attrs.astuple(effect)) for id_, effect in journal.effects.items()},
        "run": row.run,
        "unfinished": row.unfinished,
        "wake_at": row.wake_at,
        "parked": row.parked_because,
        "error": row.error,
        "in_hand": row.in_hand,
        "updated_at": row.updated_at,
        "ended_at": row.ended_at,
    }


class Engine:
    """The store's tables, without what lies above them."""

    def __init__(self) -> None:
        self.sql = sqlite3.connect(":memory:", isolation_level=None)
        for migration in MIGRATIONS:
            run_migration(self.sql, migration, MIGRATIONS)
        self.tables = Tables(self.sql)

    def batch(self, batch: Sequence[JournalWrite]) -> bool:
        self.sql.execute("BEGIN")
        try:
            for write in batch:
                self.tables.journals.apply(write)
        except JournalConflictError:
            self.sql.execute("ROLLBACK")
            self.tables.tally.undo()
            return False
        self.sql.execute("COMMIT")
        self.tables.tally.settle()
        return True


@settings(max_examples=examples(150, every=8), deadline=None)
@given(st.lists(st.lists(writes, min_size=1, max_size=4), max_size=25))
def test_the_tables_do_what_is_promised(history: list[list[JournalWrite]]) -> None:
    model, engine = Model(), Engine()
    journals, tally = engine.tables.journals, engine.tables.tally
    for batch in history:
        assert engine.batch(batch) == model.batch(batch)

        for id_ in IDS:
            assert seen(journals.journal(id_)) == model.view(id_)
        running = model.ids_of(lambda one: one["parked"] is None)
        assert [row.id for row in journals.unfinished(after=0, limit=9)] == [
            id_ for id_ in running if model.all[id_]["unfinished"]
        ]
        waking = [
            (model.all[id_]["wake_at"], id_) for id_ in running if model.all[id_]["wake_at"] is not None
        ]
        assert [(row.wake_at, row.id) for row in journals.due(3, limit=9)] == sorted(
            pair for pair in waking if pair[0] <= 3
        )
        assert journals.next_wake(after=2) == min((at for at, _ in waking if at > 2), default=None)
        parked = model.ids_of(lambda one: one["parked"] is not None)
        assert [row.id for row in journals.parked(after=0, limit=9)] == parked
        for chat in (0, 1):
            assert [row.id for row in journals.conversations(ChatId(chat))] == model.ids_of(
                lambda one, chat=chat: one["chat"] == chat
            )
        assert tally["parked"] == len(parked)
        assert tally["conversations"] == len(model.ids_of(lambda one: True))
    engine.sql.close()
