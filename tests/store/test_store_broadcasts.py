"""Both engines keep broadcasts as the contract says; a file keeps them over a restart."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlite_rig import STAMP, opened

from tests.store.contract.broadcasts import captured, status, waiting
from triobot.seams.broadcasts import AdvanceBroadcast, BroadcastStatus, Outcome
from triobot.store.schema import MIGRATIONS, put_stamp, run_migration


async def test_a_file_keeps_a_broadcast(tmp_path: Path) -> None:
    async with opened(tmp_path / "bot.db") as store:
        await captured(store, "k", 1, 2, 3)
        await store.commit(AdvanceBroadcast("k", 2, {1: Outcome.SENT}))
    async with opened(tmp_path / "bot.db") as store:
        assert await status(store) == BroadcastStatus("sending", 3, sent=1)
        assert await waiting(store) == [(2, 2), (3, 3)]


async def test_a_store_without_broadcasts_gains_them(tmp_path: Path) -> None:
    number = next(one.number for one in MIGRATIONS if "broadcasts" in str(one.statements))
    connection = sqlite3.connect(tmp_path / "bot.db", isolation_level=None)
    for migration in MIGRATIONS[: number - 1]:
        run_migration(connection, migration, MIGRATIONS)
    put_stamp(connection, STAMP)
    connection.close()
    async with opened(tmp_path / "bot.db") as store:
        await captured(store, "k", 1)
        assert await waiting(store) == [(1, 1)]
