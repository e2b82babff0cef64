"""The one task that touches the database: it gathers what waits, and has it committed together.

Callers put jobs into a bounded channel; when 512 wait, further callers wait in `send`. The writer takes all
there is, at most 512, and runs it in one hop to a worker thread: one transaction, one fsync. While that
runs, the next batch gathers by itself, so no caller waits for a timer.

The task is shielded: a job that was handed over is finished although the program is being cancelled, because
its caller may have promised something on the strength of it, or another transaction may build on it. It
ends when the channel has been closed and emptied, and gives up what is left when that has taken
`GRACE` seconds of real time: the threads of a dying disk don't follow Trio's clock, nor a virtual one.

A store in memory has no task, no thread and no batches: its `InlineWriter` runs each job where it is asked.
"""

from __future__ import annotations

import logging
import math
import queue
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import Final, TypeAlias, TypeVar, cast, final

import attrs
import outcome
import trio

from ..errors import StoreCorruptError, StoreFullError
from ..seams import StoreStatistics, WallClock
from .file import StoreFile
from .statements import Tables
from .transactions import Transactions

R = TypeVar("R")

_log: Final = logging.getLogger("triobot.store")

MOST_IN_A_BATCH: Final = 512
GRACE: Final = 30.0

# A busy bot's next event comes sooner, and the wait isn't noticed: a bot that is killed meanwhile handles an
# event twice, as it would have a moment before.
_LAZY_SECONDS: Final = 0.02

_SWEEP_EVERY: Final = 60 * 1000
_CHECKPOINT_AT: Final = 4 * 1024 * 1024  # SQLite's own default: a thousand pages
_ROW_OVERHEAD: Final = 8 * 1024  # a small row touches about two pages


@attrs.define(eq=False)
class _Job:
    """One caller's work, and where its outcome goes."""

    run: Callable[[Tables], None]
    writes: bool
    size: int = 0
    announce: Callable[[], None] | None = None
    lazy: bool = False
    done: trio.Event = attrs.field(factory=trio.Event)
    error: Exception | None = None


@final
class Writer:
    """Serves the jobs of one store file until it is closed.

    Args:
        file: the open file; nothing else uses it.
        clock: for what must be forgotten after a while.
        on_crash: called, once, when the store is broken and the program should stop.
    """

    def __init__(self, file: StoreFile, clock: WallClock, on_crash: Callable[[], None]) -> None:
        self._file = file
        self._clock = clock
        self._on_crash = on_crash
        self._send, self._receive = trio.open_memory_channel[_Job](MOST_IN_A_BATCH)
        # Its own, so that a program with forty blocked threads can still store what it promised.
        self._hop = Hop("triobot store")
        self._give_up_at = math.inf
        self._swept_at = clock.now()
        self._in_log = 0
        self.crash: Exception | None = None
        self.gave_up = False
        self.statistics: StoreStatistics = file.tables.tally.statistics()

    async def ask(
        self,
        work: Callable[[Tables], R],
        *,
        writes: bool,
        size: int = 0,
        announce: Callable[[R], None] | None = None,
        lazy: bool = False,
    ) -> R:
        """Have `work` run in the next batch, and return its result once that is durable.

        `announce` gets the result in the order of the jobs, before any caller is woken. A `lazy` job waits a
        moment for the company of one that isn't.

        Cancellation: *atomic* until the job is handed over; from then on it is done, and announced,
        whether or not its caller waits.
        """
        answers: list[R] = []

        def run(tables: Tables) -> None:
            answers[:] = [work(tables)]

        def announce_answer() -> None:
            if announce is not None:
                announce(answers[0])

        job = _Job(run, writes, size, announce_answer, lazy)
        try:
            # Waiting comes next in any case: while there is room, a pass of the scheduler less.
            await trio.lowlevel.checkpoint_if_cancelled()
            self._send.send_nowait(job)
        except trio.WouldBlock:
            await self._send.send(job)
        await job.done.wait()
        if job.error is not None:
            raise job.error
        return answers[0]

    async def erase_log(self) -> None:
        """Leave nothing of what was written, and deleted since, in the log."""
        await trio.to_thread.run_sync(
            partial(self._file.checkpoint, erase=True), limiter=trio.CapacityLimiter(1)
        )
        self._stop_if_broken()

    def close(self) -> None:
        """Take no more jobs; `run` returns when those that were taken are done."""
        self._give_up_at = time.monotonic() + GRACE
        self._send.close()

    # A Ctrl-C between the commit and the word to its callers would leave them waiting for ever.
    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Serve until `close`. Raises nothing: what went wrong is in `crash`."""
        with trio.CancelScope(shield=True), closing(self._hop):
            async for job in self._receive:
                batch = [job, *self._what_else_waits(MOST_IN_A_BATCH - 1)]
                if all(job.lazy for job in batch):
                    await self._wait_for_company(batch)
                if time.monotonic() < self._give_up_at:
                    await self._serve(batch)
                else:
                    self._abandon(batch)

    async def _wait_for_company(self, batch: list[_Job]) -> None:
        """Wait a moment for a job that isn't lazy, to share its transaction, its fsync and its thread."""
        with trio.move_on_after(_LAZY_SECONDS):
            while len(batch) < MOST_IN_A_BATCH:
                try:
                    job = await self._receive.receive()
                except trio.EndOfChannel:
                    return
                batch.append(job)
                if not job.lazy:
                    batch += self._what_else_waits(MOST_IN_A_BATCH - len(batch))
                    return

    def _what_else_waits(self, most: int) -> list[_Job]:
        more: list[_Job] = []
        try:
            while len(more) < most:
                more.append(self._receive.receive_nowait())
        except (trio.WouldBlock, trio.EndOfChannel):
            pass
        return more

    async def _serve(self, batch: list[_Job]) -> None:
        work = batch + self._housekeeping(batch)
        try:
            verdicts = await self._hop.run(partial(self._file.run, work))
        except Exception as error:
            # No thread to be had, or a mistake of ours; either way it isn't known what was done.
            self._crashed(error)
            verdicts = [StoreCorruptError("the store's writer failed") for _ in work]
        self.statistics = self._file.tables.tally.statistics()
        for job, verdict in zip(work, verdicts, strict=True):
            job.error = verdict
            if verdict is None and job.announce is not None:
                self._announce(job.announce)
        for job in work:
            job.done.set()
        self._in_log += sum(job.size + _ROW_OVERHEAD for job in work if job.writes)
        if self._in_log >= _CHECKPOINT_AT and self._file.transactions.broken is None:
            self._in_log = 0
            await self._hop.run(self._file.checkpoint)
        self._stop_if_broken()

    def _stop_if_broken(self) -> None:
        if self._file.transactions.broken is not None:
            self._crashed(self._file.transactions.broken)

    def _housekeeping(self, batch: list[_Job]) -> list[_Job]:
        """Forget what has grown old, now and then, in a transaction that is made anyway."""
        now = self._clock.now()
        if abs(now - self._swept_at) < _SWEEP_EVERY or not any(job.writes for job in batch):
            return []
        self._swept_at = now
        return [_Job(lambda tables: tables.sweep(now), writes=True)]

    def _announce(self, announce: Callable[[], None]) -> None:
        try:
            announce()
        except Exception as error:
            # The row is durable and was not announced: only a restart finds it now. The others still
            # get their word, and the program stops with the mistake.
            self._crashed(error)

    def _abandon(self, batch: list[_Job]) -> None:
        self.gave_up = True
        for job in batch:
            job.error = StoreFullError("the store was closed before this could be written")
            job.done.set()

    def _crashed(self, error: Exception) -> None:
        if self.crash is None:
            self.crash = error
            # A text that isn't ours may hold private data.
            what = str(error) if isinstance(error, StoreCorruptError) else type(error).__name__
            _log.error("the store %s stops: %s", self._file.path, what)
            self._on_crash()


