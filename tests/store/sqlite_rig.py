"""What the tests of the SQLite engine share: opening it, failing it, and crashing it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.store.contract.contract import SettableClock
from triobot.store import Stamp, Store, open_sqlite

STAMP = Stamp("https://platform.test/api", "token-one")


def opened(
    path: Path, *, clock: SettableClock | None = None, stamp: Stamp | None = STAMP, **rest: Any
) -> AbstractAsyncContextManager[Store]:
    """The store at this path."""
    return open_sqlite(path, stamp=stamp, clock=clock or SettableClock(), **rest)


def as_a_crash_leaves_it(path: Path, folder: Path) -> Path:
    """What would be found at `path` if the process died now, in another folder."""
    folder.mkdir()
    for file in path.parent.iterdir():
        if file.name.startswith(path.name):
            shutil.copy2(file, folder)
    return folder / path.name


@attrs.define(eq=False)
class Disk:
    """The connections that were made, and what the disk does to their statements."""

    connections: list[sqlite3.Connection] = attrs.field(factory=list)
    failures: list[tuple[str, int]] = attrs.field(factory=list)
    answers: dict[str, object] = attrs.field(factory=dict)

    @property
    def connection(self) -> sqlite3.Connection:
        return self.connections[-1]

    def fail(self, statement: str, code: int) -> None:
        """Let the next statement that starts so fail with this code."""
        self.failures.append((statement, code))

    def ask(self, pragma: str) -> object:
        return self.connection.execute(f"PRAGMA {pragma}").fetchone()[0]


class _Fallible(sqlite3.Connection):
    disk: Disk

    def execute(self, sql: str, parameters: Iterable[Any] = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        self._fail(sql)
        if sql in self.disk.answers:
            return super().execute("SELECT ?", (self.disk.answers[sql],))
        return super().execute(sql, parameters)  # type: ignore[arg-type]

    def executemany(self, sql: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        self._fail(sql)
        return super().executemany(sql, rows)

    def _fail(self, sql: str) -> None:
        for failure in self.disk.failures:
            if sql.startswith(failure[0]):
                self.disk.failures.remove(failure)
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = failure[1]
                raise error


def fallible_disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Make every connection from now on one that the test can look at and fail."""
    disk = Disk()
    connect = sqlite3.connect

    class Connection(_Fallible):
        pass

    Connection.disk = disk

    def connect_fallible(*args: Any, **rest: Any) -> sqlite3.Connection:
        connection = connect(*args, factory=Connection, **rest)
        disk.connections.append(connection)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_fallible)
    return disk
