"""A store file: opening it safely, and closing it.

Everything here runs in a worker thread. The order matters: the lock comes before anything is read; the file
is known to be ours before anything is written; and what PRAGMA answers is checked, because SQLite quietly
keeps another mode where it can't have the one asked for.

The connection holds the file exclusively (``locking_mode=EXCLUSIVE``): a second connection, in this process
or in somebody's shell, could corrupt the log of SQLite before 3.51.3.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, final

from ..errors import ConfigError, StoreCorruptError
from ..journals import Lease, Opening
from .faults import for_the_opener
from .lock import OWNER_ONLY, FileLock, check_filesystem, take_lock
from .schema import (
    APPLICATION_ID,
    Migration,
    SchemaVersion,
    drop_meta,
    due_migrations,
    get_meta,
    put_meta,
    read_version,
    run_migration,
)
from .stamp import Stamp, StoredStamp, check_stamp, sealed
from .statements import Tables
from .transactions import Transactions

_MAGIC: Final = b"SQLite format 3\0"
_LOG_STAYS_AT: Final = 16 * 1024 * 1024


@final
class StoreFile:
    """An open store file: its lock, its connection, its rows.

    Attributes:
        opening: what is known of this run and of the one before.
        visited: a tool has it, and leaves it as if it had not been there.
    """

    def __init__(self, path: Path, lock: FileLock, connection: sqlite3.Connection) -> None:
        self.path = path
        self.opening = Opening(boot=0, at=0)
        self.visited = False
        self.tables = Tables(connection)
        self.transactions = Transactions(connection, self.tables, path)
        self._lock = lock
        self._sql = connection

    def close(self, *, clean: bool, now: int) -> None:
        """Close the file and let the next process in; `clean` when nothing that was handed over is undone."""
        try:
            if clean and self.transactions.broken is None:
                if not self.visited:
                    put_meta(self._sql, "clean", str(now))
                self._sql.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            try:
                self._sql.close()
            finally:
                self._lock.release()


def open_file(
    path: Path,
    stamp: Stamp,
    *,
    migrations: Sequence[Migration],
    any_filesystem: bool,
    now: int,
    visit: bool = False,
    rebind: bool = False,
) -> StoreFile:
    """Lock, check, create or migrate, and open the store at `path`.

    Raises: as `triobot.store.open_sqlite`.
    """
    path = _checked_path(path)
    if not any_filesystem:
        check_filesystem(path)
    lock = take_lock(path)
    try:
        _make_private(path)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
    except BaseException:
        lock.release()
        raise
    try:
        file = StoreFile(path, lock, connection)
        _prepare(file, connection, stamp, migrations, rebind=rebind)
        file.visited = visit
        file.opening = _take_over(connection, file.tables, now=now, visit=visit)
        file.tables.journals.lease = Lease(0, file.opening.boot)
        file.tables.journals.epoch = file.opening.epoch
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        file.tables.count_everything()
    except BaseException as error:
        connection.close()
        lock.release()
        if isinstance(error, sqlite3.Error):
            raise for_the_opener(error, path) from error
        raise
    return file


def _checked_path(path: Path) -> Path:
    path = path.resolve()
    if not path.parent.is_dir():
        raise ConfigError(f"the store's folder {path.parent} doesn't exist")
    if path.exists() and not path.is_file():
        raise ConfigError(f"the store {path} is not a file")
    return path


def _make_private(path: Path) -> None:
    """Create the file if need be, readable by its owner only; SQLite gives its companions the same mode."""
    try:
        _check_and_restrict(path)
        for suffix in ("-wal", "-shm", "-journal"):
            companion = path.with_name(path.name + suffix)
            if companion.exists():
                companion.chmod(OWNER_ONLY)
        _sync_folder(path.parent)
    except OSError as error:
        raise ConfigError(f"the store {path} can't be used: {error.strerror}") from None


def _check_and_restrict(path: Path) -> None:
    # No connection exists yet: closing a second descriptor later would drop SQLite's own locks.
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY)
    try:
        head = os.read(fd, len(_MAGIC))
        if head and head != _MAGIC:
            raise StoreCorruptError(f"{path} is not a store, and was left alone")
        if stat.S_IMODE(os.fstat(fd).st_mode) != OWNER_ONLY:
            os.fchmod(fd, OWNER_ONLY)
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _prepare(
    file: StoreFile,
    connection: sqlite3.Connection,
    stamp: Stamp,
    migrations: Sequence[Migration],
    *,
    rebind: bool,
) -> None:
    _set(connection, "locking_mode", "exclusive")
    _check_identity(connection, file.path)
    found = read_version(connection)
    due = due_migrations(found, migrations)
    if found is not None and not rebind:
        check_stamp(_stored_stamp(connection, file.path), stamp)
    _set(connection, "journal_mode", "wal")
    _set(connection, "synchronous", "2")
    _set(connection, "foreign_keys", "1")
    # The writer checkpoints by itself: SQLite's own would pass over a failed fsync.
    _set(connection, "wal_autocheckpoint", "0")
    _set(connection, "journal_size_limit", str(_LOG_STAYS_AT))
    if found is not None and due:
        _back_up(connection, file.path, found)
    _migrate(connection, due, migrations, stamp if found is None or rebind else None)


def _set(connection: sqlite3.Connection, name: str, value: str) -> None:
    connection.execute(f"PRAGMA {name} = {value}").fetchone()
    answer: tuple[object] | None = connection.execute(f"PRAGMA {name}").fetchone()
    if answer is None or str(answer[0]) != value:
        raise ConfigError(f"SQLite can't have {name}={value} here; put the store on a local disk")


def _check_identity(connection: sqlite3.Connection, path: Path) -> None:
    identity: tuple[int] = connection.execute("PRAGMA application_id").fetchone()
    tables: tuple[int] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    # Neither id nor tables: a store whose making was cut short.
    if identity[0] != APPLICATION_ID and (identity[0] or tables[0]):
        raise StoreCorruptError(f"{path} is a database of another program, and was left alone")


def _stored_stamp(connection: sqlite3.Connection, path: Path) -> StoredStamp:
    base_url, salt, digest = (get_meta(connection, name) for name in ("base_url", "salt", "digest"))
    if base_url is None or salt is None or digest is None:
        raise StoreCorruptError(f"the store {path} doesn't say which platform it belongs to")
    return StoredStamp(base_url, salt, digest)


def _put_stamp(connection: sqlite3.Connection, stamp: Stamp) -> None:
    stored = sealed(stamp)
    put_meta(connection, "base_url", stored.base_url)
    put_meta(connection, "salt", stored.salt)
    put_meta(connection, "digest", stored.digest)


def _migrate(
    connection: sqlite3.Connection, due: Sequence[Migration], known: Sequence[Migration], stamp: Stamp | None
) -> None:
    for migration in due:
        connection.execute("BEGIN IMMEDIATE")
        try:
            run_migration(connection, migration, known)
            if stamp is not None:
                _put_stamp(connection, stamp)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    if stamp is not None and not due:
        connection.execute("BEGIN IMMEDIATE")
        _put_stamp(connection, stamp)
        connection.execute("COMMIT")


def _take_over(connection: sqlite3.Connection, tables: Tables, *, now: int, visit: bool) -> Opening:
    """Count this run, and take the mark of a clean stop away until it has stopped cleanly itself.

    A visit leaves the mark as it is: how the bot stopped is for the bot's next run to know.
    """
    connection.execute("BEGIN IMMEDIATE")
    boot, unclean, epoch = (int(get_meta(connection, name) or 0) for name in ("boot", "unclean", "epoch"))
    previous = get_meta(connection, "opened_at")
    if get_meta(connection, "clean") is not None:
        unclean = 0
    else:
        tables.doubt_last_acknowledgements()
        # Before the first run that counted, nothing was under way that could have been cut.
        unclean = unclean + 1 if boot else 0
    # Visits count, too: what one run has read, no other may write.
    put_meta(connection, "boot", str(boot + 1))
    if not visit:
        drop_meta(connection, "clean")
        put_meta(connection, "opened_at", str(now))
        put_meta(connection, "unclean", str(unclean))
    elif not boot:
        put_meta(connection, "clean", str(now))
    connection.execute("COMMIT")
    return Opening(boot + 1, now, unclean, None if previous is None else int(previous), epoch)


def _back_up(connection: sqlite3.Connection, path: Path, found: SchemaVersion) -> None:
    """Copy the store as it is, beside it, before a migration touches it."""
    final_path = path.with_name(f"{path.name}.schema-{found.number}.backup")
    part = final_path.with_name(f"{final_path.name}.part")
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY))
    copy = sqlite3.connect(part, isolation_level=None)
    try:
        connection.backup(copy)
    finally:
        copy.close()
    part.replace(final_path)
    _sync_folder(path.parent)
