"""What SQLite's errors mean, for the caller whose work failed and for whoever opens a store. Pure.

    SQLite says                                     concerns             error
    FULL, IOERR, READONLY, CANTOPEN, BUSY           callers that wrote   StoreFullError
    on COMMIT, anything but FULL and BUSY           all, for good        StoreCorruptError
    IOERR on a read; CORRUPT, NOTADB                all, for good        StoreCorruptError
    a value that can't be stored                    its caller alone     LocalProtocolError

A text of SQLite's own never holds a value; a UnicodeEncodeError does, and is not chained.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from ..errors import LocalProtocolError, StoreCorruptError, StoreFullError, StoreLockedError

_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_NOT_WRITTEN: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    }
)
_UNHARMED_BY_COMMIT: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY})


def code_of(error: BaseException) -> int:
    """Return SQLite's primary result code, or 0 for an error that isn't SQLite's own."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else 0


def ends_the_store(error: Exception, *, writing: bool, committing: bool = False) -> bool:
    """Tell whether nothing may be asked of the connection after this error."""
    code = code_of(error)
    if committing:
        return code not in _UNHARMED_BY_COMMIT
    return code in _DAMAGED or (code == sqlite3.SQLITE_IOERR and not writing)


def for_the_caller(error: Exception, path: Path) -> Exception:
    """Turn a failure of one caller's own work into the error that this caller alone gets."""
    code = code_of(error)
    if code in _NOT_WRITTEN:
        failure = StoreFullError(f"the store {path} could not be written: {error}")
        failure.__cause__ = error
        return failure
    if isinstance(error, UnicodeError | OverflowError | sqlite3.DataError) or code == sqlite3.SQLITE_TOOBIG:
        return LocalProtocolError("row", "holds a value that can't be stored")
    return error


def for_the_opener(error: sqlite3.Error, path: Path) -> Exception:
    """Turn SQLite's error into the one that says why a store could not be opened."""
    code = code_of(error)
    if code in _DAMAGED:
        return StoreCorruptError(f"{path} is damaged or is not a store: {error}")
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return StoreLockedError(f"the store {path} is open in another program; close it there")
    if code in _NOT_WRITTEN:
        return StoreFullError(f"the store {path} could not be written: {error}")
    return StoreCorruptError(f"the store {path} could not be opened: {error}")
