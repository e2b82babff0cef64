"""Transactions: runs the writer's batches in PostgreSQL, one transaction each, under the store's fence.

Each transaction first increments the process's count of commits; this count is the fence. Only the store's
owner can increment its count. The incrementing statement also takes the owner's advisory lock once more, so
that the session certainly has the lock, even behind a proxy. If another process owns the store, the statement
changes no row. The transaction is then rolled back, and this process never stores anything again. While a
transaction is open, another process can't take the store.

If the connection is lost, all uncommitted work is lost. A new session checks lock and count, and the batch is
run again. If no server can be reached, the callers get an error, and no write of the batch is stored. If the
connection was lost at COMMIT, only the count shows whether the COMMIT succeeded. The process then tries for
up to `SETTLE_SECONDS` to read the count, before any caller gets an answer. If all attempts fail, the store
is *broken*: the commit may or may not be stored, and the store refuses all further work.

A batch goes to the server as one stream of statements with the COMMIT at the end. The process waits for an
answer in the middle of the stream only where a job needs a row; see `stream` and `rows`. As on SQLite, a
failing job rolls the whole batch back. The batch is then run again with a savepoint for each job, so that the
failure affects this job's caller alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn, final

import psycopg

from ...base.clock import steady_time
from ...errors import StoreAwayError, StoreCorruptError, StoreError, TriobotError
from ...seams.writes import LeaseLostError
from ..writer import Job, Noted, each_behind_noted
from .failures import ends_the_store, first_line, for_the_caller
from .history import go_on
from .ownership import SpokenLease
from .rows import PostgresTables
from .session import Connection, Session
from .threads import cut

SETTLE_SECONDS: Final = 30.0
"""Seconds of real time for which a process tries to find the outcome of a COMMIT."""

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0

# These statements increment the stored count of the process $1 if the count is $2 and the process owns the
# store. `_MOVE` then returns the new count. If one of the conditions is false, `_MOVE` returns no row, and
# `_MOVE_OR_FAIL` fails. Each increment inserts a new row. An update of one row would leave a dead version of
# the row at each commit. During another program's long transaction, every commit would then read all dead
# versions.
_MOVED: Final = (
    b"WITH held AS MATERIALIZED (SELECT pg_try_advisory_xact_lock($1) AS yes), old AS (DELETE FROM"
    b" commits USING held WHERE yes AND node = $1 AND n = $2 RETURNING node, n), put AS (INSERT INTO"
    b" commits SELECT node, n + 1 FROM old RETURNING n) SELECT "
)
_MOVE: Final = _MOVED + b"n FROM put"
_MOVE_OR_FAIL: Final = _MOVED + b"1 / count(*) FROM put"


class _LostError(Exception):
    """The connection is lost, and no uncommitted work is stored."""


class _EndedError(Exception):
    """The store is broken."""


@final
class PostgresTransactions:
    """Runs batches on the session of a store, one batch at a time.

    Args:
        session: the session; a lost connection of the session is replaced.
        tables: the rows, over the same session.
        renew: makes a new connection, and returns the connection and the stored count of commits. The count
            is None if another process has taken the store.
        lease: the lease, which each answer of the server extends.
        name: name of the store, for errors.
    """

    def __init__(
        self,
        session: Session,
        tables: PostgresTables,
        renew: Callable[[], tuple[Connection, int | None]],
        lease: SpokenLease,
        *,
        name: str,
    ) -> None:
        self._session = session
        self._tables = tables
        self._renew = renew
        self._lease = lease
        self._name = name
        self._commits = 0
        self._broken: Callable[[], StoreError] | None = None
        self._uncounted = self._gives_up = False

    @property
    def broken(self) -> StoreError | None:
        """A new exception object that explains why the store refuses all further work; None for a
        working store.
        """
        return None if self._broken is None else self._broken()

    @property
    def commits(self) -> int:
        """Number of this process's commits. A commit with an unknown outcome isn't included."""
        return self._commits

    def give_up(self) -> None:
        """Stop waiting for the server, because the store is being closed; callable in any thread."""
        self._gives_up = True
        cut(self._session.connection)

    def checkpoint_due(self) -> bool:
        """Return False: the server makes its own checkpoints."""
        return False

    def checkpoint(self) -> None:
        """Do nothing: the server makes its own checkpoints."""

    def run(self, batch: Sequence[Job[Any]]) -> list[Exception | None]:
        """Run a batch; return an error or None for each job. A job without an error is durable.

        A read sees the writes of earlier jobs in the batch. A read doesn't return rows that are noted as
        consumed.
        """
        # A failed Noted job is in the next batch again, so the batch names all consumed rows.
        if consumed := [seq for job in batch if isinstance(job, Noted) for seq in job.consumed]:
            self._tables.read_no_more(consumed)
        asked = steady_time()
        try:
            if self._broken is not None:
                raise _EndedError
            try:
                if not self._session.lost:
                    verdicts = self._run(batch)
                    self._lease.hear(asked)
                    return verdicts
            except _LostError:
                self._tables.undo()
            self._come_back()
            return self._run(batch)
        except _LostError as lost:
            self._tables.undo()
            if isinstance(full := lost.__cause__, StoreAwayError):
                return [full for _ in batch]
            why = str(lost) or "the connection was lost"
            return [StoreAwayError(f"the store {self._name} is away: {why}") for _ in batch]
        except _EndedError:
            self._tables.undo()
            return [self.broken for _ in batch]

    def _run(self, batch: Sequence[Job[Any]]) -> list[Exception | None]:
        if self._uncounted:
            self._count_anew()
        if not any(job.writes for job in batch):
            verdicts: list[Exception | None] = [self._read(job) for job in batch]
        elif self._all_well(batch):
            verdicts = [None for _ in batch]
        else:
            self._begin()
            verdicts = self._commit(each_behind_noted(batch, self._in_savepoint))
        self._tables.count_seen()
        return verdicts

    def look(self, settle: bytes | None) -> None:
        """Check that the session is alive, and replace a lost session; see `ownership`.

        Args:
            settle: a query for the commit count, which keeps the session from being silent. With None, no
                query is sent.
        """
        asked = steady_time()
        if self._broken is not None:
            return
        if not self._session.lost and not self._session.has_ended():
            if settle is None:
                return
            try:
                found = self._session.run(settle, (self._lease.node,)).fetchone()
            except psycopg.Error:
                found = None
            if found is not None and found[0] == self._commits:
                self._lease.hear(asked)
                return
        with suppress(_LostError, _EndedError):
            self._come_back()

    def _count_anew(self) -> None:
        self._tables.tally.clear()
        try:
            self._tables.count_everything()
        except psycopg.Error as error:
            self._verdict(error)
            raise _LostError(first_line(error)) from None
        self._uncounted = False

    def put(self, work: Callable[[], object]) -> None:
        """Run `work` in a separate transaction.

        Raises:
            StoreError: nothing of `work` is stored, or the outcome is unknown.
        """
        try:
            try:
                self._begin()
            except _LostError:
                self._come_back()
                self._begin()
            work()
            (verdict,) = self._commit([None])
        except (_LostError, psycopg.Error) as error:
            raise StoreAwayError(f"the store {self._name} is away: {first_line(error)}") from None
        except _EndedError:
            verdict = self.broken
        if verdict is not None:
            raise verdict

    # --- one job

    def _read(self, job: Job[Any]) -> Exception | None:
        try:
            job.answer = job.run(self._tables)
        except Exception as error:
            return self._verdict(error)
        return None

    def _all_well(self, batch: Sequence[Job[Any]]) -> bool:
        """Run and commit all jobs of the batch without savepoints; wait for as few answers as possible.

        Returns:
            Whether all jobs are stored. If not, a job failed, and no job is stored.
        """
        done, committing = self._commits + 1, False
        try:
            with self._session.streaming() as stream:
                self._session.run(b"BEGIN")
                self._session.run(_MOVE_OR_FAIL, (self._lease.node, self._commits))
                for job in batch:
                    job.answer = job.run(self._tables, together=True)
                committing = True
                self._session.run(b"COMMIT")
            stream.take_late()
        except Exception as error:
            if self._session.lost_with(error) and committing:
                if not self._settle(done):
                    raise _LostError(first_line(error)) from None
                # The results of the batch's statements are lost too, so the rows must be counted again.
                self._uncounted = True
            else:
                self._verdict(error)
                self._roll_back()
                return False
        self._commits = done
        self._tables.tally.settle()
        return True

    def _in_savepoint(self, work: Job[Any]) -> Exception | None:
        mark = self._tables.tally.mark()
        try:
            self._session.run(b"SAVEPOINT work")
            work.answer = work.run(self._tables)
            self._session.run(b"RELEASE SAVEPOINT work")
        except Exception as error:
            verdict = self._verdict(error)
            try:
                self._session.roll_back_to("work")
                self._session.run(b"RELEASE SAVEPOINT work")
            except psycopg.Error as failure:
                raise _LostError(first_line(failure)) from None
            self._tables.undo(mark)
            return verdict
        return None

    def _verdict(self, error: Exception) -> Exception:
        """Convert an error that a job raised into the error for the job's caller.

        Raises:
            _LostError: the connection is lost, for a reason outside the job.
            _EndedError: the store is broken.
        """
        if self._session.lost_with(error):
            raise _LostError(first_line(error)) from None
        if ends_the_store(error):
            self._end(
                StoreCorruptError, f"the store {self._name} failed: {first_line(error)}; look at the schema"
            )
        return for_the_caller(error, self._name)

    # --- the transaction

    def _begin(self) -> None:
        try:
            with self._session.connection.pipeline():
                self._session.run(b"BEGIN")
                found = self._session.run(_MOVE, (self._lease.node, self._commits))
            row = found.fetchone()
        except psycopg.Error as error:
            verdict = self._verdict(error)
            self._roll_back()
            raise _LostError(first_line(error)) from verdict
        if row is None:
            # A new session will find the reason: another process owns the store, or the stored count is
            # wrong.
            self._session.close()
            raise _LostError("its commits are counted no more")

    def _roll_back(self) -> None:
        self._tables.undo()
        try:
            if self._session.in_transaction:
                self._session.roll_back()
        except psycopg.Error as error:
            self._session.close()
            raise _LostError(first_line(error)) from None

    def _commit(self, verdicts: list[Exception | None]) -> list[Exception | None]:
        done = self._commits + 1
        try:
            ended = self._session.run(b"COMMIT")
            if ended.statusmessage != "COMMIT":
                raise _LostError("the transaction had failed")
        except psycopg.Error as error:
            if self._session.lost_with(error):
                if not self._settle(done):
                    raise _LostError(first_line(error)) from None
            else:
                verdict = self._verdict(error)
                self._roll_back()
                return [one or verdict for one in verdicts]
        self._commits = done
        self._tables.tally.settle()
        return verdicts

    def _settle(self, done: int) -> bool:
        """Return whether a COMMIT without an answer succeeded; the stored count of commits is then `done`."""
        until, pause = time.monotonic() + SETTLE_SECONDS, _FIRST_PAUSE
        while True:
            try:
                return self._return(done - 1, done) == done
            except _LostError as lost:
                if time.monotonic() >= until or self._gives_up:
                    self._end(
                        StoreCorruptError,
                        f"the store {self._name} went away in the middle of a commit, which may or may not be"
                        f" stored; everything acknowledged before is; start again once it is there ({lost})",
                    )
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    # --- the session

    def _come_back(self) -> None:
        self._return(self._commits)

    def _return(self, *counts: int) -> int:
        """Replace the session; return the stored count of commits, which must be one of `counts`.

        Raises:
            _LostError: there is no session now.
            _EndedError: another process owns the store, or commits are missing.
        """
        self._session.close()
        if self._gives_up:
            raise _LostError("it did not answer")
        asked = steady_time()
        try:
            connection, count = self._renew()
        except TriobotError as error:
            raise _LostError(str(error)) from None
        except psycopg.Error as error:
            raise _LostError(first_line(error)) from None
        else:
            self._session.connection = connection
            if count is None:
                self._taken_over()
            if count not in counts:
                self._gone_back(count)
            self._go_on(connection)
            self._lease.hear(asked)
            return count

    def _go_on(self, connection: Connection) -> None:
        """Store the fact that the server's current history contains all commits.

        The new session may be on another server, or the server's history may have changed.
        """
        try:
            go_on(connection, self._name)
        except psycopg.Error as error:
            connection.close()  # so that the next batch tries again
            raise _LostError(first_line(error)) from None

    def _taken_over(self) -> NoReturn:
        self._end(
            LeaseLostError,
            f"the store {self._name} was taken over by another process; this one stores nothing any more",
        )

    def _gone_back(self, count: int) -> NoReturn:
        self._end(
            StoreCorruptError,
            f"the store {self._name} has {count} commits, and this process knows of {self._commits}: a"
            " failover or a restore lost some, or another program writes there; look at the database",
        )

    def _end(self, kind: Callable[[str], StoreError], text: str) -> NoReturn:
        if self._broken is None:
            self._broken = lambda: kind(text)
        raise _EndedError
