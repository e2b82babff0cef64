"""Meaning of SQLite's errors, for the caller whose work failed and for code that opens a store. Pure.

    SQLite's error                                  affects              error
    FULL, IOERR, READONLY, CANTOPEN, BUSY           callers that wrote   StoreFullError
    on COMMIT, anything but FULL and BUSY           all, for good        StoreCorruptError
    IOERR on a read; CORRUPT, NOTADB                all, for good        StoreCorruptError
    invalid UTF-8, when a store is opened           all, for good        StoreCorruptError
    a row with invalid values, when read            all, for good        StoreCorruptError
    a value that can't be stored                    its caller alone     LocalProtocolError

SQLite's own error texts never contain a stored value. Python's texts about invalid UTF-8 contain stored
values, and are not repeated.
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
    # SQLite reports an exhausted quota and a failing disk with the same code.
    sqlite3.SQLITE_IOERR: "the disk fails, or a quota on it is used up: look at the system's log",
    sqlite3.SQLITE_READONLY: "the file or its disk is read-only: look at its owner, mode and mount",
    sqlite3.SQLITE_CANTOPEN: "a file can't be opened in its folder: look at the folder's owner and mode",
    sqlite3.SQLITE_BUSY: _OPEN_ELSEWHERE,
    sqlite3.SQLITE_LOCKED: _OPEN_ELSEWHERE,
}
"""Remedies for the operator, by SQLite's code."""
ENGINE_ERRORS: Final = (sqlite3.Error, ValueError)
"""Errors that a read of a store may raise. ValueError: a stored text is not UTF-8, or doesn't have the form
of the expected number."""
_UNREADABLE: Final = (TypeError, LookupError, json.JSONDecodeError, zlib.error)
_UNHARMED_BY_COMMIT: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY})


def code_of(error: BaseException) -> int:
    """Return SQLite's primary result code, or 0 for an error that isn't SQLite's own."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else 0


def damage_of(error: Exception, *, reading: bool = False) -> str | None:
    """Describe the damage that caused an error, without stored content; return None if the error has another
    cause.

    Args:
        reading: whether stored data must have caused the error, because the work had no value of a caller.
    """
    if code_of(error) in _DAMAGED:
        return str(error)
    if isinstance(error, UnicodeDecodeError) or "Could not decode to UTF-8" in str(error):
        return "a text in it can't be decoded"
    if reading and (isinstance(error, _UNREADABLE) or code_of(error) == sqlite3.SQLITE_ERROR):
        return "what it says of itself can't be read"
    return None


def ends_the_store(error: Exception, *, writing: bool, committing: bool = False) -> bool:
    """Return whether the connection must not be used after this error."""
    code = code_of(error)
    if committing:
        return code not in _UNHARMED_BY_COMMIT
    return damage_of(error, reading=not writing) is not None or (code == sqlite3.SQLITE_IOERR and not writing)


def for_the_caller(error: Exception, path: Path) -> Exception:
    """Convert a failure of one caller's own work into the error for this caller alone."""
    code = code_of(error)
    if code in _NOT_WRITTEN:
        failure = StoreFullError(f"the store {path} could not be written: {error}", remedy=_NOT_WRITTEN[code])
        failure.__cause__ = error
        return failure
    if isinstance(error, UnicodeError | OverflowError | sqlite3.DataError) or code == sqlite3.SQLITE_TOOBIG:
        return LocalProtocolError("row", "holds a value that can't be stored")
    return error


def for_the_opener(error: Exception, path: Path) -> Exception:
    """Convert one of `ENGINE_ERRORS` into the error that explains why a store could not be opened."""
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
