"""Operations on stores that no program has open: backups, checks, and restores.

No running bot loads this module.

`restore_file` turns a backup into a store of the next *epoch*. All data of the backup belongs to an earlier
epoch, because the bot's work between the backup and the restore is unknown. The restore skips many inbox
numbers, so that no new conversation gets the number of a lost conversation. Otherwise, two conversations
could pass equal keys to other systems, because these keys contain the conversation's number.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from ..errors import ConfigError, StoreCorruptError
from .backups import MOST, check_alone, copy_store, open_alone, untrue_rows
from .broadcasts import stop_after_restore
from .lock import FileLock, lock_path, take_lock
from .log_file import log_path
from .opening import LEAP, begin_epoch
from .private_files import COMPANIONS, check_kind, checked_path, make_new, remove_leftover, sync_folder
from .schema import (
    BACKUP,
    COPIED,
    COPY_OF,
    MIGRATIONS,
    MOVED,
    check_identity,
    drop_meta,
    due_migrations,
    get_meta,
    note_that_log_began,
    read_version,
)
from .sqlite_errors import ENGINE_ERRORS, damage_of, for_the_opener


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
    """Return the problems in a store or a backup that no program has open. The file is not changed.

    Raises: as `back_up_file`.
    """
    with _locked(path, to_check=True) as connection:
        return examine(connection)


def _check_backup(connection: sqlite3.Connection, backup: Path) -> None:
    if get_meta(connection, BACKUP) is None:
        raise ConfigError(f"{backup} is a store, not a backup of one")
    if get_meta(connection, COPY_OF) is not None:
        raise ConfigError(f"{backup} is a backup of a store that was half copied; nothing needs it")
    due_migrations(read_version(connection), MIGRATIONS)
    if problems := examine(connection):
        raise StoreCorruptError(f"the backup {backup} is damaged: {problems[0]}")


def restore_file(backup: Path, path: Path, now: int) -> Path | None:
    """Turn a backup into the store at `path`, in the next epoch; return the new path of the previous store.

    If the backup is incomplete, no file is changed. A bot refuses a store made from another bot's backup.

    Raises:
        ConfigError: `backup` doesn't exist, or is not a backup.
        StoreLockedError: a program has the store or the backup open.
        StoreVersionError: a newer triobot made the backup.
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
            _check_backup(connection, backup)
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
    stop_after_restore(copy)
    drop_meta(copy, BACKUP)
    # The store may have been copied to another address. The restored store replaces the copy too. The bot's
    # work in the copy is unknown, like all work after the backup.
    drop_meta(copy, MOVED)
    drop_meta(copy, COPIED)
    copy.execute("COMMIT")


def _what_was_there(path: Path, lock: FileLock) -> tuple[int, int]:
    """Return epoch and last inbox number of the store that the restore replaces; zeros if the store
    can't be read.
    """
    if not path.exists():
        return 0, 0
    try:
        check_alone(path, lock)
        connect = partial(sqlite3.connect, path, isolation_level=None)
    except ConfigError:
        connect = partial(open_alone, path)  # the log beside the file belongs to another store
    with suppress(*ENGINE_ERRORS), closing(connect()) as connection:
        return int(get_meta(connection, "epoch") or 0), _last_seq(connection)
    return 0, 0


def _last_seq(connection: sqlite3.Connection) -> int:
    found: tuple[int] | None = connection.execute(
        "SELECT seq FROM sqlite_sequence WHERE name = 'inbox'"
    ).fetchone()
    return 0 if found is None else found[0]


def _set_aside(path: Path) -> Path | None:
    """Rename the existing store's files. Deleting the files would lose data that the backup lacks.

    The log of the store is renamed first, even if there is no main file: SQLite would copy the pages of a
    remaining log into the next store with this name.
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
    """Lock and open a store that no program has open, without a migration and without counting this
    process.
    """
    path = path.resolve()
    if not path.is_file():
        raise ConfigError(f"there is no store at {path}")
    if not lock_path(path).exists():
        # Closing a file drops SQLite's locks on the file, so `check_kind` may be called only if this process
        # doesn't have the store open. Without a lock file, no process has the store open.
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
    if found:
        return found  # further checks on damaged pages would be meaningless
    return list(untrue_rows(connection))


def _integrity(connection: sqlite3.Connection) -> list[str]:
    try:
        rows: list[tuple[str]] = connection.execute(f"PRAGMA integrity_check({MOST})").fetchall()
    except ENGINE_ERRORS as error:
        return [f"SQLite can't read it: {damage_of(error) or error}"]
    return [line for (line,) in rows]
