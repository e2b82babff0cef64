"""A store that is lost with its process: SQLite in memory, for tests and for disposable bots.

Tables, transactions and checks are the same as in a store in a file. There are two differences:
`InlineWriter` runs each job in the caller's task, and the notes are in memory.
"""

from __future__ import annotations

import atexit
import sqlite3
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Final, final

import trio

from ..base.clock import WallClock
from ..errors import ConfigError
from .file import take_over
from .inline import InlineWriter
from .notes import WorkNotes
from .rules import RETENTION, Retention
from .schema import MIGRATIONS, drop_meta, put_meta, run_migration
from .statements import Tables
from .table_store import Store
from .writer import Transactions

# Data in memory never survives a boot of the computer, so one name for all boots is enough.
_MACHINE: Final = "memory"
_PLACE: Final = ":memory:"


@asynccontextmanager
async def open_memory(
    *, clock: WallClock, retention: Retention = RETENTION, rows: MemoryRows | None = None
) -> AsyncGenerator[Store, None]:
    """Open a store in memory while the block runs.

    Args:
        clock: the time of day.
        retention: how long the store keeps data that is no longer needed.
        rows: rows of an earlier store; by default the store is empty.
    """
    await trio.lowlevel.checkpoint()
    rows = rows or MemoryRows()
    store = rows.open(clock, retention)
    try:
        yield store
    finally:
        rows.close(clock.now())


@final
class MemoryRows:
    """Rows in memory. Several stores can be opened over the same rows, one store after another.

    Attributes:
        tables: the rows, for inspection while a store is open.
        notes: notes of the work slots; see `triobot.store.notes`.
        sql: the database.
    """

    def __init__(self) -> None:
        self.sql = sqlite3.connect(_PLACE, isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self.sql.close)
        _empty().backup(self.sql)
        self.sql.execute("PRAGMA foreign_keys = 1")
        self.notes = WorkNotes()
        self._writer: InlineWriter | None = None
        self.tables = Tables(self.sql)

    def open(self, clock: WallClock, retention: Retention = RETENTION) -> Store:
        """Open a store on these rows, as a new process of the bot would open a store file."""
        self.tables = tables = Tables(self.sql)
        opening = take_over(self.sql, tables, self.notes, machine=_MACHINE, now=clock.now())
        tables.retention = retention
        tables.count_everything()
        self._writer = InlineWriter(tables, Transactions(self.sql, tables, Path(_PLACE)), clock)
        return Store(opening, self._writer, self.notes, clock, back_up=self._back_up)

    def close(self, now: int) -> None:
        """Close the store, and store the fact that its process stopped cleanly."""
        assert self._writer is not None
        self._writer.close()
        put_meta(self.sql, "clean", str(now))

    def number_from(self, newest: int) -> None:
        """Make the numbers of the next events larger than `newest`."""
        self.sql.execute("DELETE FROM sqlite_sequence WHERE name = 'inbox'")
        self.sql.execute("INSERT INTO sqlite_sequence VALUES ('inbox', ?)", (newest,))

    def copy(self) -> MemoryRows:
        """Copy the stored data, as a backup does."""
        other = MemoryRows()
        self.sql.backup(other.sql)
        return other

    def crashed(self) -> None:
        """Simulate a kill of the process that closed the store: the next opening of the store finds no clean
        stop.
        """
        drop_meta(self.sql, "clean")

    async def _back_up(self, path: Path) -> None:
        await trio.lowlevel.checkpoint()
        raise ConfigError("a store in memory can't be backed up; use one in a file")


@cache
def _empty() -> sqlite3.Connection:
    """Make the empty store from which each new store is copied; a copy takes a tenth of the
    migrations' time.
    """
    sql = sqlite3.connect(_PLACE, isolation_level=None, check_same_thread=False)
    atexit.register(sql.close)
    for migration in MIGRATIONS:
        run_migration(sql, migration, MIGRATIONS)
    return sql
