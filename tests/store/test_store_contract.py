"""Both engines keep the contract."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import ClassVar

from tests.store.contract import SettableClock, StoreContract
from triobot.store import Stamp, Store, open_store
from triobot.store.memory import MemoryRows, open_memory
from triobot.store.rules import RETENTION, Retention


class Memory:
    """One store after the other on the same rows, as a file would have them."""

    left: ClassVar[dict[Path, MemoryRows]] = {}

    def opened(
        self, clock: SettableClock, folder: Path, retention: Retention = RETENTION
    ) -> AbstractAsyncContextManager[Store]:
        rows = self.left.setdefault(folder, MemoryRows())
        return open_memory(clock=clock, retention=retention, rows=rows)


class Sqlite:
    def opened(
        self, clock: SettableClock, folder: Path, retention: Retention = RETENTION
    ) -> AbstractAsyncContextManager[Store]:
        stamp = Stamp("https://platform.test", "t")
        return open_store(f"sqlite:{folder}/bot.db", stamp=stamp, clock=clock, retention=retention)


class TestMemory(Memory, StoreContract):
    pass


class TestSqlite(Sqlite, StoreContract):
    pass
