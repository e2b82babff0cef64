"""Copies of stores that no process has open: the store stays as it is, byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from triobot.base.clock import SystemClock
from triobot.errors import ConfigError, StoreLockedError
from triobot.seams.writes import PutSetting
from triobot.store import Stamp, open_store
from triobot.store.offline_copy import copy_offline

STAMP = Stamp("http://127.0.0.1:9", "token")


async def test_a_copy_has_what_the_store_has(tmp_path: Path) -> None:
    """While a process has it, there is none; afterwards any number of them, in which the log is, too."""
    store, folder, other = tmp_path / "bot.db", tmp_path / "one", tmp_path / "two"
    folder.mkdir()
    other.mkdir()
    async with open_store(f"sqlite:{store}", stamp=STAMP, clock=SystemClock()) as opened:
        await opened.commit(PutSetting("jobs", "kept"))
        with pytest.raises(StoreLockedError, match="open in this process"):
            copy_offline(store, folder)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("bot.db*")}

    copies = [copy_offline(store, one) for one in (folder, other)]

    for copy in copies:
        async with open_store(f"sqlite:{copy}", stamp=None, clock=SystemClock(), visit=True) as looked:
            assert await looked.setting("jobs") == "kept"
    assert {path.name: path.read_bytes() for path in tmp_path.glob("bot.db*")} == before
    with pytest.raises(ConfigError, match="no store at"):
        copy_offline(tmp_path / "none.db", folder)
