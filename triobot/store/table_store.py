"""The store, over a writer, whichever database that has; and what serves it.

What is decided elsewhere: when an arrival is a redelivery and what there is room for (`rules`), how a
transaction fails (`writer`), how a store is opened (`file` and others).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar, final

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
    admit_arrival,
    admit_conversation,
    admit_due,
    admit_keyed,
    admit_page,
    admit_receivers,
    admit_writes,
    check_chat,
    size_of,
)
from .file import FileStream
from .inline import AnyWriter
from .notes import AnyNotes
from .payment_rows import MoneyTables
from .rules import names_chat, tell_moved
from .statements import Tables
from .writer import Arriving, AskedJob, Served, Writer

R = TypeVar("R")


class Ask(Protocol):
    """Has a function run on the rows, and returns its result."""

    def __call__(self, work: Callable[[MoneyTables], R], /) -> Awaitable[R]: ...


@final
class ReadPayments:
    """What can be asked of the payments in a store. Raises as `Store`."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def get(self, id: RefId) -> PaymentRow | None:
        """Read one payment; None if there is none."""
        return await self._ask(lambda money: money.get(id))

    async def of_invoice(self, invoice_id: InvoiceId) -> PaymentRow | None:
        """Read the payment of this invoice; None if there is none."""
        return await self._ask(lambda money: money.of_invoice(invoice_id))

    async def due(self, now: int, *, limit: int) -> Sequence[PaymentRow]:
        """List what has to be looked at by now: the urgent first, then what has waited longest."""
        check_integer("limit", limit, least=0)
        return await self._ask(lambda money: money.due(now, limit))

    async def next_due(self) -> int | None:
        """Return the moment at which the next payment has to be looked at; None if none has."""
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
        """List payments by the order of their ids: in these states, of this chat, made before a moment."""
        check_integer("limit", limit, least=0)
        if chat_id is not None:
            check_chat(chat_id)
        return await self._ask(lambda money: money.find(states, chat_id, before, after, limit))

    async def counts(self) -> Mapping[str, int]:
        """Count them by state."""
        return await self._ask(lambda money: money.counts())

    async def history(self, id: RefId) -> Sequence[PaymentMove]:
        """List what happened to one, oldest first."""
        return await self._ask(lambda money: money.history(id))

    async def totals(self, *, since: int, until: int) -> Sequence[PaymentTotal]:
        """Add up what was captured from `since` to before `until`, by day and group."""
        return await self._ask(lambda money: money.totals(since, until))


