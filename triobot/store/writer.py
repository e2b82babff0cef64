"""Group commit: collect jobs, and commit them together in the thread that has the database connection.

Callers pass jobs to the writer. At most 512 jobs wait for a batch; further callers wait for room. All waiting
jobs run as one batch in a worker thread: one transaction, one fsync. Meanwhile the next batch collects jobs,
so no caller waits for a timer. If the thread is idle and the last batch had a single caller, the next
caller's own task begins the batch. If several callers shared the last batch, the next batch begins one
iteration of the event loop later, so that other callers can join the batch. The writer's task waits for the
thread, and then wakes the callers' tasks.

The writer's task is shielded. An accepted job is finished even while the program is being cancelled. The
job's caller may have made a promise that depends on the job, or a later transaction may depend on the job.
The task ends when the writer is closed and no job waits. `GRACE` seconds after the close, the task fails the
remaining jobs. These seconds are real time, because a thread that waits for a dying disk doesn't follow a
virtual clock.

Two kinds of facts have no waiting caller: deliveries that were answered, and inbox rows that were consumed.
These facts are written at once as notes, which survive a kill of the process (`notes`). The next batch writes
the same facts to the database, as a `Noted` job among the other jobs. A job that is queued after a `Noted`
job sees the changes of the `Noted` job. If the `Noted` job fails, later jobs that write fail too. To keep the
number of `Noted` jobs in a batch small, new facts join the last `Noted` job even if events are queued after
this job. So events that are queued behind a `Noted` job also fail if this job fails. But an answered delivery
doesn't join a `Noted` job that is queued before an event with the same key. An event that came before the
answer was written must count as a redelivery.

A store in memory has no task, no thread and no batches: `inline` runs each job in its caller's task.

If one caller's job fails, the whole batch is rolled back and run again with a savepoint for each job, so that
the failure affects this caller alone. But a full disk or a failed write may end the *whole* transaction, not
just the savepoint. Without a check, the writer would write the following rows outside a transaction, and the
bot would answer their events with 200. So after every error, the writer checks whether the transaction is
still open. If the transaction is closed, all jobs are run again, each in a separate transaction.

A failed COMMIT is different. If the disk refused the fsync, the content of the disk is unknown, and a second
fsync of the same file may report success for pages that were lost. So after a failed COMMIT, the store is
*broken*: this commit may or may not be stored, and all further work is refused until the file is opened
again. `sqlite_errors` classifies the errors.
"""

from __future__ import annotations

import logging
import math
import secrets
import sqlite3
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar, final

import trio
from trio.lowlevel import checkpoint_if_cancelled, current_task, reschedule, wait_task_rescheduled

from ..base.clock import WallClock
from ..errors import StoreCorruptError, StoreError, StoreFullError
from ..seams.inbox import Acceptance, Arrival, Beginning, InboxRow, Quota
from ..seams.writes import Latencies, StoreStatistics
from .log_file import log_path, reaches
from .notes import AnyNotes
from .schema import LOG, put_meta
from .sqlite_errors import damage_of, ends_the_store, for_the_caller
from .statements import SWEEP_AFTER, Tables
from .worker_thread import WorkerThread

R = TypeVar("R")

_log: Final = logging.getLogger("triobot.store")

MOST_IN_A_BATCH: Final = 512
GRACE: Final = 30.0

# Longest time for which a `Noted` job waits for another job, to share that job's commit. On a busy bot,
# another job comes sooner. If the power fails during this wait, the last messages may be sent twice.
_PAUSE_SECONDS: Final = 0.02
_REPEAT_SECONDS: Final = 1.0

