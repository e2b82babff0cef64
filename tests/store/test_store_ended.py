"""Conversations that ended well are kept for a while, if they are to be; apart from those that crashed."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlite_rig import opened

from tests.store.contract.contract import DAY, MINUTE, NOON, SettableClock
from tests.store.contract.journals import append, begin
from triobot.seams.journals import ConversationId, EndConversation
from triobot.seams.writes import PutSetting
from triobot.store import Retention, Store
from triobot.wire.ids import ChatId

CHAT = ChatId(1)


async def end(store: Store, id_: int, at: int, error: str | None = None) -> None:
    await store.commit(begin(store, id_), append(store, id_, 0, f"record {id_}"))
    ended = EndConversation(ConversationId(id_), at, error, kept=error is None)
    await store.commit(ended)


async def sweep(store: Store) -> None:
    """It is done with whatever is written next."""
    for _ in range(2):
        await store.commit(PutSetting("trace", "of it"))


async def left(store: Store) -> list[int]:
    return [row.id for row in await store.conversations(CHAT, ended=True)]


async def test_its_journal_stays_and_it_is_none_of_the_chats(tmp_path: Path) -> None:
    async with opened(tmp_path / "bot.db", retention=Retention(ended=DAY)) as store:
        await end(store, 5, NOON)

        (row,) = await store.conversations(CHAT, ended=True)
        assert (row.id, row.error, row.ended_at) == (5, None, NOON)
        journal = await store.journal(ConversationId(5))
        assert journal is not None
        assert journal.records == ("record 5",)
        assert list(await store.conversations(CHAT)) == []
        assert store.statistics().conversations == 0


@pytest.mark.parametrize(
    ("kept_for", "left_after"),
    [
        (Retention(crashed=2 * DAY, ended=DAY), [[1, 2], [1], []]),
        (Retention(crashed=DAY, ended=2 * DAY), [[1, 2], [1, 2], []]),
        (Retention(crashed=2 * DAY, ended=0), [[1], [1], []]),
    ],
)
async def test_each_goes_in_its_time(
    tmp_path: Path, kept_for: Retention, left_after: list[list[int]]
) -> None:
    """What crashed stays at least as long as what ended well."""
    clock, found = SettableClock(), list[list[int]]()
    async with opened(tmp_path / "bot.db", clock=clock, retention=kept_for) as store:
        await end(store, 1, clock.time, "E-1")
        await end(store, 2, clock.time)
        for _ in range(3):
            clock.time += MINUTE
            await sweep(store)
            found.append(await left(store))
            clock.time += DAY
    assert found == left_after


async def test_only_the_newest_stay(tmp_path: Path) -> None:
    kept_for = Retention(ended=DAY, most_ended=3)
    clock = SettableClock()
    async with opened(tmp_path / "bot.db", clock=clock, retention=kept_for) as store:
        await end(store, 1, NOON, "E-1")
        for id_ in range(2, 9):
            await end(store, id_, NOON + id_)
        clock.time += MINUTE
        await sweep(store)
        assert await left(store) == [1, 6, 7, 8]
