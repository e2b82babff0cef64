"""What SQLite's errors mean, for the caller whose work failed and for whoever opens a store. Pure.

    SQLite says                                     concerns             error
    FULL, IOERR, READONLY, CANTOPEN, BUSY           callers that wrote   StoreFullError
    on COMMIT, anything but FULL and BUSY           all, for good        StoreCorruptError
    IOERR on a read; CORRUPT, NOTADB                all, for good        StoreCorruptError
    text that is none, where the store is opened    all, for good        StoreCorruptError
    a row that is read, and has no such values      all, for good        StoreCorruptError
    a value that can't be stored                    its caller alone     LocalProtocolError

A text of SQLite's own never holds a value; those of Python about text that is none do, and are not passed on.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from pathlib import Path
from typing import Final

from ..errors import LocalProtocolError, StoreCorruptError, StoreFullError, StoreLockedError

_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_OPEN_ELSEWHERE: Final = "another program has the file open: close it there"
_NOT_WRITTEN: Final = {
    sqlite3.SQLITE_FULL: "free some space",
    # SQLite tells a quota that is used up from a disk that fails as little as we can.
    sqlite3.SQLITE_IOERR: "the disk fails, or a quota on it is used up: look at the system's log",
    sqlite3.SQLITE_READONLY: "the file or its disk is read-only: look at its owner, mode and mount",
    sqlite3.SQLITE_CANTOPEN: "a file can't be opened in its folder: look at the folder's owner and mode",
    sqlite3.SQLITE_BUSY: _OPEN_ELSEWHERE,
    sqlite3.SQLITE_LOCKED: _OPEN_ELSEWHERE,
}
"""What an operator can do, by SQLite's code."""
ENGINE_ERRORS: Final = (sqlite3.Error, ValueError)
"""What reading a file may raise: the second where a text is none, or no number."""
_UNREADABLE: Final = (TypeError, LookupError, json.JSONDecodeError, zlib.error)
_UNHARMED_BY_COMMIT: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY})


def code_of(error: BaseException) -> int:
    """Return SQLite's primary result code, or 0 for an error that isn't SQLite's own."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else 0


def damage_of(error: Exception, *, reading: bool = False) -> str | None:
    """Say what is damaged, without what is stored there; None: the error is of another kind.

    Args:
        reading: it came of what is stored alone, and of no caller's value.
    """
    if code_of(error) in _DAMAGED:
        return str(error)
    if isinstance(error, UnicodeDecodeError) or "Could not decode to UTF-8" in str(error):
        return "a text in it can't be decoded"
    if reading and (isinstance(error, _UNREADABLE) or code_of(error) == sqlite3.SQLITE_ERROR):
        return "what it says of itself can't be read"
    return None


def ends_the_store(error: Exception, *, writing: bool, committing: bool = False) -> bool:
    """Tell whether nothing may be asked of the connection after this error."""
    code = code_of(error)
    if committing:
        return code not in _UNHARMED_BY_COMMIT
    return damage_of(error, reading=not writing) is not None or (code == sqlite3.SQLITE_IOERR and not writing)


def for_the_caller(error: Exception, path: Path) -> Exception:
    """Turn a failure of one caller's own work into the error that this caller alone gets."""
    code = code_of(error)
    if code in _NOT_WRITTEN:
        failure = StoreFullError(f"the store {path} could not be written: {error}", remedy=_NOT_WRITTEN[code])
        failure.__cause__ = error
        return failure
    if isinstance(error, UnicodeError | OverflowError | sqlite3.DataError) or code == sqlite3.SQLITE_TOOBIG:
        return LocalProtocolError("row", "holds a value that can't be stored")
    return error


def for_the_opener(error: Exception, path: Path) -> Exception:
    """Turn one of `ENGINE_ERRORS` into the one that says why a store could not be opened."""
    code = code_of(error)
    if (damage := damage_of(error, reading=True)) is not None or isinstance(error, ValueError):
        damage = damage or "what it says of itself can't be read"
        return StoreCorruptError(f"{path} is damaged or is not a store: {damage}")
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return StoreLockedError(f"the store {path} is open in another program; close it there")
    if code in _NOT_WRITTEN:
        said, remedy = f"the store {path} could not be written: {error}", _NOT_WRITTEN[code]
        return StoreFullError(f"{said}; {remedy}", remedy=remedy)
    return StoreCorruptError(f"the store {path} could not be opened: {error}")
