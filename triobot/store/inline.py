"""The writer of a store in memory: runs each job at once, in its caller's task."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import methodcaller
from typing import TypeAlias, TypeVar, final

import trio

from ..base.clock import WallClock
from ..seams.writes import Latencies, StoreStatistics
from .statements import SWEEP_AFTER, Tables
from .writer import SWEEP_EVERY, AskedJob, Job, Transactions, Writer

R = TypeVar("R")


@final
class InlineWriter:
    """Runs each job at once, in a transaction of its own, in its caller's task.

    So the order of all work in a store in memory depends only on virtual time and a seed.

    Args:
        tables: the rows.
        transactions: runs the transactions on the same rows.
        clock: source of the times for deleting old rows.
    """

    def __init__(self, tables: Tables, transactions: Transactions, clock: WallClock) -> None:
        self._tables = tables
        self._transactions = transactions
        self._clock = clock
        self._swept_at = clock.now()
        self._closed = False

    def statistics(self) -> StoreStatistics:
        return self._tables.tally.statistics

    def latencies(self) -> Mapping[str, Latencies]:
        """Return an empty mapping: there is no disk."""
        return {}

    # A Ctrl-C in the middle of a job would leave an open transaction, or a stored row without an
    # announcement.
    @trio.lowlevel.enable_ki_protection
    async def do(self, job: Job[R]) -> R:
        """Run a job, announce its answer and return the answer; see `Writer.do`.

        Cancellation: *atomic*: if Cancelled is raised, nothing has been done. No Trio checkpoint follows the
        work.
        """
        await trio.lowlevel.checkpoint()
        if self._closed:
            raise trio.ClosedResourceError("the store is closed")
        verdict = self._transactions.run_alone(job)
        if verdict is not None:
            raise verdict
        job.announce()
        if job.writes:
            self._sweep()
        return job.answer

    def note_answered(self, key: str) -> None:
        """Store at once that the delivery was answered. A failure is ignored, because a kill before this call
        would do the same harm.
        """
        self._catch_up((key,), ())

    def note_consumed(self, seqs: Collection[int]) -> bool:
        """Delete the rows at once; return whether the deletion succeeded."""
        return self._catch_up((), seqs)

    @trio.lowlevel.enable_ki_protection
    def _catch_up(self, answered: Collection[str], consumed: Collection[int]) -> bool:
        job = AskedJob(lambda tables: tables.catch_up(answered, consumed), writes=True)
        return not self._closed and self._transactions.run_alone(job) is None

    async def erase_log(self) -> None:
        """Execute a Trio checkpoint and nothing else: there is no log."""
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        self._closed = True

    def _sweep(self) -> None:
        now = self._clock.now()
        is_time = abs(now - self._swept_at) >= SWEEP_EVERY
        if is_time or self._tables.noted >= SWEEP_AFTER:
            if is_time:
                self._swept_at = now
            sweep = methodcaller("sweep" if is_time else "sweep_deliveries", now)
            self._transactions.run_alone(AskedJob(sweep, writes=True))


AnyWriter: TypeAlias = Writer | InlineWriter
