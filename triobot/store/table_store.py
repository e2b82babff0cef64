"""The store: one interface over a writer of any engine, and the tasks that serve it.

Other modules decide whether an arrival is a redelivery and whether the inbox has room (`rules`), how a
transaction fails (`writer`), and how a store is opened (`file` and others).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, final

import trio

from ..base.alarm_kinds import AlarmKind
from ..base.clock import WallClock
from ..errors import StoreError
from ..seams.broadcasts import BroadcastJob, Receiver, check_key
from ..seams.inbox import Acceptance, Arrival, Beginning, InboxRow, Quota
from ..seams.journals import ConversationId, ConversationRow, Journal, Lease, Opening, StoredCode
from ..seams.money import AlarmRow, MovePayment, PaymentMove, PaymentRow, PaymentTotal
from ..seams.writes import Forgotten, Held, KeepRaw, Latencies, News, WorkSlots, Write
from ..wire.ids import ChatId, InvoiceId, RefId
from ..wire.rules import check_integer
from .admission import (
    admit,
    admit_conversation,
    admit_page,
    admit_writes,
    check_chat,
    check_column,
)
from .file import FileStream
from .notes import AnyNotes
from .payment_rows import MoneyTables
from .rules import names_chat, tell_moved
from .statements import Tables
from .writer import Arriving, AskedJob, Served, Writer

if TYPE_CHECKING:
    from .inline import AnyWriter

R = TypeVar("R")


class Ask(Protocol):
    """Runs a function on the rows, and returns its result."""

    def __call__(self, work: Callable[[MoneyTables], R], /) -> Awaitable[R]: ...


@final
class ReadPayments:
    """Queries of a store's payments. Every method raises as `Store`."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def get(self, id: RefId) -> PaymentRow | None:
        """Return one payment; None if there is none."""
        return await self._ask(lambda money: money.get(id))

    async def of_invoice(self, invoice_id: InvoiceId) -> PaymentRow | None:
        """Return the payment of this invoice; None if there is none."""
        return await self._ask(lambda money: money.of_invoice(invoice_id))

    async def due(self, now: int, *, limit: int) -> Sequence[PaymentRow]:
        """List payments due by `now`: first the urgent payments by priority, then the other payments, longest
        due first.
        """
        check_integer("limit", limit, least=0)
        return await self._ask(lambda money: money.due(now, limit))

    async def next_due(self) -> int | None:
        """Return the earliest due time of all payments; None if no payment has a due time."""
        return await self._ask(lambda money: money.next_due())

    async def find(
        self,
        *,
        states: Sequence[str] = (),
        chat_id: ChatId | None = None,
        before: int | None = None,
        after: RefId | None = None,
        limit: int,
    ) -> Sequence[PaymentRow]:
        """List payments by id. The arguments restrict the list to some states, to one chat, or to payments
        made before `before`.

        Args:
            after: id of the last payment of the previous page.
        """
        check_integer("limit", limit, least=0)
        if chat_id is not None:
            check_chat(chat_id)
        return await self._ask(lambda money: money.find(states, chat_id, before, after, limit))

    async def counts(self) -> Mapping[str, int]:
        """Return the number of payments in each state."""
        return await self._ask(lambda money: money.counts())

    async def history(self, id: RefId) -> Sequence[PaymentMove]:
        """List the history of one payment, oldest first."""
        return await self._ask(lambda money: money.history(id))

    async def totals(self, *, since: int, until: int) -> Sequence[PaymentTotal]:
        """Sum up captured payments from `since` to before `until`, by day and group."""
        return await self._ask(lambda money: money.totals(since, until))


