"""Store files: code that opens a file safely, and closes the file.

Everything here runs in a worker thread. The order matters. The lock is taken before any read, and the file is
identified as a store of this bot before any write. The answer to each PRAGMA is checked, because SQLite
silently keeps the old mode if the requested mode is impossible.

The connection locks the file exclusively (``locking_mode=EXCLUSIVE``): before SQLite 3.51.3, a second
connection, of this process or of a shell, could corrupt the log.
"""

from __future__ import annotations

import codecs
import logging
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Final, cast, final

import trio

from ..base.authors import leaves
from ..base.open_files import CAREFUL, room_beside, write_at
from ..errors import ConfigError, StoreCorruptError, UnreadableRecordError
from ..seams.journals import Opening
from .backups import check_alone, copy_store, untrue_rows
from .lock import FileLock, check_filesystem, machine_boot, take_lock
from .log_file import log_path
from .notes import AnyNotes
from .opening import count_run
from .private_files import checked_path, make_private, remove_leftover, sync
from .rules import RETENTION, Retention
from .schema import (
    COPY_OF,
    Copying,
    Migration,
    SchemaVersion,
    Stamp,
    check_identity,
    check_stamp,
    check_whole,
    due_migrations,
    get_meta,
    note_that_log_began,
    put_meta,
    put_stamp,
    read_version,
    run_migration,
    sealed,
    stored_stamp,
)
from .sqlite_errors import ENGINE_ERRORS, for_the_opener
from .statements import Tables
from .writer import Transactions

_log: Final = logging.getLogger("triobot.store")

_LOOKS_SECONDS: Final = 5.0
# Largest number of backups that migrations leave beside a store; older backups are deleted.
_COPIES: Final = 3
_LOG_STAYS_AT: Final = 16 * 1024 * 1024

# The size that a log reaches between two checkpoints when events come one at a time.
_LOG_BEGINS_AT: Final = 11 * 1024 * 1024
_ROOM_BESIDE: Final = 8

# Linux caches the data of one write as one piece. The larger the piece, the longer a later write into the
# piece takes. The fourteen writes of a commit took 48 us in a file that was filled by writes of 1 MiB, and 22
# us in a file that was filled by writes of 64 KiB.
_ZEROS: Final = bytes(64 * 1024)

# This error handler replaces invalid UTF-8 by a character that no JSON and no name contains. So a damaged
# text causes an error only where code parses the text.
codecs.register_error("triobot.void", lambda error: ("\x1a", cast("UnicodeDecodeError", error).end))
_AS_TEXT: Final = methodcaller("decode", "utf-8", "triobot.void")