_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds of a histogram's buckets for the latency of a batch, in seconds: from a disk with a write
cache to a dying disk."""

SWEEP_EVERY: Final = 60 * 1000
_LOOK_EVERY: Final = 4  # number of commits between two checks of the log's length
_CHECKPOINT_AT: Final = 6 * 1024 * 1024  # well below `_LOG_BEGINS_AT` in `file`


class Job(Generic[R]):
    """Work for one transaction, the result, and the task that waits for the result.

    Attributes:
        writes: whether the job changes rows.
        answer: result of `run`.
        error: why the job failed.
        task: the waiting caller's task; None if the caller has stopped waiting.
    """

    __slots__ = ("answer", "error", "task")

    writes = True
    answer: R
    error: Exception | None
    task: trio.lowlevel.Task | None

    def run(self, tables: Tables, *, together: bool = False) -> R:
        """Do the job's work, usually in the writer's thread.

        May be called several times; the result of the last call is used.

        Args:
            together: whether the job may merge its writes into fewer statements. If any job of such a batch
                fails, the batch is rolled back, and the jobs run again one by one, without `together`.
        """
        raise NotImplementedError

    def announce(self) -> None:
        """Report the answer. Called once the answer is durable."""


@final
class AskedJob(Job[R]):
    """A job made of functions.

    Args:
        work: does the work; called by `run`.
        writes: whether `work` changes rows.
        announce: called with the answer, in the order of the jobs, before any caller is woken.
        together: called instead of `work` to use fewer statements; see `Job.run`.
    """

    __slots__ = ("_announce", "_together", "_work", "writes")

    def __init__(
        self,
        work: Callable[[Tables], R],
        writes: bool,
        announce: Callable[[R], None] | None = None,
        together: Callable[[Tables], R] | None = None,
    ) -> None:
        self.error = self.task = None
        self._together = together or work
        self._work = work
        self.writes = writes
        self._announce = announce

    def run(self, tables: Tables, *, together: bool = False) -> R:
        return self._together(tables) if together else self._work(tables)

    def announce(self) -> None:
        if self._announce is not None:
            self._announce(self.answer)


@final
class Arriving(Job[Acceptance]):
    """Accepts one event; see `triobot.store.Store.accept`."""

    __slots__ = ("arrival", "beginning", "on_commit", "quota")

    def __init__(
        self,
        arrival: Arrival,
        quota: Quota,
        beginning: Beginning | None,
        on_commit: Callable[[InboxRow], None] | None,
    ) -> None:
        self.error = self.task = None
        self.arrival = arrival
        self.quota = quota
        self.beginning = beginning
        self.on_commit = on_commit

    def run(self, tables: Tables, *, together: bool = False) -> Acceptance:
        return tables.accept(self.arrival, self.quota, (), self.beginning)

    def announce(self) -> None:
        if self.on_commit is not None and isinstance(self.answer, InboxRow):
            self.on_commit(self.answer)


@final
class Noted(Job[None]):
    """Deletes answered deliveries and consumed inbox rows; see `Tables.catch_up`."""

    __slots__ = ("answered", "consumed")

    def __init__(self) -> None:
        self.error = self.task = None
        self.answered: dict[str, None] = {}
        self.consumed: list[int] = []

    def run(self, tables: Tables, *, together: bool = False) -> None:
        tables.catch_up(self.answered, self.consumed)


def _wake_caller(job: Job[Any]) -> None:
    task, job.task = job.task, None
    if task is not None:
        reschedule(task)


class _TransactionLostError(Exception):
    """SQLite has ended the transaction by itself."""


@final
class Transactions:
    """Runs batches on one connection, one batch at a time.

    Args:
        begun: called with the word of a log (`schema.LOG`) when the log's first commit is durable.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        tables: Tables,
        path: Path,
        *,
        begun: Callable[[str], None] | None = None,
    ) -> None:
        self._begun = begun
        self._sql = connection
        self._tables = tables
        self._path = path
        self._log = log_path(path)
        self._broken: str | None = None
        # The random word of a new log (`schema.LOG`), which the log's first transaction confirms; None after
        # that transaction.
        self._mark: str | None = None

    @property
    def broken(self) -> StoreCorruptError | None:
        """A new exception that explains why the store refuses all further work; None for a working store."""
        return None if self._broken is None else StoreCorruptError(self._broken)

    def run(self, batch: Sequence[Job[Any]]) -> list[Exception | None]:
        """Run a batch; return an error or None for each job. Jobs without an error are durable.

        A read sees the writes of earlier jobs in the batch. A batch of reads opens no transaction. A read
        doesn't return rows that are noted as consumed, even if these rows can't be deleted.
        """
        if self._broken is not None:  # the store broke while this batch waited
            return [self.broken for _ in batch]
        # A failed Noted job is in the next batch again, so the batch names all consumed rows.
        if noted := [job for job in batch if type(job) is Noted]:
            self._tables.read_no_more([seq for job in noted for seq in job.consumed])
        if any(work.writes for work in batch):
            try:
                return self._together(batch)
            except _TransactionLostError:
                pass
        return each_behind_noted(batch, self.run_alone)

    def checkpoint_due(self) -> bool:
        """Return whether the log has grown so long that a checkpoint is due."""
        return self._mark is None and reaches(self._log, _CHECKPOINT_AT)

    def checkpoint(self, *, erase: bool = False) -> None:
        """Move the pages of SQLite's log into the database file. A failed fsync breaks the store.

        SQLite's automatic checkpoints are off, because they would ignore a failed fsync.

        Args:
            erase: whether to empty the log file.
        """
        try:
            self.fold(erase=erase)
        except sqlite3.Error as error:
            self._roll_back()
            if ends_the_store(error, writing=False):
                self._break(error)

    def fold(self, *, erase: bool) -> None:
        """Store the word for the next log, and then move the pages of the present log into the database
        file.
        """
        mark = self._mark
        if mark is None:  # if a word is pending, no transaction has written since the last `fold`
            mark = secrets.token_hex(16)
            self._sql.execute("BEGIN IMMEDIATE")
            put_meta(self._sql, LOG, mark)
            self._sql.execute("COMMIT")
        self._sql.execute(f"PRAGMA wal_checkpoint({'TRUNCATE' if erase else 'PASSIVE'})").fetchone()
        self._mark = mark

    def begin_log(self) -> None:
        """Commit the first entries of a log, unless the log already has entries."""
        if self._mark is not None:
            self._begin()
            self._sql.execute("COMMIT")
            self._have_committed()

    def _together(self, batch: Sequence[Job[Any]]) -> list[Exception | None]:
        try:
            self._begin()
        except sqlite3.Error as error:
            # All jobs that write get this error at once. If the file is busy, each job would otherwise wait
            # for a timeout.
            verdict = self._verdict(error, writing=True)
            return [verdict if work.writes else self.run_alone(work) for work in batch]
        verdicts = self._all_well(batch) or each_behind_noted(batch, self._in_savepoint)
        if (failure := self._commit()) is None:
            return verdicts
        if self._broken is None:
            raise _TransactionLostError from failure
        return [verdict or self.broken for verdict in verdicts]

    def _all_well(self, batch: Sequence[Job[Any]]) -> list[Exception | None] | None:
        """Run the jobs without savepoints.

        Return None if a job failed. The batch is then rolled back, and a new transaction is open.

        Most batches succeed, and a savepoint costs as much as the job inside the savepoint.
        """
        writing = True
        try:
            for work in batch:
                writing = work.writes
                work.answer = work.run(self._tables, together=True)
        except Exception as error:
            self._verdict(error, writing=writing)
            self._roll_back()
            if self._broken is None:
                with suppress(sqlite3.Error):
                    self._begin()
                    return None
            raise _TransactionLostError from error
        return [None for _ in batch]

    def _in_savepoint(self, work: Job[Any]) -> Exception | None:
        mark = self._tables.tally.mark()
        try:
            self._sql.execute("SAVEPOINT work")
            work.answer = work.run(self._tables)
            self._sql.execute("RELEASE work")
        except Exception as error:
            verdict = self._verdict(error, writing=work.writes)
            if self._broken is not None or not self._back_to_savepoint():
                self._roll_back()
                raise _TransactionLostError from error
            self._tables.undo(mark)
            return verdict
        return None

    def run_alone(self, work: Job[Any]) -> Exception | None:
        """Run one job; a job that writes gets a transaction of its own. Return an error or None."""
        if self._broken is not None:
            return self.broken
        try:
            if work.writes:
                self._begin()
            work.answer = work.run(self._tables)
        except Exception as error:
            self._roll_back()
            return self._verdict(error, writing=work.writes)
        if not work.writes or (failure := self._commit()) is None:
            return None
        return self.broken or for_the_caller(failure, self._path)

    def _commit(self) -> sqlite3.Error | None:
        """Commit.

        Return an error if the commit failed. The transaction is then rolled back, or the store is broken.
        """
        try:
            self._sql.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            if ends_the_store(error, writing=True, committing=True):
                self._break(error)
            return error
        self._have_committed()
        return None

    def _have_committed(self) -> None:
        if self._mark is not None:
            mark, self._mark = self._mark, None
            if self._begun is not None:
                self._begun(mark)
        if self._tables.tally.unsettled:
            self._tables.tally.settle()

    def _begin(self) -> None:
        self._sql.execute("BEGIN IMMEDIATE")
        if self._mark is not None:
            try:
                put_meta(self._sql, LOG, f"{self._mark}+")
            except sqlite3.Error:
                self._roll_back()
                raise

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
                # A transaction that can be neither committed nor rolled back makes the connection useless.
                self._break(error)

    def _verdict(self, error: Exception, *, writing: bool) -> Exception:
        if ends_the_store(error, writing=writing):
            self._break(error, reading=not writing)
        return self.broken or for_the_caller(error, self._path)

    def _break(self, error: Exception, *, reading: bool = False) -> None:
        if self._broken is None:
            damage = damage_of(error, reading=reading)
            failed = "failed and takes nothing more" if damage is None else "is damaged or is not a store"
            self._broken = (
                f"the store {self._path} {failed}: {damage or error}; what was being committed"
                " may or may not be stored, everything acknowledged before is; check the disk and start again"
            )