@final
class ReadAlarms:
    """Queries of a store's alarms. Every method raises as `Store`."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def open(
        self, *, told_before: int | None = None, kinds: Sequence[AlarmKind] = (), limit: int
    ) -> Sequence[AlarmRow]:
        """List alarms that are not acknowledged, oldest first.

        Args:
            told_before: leave out each alarm that the bot's alarm hook has got since this time. Of the kinds
                in `triobot.base.alarm_kinds.EVENTS`, also leave out each alarm that was not raised again
                after the hook got it.
            kinds: only these kinds; empty for all.
        """
        check_integer("limit", limit, least=0)
        return await self._ask(lambda money: money.open_alarms(told_before, kinds, limit))

    async def all(self, *, limit: int) -> Sequence[AlarmRow]:
        """List the newest alarms, acknowledged or not."""
        check_integer("limit", limit, least=0)
        return await self._ask(lambda money: money.all_alarms(limit))


class Opened(Served, Protocol):
    """An open store, to be served and then closed."""

    @property
    def opening(self) -> Opening:
        """Facts about this run and the previous run."""
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
    stream: FileStream | None = None,
) -> AsyncGenerator[Store, None]:
    """Serve an open store while the block runs, and close it.

    Args:
        held: as `Store.held`.
        on_loss: receives a function that a thread must call when another process has taken the store.
        on_end: called when the block has ended, before the remaining jobs are finished.
        news, stream: as in `Store`.

    Raises: the store's error, if the store breaks; the block is cancelled then.

    Cancellation: *forceful*: leaving the block always closes the store, after the jobs that were handed over.
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
        # An error of the block is raised again after the nursery, because the nursery would wrap the error in
        # a group.
        try:
            with body:
                yield Store(
                    opened.opening,
                    writer,
                    opened.notes,
                    clock,
                    back_up=back_up,
                    held=held,
                    news=news,
                    stream=stream,
                )
        except BaseException as error:
            raised = error
        finally:
            if on_end is not None:
                on_end()
            writer.close()
            opened.notes.close()
    try:
        with trio.CancelScope(shield=True):  # as in the writer: handed-over jobs are finished first
            # If code was still running at the end, that code has ended the process, and the stop isn't clean.
            clean = writer.unharmed and not opened.notes.at_work_left()
            await trio.to_thread.run_sync(partial(opened.close, clean=clean, now=clock.now()))
    finally:
        if writer.crash is not None and (raised is None or isinstance(raised, StoreError)):
            raise writer.crash
        if raised is not None:
            raise raised


