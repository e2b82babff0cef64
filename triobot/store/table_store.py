"""The store: one interface for all databases, and the function that runs an open store's writer.

Other modules decide whether an event is a redelivery and whether the inbox has room (`rules`), handle failed
transactions (`writer`), and open a store (`file` and others).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar, final

import trio

from ..base.clock import WallClock
from ..errors import StoreError
from ..seams.inbox import Acceptance, Arrival, Beginning, InboxRow, Quota
from ..seams.journals import Opening
from ..seams.money import MovePayment
from ..seams.writes import Forgotten, Held, Latencies, News, WorkSlots, Write
from ..wire.ids import ChatId
from .admission import (
    admit,
    admit_writes,
    check_chat,
)
from .broadcasts import BroadcastTables
from .code_rows import CodeTables
from .journal_rows import JournalTables
from .notes import AnyNotes
from .payment_rows import MoneyTables
from .rules import names_chat, tell_moved
from .statements import Tables
from .writer import Arriving, AskedJob, Served, Writer

if TYPE_CHECKING:
    from .inline import AnyWriter

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Read(Protocol):
    """Calls `work` with the tables, in the writer's thread, and returns the result of `work`."""

    def __call__(self, work: Callable[[Tables], R], /) -> Awaitable[R]: ...


class _Reads:
    def __init__(self, read: Read) -> None:
        self.read = read


def _reads(
    part: Callable[[Tables], T], method: Callable[Concatenate[T, P], R]
) -> Callable[Concatenate[_Reads, P], Awaitable[R]]:
    """Return a query: an async method that calls `method` of one group of the tables, in the writer's
    thread.
    """
    name = method.__name__  # looked up by name, because a subclass or a test may override the method

    async def read(self: _Reads, /, *given: P.args, **named: P.kwargs) -> R:
        def work(tables: Tables) -> R:
            found: R = getattr(part(tables), name)(*given, **named)
            return found

        return await self.read(work)

    return read


def _itself(tables: Tables) -> Tables:
    return tables


_journals: Callable[[Tables], JournalTables] = attrgetter("journals")
_code: Callable[[Tables], CodeTables] = attrgetter("journals.code")
_broadcasts: Callable[[Tables], BroadcastTables] = attrgetter("broadcasts")
_money: Callable[[Tables], MoneyTables] = attrgetter("money")


@final
class ReadPayments(_Reads):
    """Queries of a store's payments, documented at `MoneyTables`.

    Every method raises the errors of `Store`.
    """

    get = _reads(_money, MoneyTables.get)
    of_invoice = _reads(_money, MoneyTables.of_invoice)
    due = _reads(_money, MoneyTables.due)
    next_due = _reads(_money, MoneyTables.next_due)
    find = _reads(_money, MoneyTables.find)
    counts = _reads(_money, MoneyTables.counts)
    history = _reads(_money, MoneyTables.history)
    totals = _reads(_money, MoneyTables.totals)


@final
class ReadAlarms(_Reads):
    """Queries of a store's alarms, documented at `MoneyTables`.

    Every method raises the errors of `Store`.
    """

    open = _reads(_money, MoneyTables.open_alarms)
    all = _reads(_money, MoneyTables.all_alarms)


@final
class ReadBroadcasts(_Reads):
    """Queries of a store's broadcasts, documented at `BroadcastTables`.

    Every method raises the errors of `Store`.
    """

    all = _reads(_broadcasts, BroadcastTables.jobs)
    get = _reads(_broadcasts, BroadcastTables.job)
    receivers = _reads(_broadcasts, BroadcastTables.receivers)


@final
class ReadCode(_Reads):
    """Queries of the author's code in a store, documented at `CodeTables`.

    Every method raises the errors of `Store`.
    """

    all = _reads(_code, CodeTables.code)


class Opened(Served, Protocol):
    """An open store, for `serve`, which closes the store at the end."""

    @property
    def opening(self) -> Opening:
        """Facts about the use of the store by this process and by the previous process."""
        ...

    def close(self, *, clean: bool, now: int) -> None:
        """Close the store, so that the next process can open it. Callable in any thread; raises nothing.

        Args:
            clean: whether all jobs were done and the connection is usable.
        """
        ...