def each_behind_noted(
    batch: Sequence[Job[Any]], run: Callable[[Job[Any]], Exception | None]
) -> list[Exception | None]:
    """Run the jobs in order; if a `Noted` job fails, the later jobs that write fail too."""
    verdicts: list[Exception | None] = []
    behind: Exception | None = None
    for work in batch:
        verdict = behind if behind is not None and work.writes else run(work)
        if isinstance(work, Noted):
            behind = verdict
        verdicts.append(verdict)
    return verdicts


class RunsBatches(Protocol):
    """Runs batches on one connection, one batch at a time."""

    @property
    def broken(self) -> StoreError | None:
        """A new exception that explains why the store refuses all further work; None for a working store."""
        ...

    def run(self, batch: Sequence[Job[Any]]) -> list[Exception | None]:
        """Run a batch; return an error or None for each job. Jobs without an error are durable."""
        ...

    def checkpoint_due(self) -> bool:
        """Return whether the database's log must be shortened."""
        ...

    def checkpoint(self) -> None:
        """Shorten the database's log."""
        ...


class Served(Protocol):
    """The attributes and methods of an open store that a writer uses."""

    @property
    def name(self) -> str:
        """Name of the store in logs."""
        ...

    @property
    def tables(self) -> Tables:
        """The store's rows."""
        ...

    @property
    def notes(self) -> AnyNotes:
        """Facts that the tables don't have yet; after a kill, the next process reads these facts."""
        ...

    @property
    def turn(self) -> AbstractContextManager[object]:
        """The lock of the store's connection."""
        ...

    @property
    def transactions(self) -> RunsBatches:
        """Object that executes the batches on the database."""
        ...

    def erase_log(self) -> None:
        """Remove deleted data from the log; callable in any thread."""
        ...