@final
class StoreFile:
    """An open store file: lock, connection and rows.

    Attributes:
        connection: used by the writer's batches and the steps of a copy, each under `turn`.
        opening: facts about the use of the store by this process and by the previous process.
        visited: whether a tool has opened the file; a tool doesn't change the stored fact that the bot
            stopped cleanly.
        notes: facts that the database doesn't have yet; after a kill, the next process reads these facts.
        transactions: runs the writer's batches on the connection.
    """

    def __init__(self, path: Path, lock: FileLock, connection: sqlite3.Connection) -> None:
        self.path = path
        self.opening = Opening(boot=0, at=0)
        self.visited = False
        self.tables = Tables(connection)
        begun = partial(lock.notes.note_log, log_path(path))
        self.transactions = Transactions(connection, self.tables, path, begun=begun)
        self.notes = lock.notes
        self.connection = connection
        self.turn = threading.Lock()
        self._lock = lock
        self._copying = threading.Lock()
        self._closed = False

    def copy(self, target: Path, now: int, *, between: Callable[[], None]) -> None:
        """Make a backup in the calling thread, while another thread runs batches.

        Writes over this connection also reach the copy, so the copy has the store's state at the end of the
        copying.

        Args:
            between: called between two steps, without `turn` locked; an error from `between` ends the
                copying.
        """

        def let_others() -> None:
            self.turn.release()
            try:
                between()
            finally:
                self.turn.acquire()
            self.check_open()

        with self._copying, self.turn:
            self.check_open()
            copy_store(self.connection, target, now, between=let_others)

    @property
    def name(self) -> str:
        return str(self.path)

    def check_rows(self, error: Exception) -> None:
        """Check whether a damaged row caused `error`; the program ends with this error.

        The search for such a row takes a few seconds at most.

        Raises:
            StoreCorruptError: a row is damaged.
        """
        give_up_at = time.monotonic() + _LOOKS_SECONDS
        unreadable = (str(one) for one in leaves(error) if isinstance(one, UnreadableRecordError))
        found = next(unreadable, None)
        with self.turn, suppress(*ENGINE_ERRORS):
            self.connection.set_progress_handler(lambda: time.monotonic() > give_up_at, 100_000)
            found = found or next(untrue_rows(self.connection), None)
        if found is not None:
            raise StoreCorruptError(f"{self.path} is damaged or is not a store: {found}") from error

    def erase_log(self) -> None:
        """Remove deleted data from SQLite's write-ahead log."""
        with self.turn:
            self.check_open()
            self.transactions.checkpoint(erase=True)
            grow_log(self.path)

    def check_open(self) -> None:
        """Raise trio.ClosedResourceError if the file was closed. The caller holds `turn`."""
        if self._closed:
            raise trio.ClosedResourceError("the store is closed")

    def close(self, *, clean: bool, now: int) -> None:
        """Close the file, so that the next process can open it. An error is only logged.

        Args:
            clean: whether all jobs were done and the connection is usable.
        """
        with self.turn:
            self._closed = True
        with self._copying:  # `_closed` ends a copy in progress
            try:
                self._close(clean=clean, now=now)
            except Exception as error:
                # All acknowledged commits are in the log, where the next start finds them.
                _log.warning("the store %s could not be closed cleanly: %s", self.path, error)

    def _close(self, *, clean: bool, now: int) -> None:
        try:
            if clean:
                self.transactions.begin_log()
                self.connection.execute("BEGIN IMMEDIATE")
                if not self.visited:
                    put_meta(self.connection, "clean", str(now))
                self.connection.execute("COMMIT")
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            try:
                self.connection.close()
            finally:
                self._lock.release()


def open_file(
    path: Path,
    stamp: Stamp | None,
    *,
    migrations: Sequence[Migration],
    now: int,
    retention: Retention = RETENTION,
    visit: bool = False,
    any_filesystem: bool = False,
    copying: Copying | None = None,
) -> StoreFile:
    """Open the store at `path`: lock and check the file, and make or migrate the tables.

    Args:
        copying: whether `triobot store copy` reads from or writes to this store; None otherwise.

    Raises: as `triobot.store.open_sqlite`.
    """
    path = checked_path(path)
    if not any_filesystem:
        check_filesystem(path)
    with ExitStack() as undo:
        lock = take_lock(path)
        undo.callback(lock.release)
        check_alone(path, lock, to_run=True)
        make_private(path)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
        undo.callback(connection.close)
        try:
            file = StoreFile(path, lock, connection)
            _prepare(file, connection, stamp, migrations, now=now, copying=copying)
            file.visited = visit
            file.opening = take_over(
                connection, file.tables, lock.notes, machine=machine_boot(), now=now, visit=visit
            )
            file.tables.retention = retention
            file.transactions.fold(erase=True)
            if not visit:
                grow_log(path)
            file.transactions.begin_log()
            connection.text_factory = _AS_TEXT
            file.tables.count_everything()
        except ENGINE_ERRORS as error:
            raise for_the_opener(error, path) from error
        undo.pop_all()
    return file


def grow_log(path: Path) -> None:
    """Fill an empty log with zeros, because a commit takes several times as long if the log's file grows.

    Reserving the space is not enough: the first write into reserved space takes as long as lengthening the
    file. SQLite treats zeros as an empty log, keeps the file's size, up to `journal_size_limit`, and writes
    from the beginning after each checkpoint. If the disk has little room, the file is not filled, and the log
    grows as needed.
    """
    log = log_path(path)
    with suppress(OSError):
        fd = os.open(log, os.O_WRONLY | CAREFUL)
        try:
            if os.fstat(fd).st_size or room_beside(log) < _ROOM_BESIDE * _LOG_BEGINS_AT:
                return
            try:
                for at in range(0, _LOG_BEGINS_AT, len(_ZEROS)):
                    write_at(fd, _ZEROS, at)
                sync(fd)
            except OSError:
                os.ftruncate(fd, 0)
        finally:
            os.close(fd)