@asynccontextmanager
async def serve(
    opened: Opened,
    clock: WallClock,
    *,
    back_up: Callable[[Path], Awaitable[None]],
    held: Held | None = None,
    on_loss: Callable[[Callable[[], None]], None] | None = None,
    on_end: Callable[[], None] | None = None,
    news: News | None = None,
) -> AsyncGenerator[Store, None]:
    """Serve an open store while the block runs, and close it.

    Args:
        held: as `Store.held`.
        on_loss: called once, with a function as the argument. A thread must call this function when another
            process has taken the store.
        on_end: called at the end of the block, before the remaining jobs are finished.
        news: as `Store.news`.

    Raises: the store's error, if the store breaks; the block is cancelled then.

    Cancellation: *forceful*: leaving the block always closes the store, after all accepted jobs are done.
    """
    body = trio.CancelScope()
    raised: BaseException | None = None
    writer = Writer(opened, clock, body.cancel)
    if on_loss is not None:
        token = trio.lowlevel.current_trio_token()

        def tell() -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(writer.stop_if_broken, idempotent=True)

        on_loss(tell)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        # The block's error is raised again after the nursery, because the nursery would wrap the error in a
        # group.
        try:
            with body:
                yield Store(
                    opened.opening, writer, opened.notes, clock, back_up=back_up, held=held, news=news
                )
        except BaseException as error:
            raised = error
        finally:
            if on_end is not None:
                on_end()
            writer.close()
            opened.notes.close()
    try:
        with trio.CancelScope(shield=True):  # close the store even in a cancelled program.
            # If a work slot is still set, the author's code is ending the process, so the stop isn't clean.
            clean = writer.unharmed and not opened.notes.at_work_left()
            await trio.to_thread.run_sync(partial(opened.close, clean=clean, now=clock.now()))
    finally:
        if writer.crash is not None and (raised is None or isinstance(raised, StoreError)):
            raise writer.crash
        if raised is not None:
            raise raised


