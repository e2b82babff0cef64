"""Both engines keep the contract."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from contract import SettableClock, StoreContract

from triobot.seams import Store
from triobot.store import Stamp, open_memory, open_store


class TestMemory(StoreContract):
    def opened(self, clock: SettableClock, folder: Path) -> AbstractAsyncContextManager[Store]:
        return open_memory(clock=clock)


class TestSqlite(StoreContract):
    def opened(self, clock: SettableClock, folder: Path) -> AbstractAsyncContextManager[Store]:
        return open_store(f"sqlite:{folder}/bot.db", stamp=Stamp("https://platform.test", "t"), clock=clock)