@final
class Store:
    """State that outlives the process.

    Methods that write return once the write is durable. The `note_` methods return at once.

    Raises, from every method: StoreFullError: nothing of this call was stored; repeat the call once there is
    room. StoreCorruptError: the file is damaged, or its disk failed in the middle of a commit, which may or
    may not be stored. Every later call raises this error too; the program should stop. LocalProtocolError: a
    value that no engine can store; nothing of this call was stored. StaleRowError: a payment has changed
    since it was read; nothing of this call was stored. LeaseLostError: this process no longer has the lease
    of a write; nothing of this call was stored. JournalConflictError: a conversation has changed or ended
    since it was read; nothing of this call was stored. RedeliveredError: the event of an `Accept` is in the
    store already; nothing of this call was stored. trio.ClosedResourceError: the store has been closed.

    Cancellation: a write that has been handed over takes effect whether or not its caller still waits.

    Args:
        opening: facts about this run.
        writer: runs functions on the tables.
        notes: facts that outlive the process and aren't in the tables.
        clock: the time of day.
        back_up: copies the store into a file.

    Attributes:
        payments: queries of payments.
        alarms: queries of alarms.
        lease: lease for the writes of this process.
        held: returns the number of seconds for which the store will certainly still belong to this process.
            While the number is 0, the process must begin nothing that other programs notice. None: the store
            belongs to this process until the process ends.
        news: reports events that other processes have put into the inbox; None: no other process can put
            events there. With `news`, every event is stored before it is handled, and reaches its chat from
            the inbox, in the order of the rows.
        stream: sends the store's commits to a replica; None: this engine has no replicas.
        note_answered, note_consumed, statistics: methods of the writer; see `triobot.store.writer.Writer`.
        at_work: the work slots: numbers of the conversations or events whose code is running. Setting a slot
            never waits. The slots survive a kill of the process, but not a restart of the machine. The next
            run finds them in `Opening.at_work`.
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
        stream: FileStream | None = None,
    ) -> None:
        self.held = held
        self.news = news
        self.stream = stream
        self._opening = opening
        self.lease = Lease(opening.boot)
        self._writer = writer
        self._notes = notes
        # These are called for each event, and `at_work` is called several times for each event.
        self.note_answered = writer.note_answered
        self.note_consumed = writer.note_consumed
        self.statistics = writer.statistics
        self.at_work: WorkSlots = notes.at_work
        self._clock = clock
        self._back_up = back_up
        self.payments = ReadPayments(self._ask_money)
        self.alarms = ReadAlarms(self._ask_money)

    async def _ask_money(self, work: Callable[[MoneyTables], R]) -> R:
        return await self._read(lambda tables: work(tables.money))

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
        """Store an event, and `also` in the same transaction.

        A redelivery is not stored. While the inbox is full, no event is stored.

        Args:
            beginning: starts a conversation with the event. Called only if the chat is at rest: no other
                event waits, the chat has no conversation, and it is no group. The argument is a function that
                reads all data of the chat. The result is stored as `InboxRow.begun`. Called inside the
                transaction, before the row exists, maybe in another thread, maybe several times. Must be
                fast; only the last call counts.
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

    async def pending(self, chat_id: ChatId, *, after: int, limit: int) -> Sequence[InboxRow]:
        """Read the chat's inbox rows with a `seq` above `after`, in the order of acceptance."""
        admit_page(after, limit)
        return await self._read(lambda tables: tables.pending(chat_id, after, limit))

    async def backlog(self, *, after: int, limit: int) -> Sequence[InboxRow]:
        """Read the inbox rows of all chats with a `seq` above `after`, in the order of acceptance."""
        admit_page(after, limit)
        return await self._read(lambda tables: tables.backlog(after, limit))

    # --- conversations

    def opening(self) -> Opening:
        """Return facts about this run of the program and the previous run."""
        return self._opening

    async def conversations(self, chat_id: ChatId) -> Sequence[ConversationRow]:
        """Read the chat's conversations that have not ended, oldest first."""
        check_chat(chat_id)
        return await self._read(lambda tables: tables.journals.conversations(chat_id))

    async def crashed(self, chat_id: ChatId) -> Sequence[ConversationRow]:
        """Read the chat's ended conversations that are kept, such as crashed conversations, oldest first."""
        check_chat(chat_id)
        return await self._read(lambda tables: tables.journals.crashed(chat_id))

    async def journal(self, conversation: ConversationId) -> Journal | None:
        """Read all data of one conversation, even if it has ended and is kept; None if the store doesn't have
        it.
        """
        admit_conversation(conversation)
        return await self._read(lambda tables: tables.journals.journal(conversation))

    async def unfinished(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        """Read unfinished conversations with an id above `after`, oldest first. Parked conversations are left
        out.
        """
        admit_page(after, limit)
        return await self._read(lambda tables: tables.journals.unfinished(after, limit))

    async def due(
        self, now: int, *, after: tuple[int, int] = (-1, -1), limit: int
    ) -> Sequence[ConversationRow]:
        """Read conversations to be woken by `now`, earliest first. Parked conversations are left out.

        Args:
            after: (wake_at, id) of the last conversation of the previous page.
        """
        admit_page(now, limit)
        return await self._read(lambda tables: tables.journals.due(now, after, limit))

    async def next_wake(self, *, after: int = -1) -> int | None:
        """Return the earliest wake time later than `after`, except wake times of parked conversations."""
        return await self._read(lambda tables: tables.journals.next_wake(after))

    async def parked(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        """Read parked conversations with an id above `after`, oldest first."""
        admit_page(after, limit)
        return await self._read(lambda tables: tables.journals.parked(after, limit))

    async def all_conversations(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        """Read all conversations with an id above `after`, oldest first, including ended conversations that
        are kept.
        """
        admit_page(after, limit)
        return await self._read(lambda tables: tables.journals.every(after, limit))

    async def code(self) -> StoredCode:
        """Read the stored data about the code that wrote the journals, except the sources' texts."""
        return await self._read(lambda tables: tables.journals.code.code())

    async def source(self, digest: str) -> str | None:
        """Read the text of a source by its digest; None if the store doesn't have it."""
        return await self._read(lambda tables: tables.journals.code.source(digest))

    async def forget(self, chat_id: ChatId) -> Forgotten:
        """Delete all data of a chat, so that no trace of it stays in the file.

        No conversation of the chat may run: its next write raises JournalConflictError.
        """
        check_chat(chat_id)
        told = await self._writer.do(AskedJob(lambda tables: tables.forget(chat_id), writes=True))
        self._notes.drop([key for key in self._notes.noted() if names_chat(key, chat_id)], ())
        await self._writer.erase_log()
        return told

    async def backup(self, path: Path) -> None:
        """Copy the store into a new file, while other tasks go on writing.

        Raises:
            ConfigError: the file exists, or the engine has backup tools of its own.
        """
        await self._back_up(path)

    # --- small things

    async def unknown_effects(self) -> int:
        """Count the effects with an intent and no result, including effects in flight."""
        return await self._read(lambda tables: tables.journals.unknown_effects())

    async def setting(self, name: str) -> str | None:
        """Read a small fact of the whole store; None if it was never stored."""
        return await self._read(lambda tables: tables.setting(name))

    async def data(self, chat_id: ChatId) -> Mapping[str, str]:
        """Return all values of a chat, by key."""
        check_chat(chat_id)
        return await self._read(lambda tables: tables.data(chat_id))

    async def keyed(self, key: str, *, after: ChatId | None, limit: int) -> Sequence[tuple[ChatId, str]]:
        """Read the ids of chats with a value under `key`, each with the value. Only ids above `after` are
        read, in order.
        """
        check_column("key", key)
        admit_page(0, limit)
        return await self._read(lambda tables: tables.keyed(key, after, limit))

    async def broadcasts(self) -> Sequence[BroadcastJob]:
        """Read all broadcasts, in the order in which they were started."""
        return await self._read(lambda tables: tables.broadcasts.jobs())

    async def broadcast(self, key: str) -> BroadcastJob | None:
        """Read one broadcast; None if there is none."""
        check_key(key)
        return await self._read(lambda tables: tables.broadcasts.job(key))

    async def receivers(self, key: str, *, after: int, limit: int, gone: bool = False) -> Sequence[Receiver]:
        """Read receivers at positions above `after`. With `gone`, read the receivers that are gone; else,
        read the receivers without an outcome.
        """
        check_key(key)
        admit_page(after, limit)
        return await self._read(lambda tables: tables.broadcasts.receivers(key, after, limit, gone=gone))

    async def raw(self, *, limit: int) -> Sequence[KeepRaw]:
        """Read the newest unreadable requests, newest first."""
        admit_page(0, limit)
        return await self._read(lambda tables: tables.raw(limit))

    async def check(self) -> None:
        """Write and fsync the current time.

        A success proves that the store is writable. After a crash of the machine, it is known that the crash
        was later than the stored time.
        """
        now = self._clock.now()
        await self._writer.do(AskedJob(lambda tables: tables.note_alive(now), writes=True))

    def latencies(self) -> Mapping[str, Latencies]:
        """Return batch latencies by ``write`` and ``read``, without waiting; empty for a store in memory."""
        return self._writer.latencies()
