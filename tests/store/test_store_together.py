"""Writes that share statements leave the same rows as one by one, or are not done."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable

import pytest

from tests.samples import sample
from tests.store.contract.contract import NOON, arrival
from triobot.errors import StoreError
from triobot.seams.inbox import Quota
from triobot.seams.journals import (
    AppendRecords,
    BeginConversation,
    ConversationId,
    DropEffects,
    EndConversation,
    JournalWrite,
    KeepResult,
    PutStanding,
)
from triobot.seams.writes import Accept, Consume, PutData, Write
from triobot.store.journal_rows import OneByOneError
from triobot.store.memory import MemoryRows
from triobot.store.statements import Tables
from triobot.wire.ids import ChatId

QUOTA = Quota(events_per_chat=6)


def dump(tables: Tables) -> list[str]:
    """Everything that is stored, and what is counted of it."""
    return [*tables._sql.iterdump(), str(tables.tally.statistics)]


def chances(seed: int) -> tuple[random.Random, Callable[[int], Write]]:
    chance = random.Random(seed)
    positions: dict[int, int] = {}

    def write(number: int) -> Write:
        conversation = chance.randrange(1, 6)
        id_ = ConversationId(conversation)
        position = positions.get(conversation, 0)
        said = arrival(conversation % 3, key=f"{chance.randrange(200)}", sender_id=chance.choice((1, 2)))
        writes: list[JournalWrite | Write] = [
            BeginConversation(id_, ChatId(conversation % 3), "route", "1", NOON),
            AppendRecords(id_, position, ("one", "two")),
            AppendRecords(id_, position, ("one",)),
            PutStanding(id_, NOON + number, chance.random() < 0.5, chance.choice((None, NOON))),
            Accept(said),
            Consume((chance.randrange(1, 20), chance.randrange(1, 20))),
            PutData(ChatId(conversation), "key", str(number)),
            KeepResult(id_, 1, "a", NOON, str(number)),
            DropEffects(id_, 1, ("a",)),
            EndConversation(id_, NOON, chance.choice((None, "failed"))),
        ]
        chosen = chance.choices(writes, (3, 8, 8, 8, 8, 5, 1, 1, 1, 1))[0]
        if isinstance(chosen, AppendRecords) and chance.random() < 0.97:
            positions[conversation] = position + len(chosen.records)
        if isinstance(chosen, BeginConversation | EndConversation):
            positions[conversation] = 0
        return chosen

    return chance, write


@pytest.mark.parametrize("seed", sample(range(60)))
def test_what_is_done_together_is_as_one_by_one(seed: int) -> None:
    """Conversations begin, go on and end, events come and go, at random; some of it can't be done."""
    chance, write = chances(seed)
    stores = MemoryRows(), MemoryRows()
    together, alone = stores[0].tables, stores[1].tables
    done = undone = 0
    for number in range(120):
        writes = [write(number) for _ in range(chance.randrange(1, 7))]
        coming = [
            (arrival(chance.randrange(4), key=f"{chance.randrange(400)}", body=b"x" * number), QUOTA, None)
            for _ in range(chance.randrange(1, 5))
        ]
        for tables in (together, alone):
            tables._sql.execute("BEGIN")
        try:
            for one in writes:
                alone.apply(one)
            rows = [alone.accept(one, QUOTA, (), None) for one, _, _ in coming]
        except StoreError:
            rows = []
        try:
            together.apply_all(writes)
            assert [together.accept(one, QUOTA, (), None) for one, _, _ in coming] == rows
            done += 1
        except (OneByOneError, StoreError, sqlite3.Error):
            undone += 1
            for tables in (together, alone):
                tables._sql.execute("ROLLBACK")
                tables.undo()
            # Numbers that were given in vain aren't given again: here they are to be the same all the same.
            together._last_seq = alone._last_seq
            continue
        for tables in (together, alone):
            tables._sql.execute("COMMIT")
            tables.tally.settle()
        assert dump(together) == dump(alone)
    assert done
    assert undone
