"""Group commit: the work of many callers in one transaction, and what happens when it fails.

Runs in the worker thread; one call at a time. If one caller's work fails, all of it is taken back and done
again with a savepoint for each, so a failure of its own concerns it alone. But a full disk or a failed write
may end the *whole* transaction, not the savepoint, and a program that goes on then writes row by row without
any transaction, and answers 200 for the rows before. So after every error the connection is asked whether
the transaction is still there; if it is gone, all of it is done again, caller by caller, in transactions of
their own.

A failed COMMIT is different. If the disk refused the fsync, it isn't known what reached it, and a second
fsync of the same file may report success for pages that were lost. So the store is *broken* then: what was
in that commit may or may not be stored, and everything after it is refused until the file is opened anew.

SQLite's errors are sorted by what they mean for the caller:

    SQLite says                                     concerns             error
    FULL, IOERR, READONLY, CANTOPEN, BUSY           callers that wrote   StoreFullError
    on COMMIT, anything but FULL and BUSY           all, for good        StoreCorruptError
    IOERR on a read; CORRUPT, NOTADB                all, for good        StoreCorruptError
    a value that can't be stored                    its caller alone     LocalProtocolError

A text of SQLite's own never holds a value; a UnicodeEncodeError does, and is not chained.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, final

from ..errors import LocalProtocolError, StoreCorruptError, StoreFullError, StoreLockedError
from .statements import Tables

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


class Work(Protocol):
    """One caller's share of a batch. It may be run twice; only the last run counts."""

    @property
    def run(self) -> Callable[[Tables], None]: ...

    @property
    def writes(self) -> bool: ...


class _TransactionLostError(Exception):
    """The transaction ended under our hands."""


@final
class Transactions:
    """Runs batches on one connection."""

    def __init__(self, connection: sqlite3.Connection, tables: Tables, path: Path) -> None:
        self._sql = connection
        self._tables = tables
        self._path = path
        self._broken: str | None = None

    @property
    def broken(self) -> StoreCorruptError | None:
        """Return why nothing may be asked any more, as a fresh error, or None."""
        return None if self._broken is None else StoreCorruptError(self._broken)

    def run(self, batch: Sequence[Work]) -> list[Exception | None]:
        """Run a batch, and tell for each whether it failed; what didn't fail is durable.

        Reads see what the writes before them did, and never hold a transaction open by themselves.
        """
        if len(batch) > 1 and any(work.writes for work in batch):
            try:
                return self._together(batch)
            except _TransactionLostError:
                pass
        return [self._alone(work) for work in batch]

    def checkpoint(self, *, erase: bool = False) -> None:
        """Move what is in the log into the file; here, so that a failed fsync is seen and not passed over.

        Args:
            erase: leave nothing in the log.
        """
        try:
            self._sql.execute(f"PRAGMA wal_checkpoint({'TRUNCATE' if erase else 'PASSIVE'})").fetchone()
        except sqlite3.Error as error:
            if ends_the_store(error, writing=False):
                self._break(error)

    def _together(self, batch: Sequence[Work]) -> list[Exception | None]:
        try:
            self._begin()
        except sqlite3.Error as error:
            # Once for all, not once for each: a busy file would make every one of them wait again.
            verdict = self._verdict(error, writing=True)
            return [verdict if work.writes else self._alone(work) for work in batch]
        verdicts = self._all_well(batch) or [self._in_savepoint(work) for work in batch]
        try:
            self._sql.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            if not ends_the_store(error, writing=True, committing=True):
                raise _TransactionLostError from error
            self._break(error)
            return [verdict or self.broken for verdict in verdicts]
        self._tables.tally.settle()
        return verdicts

    def _all_well(self, batch: Sequence[Work]) -> list[Exception | None] | None:
        """Run them without savepoints of their own; None if one failed: then nothing of them is done.

        Most batches are without fault, and a savepoint costs as much as what one caller does in it.
        """
        writing = True
        try:
            self._sql.execute("SAVEPOINT work")
            for work in batch:
                writing = work.writes
                work.run(self._tables)
            self._sql.execute("RELEASE work")
        except Exception as error:
            self._verdict(error, writing=writing)
            if self._broken is not None or not self._back_to_savepoint():
                self._roll_back()
                raise _TransactionLostError from error
            self._tables.undo()
            return None
        return [None for _ in batch]

    def _in_savepoint(self, work: Work) -> Exception | None:
        mark = self._tables.tally.mark()
        try:
            self._sql.execute("SAVEPOINT work")
            work.run(self._tables)
            self._sql.execute("RELEASE work")
        except Exception as error:
            verdict = self._verdict(error, writing=work.writes)
            if self._broken is not None or not self._back_to_savepoint():
                self._roll_back()
                raise _TransactionLostError from error
            self._tables.undo(mark)
            return verdict
        return None

    def _alone(self, work: Work) -> Exception | None:
        if self._broken is not None:
            return self.broken
        try:
            if work.writes:
                self._begin()
            work.run(self._tables)
        except Exception as error:
            self._roll_back()
            return self._verdict(error, writing=work.writes)
        return self._commit_alone() if work.writes else None

    def _commit_alone(self) -> Exception | None:
        try:
            self._sql.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            if ends_the_store(error, writing=True, committing=True):
                self._break(error)
                return self.broken
            return for_the_caller(error, self._path)
        self._tables.tally.settle()
        return None

    def _begin(self) -> None:
        self._sql.execute("BEGIN IMMEDIATE")

    def _back_to_savepoint(self) -> bool:
        if not self._sql.in_transaction:
            return False
        try:
            self._sql.execute("ROLLBACK TO work")
            self._sql.execute("RELEASE work")
        except sqlite3.Error:
            return False
        return self._sql.in_transaction

    def _roll_back(self) -> None:
        self._tables.undo()
        if self._sql.in_transaction:
            try:
                self._sql.execute("ROLLBACK")
            except sqlite3.Error as error:
                # A transaction that can be neither ended nor taken back leaves nothing to stand on.
                self._break(error)

    def _verdict(self, error: Exception, *, writing: bool) -> Exception:
        if ends_the_store(error, writing=writing):
            self._break(error)
        return self.broken or for_the_caller(error, self._path)

    def _break(self, error: Exception) -> None:
        if self._broken is None:
            self._broken = (
                f"the store {self._path} failed and takes nothing more: {error}; what was being committed"
                " may or may not be stored, everything acknowledged before is; check the disk and start again"
            )
