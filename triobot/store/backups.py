"""Backups: copies of a store, made while the bot goes on, and turned into stores again.

A backup is one file, marked as a backup: a bot refuses to run on it. `restore_file` turns the backup into a
store of the next *epoch*. Everything in the backup belongs to an earlier epoch, because it isn't known what
the bot did between the backup and the restore. The inbox's numbers jump, so that no new conversation gets the
number of a lost one: the keys that code passes to other systems contain a conversation's number.

Everything here runs in a worker thread.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from ..errors import ConfigError, StoreCorruptError
from .broadcasts import stop_after_restore
from .lock import FileLock, lock_path, machine_boot, take_lock
from .log_file import holds, log_path
from .opening import LEAP, begin_epoch
from .private_files import COMPANIONS, check_kind, checked_path, make_new, remove_leftover, sync_folder
from .schema import (
    BACKUP,
    COPIED,
    COPY_OF,
    LOG,
    MIGRATIONS,
    MOVED,
    Stamp,
    check_identity,
    check_journals,
    check_original,
    check_stamp,
    drop_meta,
    due_migrations,
    get_meta,
    note_that_log_began,
    put_meta,
    read_version,
    stored_stamp,
)
from .sqlite_errors import ENGINE_ERRORS, damage_of, for_the_opener

STEP: Final = 64
"""Database pages per step of a copy: a quarter of a megabyte. Others use the connection between two steps."""

_JOURNAL: Final = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_AS_BACKUP: Final = (
    "to go on with the file alone, make it a backup, `triobot store backup FILE`, and restore that"
)
_NOT_ITS_OWN: Final = (
    "{log} beside the store {path} is not its own, but another store's, or of another time: put the two that"
    f" belong together side by side, or move {{log}} away; then, {_AS_BACKUP}"
)
_LOST: Final = (
    "the store {path} was not stopped, and {log} {damage}, which has what was done last: put both side"
    f" by side under their names; {_AS_BACKUP}"
)

REBINDING: Final = "say `triobot store restore FILE --rebind`"

MOST: Final = 20
"""Maximum number of reported problems of one sort; one more line stands for the rest."""

# Descriptions of damage, each with the query that finds the damaged conversations.
_RULES: Final[tuple[tuple[str, str], ...]] = (
    (
        "the journal of conversation {} has a gap or an overlap",
        "SELECT DISTINCT conversation FROM (SELECT conversation, n, lag(n + size)"
        " OVER (PARTITION BY conversation ORDER BY n) AS expected FROM journal)"
        " WHERE expected IS NOT NULL AND n <> expected",
    ),
    (
        "a journal row of conversation {} doesn't hold as many records as it says",
        "SELECT DISTINCT conversation FROM journal"
        " WHERE size <> length(records) - length(replace(records, char(10), '')) + 1",
    ),
    (
        "the journal of conversation {} doesn't begin at 0",
        "SELECT id FROM conversations WHERE run = 1"
        " AND coalesce((SELECT min(n) FROM journal WHERE conversation = id), 0) <> 0",
    ),
    (
        "there are records of conversation {}, which doesn't exist",
        "SELECT DISTINCT conversation FROM journal WHERE conversation NOT IN (SELECT id FROM conversations)",
    ),
    (
        "there are effects of conversation {}, which doesn't exist",
        "SELECT DISTINCT conversation FROM effects WHERE conversation NOT IN (SELECT id FROM conversations)",
    ),
    (
        "conversation {} has a number that the inbox never gave",
        "SELECT id FROM conversations"
        " WHERE id < 1 OR id > coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'inbox'), 0)",
    ),
    (
        "conversation {} has ended, and yet something of it is under way",
        "SELECT id FROM conversations WHERE ended_at IS NOT NULL AND (unfinished OR wake_at IS NOT NULL)",
    ),
)


_OLDER: Final = (
    "{path}.lock knows a later run than the store {path}, which is an older copy or another store: put the"
    f" newest file there; {_AS_BACKUP}"
)


def check_alone(path: Path, lock: FileLock, *, to_run: bool = False, to_check: bool = False) -> None:
    """Check that a file and the files beside it belong together, before SQLite merges the log into the file.

    The main file is read alone, without its log.

    Args:
        to_run: whether a bot is to run on the store. If not, the file may also be a backup, or older than its
            lock file.
        to_check: whether the store must be complete. If this and `to_run` are both False, the store may have
            lost its log.

    Raises:
        ConfigError: the file was emptied, is a backup, or is older or newer than the files beside it. The
            text explains the remedy.
    """
    log, journal = log_path(path), path.with_name(f"{path.name}-journal")
    for beside in (log, journal):
        if beside.exists() and not beside.is_file():
            raise ConfigError(f"{beside} is in the way of the store's own, and is not a file; move it away")
    size = path.stat().st_size if path.is_file() else -1
    logged = holds(log, b"")
    if size <= 0 and (logged or (to_run and not size and lock.notes.run_left())):
        raise ConfigError(
            f"the store {path} is {'not there' if size else 'empty'}, but a bot has run on it: put the file"
            " back, or a backup with `triobot store restore`; to begin with nothing, delete what is beside it"
            f" and has a name that begins with {path.name}"
        )
    if size <= 0:
        return
    if path.stat().st_nlink > 1:
        raise ConfigError(
            f"the store {path} has a second name, a hard link, and would be damaged if both are opened;"
            " remove the other name"
        )
    # A power loss may leave the file torn. That is no error here: the log repairs the file.
    with suppress(*ENGINE_ERRORS), closing(_alone(path)) as connection:
        if to_run:
            check_original(connection, path)
        mark, begun, _ = (get_meta(connection, LOG) or "").partition("+")
        # SQLite makes a rollback journal once, before a restored store gets its first log.
        if mark and journal.is_file() and journal.read_bytes().startswith(_JOURNAL):
            raise ConfigError(_NOT_ITS_OWN.format(path=path, log=journal.name))
        held = holds(log, mark.encode())
        if mark and held is False:
            raise ConfigError(_NOT_ITS_OWN.format(path=path, log=log.name))
        run, last, clean = get_meta(connection, "run"), lock.notes.run_left(), get_meta(connection, "clean")
        # No run is noted on a machine whose boot has no identity.
        if to_run and clean and not held and run and last and int(run) != last and machine_boot():
            raise ConfigError(_OLDER.format(path=path))
        to_check = to_check and get_meta(connection, BACKUP) is None
        if mark and (to_run or to_check) and not begun and not clean:
            noted, length = lock.notes.log_left()
            damage = "" if log.exists() else "isn't beside it"
            # If the lock file is lost, nothing proves that the log was empty before.
            if not (damage or (held and log.stat().st_size >= length)) and (noted == mark or not last):
                damage = "is emptied, cut short or damaged"
            if damage:
                raise ConfigError(_LOST.format(path=path, log=log.name, damage=damage))


def _alone(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True, isolation_level=None)


def copy_store(
    connection: sqlite3.Connection, target: Path, now: int, *, between: Callable[[], None] | None = None
) -> None:
    """Copy an open store into a new file, and mark the copy as a backup.

    Args:
        between: called between steps; an error from it ends the copying. Without `between`, the copy is one
            step.

    Raises:
        FileExistsError: `target` exists.
        sqlite3.Error: the source can't be read, or the copy can't be written.
    """
    part = target.with_name(f"{target.name}.part")
    # A link occupies the name as well, even if it leads nowhere.
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    remove_leftover(part)
    make_new(part)
    try:
        with closing(sqlite3.connect(part, isolation_level=None)) as copy:
            copy.execute("PRAGMA fullfsync = 1")
            if between is None:
                connection.backup(copy)
            else:
                connection.backup(copy, pages=STEP, progress=lambda _done, _left, _all: between())
            # Makes the backup one file instead of three.
            copy.execute("PRAGMA journal_mode = DELETE").fetchone()
            put_meta(copy, BACKUP, str(now))
        # Not `replace`, which would overwrite a file that got the name during the copying.
        os.link(part, target)
        sync_folder(target.parent)
    finally:
        part.unlink(missing_ok=True)


def back_up_file(path: Path, target: Path, now: int) -> None:
    """Copy a store that no program has open.

    Raises:
        ConfigError: there is no store, or `target` exists.
        StoreLockedError: a program has the store open.
        StoreCorruptError: the store is damaged.
    """
    with _locked(path) as connection:
        try:
            copy_store(connection, target, now)
        except FileExistsError as error:
            raise ConfigError(f"{error.filename} is there already; name a new file") from None


def examine_file(path: Path) -> list[str]:
    """Return the problems in a store, or a backup, that no program has open; change nothing.

    Raises: as `back_up_file`.
    """
    with _locked(path, to_check=True) as connection:
        return examine(connection)


def _check_backup(connection: sqlite3.Connection, backup: Path, stamp: Stamp | None) -> None:
    if get_meta(connection, BACKUP) is None:
        raise ConfigError(f"{backup} is a store, not a backup of one")
    if get_meta(connection, COPY_OF) is not None:
        raise ConfigError(f"{backup} is a backup of a store that was half copied; nothing needs it")
    if stamp is not None:
        check_stamp(stored_stamp(connection, backup), stamp, remedy=REBINDING)
    found = read_version(connection)
    due_migrations(found, MIGRATIONS)
    check_journals(connection, found)
    if problems := examine(connection):
        raise StoreCorruptError(f"the backup {backup} is damaged: {problems[0]}")


def restore_file(backup: Path, path: Path, stamp: Stamp | None, now: int) -> Path | None:
    """Turn a backup into the store at `path`, in the next epoch; return the new path of the previous store.

    Nothing changes unless the backup is complete, and belongs to this bot and platform.

    Args:
        stamp: the bot's stamp; with None, a backup of any bot is accepted.

    Raises:
        ConfigError: there is no file, the file is not a backup, or the backup is another bot's.
        StoreLockedError: a program has the store or the backup open.
        StoreVersionError: a newer triobot made the backup, or its journals are too old for this triobot.
        StoreCorruptError: the backup is damaged.
    """
    path = checked_path(path)
    if backup.resolve() == path:
        raise ConfigError(f"{backup} is where the store is to be: give the backup another name first")
    lock = take_lock(path)
    part = path.with_name(f"{path.name}.restoring")
    made = False
    try:
        epoch, seq = _what_was_there(path, lock)
        with _locked(backup) as connection:
            _check_backup(connection, backup, stamp)
            remove_leftover(part)
            make_new(part, beside=path)
            made = True
            with closing(sqlite3.connect(part, isolation_level=None)) as copy:
                copy.execute("PRAGMA fullfsync = 1")
                connection.backup(copy)
                _begin_epoch(copy, epoch, seq, now)
        kept = _set_aside(path)
        part.replace(path)
        sync_folder(path.parent)
    except ENGINE_ERRORS as error:
        raise for_the_opener(error, path) from error
    except FileExistsError as error:
        raise ConfigError(f"{error.filename} is there already, and was left alone; move it away") from None
    finally:
        if made:
            part.unlink(missing_ok=True)
        lock.release()
    return kept


def _begin_epoch(copy: sqlite3.Connection, epoch: int, seq: int, now: int) -> None:
    copy.execute("PRAGMA journal_mode = DELETE").fetchone()
    copy.execute("BEGIN IMMEDIATE")
    seq = max(seq, _last_seq(copy))
    copy.execute("DELETE FROM sqlite_sequence WHERE name = 'inbox'")
    copy.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('inbox', ?)", (seq // LEAP * LEAP + LEAP,))
    begin_epoch(copy, now, above=epoch)
    if _has(copy, "broadcasts"):
        stop_after_restore(copy)
    drop_meta(copy, BACKUP)
    # The store may have been copied elsewhere. A restore forgets that copy, and what the bot did with the
    # copy is unknown.
    drop_meta(copy, MOVED)
    drop_meta(copy, COPIED)
    copy.execute("COMMIT")


def _what_was_there(path: Path, lock: FileLock) -> tuple[int, int]:
    """Return the epoch and the last inbox number of the store that will be replaced; zeros if unreadable."""
    if not path.exists():
        return 0, 0
    try:
        check_alone(path, lock)
        connect = partial(sqlite3.connect, path, isolation_level=None)
    except ConfigError:
        connect = partial(_alone, path)  # the files beside it belong to another store
    with suppress(*ENGINE_ERRORS), closing(connect()) as connection:
        return int(get_meta(connection, "epoch") or 0), _last_seq(connection)
    return 0, 0


def _last_seq(connection: sqlite3.Connection) -> int:
    found: tuple[int] | None = connection.execute(
        "SELECT seq FROM sqlite_sequence WHERE name = 'inbox'"
    ).fetchone()
    return 0 if found is None else found[0]


def _set_aside(path: Path) -> Path | None:
    """Rename the existing store instead of deleting it, because the backup may lack some of its data.

    The log of the store is renamed first, even if there is no main file: SQLite would write a remaining log
    over the pages of the next store with this name.
    """
    suffixes = (*COMPANIONS, "")
    found = [suffix for suffix in suffixes if path.with_name(path.name + suffix).exists()]
    if not found:
        return None
    for n in range(1, 10_000):
        kept = path.with_name(f"{path.name}.replaced-{n}")
        if not any(kept.with_name(kept.name + suffix).exists() for suffix in found):
            break
    else:
        raise ConfigError(f"there are too many replaced stores beside {path}; delete the old ones")
    for suffix in found:
        path.with_name(path.name + suffix).rename(kept.with_name(kept.name + suffix))
    return kept


@contextmanager
def _locked(path: Path, *, to_check: bool = False) -> Generator[sqlite3.Connection]:
    """Lock and open a store that no program has open; neither migrate it nor count a run."""
    path = path.resolve()
    if not path.is_file():
        raise ConfigError(f"there is no store at {path}")
    if not lock_path(path).exists():
        # Without a lock file, no process has the store open. If this process had the store open, reading the
        # file would drop SQLite's locks.
        check_kind(path)
    lock = take_lock(path)
    try:
        check_alone(path, lock, to_check=to_check)
        killed = log_path(path).exists()
        with closing(sqlite3.connect(path, isolation_level=None, timeout=5.0)) as connection:
            connection.execute("PRAGMA locking_mode = exclusive").fetchone()
            check_identity(connection, path)
            if read_version(connection) is None:
                raise StoreCorruptError(f"{path} is an empty store: its making was cut short")
            if killed:
                note_that_log_began(connection)
            yield connection
    except ENGINE_ERRORS as error:
        raise for_the_opener(error, path) from error
    finally:
        lock.release()


def examine(connection: sqlite3.Connection) -> list[str]:
    """Return the problems in this store, one line each; an empty list for a good store."""
    found = [line for line in _integrity(connection) if line != "ok"]
    if found or not _has(connection, "conversations"):
        return found  # further checks on damaged pages would be meaningless
    return list(untrue_rows(connection))


def untrue_rows(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield problems that integrity_check doesn't find: values of a wrong type, then broken rules."""
    columns: list[tuple[str, str, str]] = connection.execute(
        "SELECT m.name, c.name, lower(c.type) FROM sqlite_master m, pragma_table_info(m.name) c"
        " WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'"
    ).fetchall()
    for table, column, kind in columns:
        other = f"SELECT 1 FROM {table} WHERE typeof({column}) NOT IN ('null', ?)"
        if connection.execute(other, (kind,)).fetchone():
            yield f"the column {column} of {table} has a value that is no {kind}"
    for sentence, query in _RULES:
        yield from _broken(connection, sentence, query)


def _integrity(connection: sqlite3.Connection) -> list[str]:
    try:
        rows: list[tuple[str]] = connection.execute(f"PRAGMA integrity_check({MOST})").fetchall()
    except ENGINE_ERRORS as error:
        return [f"SQLite can't read it: {damage_of(error) or error}"]
    return [line for (line,) in rows]


def _has(connection: sqlite3.Connection, table: str) -> bool:
    """Return whether there is such a table; a store of an early version lacks some."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is not None


def _broken(connection: sqlite3.Connection, sentence: str, query: str) -> Iterator[str]:
    found: list[tuple[int]] = connection.execute(f"{query} LIMIT {MOST + 1}").fetchall()
    for (conversation,) in found[:MOST]:
        yield sentence.format(conversation)
    if len(found) > MOST:
        yield f"and more of this: {sentence.format('...')}"
