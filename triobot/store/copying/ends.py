"""The two ends of a copy: stores that no other process has open during the copying."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Protocol, final

from ...base.extras import needing
from ...errors import ConfigError
from ..file import StoreFile, open_file
from ..restoring import examine
from ..schema import MIGRATIONS, Copying, Stamp
from ..sql import Sql
from ..sqlite_errors import ENGINE_ERRORS, for_the_opener
from ..writer import AskedJob

_LAST: Final = "SELECT seq FROM sqlite_sequence WHERE name = 'inbox'"
_NEWEST: Final = "SELECT max(id) FROM conversations"


class CopyEnd(Protocol):
    """The source or the target of a copy."""

    @property
    def name(self) -> str:
        """Name of the store in errors."""
        ...

    @property
    def sql(self) -> Sql:
        """Runs statements; statements that write run only inside `put`."""
        ...

    def put(self, work: Callable[[], object]) -> None:
        """Run `work` in a transaction of its own. The transaction is durable when `put` returns.

        Raises:
            TriobotError: nothing of `work` is stored, or the outcome is unknown.
        """
        ...

    def reading(self) -> AbstractContextManager[None]:
        """Return a context manager that converts the database's errors in reads outside `put`."""
        ...

    def number_from(self, last: int) -> None:
        """Make all future numbers of events larger than `last`; called in `put`, after the last row."""
        ...

    def problems(self) -> Sequence[str]:
        """Return the problems that the database can find in the store, one line each."""
        ...

    def close(self) -> None:
        """Close the store, so that other processes can open the store; raises nothing."""
        ...


def last_number(sql: Sql) -> int:
    """Return the largest event number that a store has used for an event or a conversation."""
    found = [sql.execute(_LAST).fetchone(), sql.execute(_NEWEST).fetchone()]
    return max([row[0] for row in found if row is not None and row[0] is not None], default=0)


def open_end(address: str, stamp: Stamp, *, now: int, copying: Copying) -> CopyEnd:
    """Open a store for a copy; make the target if needed.

    Args:
        stamp: platform and bot of both stores.

    Raises: as `triobot.store.open_sqlite` and `triobot.store.postgres.open_postgres`; ConfigError: the source
    doesn't exist, or the target exists.
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
    """Return the identity of the store at this address; None without a store.

    Two addresses of the same store give the same identity. An empty file is no store: a copy command that was
    killed may leave an empty file.

    Raises: as `open_end`, if the server can't be queried.
    """
    engine, _, place = address.partition(":")
    if engine == "postgresql":
        with needing("postgres", "a store in PostgreSQL"):
            from ..postgres.end import identity_of_postgres
        return identity_of_postgres(place)
    try:
        found = Path(place).stat()
    except OSError:  # opening the store reports the reason
        return None
    return f"{found.st_dev}/{found.st_ino}" if found.st_size else None


@final
class FileEnd:
    """A store in a file, for a copy."""

    def __init__(self, file: StoreFile, now: int) -> None:
        self._file = file
        self._now = now

    @property
    def name(self) -> str:
        return self._file.name

    @property
    def sql(self) -> Sql:
        return self._file.connection

    def put(self, work: Callable[[], object]) -> None:
        failure = self._file.transactions.run_alone(AskedJob(lambda tables: work(), writes=True))
        if failure is not None:
            raise failure

    @contextmanager
    def reading(self) -> Generator[None]:
        try:
            yield
        except ENGINE_ERRORS as error:
            raise for_the_opener(error, self._file.path) from error

    def number_from(self, last: int) -> None:
        self.sql.execute("DELETE FROM sqlite_sequence WHERE name = 'inbox'")
        self.sql.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('inbox', ?)", (last,))

    def problems(self) -> Sequence[str]:
        return examine(self._file.connection)

    def close(self) -> None:
        self._file.close(clean=not self._file.connection.in_transaction, now=self._now)
