"""The two ends of a copy: each a store that nobody else has open meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol, final

from ...base.extras import needing
from ...errors import ConfigError
from ..backups import examine
from ..file import StoreFile, open_file
from ..schema import MIGRATIONS, Copying, Stamp
from ..sql import Sql
from ..sqlite_errors import ENGINE_ERRORS, for_the_opener

_CHECKPOINT_EVERY: Final = 16
_LAST: Final = "SELECT seq FROM sqlite_sequence WHERE name = 'inbox'"
_NEWEST: Final = "SELECT max(id) FROM conversations"


class CopyEnd(Protocol):
    """A store of which or into which is copied."""

    @property
    def name(self) -> str:
        """Return what it is called in errors."""
        ...

    @property
    def boot(self) -> int:
        """Return which opening of it this is; the one before had one less."""
        ...

    @property
    def sql(self) -> Sql:
        """Return what runs statements; those that write, within `put`."""
        ...

    def put(self, work: Callable[[], object]) -> None:
        """Do this in a transaction of its own, which is durable when this returns.

        Raises:
            TriobotError: nothing of it is stored, or nobody knows.
        """
        ...

    def reading(self) -> AbstractContextManager[None]:
        """Return a context for what is asked of it outside `put`; its engine's errors come as ours."""
        ...

    def number_from(self, last: int) -> None:
        """Have every number that is given from now on be larger; within `put`, once all rows are there."""
        ...

    def problems(self) -> Sequence[str]:
        """Return what is wrong in it, a line each, as far as its engine can be asked."""
        ...

    def close(self) -> None:
        """Close it, and let others in; raises nothing."""
        ...


def last_number(sql: Sql) -> int:
    """Return the largest number that a store has given to an event, and so to a conversation."""
    found = [sql.execute(_LAST).fetchone(), sql.execute(_NEWEST).fetchone()]
    return max([row[0] for row in found if row is not None and row[0] is not None], default=0)


def open_end(address: str, stamp: Stamp, *, now: int, copying: Copying) -> CopyEnd:
    """Open one store for a copy; one that is to be copied into is made if need be.

    Args:
        stamp: platform and bot, to which it is bound.

    Raises: as `triobot.store.open_sqlite` and `triobot.store.postgres.open_postgres`; ConfigError: there is
        no store to be copied, or one where the copy is to be.
    """
    engine, _, place = address.partition(":")
    if engine == "postgresql":
        with needing("postgres", "a store in PostgreSQL"):
            from ..postgres.end import open_postgres_end
        return open_postgres_end(place, stamp, now=now, copying=copying)
    file = Path(place)
    if copying == "from" and not file.is_file():
        raise ConfigError(f"there is no store at {file}")
    opened = open_file(
        file,
        stamp,
        migrations=MIGRATIONS,
        any_filesystem=copying == "from",
        now=now,
        visit=True,
        copying=copying,
    )
    return FileEnd(opened, now)


def identity_of(address: str) -> str | None:
    """Return what names the store at this address, however that is spelled; None if there is none.

    A file without a byte is none: a copy that was killed may leave one.

    Raises: as `open_end`, where its server can't be asked.
    """
    engine, _, place = address.partition(":")
    if engine == "postgresql":
        with needing("postgres", "a store in PostgreSQL"):
            from ..postgres.end import identity_of_postgres
        return identity_of_postgres(place)
    try:
        found = Path(place).stat()
    except OSError:  # whoever opens it says why
        return None
    return f"{found.st_dev}/{found.st_ino}" if found.st_size else None


@final
class FileEnd:
    """A store in a file, for a copy."""

    def __init__(self, file: StoreFile, now: int) -> None:
        self._file = file
        self._now = now
        self._puts = 0

    @property
    def name(self) -> str:
        """Return what it is called in errors."""
        return self._file.name

    @property
    def boot(self) -> int:
        """Return which opening of it this is."""
        return self._file.opening.boot

    @property
    def sql(self) -> Sql:
        """Return what runs statements."""
        return self._file.connection

    def put(self, work: Callable[[], object]) -> None:
        """Do this in a transaction of its own."""
        connection = self._file.connection
        try:
            self._file.transactions.begin_log()
            connection.execute("BEGIN IMMEDIATE")
            work()
            connection.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            if isinstance(error, ENGINE_ERRORS):
                raise for_the_opener(error, self._file.path) from error
            raise
        self._puts += 1
        if not self._puts % _CHECKPOINT_EVERY:  # else the log would hold all of the copy
            self._file.transactions.checkpoint()
            if (broken := self._file.transactions.broken) is not None:
                raise broken

    @contextmanager
    def reading(self) -> Generator[None]:
        """Let SQLite's errors come as ours."""
        try:
            yield
        except ENGINE_ERRORS as error:
            raise for_the_opener(error, self._file.path) from error

    def number_from(self, last: int) -> None:
        """Have every number that is given from now on be larger."""
        self.sql.execute("DELETE FROM sqlite_sequence WHERE name = 'inbox'")
        self.sql.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('inbox', ?)", (last,))

    def problems(self) -> Sequence[str]:
        """Return what is wrong in it."""
        return examine(self._file.connection)

    def close(self) -> None:
        """Close it, and let others in."""
        self._file.close(clean=True, now=self._now)