@final
class ReadAlarms:
    """What can be asked of the alarms in a store. Raises as `Store`."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def open(
        self, *, told_before: int | None = None, kinds: Sequence[AlarmKind] = (), limit: int
    ) -> Sequence[AlarmRow]:
        """List those not acknowledged, oldest first.

        Args:
            told_before: only those not told since then, and of `triobot.base.alarm_kinds.EVENTS` only
                those that were raised again since they were told.
            kinds: only these; empty for all.
        """
        check_integer("limit", limit, least=0)
        return await self._ask(lambda money: money.open_alarms(told_before, kinds, limit))

    async def all(self, *, limit: int) -> Sequence[AlarmRow]:
        """List the newest, acknowledged or not."""
        check_integer("limit", limit, least=0)
        return await self._ask(lambda money: money.all_alarms(limit))


class Opened(Served, Protocol):
    """An open store, to be served and then closed."""

    @property
    def opening(self) -> Opening:
        """Return what is known of this run and of the one before."""
        ...

    def close(self, *, clean: bool, now: int) -> None:
        """Close it and let the next process in, in any thread; raises nothing.

        Args:
            clean: all that was handed over has been done, and the connection can be used.
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
    """Serve an open store for as long as the block runs, and close it.

    Args:
        held: as `Store.held`.
        on_loss: is given what a thread is to call when another process has the store.
        on_end: called when the block has ended, before what was handed over is finished.
        news, stream: as `Store` has them.

    Raises: from the block, which is cancelled, why the store can't go on, if it breaks.

    Cancellation: *forceful*: leaving closes the store in any case, after what was handed over.
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
        # Kept until the writer has ended and raised again then: a nursery of ours is no reason for the
        # caller's errors to come back in a group.
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
        with trio.CancelScope(shield=True):  # as the writer: what was handed over is finished first
            # Whose code was at work at the end has ended the process, which is no clean end.
            clean = writer.unharmed and not opened.notes.at_work_left()
            await trio.to_thread.run_sync(partial(opened.close, clean=clean, now=clock.now()))
    finally:
        if writer.crash is not None and (raised is None or isinstance(raised, StoreError)):
            raise writer.crash
        if raised is not None:
            raise raised


@final
class Store:
    """What outlives the process. What writes returns when the write is durable; what notes, at once.

    Raises, from every method:
        StoreFullError: nothing of this call was stored; repeat it once there is room.
        StoreCorruptError: the file is damaged, or its disk failed in the middle of a commit, which may or
            may not be stored then. Every later call raises it too: the program should stop.
        LocalProtocolError: a value that no engine can hold; nothing of this call was stored.
        StaleRowError: a payment has moved since it was read; nothing of this call was stored.
        LeaseLostError: a write under a lease that this process doesn't hold; nothing of this call was stored.
        JournalConflictError: a conversation isn't where the writer believes; nothing of this call was stored.
        RedeliveredError: an event of an `Accept` is here already; nothing of this call was stored.
        trio.ClosedResourceError: the store has been closed.

    Cancellation: a write that has been handed over takes effect whether or not anyone still waits for it.

    Args:
        opening: what is known of this run.
        writer: runs what is asked of the tables.
        notes: what outlives the process, and isn't in the tables.
        clock: the time of day.
        back_up: copies the store into a file.

    Attributes:
        payments: what was asked for, and how far it got.
        alarms: what an operator should know.
        lease: under which this process writes.
        held: tells for how long this process has the store for certain: while it has not, nothing may begin
            that others see. None: it has it for as long as it lives.
        news: tells of events that were put into the inbox; None: only this process puts any in. If there is
            one, each event is in the inbox before it is handled, and comes to its chat from there, in the
            order of the rows.
        stream: sends the store to a replica as it is committed; None: this engine can't.
        note_answered, note_consumed, statistics: the writer's own.
        at_work: where to note what is at work; setting one of `WORK_SLOTS` never waits. It outlives the
            process, and only that: `Opening.at_work` of the next run has it after a kill.
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
        # These are called for each event, the last several times.
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
        """Store an event, with `also` in the same transaction, unless it is here or there is no room.

        `beginning` lets something begin with the event, if its chat is at rest: no other event of it waits,
        it has no conversation and is no group. It gets what reads all that the chat keeps, and returns
        `InboxRow.begun`. It is called before the row is there, inside the transaction, maybe in another
        thread, maybe more than once: it must be quick, and only the last call counts.

        `on_commit` is called once the row is durable, in the order of the rows' `seq`, before this returns
        and before the row can be read, even when the caller waits no more. It must be quick and must not
        raise.
        """
        admit_arrival(arrival)
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

        return self._writer.do(
            AskedJob(
                work,
                writes=True,
                size=lambda: len(arrival.body) + size_of(writes),
                announce=announce,
                brings=[arrival, *writes],
            )
        )

    async def commit(self, *writes: Write) -> None:
        """Store all of these or none, durably."""
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
                size=lambda: size_of(admitted),
                announce=announce if moved else None,
                together=lambda tables: tables.apply_all(admitted),
                brings=admitted,
            )
        )

    async def pending(self, chat_id: ChatId, *, after: int, limit: int) -> Sequence[InboxRow]:
        """Read the chat's rows behind `after`, in the order of acceptance."""
        admit_page(after, limit)
        return await self._read(lambda tables: tables.pending(chat_id, after, limit))

    async def backlog(self, *, after: int, limit: int) -> Sequence[InboxRow]:
        """Read the rows of all chats behind `after`, in the order of acceptance."""
        admit_page(after, limit)
        return await self._read(lambda tables: tables.backlog(after, limit))

    # --- conversations

    def opening(self) -> Opening:
        """Return what is known of this run of the program and of the one before."""
        return self._opening

    async def conversations(self, chat_id: ChatId) -> Sequence[ConversationRow]:
        """Read the chat's conversations that have not ended, oldest first."""
        check_chat(chat_id)
        return await self._read(lambda tables: tables.journals.conversations(chat_id))

    async def crashed(self, chat_id: ChatId) -> Sequence[ConversationRow]:
        """Read the chat's conversations that crashed and are kept, oldest first."""
        check_chat(chat_id)
        return await self._read(lambda tables: tables.journals.crashed(chat_id))

    async def journal(self, conversation: ConversationId) -> Journal | None:
        """Read everything of one conversation, ended and kept ones too; None if there is none."""
        admit_conversation(conversation)
        return await self._read(lambda tables: tables.journals.journal(conversation))

    async def unfinished(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        """Read the conversations behind the id `after` that were at work, oldest first; none parked."""
        admit_page(after, limit)
        return await self._read(lambda tables: tables.journals.unfinished(after, limit))

    async def due(
        self, now: int, *, after: tuple[int, int] = (-1, -1), limit: int
    ) -> Sequence[ConversationRow]:
        """Read the conversations to be woken by `now`, earliest first; none parked.

        Args:
            after: (wake_at, id) of the last one of the page before.
        """
        admit_due(now, after, limit)
        return await self._read(lambda tables: tables.journals.due(now, after, limit))

    async def next_wake(self, *, after: int = -1) -> int | None:
        """Return the earliest wake time later than `after` of those that aren't parked."""
        check_integer("after", after, least=-1)
        return await self._read(lambda tables: tables.journals.next_wake(after))

    async def parked(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        """Read the parked conversations behind the id `after`, oldest first."""
        admit_page(after, limit)
        return await self._read(lambda tables: tables.journals.parked(after, limit))

    async def all_conversations(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        """Read all conversations behind the id `after`, ended and kept ones too, oldest first."""
        admit_page(after, limit)
        return await self._read(lambda tables: tables.journals.every(after, limit))

    async def code(self) -> StoredCode:
        """Read what is known of the code whose journals are here, but for the texts."""
        return await self._read(lambda tables: tables.journals.code.code())

    async def source(self, digest: str) -> str | None:
        """Read a source's text by its digest; None if it isn't here."""
        return await self._read(lambda tables: tables.journals.code.source(digest))

    async def forget(self, chat_id: ChatId) -> Forgotten:
        """Delete everything of a chat, so that no trace of it stays in the file.

        Nothing of it may be running: what it would write then raises JournalConflictError.
        """
        check_chat(chat_id)
        told = await self._writer.do(AskedJob(lambda tables: tables.forget(chat_id), writes=True))
        self._notes.drop([key for key in self._notes.noted() if names_chat(key, chat_id)], ())
        await self._writer.erase_log()
        return told

    async def backup(self, path: Path) -> None:
        """Copy the store as it is into a new file, while others go on writing.

        Raises:
            ConfigError: the file is there already, or this engine has tools of its own for that.
        """
        await self._back_up(path)

    # --- small things

    async def unknown_effects(self) -> int:
        """Count the effects with an intent whose outcome is not known, those in flight included."""
        return await self._read(lambda tables: tables.journals.unknown_effects())

    async def setting(self, name: str) -> str | None:
        """Read a small fact of this store; None if it was never put."""
        return await self._read(lambda tables: tables.setting(name))

    async def data(self, chat_id: ChatId) -> Mapping[str, str]:
        """Read all values of a chat, by key."""
        check_chat(chat_id)
        return await self._read(lambda tables: tables.data(chat_id))

    async def keyed(self, key: str, *, after: ChatId | None, limit: int) -> Sequence[tuple[ChatId, str]]:
        """Read the chats behind `after` with a value under this key, and the value, by growing chat id."""
        admit_keyed(key, after, limit)
        return await self._read(lambda tables: tables.keyed(key, after, limit))

    async def broadcasts(self) -> Sequence[BroadcastJob]:
        """Read all broadcasts, in the order in which they were started."""
        return await self._read(lambda tables: tables.broadcasts.jobs())

    async def broadcast(self, key: str) -> BroadcastJob | None:
        """Read one broadcast; None if there is none."""
        check_key(key)
        return await self._read(lambda tables: tables.broadcasts.job(key))

    async def receivers(self, key: str, *, after: int, limit: int, gone: bool = False) -> Sequence[Receiver]:
        """Read a broadcast's receivers behind a position: those without an outcome, or those who are gone."""
        admit_receivers(key, after, limit)
        return await self._read(lambda tables: tables.broadcasts.receivers(key, after, limit, gone=gone))

    async def raw(self, *, limit: int) -> Sequence[KeepRaw]:
        """Read the newest unreadable requests."""
        admit_page(0, limit)
        return await self._read(lambda tables: tables.raw(limit))

    async def check(self) -> None:
        """Write and fsync the time: it shows that the store still can, and until when the machine was up."""
        now = self._clock.now()
        await self._writer.do(AskedJob(lambda tables: tables.note_alive(now), writes=True))

    def latencies(self) -> Mapping[str, Latencies]:
        """Return how fast it is, by ``write`` and ``read``, without waiting; empty for one in memory."""
        return self._writer.latencies()
