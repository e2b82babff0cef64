"""A store file: opening it safely, and closing it.

Everything here runs in a worker thread. The order matters: the lock comes before anything is read; the file
is known to be ours before anything is written; and what PRAGMA answers is checked, because SQLite quietly
keeps another mode where it can't have the one asked for.

The connection holds the file exclusively (``locking_mode=EXCLUSIVE``): a second connection, in this process
or in somebody's shell, could corrupt the log of SQLite before 3.51.3.
"""

from __future__ import annotations

import codecs
import logging
import os
import re
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Final, TypeVar, cast, final

import trio

from ..base.authors import leaves
from ..base.clock import WallClock
from ..base.open_files import CAREFUL, room_beside, write_at
from ..errors import ConfigError, StoreCorruptError, StoreFullError, UnreadableRecordError
from ..seams.journals import Lease, Opening
from ..seams.writes import Shipped
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
    check_journals,
    check_stamp,
    check_whole,
    due_migrations,
    get_meta,
    note_that_log_began,
    put_meta,
    put_stamp,
    read_version,
    run_migration,
    stored_stamp,
)
from .shipping import Shipment, Shipping
from .sqlite_errors import ENGINE_ERRORS, for_the_opener
from .statements import Tables
from .writer import Transactions

_log: Final = logging.getLogger("triobot.store")

R = TypeVar("R")

# How far behind a replica may be: what is committed meanwhile is sent together.
_PAUSE_SECONDS: Final = 0.25

_LOOKS_SECONDS: Final = 5.0
# How many copies that migrations have made stay beside a store.
_COPIES: Final = 3
_LOG_STAYS_AT: Final = 16 * 1024 * 1024

# Up to here the log gets between two checkpoints when events come one at a time.
_LOG_BEGINS_AT: Final = 11 * 1024 * 1024
_ROOM_BESIDE: Final = 8

# Linux keeps what one write gives it in one piece of its cache, and goes through the whole piece at each
# later write. The fourteen of a commit took 48 us after zeros by the MiB, and take 22 us after these.
_ZEROS: Final = bytes(64 * 1024)

# A text that is none says nothing: no JSON and no name has such a sign. It costs its reader, and nobody else.
codecs.register_error("triobot.void", lambda error: ("\x1a", cast("UnicodeDecodeError", error).end))
_AS_TEXT: Final = methodcaller("decode", "utf-8", "triobot.void")


@final
class StoreFile:
    """An open store file: its lock, its connection, its rows.

    Attributes:
        connection: the writer's batches and the steps of a copy use it, each in its `turn`.
        opening: what is known of this run and of the one before.
        visited: a tool has it, and leaves it as if it had not been there.
        notes: what the database doesn't know of, for the process that comes after a kill.
        shipping: who takes what is committed, in this file's turn.
        transactions: runs the writer's batches on the connection.
    """

    def __init__(self, path: Path, lock: FileLock, connection: sqlite3.Connection) -> None:
        self.path = path
        self.opening = Opening(boot=0, at=0)
        self.visited = False
        self.tables = Tables(connection)
        self.shipping = Shipping(path)
        begun, may_fold = partial(lock.notes.note_log, log_path(path)), self.shipping.may_fold
        self.transactions = Transactions(connection, self.tables, path, may_fold=may_fold, begun=begun)
        self.notes = lock.notes
        self.connection = connection
        self.turn = threading.Lock()
        self._lock = lock
        self._copying = threading.Lock()
        self._closed = False

    def copy(self, target: Path, now: int, *, between: Callable[[], None]) -> None:
        """Make a backup, in a thread of its own, while others run batches.

        Writes by this connection go into the copy as well, so that it is as of its end, and whole.

        Args:
            between: called while it is others' turn; what it raises ends the copying.
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
        """Return what the store is called in logs: its path."""
        return str(self.path)

    def check_rows(self, error: Exception) -> None:
        """Say of an error that ends the program whether a damaged row led to it; looks for seconds at most.

        Raises:
            StoreCorruptError: one is.
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
        """Leave nothing of what was written, and deleted since, in the log."""
        with self.turn:
            self.check_open()
            self.transactions.checkpoint(erase=True)
            grow_log(self.path)

    def begin_shipping(self, now: int) -> Shipment:
        """Begin to send this file to a streamer, as it is now and with an empty log.

        Raises:
            ConflictError: another streamer is attached, or the log can't be emptied.
            StoreCorruptError: the store is broken.
        """
        with self.turn:
            self.check_open()
            self.shipping.refuse_second()
            self.transactions.checkpoint(erase=True)
            if (broken := self.transactions.broken) is not None:
                raise broken
            shipment = self.shipping.begin(now)
            grow_log(self.path)
            return shipment

    def take(self, shipment: Shipment, now: int) -> Shipped:
        """Return the next piece of the log; with `now` as its `as_of` if nothing is committed behind it.

        Raises:
            ConflictError: the streamer has to begin anew.
        """
        with self.turn:
            self.check_open()
            return shipment.take(now)

    def check_open(self) -> None:
        """Raise trio.ClosedResourceError if it was closed; to be called in one's turn."""
        if self._closed:
            raise trio.ClosedResourceError("the store is closed")

    def close(self, *, clean: bool, now: int) -> None:
        """Close the file and let the next process in; where that goes wrong, the log says so.

        Args:
            clean: all that was handed over has been done, and the connection can be used.
        """
        with self.turn:
            self._closed = True
        with self._copying:  # a copy that is being made notices, and gives up
            try:
                self._close(clean=clean, now=now)
            except Exception as error:
                # Everything that was acknowledged is in the log, and the next start finds it there.
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
                self.shipping.close()
                self._lock.release()