def _prepare(
    file: StoreFile,
    connection: sqlite3.Connection,
    stamp: Stamp | None,
    migrations: Sequence[Migration],
    *,
    now: int,
    copying: Copying | None,
) -> None:
    killed = log_path(file.path).exists()
    _set(connection, "locking_mode", "exclusive")
    check_identity(connection, file.path)
    found = read_version(connection)
    if found is not None:
        if killed:
            note_that_log_began(connection)
        check_whole(connection, file.path, copying)
    due = due_migrations(found, migrations)
    if found is None and stamp is None:
        raise ConfigError(f"there is no store at {file.path}")
    if found is not None and stamp is not None:
        check_stamp(stored_stamp(connection, file.path), stamp)
    _set(connection, "journal_mode", "wal")
    _set(connection, "synchronous", "2")
    # On macOS, plain fsync leaves data in the disk's own memory; on other systems the setting has no effect.
    _set(connection, "fullfsync", "1")
    _set(connection, "foreign_keys", "1")
    # The writer makes checkpoints itself: SQLite's own checkpoints would ignore a failed fsync.
    _set(connection, "wal_autocheckpoint", "0")
    if found is not None:
        note_that_log_began(connection)
    # Deleted data is overwritten, so that no copy of the file contains the data. The overwriting costs
    # little, because the pages with deleted data are written anyway.
    _set(connection, "secure_delete", "1")
    _set(connection, "journal_size_limit", str(_LOG_STAYS_AT))
    if found is not None and due:
        _back_up(connection, file.path, found, now)
    _migrate(connection, due, migrations, stamp if found is None else None, copying)
    if found is not None and due:
        _prune_copies(file.path)


def _set(connection: sqlite3.Connection, name: str, value: str) -> None:
    connection.execute(f"PRAGMA {name} = {value}").fetchone()
    answer: tuple[object] | None = connection.execute(f"PRAGMA {name}").fetchone()
    if answer is None or str(answer[0]) != value:
        raise ConfigError(f"SQLite can't have {name}={value} here; put the store on a local disk")


def _migrate(
    connection: sqlite3.Connection,
    due: Sequence[Migration],
    known: Sequence[Migration],
    stamp: Stamp | None,
    copying: Copying | None,
) -> None:
    for migration in due:
        connection.execute("BEGIN IMMEDIATE")
        try:
            run_migration(connection, migration, known)
            if stamp is not None:
                put_stamp(connection, sealed(stamp))
                if copying == "to":
                    put_meta(connection, COPY_OF, "")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def take_over(
    connection: sqlite3.Connection,
    tables: Tables,
    notes: AnyNotes,
    *,
    machine: str | None,
    now: int,
    visit: bool = False,
) -> Opening:
    """Count this process in a separate transaction (see `count_run`), and allocate room for its notes."""
    connection.execute("BEGIN IMMEDIATE")
    opening = count_run(connection, tables, notes, machine=machine, now=now, visit=visit)
    connection.execute("COMMIT")
    notes.clear()
    if machine is not None and not visit:
        notes.begin(int(get_meta(connection, "run") or 0))
    return opening


def _prune_copies(path: Path) -> None:
    pattern = re.compile(re.escape(path.name) + r"\.schema-([0-9]{1,6})\.backup")
    copies = {int(found[1]): one for one in path.parent.iterdir() if (found := pattern.fullmatch(one.name))}
    for number in sorted(copies)[:-_COPIES]:
        # A file that has a backup's name, but is no database, is left alone.
        with suppress(FileExistsError):
            remove_leftover(copies[number])


def _back_up(connection: sqlite3.Connection, path: Path, found: SchemaVersion, now: int) -> None:
    target = path.with_name(f"{path.name}.schema-{found.number}.backup")
    # A copy from an earlier attempt isn't needed: that migration failed, so the store still has all of the
    # copy's data.
    try:
        remove_leftover(target)
        copy_store(connection, target, now)
    except FileExistsError as error:
        raise ConfigError(
            f"{error.filename} is in the way of the copy that a migration makes, and was left alone; move it"
        ) from None