@final
class Store(_Reads):
    """State that outlives the process.

    A method that writes returns once the write is durable. The `note_` methods return at once.

    Raises, from every method: StoreFullError: nothing of this call was stored; repeat the call once there is
    room. StoreCorruptError: the file is damaged, or its disk failed in the middle of a commit, which may or
    may not be stored. Every later call raises this error too; the program should stop. LocalProtocolError:
    one of the values can't be stored; nothing of this call was stored. StaleRowError: a payment has changed
    since the caller read the payment; nothing of this call was stored. LeaseLostError: another process has
    taken the store; nothing of this call was stored. JournalConflictError: a conversation has ended, or has
    changed since the caller read the conversation; nothing of this call was stored. RedeliveredError: the
    event of an `Accept` is in the store already; nothing of this call was stored. trio.ClosedResourceError:
    the store has been closed.

    Cancellation: an accepted write takes effect whether or not its caller still waits.

    Args:
        opening: facts about this process's use of the store.
        writer: runs functions on the tables.
        notes: facts that survive a kill of the process, but aren't in the tables yet.
        clock: the time of day.
        back_up: copies the store into a file.

    Attributes:
        read: calls a function with the tables; the function must change no row.
        payments, alarms, broadcasts, code: queries of payments, alarms, broadcasts and the author's code.
        held: returns the number of seconds for which the store will certainly still belong to this process.
            While the number is 0, the process must begin no work that other programs can observe. None: the
            store belongs to this process until the process ends.
        news: reports events that other processes have put into the inbox; None: no other process can put
            events there. With `news`, every event is stored before a chat handles the event, and chats read
            their events from the inbox, in the order of the rows.
        note_answered, note_consumed, statistics: methods of the writer; see `triobot.store.writer.Writer`.
        at_work: the work slots, the numbers of the conversations and events for which code runs now. Setting
            a slot never waits. The slots survive a kill of the process, but not a restart of the computer.
            After a kill, the next process finds the numbers in `Opening.at_work`.
    """

    def __init__(
        self,
        opening: Opening,
        writer: AnyWriter,
        notes: AnyNotes,
        clock: WallClock,
        *,
        back_up: Callable[[Path], Awaitable[None]],
        held: Held | None = None,
        news: News | None = None,
    ) -> None:
        self.held = held
        self.news = news
        self._opening = opening
        self._writer = writer
        self._notes = notes
        # These are attributes instead of methods, for speed: each event uses them, and sets `at_work` several
        # times.
        self.note_answered = writer.note_answered
        self.note_consumed = writer.note_consumed
        self.statistics = writer.statistics
        self.at_work: WorkSlots = notes.at_work
        self._clock = clock
        self._back_up = back_up
        super().__init__(self._read)
        self.payments = ReadPayments(self._read)
        self.alarms = ReadAlarms(self._read)
        self.broadcasts = ReadBroadcasts(self._read)
        self.code = ReadCode(self._read)

    async def _read(self, work: Callable[[Tables], R]) -> R:
        return await self._writer.do(AskedJob(work, writes=False))

    def accept(
        self,
        arrival: Arrival,
        *,
        quota: Quota,
        also: Sequence[Write] = (),
        beginning: Beginning | None = None,
        on_commit: Callable[[InboxRow], None] | None = None,
    ) -> Awaitable[Acceptance]:
        """Store an event, and the writes `also` in the same transaction.

        A redelivery is not stored. While the inbox is full, no event is stored.

        Args:
            beginning: starts a conversation with the event. Called only if the chat is at rest: no other
                event waits, the chat has no conversation, and the chat is not a group. The argument of
                `beginning` is a function that returns all data of the chat. The result of `beginning` is
                stored as `InboxRow.begun`. Called inside the transaction, before the row exists, possibly in
                another thread and several times. Must be fast; the result of the last call is used.
            on_commit: called after the row is durable, but before this call returns and before the row can be
                read. Called in the order of the rows' `seq`, even if the caller has stopped waiting. Must be
                fast and must not raise.
        """
        admit(arrival)
        if not also:
            return self._writer.do(Arriving(arrival, quota, beginning, on_commit))
        writes = admit_writes(also)

        def work(tables: Tables) -> Acceptance:
            return tables.accept(arrival, quota, writes, beginning)

        def announce(acceptance: Acceptance) -> None:
            if isinstance(acceptance, InboxRow):
                tell_moved(writes)
                if on_commit is not None:
                    on_commit(acceptance)

        return self._writer.do(AskedJob(work, writes=True, announce=announce))

    async def commit(self, *writes: Write) -> None:
        """Store all of these writes durably, or none."""
        admitted = admit_writes(writes)

        def work(tables: Tables) -> None:
            for write in admitted:
                tables.apply(write)

        moved = [write for write in admitted if isinstance(write, MovePayment)]

        def announce(_: None) -> None:
            tell_moved(moved)

        await self._writer.do(
            AskedJob(
                work,
                writes=True,
                announce=announce if moved else None,
                together=lambda tables: tables.apply_all(admitted),
            )
        )

    pending = _reads(_itself, Tables.pending)
    backlog = _reads(_itself, Tables.backlog)

    # --- conversations

    def opening(self) -> Opening:
        """Return facts about the use of the store by this process and by the previous process."""
        return self._opening

    conversations = _reads(_journals, JournalTables.conversations)
    journal = _reads(_journals, JournalTables.journal)
    unfinished = _reads(_journals, JournalTables.unfinished)
    due = _reads(_journals, JournalTables.due)
    next_wake = _reads(_journals, JournalTables.next_wake)
    parked = _reads(_journals, JournalTables.parked)
    all_conversations = _reads(_journals, JournalTables.every)
    unknown_effects = _reads(_journals, JournalTables.unknown_effects)

    async def forget(self, chat_id: ChatId) -> Forgotten:
        """Delete all data of a chat, and erase the deleted data from the file too.

        No conversation of the chat may be running: the next write of such a conversation raises
        JournalConflictError.
        """
        check_chat(chat_id)
        forgotten = await self._writer.do(AskedJob(lambda tables: tables.forget(chat_id), writes=True))
        self._notes.drop([key for key in self._notes.noted() if names_chat(key, chat_id)], ())
        await self._writer.erase_log()
        return forgotten

    async def backup(self, path: Path) -> None:
        """Copy the store into a new file, while other tasks go on writing.

        Raises:
            ConfigError: the file exists or can't be made, or this database has no backups of this kind.
        """
        await self._back_up(path)

    # --- small things

    setting = _reads(_itself, Tables.setting)
    data = _reads(_itself, Tables.data)
    keyed = _reads(_itself, Tables.keyed)
    raw = _reads(_itself, Tables.raw)

    async def check(self) -> None:
        """Write and fsync the current time. A success proves that the store is writable."""
        now = self._clock.now()
        await self._writer.do(AskedJob(lambda tables: tables.put_check(now), writes=True))

    def latencies(self) -> Mapping[str, Latencies]:
        """Return the latencies of batches, under the keys ``write`` and ``read``, without waiting;
        empty for a store in memory.
        """
        return self._writer.latencies()