@final
class InlineWriter:
    """Runs each job at once, in a transaction of its own, in its caller's task.

    So virtual time and a seed decide everything that happens in a store in memory.

    Args:
        tables: the rows.
        transactions: over the same rows.
        clock: for what must be forgotten after a while.
    """

    def __init__(self, tables: Tables, transactions: Transactions, clock: WallClock) -> None:
        self._tables = tables
        self._transactions = transactions
        self._clock = clock
        self._swept_at = clock.now()
        self._closed = False

    @property
    def statistics(self) -> StoreStatistics:
        """Return the store's statistics as they are now."""
        return self._tables.tally.statistics()

    # A Ctrl-C in the middle would leave the transaction open, and its caller without its row.
    @trio.lowlevel.enable_ki_protection
    async def ask(
        self,
        work: Callable[[Tables], R],
        *,
        writes: bool,
        size: int = 0,
        announce: Callable[[R], None] | None = None,
        lazy: bool = False,
    ) -> R:
        """Run `work`, announce its result and return it; as `Writer.ask`.

        Cancellation: *atomic*: nothing has been done if it is raised; there is no checkpoint behind the work.
        """
        await trio.lowlevel.checkpoint()
        if self._closed:
            raise trio.ClosedResourceError("the store is closed")
        answers: list[R] = []
        (verdict,) = self._transactions.run([_Job(lambda tables: answers.append(work(tables)), writes)])
        if verdict is not None:
            raise verdict
        if announce is not None:
            announce(answers[0])
        if writes:
            self._sweep()
        return answers[0]

    async def erase_log(self) -> None:
        """Pass a checkpoint and do nothing else: there is no log."""
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Take no more jobs."""
        self._closed = True

    def _sweep(self) -> None:
        now = self._clock.now()
        if abs(now - self._swept_at) >= _SWEEP_EVERY:
            self._swept_at = now
            self._transactions.run([_Job(lambda tables: tables.sweep(now), writes=True)])


AnyWriter: TypeAlias = Writer | InlineWriter


@final
class Hop:
    """Runs what one task gives it, one after another, in a thread that is made for the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: Final[queue.SimpleQueue[Callable[[], object] | None]] = queue.SimpleQueue()
        self._answers: Final[queue.SimpleQueue[outcome.Outcome[object]]] = queue.SimpleQueue()
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._thread: threading.Thread | None = None

    async def run(self, work: Callable[[], R]) -> R:
        """Run this in the thread; what it raises is raised here.

        Raises:
            RuntimeError: there is no thread to be had; nothing was run.

        Cancellation: none: to be called in a shield, since what was begun there can't be taken back.
        """
        if self._thread is None:
            # A daemon, as Trio's: a disk that never answers must not keep the process from ending.
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            thread.start()
            self._thread = thread
        self._jobs.put(work)
        while True:
            await trio.lowlevel.wait_readable(self._ours)
            with suppress(BlockingIOError):
                self._ours.recv(1)
                break
        return cast("R", self._answers.get_nowait().unwrap())

    def close(self) -> None:
        """Let the thread end once it has done what it was given. Nothing is run after it."""
        self._jobs.put(None)
        self._ours.close()
        if self._thread is None:
            self._theirs.close()

    def _work(self) -> None:
        with self._theirs:
            while (work := self._jobs.get()) is not None:
                self._answers.put(outcome.capture(work))
                with suppress(OSError):  # no task waits any more
                    self._theirs.send(b"\0")