@final
class Writer:
    """Runs the jobs of one store until the writer is closed.

    Args:
        served: the open store. The store's connection is used only by the writer and by copies of the store.
        clock: source of the times for deleting old rows.
        on_crash: called once, when the store is broken and the program should stop.
    """

    def __init__(self, served: Served, clock: WallClock, on_crash: Callable[[], None]) -> None:
        self._store = served
        self._clock = clock
        self._on_crash = on_crash
        self._transactions = served.transactions
        # Accepted jobs in order, and whether the writer's task must begin a batch with these jobs.
        self._waiting: list[Job[Any]] = []
        self._due = False
        # Jobs that wait for room in the queue of accepted jobs.
        self._outside: OrderedDict[Job[Any], None] = OrderedDict()
        # The batch that the thread is executing, and whether the writer's task is waiting for the thread or a
        # new job.
        self._asked: list[Job[Any]] | None = None
        self._waits = False
        # Whether the last batch had a single caller; and whether a task will begin the next batch in a
        # moment.
        self._alone = False
        self._coming = False
        self._nursery: trio.Nursery | None = None
        self._closed = False
        # A separate thread, so that the store works even while all threads of Trio's pool are blocked.
        self._hop = WorkerThread("triobot store")
        self._give_up_at = math.inf
        self._swept_at = clock.now()
        self._log_is_long = False
        self._unseen = 0  # number of commits since the last check of the log's length.
        # Only the thread changes the following fields.
        self._counts = {kind: [0] * (len(_BOUNDS) + 1) for kind in ("write", "read")}
        self._seconds = dict.fromkeys(self._counts, 0.0)
        self._notes = served.notes
        # `_open` is the Noted job that further notes join. When a job that isn't an event is queued, `_open`
        # becomes None. `_behind` has the keys of the events that were queued after this Noted job.
        self._open: Noted | None = None
        self._behind: set[str | None] = set()
        self._some_noted = trio.Event()
        # Number of batches so far, and whether a Noted job of the last batch failed.
        self._served = 0
        self._failed = False
        self.crash: Exception | None = None
        self.gave_up = False

    @property
    def unharmed(self) -> bool:
        return not self.gave_up and self._transactions.broken is None

    def statistics(self) -> StoreStatistics:
        """Return the store's counts, as of the last commit."""
        return self._store.tables.tally.statistics

    # A Ctrl-C between queueing and waiting would leave a queued job whose task doesn't wait.
    @trio.lowlevel.enable_ki_protection
    async def do(self, job: Job[R]) -> R:
        """Run a job in the next batch, and return its answer once the answer is durable.

        Cancellation: *atomic* until the job is accepted. An accepted job is run and announced even if its
        caller has stopped waiting.
        """
        await checkpoint_if_cancelled()
        if self._closed:
            raise trio.ClosedResourceError("the store is closed")
        job.task = current_task()
        if self._open is not None:
            came: Job[Any] = job  # keeps the type of `job.answer` from being narrowed
            if type(came) is Arriving:
                self._behind.add(came.arrival.key)
            else:
                self._open = None
        if len(self._waiting) < MOST_IN_A_BATCH:
            self._waiting.append(job)
            self._due = True
            self._begin_if_idle()
        else:
            self._outside[job] = None

        def abort(_: object) -> trio.lowlevel.Abort:
            job.task = None
            self._outside.pop(job, None)
            return trio.lowlevel.Abort.SUCCEEDED

        await wait_task_rescheduled(abort)
        if job.error is not None:
            raise job.error
        return job.answer

    def note_answered(self, key: str) -> None:
        """Write a note that the 200 of the last accepted delivery with this key was fully written.

        Never waits, never raises. All later calls of `accept` count the delivery as answered. In a store
        file, the fact survives a kill of the process at once. After the next batch, the fact also survives a
        crash of the computer.
        """
        self._notes.note_answered(key)
        if (noted := self._open) is None or key in self._behind:
            noted = self._begin_noting()
        noted.answered[key] = None

    def note_consumed(self, seqs: Collection[int]) -> bool:
        """Write a note that these inbox rows have been handled.

        The fact survives the same failures as a fact from `note_answered`.

        Never waits, never raises. Later calls don't read these rows. Without notes, each end of a
        conversation would need a transaction of 231,000 CPU instructions. A message and its echo need
        1,260,000 instructions.

        Returns:
            Whether the note survives a kill of the process. If False, no note was written, and the caller
                must commit `Consume`.
        """
        if not self._notes.note_consumed(seqs):
            return False
        noted = self._open or self._begin_noting()
        noted.consumed += seqs
        return True

    def _begin_noting(self) -> Noted:
        noted = self._open = Noted()
        self._behind.clear()
        if self._outside:
            self._outside[noted] = None
        else:
            self._waiting.append(noted)
        self._some_noted.set()
        return noted

    # A Ctrl-C would end the writer.
    @trio.lowlevel.enable_ki_protection
    async def _keep_up(self) -> None:
        """Commit the Noted job if no other job comes soon."""
        while True:
            await self._some_noted.wait()
            while self._waiting:
                served = self._served
                await trio.sleep(_REPEAT_SECONDS if self._failed else _PAUSE_SECONDS)
                if served == self._served:
                    self._begin_if_idle()
            self._some_noted = trio.Event()

    async def erase_log(self) -> None:
        """Remove deleted data from the log."""
        await trio.to_thread.run_sync(self._store.erase_log, limiter=trio.CapacityLimiter(1))
        self.stop_if_broken()

    def close(self) -> None:
        """Refuse further jobs; `run` returns when all accepted jobs are done."""
        self._give_up_at = time.monotonic() + GRACE
        self._closed = True
        for job in self._outside:
            if isinstance(job, Noted):
                self._waiting.append(job)
            job.error = trio.ClosedResourceError("the store was closed before this was taken")
            _wake_caller(job)
        self._outside.clear()
        self._hop.wake()

    # A Ctrl-C between the commit and the waking of the callers would make the callers wait for ever.
    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Run batches until `close`. Raises nothing: an error is in `crash`."""
        with trio.CancelScope(shield=True), closing(self._hop):
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._keep_up)
                while self._asked is not None or self._waiting or not self._closed:
                    if self._asked is None and (self._due or self._closed):
                        # Wait one iteration of the event loop, so that further jobs of woken callers can
                        # join.
                        await trio.lowlevel.cancel_shielded_checkpoint()
                        self._begin()
                    else:
                        await self._serve()
                nursery.cancel_scope.cancel()

    def _begin_if_idle(self) -> None:
        """Begin a batch if the writer's task waits for jobs.

        If other callers may join, begin the batch one iteration of the event loop later.
        """
        if self._coming or not self._waits or self._asked is not None:
            return
        if self._alone:
            self._begin()
        elif self._nursery is not None:
            self._coming = True
            self._nursery.start_soon(self._begin_in_next_pass)

    @trio.lowlevel.enable_ki_protection
    async def _begin_in_next_pass(self) -> None:
        self._coming = False
        if self._waits and self._asked is None:
            self._begin()

    def _begin(self) -> None:
        batch = self._take()
        again = self._closed and self._failed and all(isinstance(job, Noted) for job in batch)
        if again or (self._closed and time.monotonic() >= self._give_up_at):
            self._abandon(batch)
        elif batch:
            self._alone = len([None for job in batch if type(job) is not Noted]) < 2
            self._asked = batch + self._housekeeping(batch)
            self._hop.begin(partial(self._commit, self._asked))

    def _take(self) -> list[Job[Any]]:
        """Empty the queue of waiting jobs, and return these jobs. The jobs that wait for room move into the
        queue.
        """
        taken, self._waiting = self._waiting, []
        while self._outside and len(self._waiting) < MOST_IN_A_BATCH:
            job, _ = self._outside.popitem(last=False)
            self._waiting.append(job)
        self._open, self._due = None, bool(self._waiting)
        return taken

    async def _serve(self) -> None:
        self._waits = True
        done = await self._hop.wait()
        self._waits = False
        if done is None or self._asked is None:
            return  # woken without a result
        work, self._asked = self._asked, None
        try:
            verdicts: list[Exception | None] = done.unwrap()
        except Exception as error:
            # No thread was available, or triobot has a bug. It is unknown which jobs were stored.
            self._crashed(error)
            verdicts = [StoreCorruptError("the store's writer failed") for _ in work]
        self._served += 1
        for job, verdict in zip(work, verdicts, strict=True):
            job.error = verdict
            if verdict is None and type(job) is not Noted:
                try:
                    job.announce()
                except Exception as error:
                    # The row is durable, but was not announced. Only a restart can find the row. Wake the
                    # other callers, and stop the program with the announcement's error.
                    self._crashed(error)
        if noted := [job for job in work if type(job) is Noted]:
            self._have_tried(noted)
        for job in work:
            _wake_caller(job)
        if self._log_is_long and self._transactions.broken is None:
            self._log_is_long = False
            await self._hop.run(self._checkpoint)
        self.stop_if_broken()

    def _have_tried(self, jobs: Sequence[Noted]) -> None:
        """Delete the notes that are committed; queue the failed Noted jobs again, before all other jobs."""
        failed = [job for job in jobs if job.error is not None]
        left = failed + [job for job in self._waiting if type(job) is Noted]
        for job in jobs:
            if job.error is not None:
                continue
            # If a key was noted again, keep the note, which may belong to a later delivery.
            for later in left:
                for key in job.answered.keys() & later.answered.keys():
                    del job.answered[key]
            self._notes.drop(job.answered, job.consumed)
        self._failed = bool(failed)
        if failed:
            self._waiting[:0] = failed
            self._some_noted.set()

    def latencies(self) -> Mapping[str, Latencies]:
        """Return the durations of batches in the thread, under the keys ``write`` and ``read``."""
        return {
            kind: Latencies(_BOUNDS, tuple(counts), self._seconds[kind])
            for kind, counts in self._counts.items()
        }

    def _commit(self, work: Sequence[Job[Any]]) -> list[Exception | None]:
        kind = "write" if any(job.writes for job in work) else "read"
        with self._store.turn:
            began = time.perf_counter()
            verdicts = self._transactions.run(work)
            took = time.perf_counter() - began
            self._unseen += kind == "write"
            if self._unseen == _LOOK_EVERY:
                self._unseen, self._log_is_long = 0, self._transactions.checkpoint_due()
        self._counts[kind][bisect_left(_BOUNDS, took)] += 1
        self._seconds[kind] += took
        return verdicts

    def _checkpoint(self) -> None:
        with self._store.turn:
            self._transactions.checkpoint()

    def stop_if_broken(self) -> None:
        """If the store is broken, store the error in `crash` and call `on_crash`, once."""
        if self._transactions.broken is not None:
            self._crashed(self._transactions.broken)

    def _housekeeping(self, batch: list[Job[Any]]) -> list[Job[Any]]:
        """Return a job that deletes old rows, if such a job is due and another job of the batch writes."""
        now = self._clock.now()
        is_time = abs(now - self._swept_at) >= SWEEP_EVERY
        if not (is_time or self._store.tables.noted >= SWEEP_AFTER) or not any(job.writes for job in batch):
            return []
        if is_time:
            self._swept_at = now
        return [AskedJob(methodcaller("sweep" if is_time else "sweep_deliveries", now), writes=True)]

    def _abandon(self, batch: list[Job[Any]]) -> None:
        self.gave_up = self.gave_up or not all(isinstance(job, Noted) for job in batch)
        for job in batch:
            job.error = StoreFullError("the store was closed before this could be written")
            _wake_caller(job)

    def _crashed(self, error: Exception) -> None:
        if self.crash is None:
            self.crash = error
            # The text of another library's error may contain private data.
            what = str(error) if isinstance(error, StoreError) else type(error).__name__
            _log.error("the store %s stops: %s", self._store.name, what)
            self._on_crash()