@final
class FileStream:
    """Sends what a store commits to a program that keeps a replica of it."""

    def __init__(self, file: StoreFile, clock: WallClock) -> None:
        self._file = file
        self._clock = clock

    @property
    def attached(self) -> tuple[int, int | None] | None:
        """Return since when one is attached, and as of when it has everything; None: none is."""
        shipping = self._file.shipping
        return (shipping.since, shipping.as_of) if shipping.attached else None

    async def ship(self, tell: Callable[[Shipped], Awaitable[None]]) -> None:
        """Send an image of the store and then its log as that is committed, until cancelled.

        Raises:
            ConflictError: another program is attached; or this one has to begin anew.
            StoreError: the store could not be read.
        """
        shipment = await self._in_thread(partial(self._file.begin_shipping, self._clock.now()))
        try:
            at = 0
            while at < shipment.size:
                piece = await self._in_thread(partial(shipment.read_image, at))
                await tell(piece)
                at += len(piece.data)
            while True:
                piece = await self._in_thread(partial(self._file.take, shipment, self._clock.now()))
                await tell(piece)
                if piece.as_of is not None:
                    self._file.shipping.as_of = piece.as_of
                    # What comes meanwhile waits: to ask again at once would cost a round for each commit.
                    await trio.sleep(_PAUSE_SECONDS)
        finally:
            self._file.shipping.end()

    async def _in_thread(self, work: Callable[[], R]) -> R:
        try:
            return await trio.to_thread.run_sync(work, limiter=trio.CapacityLimiter(1))
        except OSError as error:
            raise StoreFullError(
                f"the store {self._file.path} can't be read for a stream: {error.strerror}"
            ) from error


def open_file(
    path: Path,
    stamp: Stamp | None,
    *,
    migrations: Sequence[Migration],
    now: int,
    retention: Retention = RETENTION,
    visit: bool = False,
    rebind: bool = False,
    any_filesystem: bool = False,
    copying: Copying | None = None,
) -> StoreFile:
    """Lock, check, create or migrate, and open the store at `path`.

    Args:
        copying: it is to be copied, or to become a copy; see `check_whole`.

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
            _prepare(file, connection, stamp, migrations, now=now, rebind=rebind, copying=copying)
            file.visited = visit
            file.opening = take_over(
                connection, file.tables, lock.notes, machine=machine_boot(), now=now, visit=visit
            )
            file.tables.retention = retention
            file.tables.journals.lease = Lease(file.opening.boot)
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
    """Give the empty log its size now: a commit that makes its file longer costs several times as much.

    Zeros are written: space that is only reserved would cost as much at its first write. To SQLite they are
    a log in which nothing is; it keeps the size, up to `journal_size_limit`, and writes from the beginning
    after each checkpoint. Where there is little room the log grows as it is needed.
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
    rebind: bool,
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
    check_journals(connection, found)
    if found is None and stamp is None:
        raise ConfigError(f"there is no store at {file.path}")
    if found is not None and not rebind and stamp is not None:
        check_stamp(stored_stamp(connection, file.path), stamp)
    _set(connection, "journal_mode", "wal")
    _set(connection, "synchronous", "2")
    # Where fsync leaves data in the disk's own memory, as on macOS; no difference elsewhere.
    _set(connection, "fullfsync", "1")
    _set(connection, "foreign_keys", "1")
    # The writer checkpoints by itself: SQLite's own would pass over a failed fsync.
    _set(connection, "wal_autocheckpoint", "0")
    if found is not None:
        note_that_log_began(connection)
    # What was deleted is no longer there, in whatever copy of the file. The pages are written anyway.
    _set(connection, "secure_delete", "1")
    _set(connection, "journal_size_limit", str(_LOG_STAYS_AT))
    if found is not None and due:
        _back_up(connection, file.path, found, now)
    _migrate(connection, due, migrations, stamp if found is None or rebind else None, copying)
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
                put_stamp(connection, stamp)
                if copying == "to":
                    put_meta(connection, COPY_OF, "")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    if stamp is not None and not due:
        connection.execute("BEGIN IMMEDIATE")
        put_stamp(connection, stamp)
        connection.execute("COMMIT")


def take_over(
    connection: sqlite3.Connection,
    tables: Tables,
    notes: AnyNotes,
    *,
    machine: str | None,
    now: int,
    visit: bool = False,
) -> Opening:
    """Count this run, in a transaction of its own, and make room for its notes; as `count_run`."""
    connection.execute("BEGIN IMMEDIATE")
    opening = count_run(connection, tables, notes, machine=machine, now=now, visit=visit)
    connection.execute("COMMIT")
    notes.clear()
    if machine is not None and not visit:
        notes.begin(int(get_meta(connection, "run") or 0))
    return opening


def _prune_copies(path: Path) -> None:
    """Remove all but the newest copies that migrations have made of this store; nothing else."""
    pattern = re.compile(re.escape(path.name) + r"\.schema-([0-9]{1,6})\.backup")
    copies = {int(found[1]): one for one in path.parent.iterdir() if (found := pattern.fullmatch(one.name))}
    for number in sorted(copies)[:-_COPIES]:
        # What has such a name and is no copy of ours is left alone.
        with suppress(FileExistsError):
            remove_leftover(copies[number])


def _back_up(connection: sqlite3.Connection, path: Path, found: SchemaVersion, now: int) -> None:
    """Copy the store as it is, beside it, before a migration touches it."""
    target = path.with_name(f"{path.name}.schema-{found.number}.backup")
    # One of an earlier attempt: the migration failed, and the store is what it was, or newer.
    try:
        remove_leftover(target)
        copy_store(connection, target, now)
    except FileExistsError as error:
        raise ConfigError(
            f"{error.filename} is in the way of the copy that a migration makes, and was left alone; move it"
        ) from None
