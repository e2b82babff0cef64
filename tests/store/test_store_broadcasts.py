"""Both engines keep broadcasts as the contract says; a file keeps them over a restart."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from broadcast_contract import BroadcastContract, captured, status, waiting
from contract import SettableClock
from sqlite_rig import opened

from triobot.jobs import AdvanceBroadcast, BroadcastStatus, Outcome
from triobot.seams import Store
from triobot.store import open_memory
from triobot.store.schema import MIGRATIONS


class TestMemoryBroadcasts(BroadcastContract):
    def opened(self, clock: SettableClock, folder: Path) -> AbstractAsyncContextManager[Store]:
        return open_memory(clock=clock)


class TestSqliteBroadcasts(BroadcastContract):
    def opened(self, clock: SettableClock, folder: Path) -> AbstractAsyncContextManager[Store]:
        return opened(folder / "bot.db", clock=clock)


async def test_a_file_keeps_a_broadcast(tmp_path: Path) -> None:
    async with opened(tmp_path / "bot.db") as store:
        await captured(store, "k", 1, 2, 3)
        await store.commit(AdvanceBroadcast("k", 2, {1: Outcome.SENT}))
    async with opened(tmp_path / "bot.db") as store:
        assert await status(store) == BroadcastStatus("sending", 3, sent=1)
        assert await waiting(store) == [(2, 2), (3, 3)]


async def test_a_store_without_broadcasts_gains_them(tmp_path: Path) -> None:
    number = next(one.number for one in MIGRATIONS if "broadcasts" in str(one.statements))
    before = MIGRATIONS[: number - 1]
    async with opened(tmp_path / "bot.db", migrations=before):
        pass
    async with opened(tmp_path / "bot.db") as store:
        await captured(store, "k", 1)
        assert await waiting(store) == [(1, 1)]
