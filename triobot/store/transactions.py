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
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, final

from ..errors import StoreCorruptError
from .faults import ends_the_store, for_the_caller
from .statements import Tables


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
