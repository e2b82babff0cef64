"""A store in PostgreSQL as an end of `triobot store copy`; see `triobot.store.copying`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, final

import psycopg

from ...errors import StoreAwayError
from ..rules import RETENTION
from ..schema import Copying, Stamp
from ..sql import Cursor, Sql
from .address import read_address
from .failures import first_line, for_the_caller, for_the_opener
from .history import store_of
from .opened import OpenedStore, open_here
from .schemas import is_there
from .session import connect, named

_NUMBER: Final = b"SELECT setval('numbers', $1)"
# Tables with numbered rows; the copy keeps the numbers. An INSERT with an explicit number doesn't move the
# table's sequence.
_COUNTED: Final = ("raw", "broadcasts")


def open_postgres_end(place: str, stamp: Stamp, *, now: int, copying: Copying) -> PostgresEnd:
    """Open the store at this address for a copy; make the target if needed.

    Raises: as `triobot.store.postgres.open_postgres`.
    """
    address = read_address(place)
    opened = open_here(address, stamp, now=now, retention=RETENTION, visit=True, copying=copying)
    return PostgresEnd(opened, now)


def identity_of_postgres(place: str) -> str | None:
    """Return the identity of the store at this address; None without a store.

    The identity is the same on each server of the store.

    Raises: as `triobot.store.postgres.open_postgres`.
    """
    address = read_address(place)
    with connect(address) as connection:
        try:
            return store_of(connection) if is_there(connection, address) else None
        except psycopg.errors.UndefinedTable:
            return named(address)  # the tables are another program's: opening the store reports the error
        except psycopg.Error as error:
            raise for_the_opener(error, named(address), connection.info.user) from error


@final
class PostgresEnd:
    """A store in PostgreSQL, for a copy; implements `triobot.store.copying.ends.CopyEnd`."""

    def __init__(self, opened: OpenedStore, now: int) -> None:
        self._opened = opened
        self._now = now
        self._sql = _InTurn(opened)

    @property
    def name(self) -> str:
        return self._opened.name

    @property
    def sql(self) -> Sql:
        return self._sql

    def put(self, work: Callable[[], object]) -> None:
        """Run `work` in a separate transaction, under the fence."""
        session = self._opened.sql

        def do() -> None:
            try:
                work()
            except Exception as error:
                if session.lost_with(error):
                    raise
                raise for_the_caller(error, self.name) from error

        try:
            with self._opened.turn:
                self._opened.transactions.put(do)
        except BaseException:
            with suppress(psycopg.Error):
                if not session.lost and session.in_transaction:
                    session.roll_back()
            raise

    @contextmanager
    def reading(self) -> Generator[None]:
        try:
            yield
        except psycopg.Error as error:
            if self._opened.sql.lost:
                raise StoreAwayError(f"the store {self.name} is away: {first_line(error)}") from error
            raise for_the_opener(error, self.name, self._opened.sql.connection.info.user) from error

    def number_from(self, last: int) -> None:
        self._opened.sql.run(_NUMBER, (last,))
        for table in _COUNTED:
            self._opened.sql.run(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'n'),"
                f" (SELECT coalesce(max(n), 0) + 1 FROM {table}), false)".encode()
            )

    def problems(self) -> Sequence[str]:
        """Return an empty list: the server checks its own files."""
        return ()

    def close(self) -> None:
        self._opened.close(clean=True, now=self._now)


@final
class _InTurn:
    """Runs statements while no other code uses the session; implements `triobot.store.sql.Sql`."""

    def __init__(self, opened: OpenedStore) -> None:
        self._opened = opened

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Cursor:
        with self._opened.turn:
            return self._opened.sql.execute(statement, values)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> Cursor:
        with self._opened.turn:
            return self._opened.sql.executemany(statement, rows)
