"""Both engines keep broadcasts as the contract says; a file keeps them over a restart."""

from __future__ import annotations

from pathlib import Path

from sqlite_rig import opened

from tests.store.contract.broadcasts import captured, status, waiting
from triobot.seams.broadcasts import AdvanceBroadcast, BroadcastStatus, Outcome


async def test_a_file_keeps_a_broadcast(tmp_path: Path) -> None:
    async with opened(tmp_path / "bot.db") as store:
        await captured(store, "k", 1, 2, 3)
        await store.commit(AdvanceBroadcast("k", 2, {1: Outcome.SENT}))
    async with opened(tmp_path / "bot.db") as store:
        assert await status(store) == BroadcastStatus("sending", 3, sent=1)
        assert await waiting(store) == [(2, 2), (3, 3)]
