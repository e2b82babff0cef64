"""Backups: copies of a store, made while the bot keeps running. This module also checks a store's files
before SQLite opens the store.

A backup is one file, marked as a backup: a bot refuses to run on a backup. `restoring` turns a backup into a
store.

Everything here runs in a worker thread.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from ..errors import ConfigError
from .lock import FileLock, machine_boot
from .log_file import holds, log_path
from .private_files import make_new, remove_leftover, sync_folder
from .schema import (
    BACKUP,
    LOG,
    check_original,
    get_meta,
    put_meta,
)
from .sqlite_errors import ENGINE_ERRORS

STEP: Final = 64
"""Database pages per step of a copy: a quarter of a megabyte. Between two steps, other code may use the
connection."""

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

MOST: Final = 20
"""Maximum number of reported problems of one sort; a last line says that there are more."""

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
    """Check that a store's file, log and lock file belong together, before SQLite merges log and file.

    The main file is read alone, without its log.

    Args:
        to_run: whether a bot will run on the store. If False, the main file may also be a backup, or older
            than the lock file.
        to_check: whether the store must be complete. If `to_check` and `to_run` are both False, a store
            without its log is accepted.

    Raises:
        ConfigError: the main file was emptied, is a backup, or is older or newer than the other files. The
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
    # A power loss may leave the main file half written. A half-written file is no error here, because the log
    # repairs the file.
    with suppress(*ENGINE_ERRORS), closing(open_alone(path)) as connection:
        if to_run:
            check_original(connection, path)
        mark, begun, _ = (get_meta(connection, LOG) or "").partition("+")
        # Only a restored store that has no log yet has a rollback journal of its own.
        if mark and journal.is_file() and journal.read_bytes().startswith(_JOURNAL):
            raise ConfigError(_NOT_ITS_OWN.format(path=path, log=journal.name))
        held = holds(log, mark.encode())
        if mark and held is False:
            raise ConfigError(_NOT_ITS_OWN.format(path=path, log=log.name))
        run, last, clean = get_meta(connection, "run"), lock.notes.run_left(), get_meta(connection, "clean")
        # On a system where a boot has no identity, processes write no number into the lock file.
        if to_run and clean and not held and run and last and int(run) != last and machine_boot():
            raise ConfigError(_OLDER.format(path=path))
        to_check = to_check and get_meta(connection, BACKUP) is None
        if mark and (to_run or to_check) and not begun and not clean:
            noted, length = lock.notes.log_left()
            damage = "" if log.exists() else "isn't beside it"
            # An incomplete log is accepted if the lock file has notes, but no note of this log's first
            # commit. Without notes (`last` is 0), the log must be complete.
            if not (damage or (held and log.stat().st_size >= length)) and (noted == mark or not last):
                damage = "is emptied, cut short or damaged"
            if damage:
                raise ConfigError(_LOST.format(path=path, log=log.name, damage=damage))


def open_alone(path: Path) -> sqlite3.Connection:
    """Open a file without its log, for reading only."""
    return sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True, isolation_level=None)


def copy_store(
    connection: sqlite3.Connection, target: Path, now: int, *, between: Callable[[], None] | None = None
) -> None:
    """Copy an open store into a new file, and mark the copy as a backup.

    Args:
        between: called between steps; an error from `between` ends the copying. Without `between`, the copy
            is one step.

    Raises:
        FileExistsError: `target` exists.
        sqlite3.Error: the source can't be read, or the copy can't be written.
    """
    part = target.with_name(f"{target.name}.part")
    # A symbolic link with the target's name, even a broken one, also counts as an existing file.
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
            # With the journal mode DELETE, SQLite keeps no other files beside the backup.
            copy.execute("PRAGMA journal_mode = DELETE").fetchone()
            put_meta(copy, BACKUP, str(now))
        # `link` fails if another file got the name during the copying; `replace` would overwrite this file.
        os.link(part, target)
        sync_folder(target.parent)
    finally:
        part.unlink(missing_ok=True)


def untrue_rows(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield problems that integrity_check doesn't find: values of a wrong type, then broken `_RULES`."""
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


def _broken(connection: sqlite3.Connection, sentence: str, query: str) -> Iterator[str]:
    found: list[tuple[int]] = connection.execute(f"{query} LIMIT {MOST + 1}").fetchall()
    for (conversation,) in found[:MOST]:
        yield sentence.format(conversation)
    if len(found) > MOST:
        yield f"and more of this: {sentence.format('...')}"
