"""`triobot.seams.Store` over a writer, whichever database that has, and what serves it.

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

from ..alarm_kinds import AlarmKind
from ..errors import StoreError
from ..journals import ConversationId, ConversationRow, Journal, Lease, Opening
from ..money import AlarmRow, MovePayment, PaymentMove, PaymentRow, PaymentTotal
from ..seams import (
    Acceptance,
    Arrival,
    Beginning,
    BroadcastJob,
    Forgotten,
    Held,
    InboxRow,
    KeepRaw,
    Latencies,
    LogStream,
    Quota,
    Receiver,
    Relay,
    WallClock,
    WorkSlots,
    Write,
    check_key,
)
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
    """`triobot.money.PaymentRows` over the tables."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def get(self, id: RefId) -> PaymentRow | None:
        return await self._ask(lambda money: money.get(id))

    async def of_invoice(self, invoice_id: InvoiceId) -> PaymentRow | None:
        return await self._ask(lambda money: money.of_invoice(invoice_id))

    async def due(self, now: int, *, limit: int) -> Sequence[PaymentRow]:
        check_integer("limit", limit, least=0)
        return await self._ask(lambda money: money.due(now, limit))

    async def next_due(self) -> int | None:
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
        check_integer("limit", limit, least=0)
        if chat_id is not None:
            check_chat(chat_id)
        return await self._ask(lambda money: money.find(states, chat_id, before, after, limit))

    async def counts(self) -> Mapping[str, int]:
        return await self._ask(lambda money: money.counts())

    async def history(self, id: RefId) -> Sequence[PaymentMove]:
        return await self._ask(lambda money: money.history(id))

    async def totals(self, *, since: int, until: int) -> Sequence[PaymentTotal]:
        return await self._ask(lambda money: money.totals(since, until))


@final
class ReadAlarms:
    """`triobot.money.AlarmRows` over the tables."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def open(
        self, *, told_before: int | None = None, kinds: Sequence[AlarmKind] = (), limit: int
    ) -> Sequence[AlarmRow]:
        check_integer("limit", limit, least=0)
        return await self._ask(lambda money: money.open_alarms(told_before, kinds, limit))

    async def all(self, *, limit: int) -> Sequence[AlarmRow]:
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
    relay: Relay | None = None,
    stream: LogStream | None = None,
) -> AsyncGenerator[TableStore, None]:
    """Serve an open store for as long as the block runs, and close it.

    Args:
        held: as `triobot.seams.Store.held`.
        on_loss: is given what a thread is to call when another process has the store.
        on_end: called when the block has ended, before what was handed over is finished.
        relay, stream: as `triobot.seams.Store` has them.

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
                yield TableStore(
                    opened.opening,
                    writer,
                    opened.notes,
                    clock,
                    back_up=back_up,
                    held=held,
                    relay=relay,
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
class TableStore:
    """`triobot.seams.Store` over a writer.

    Args:
        opening: what is known of this run.
        writer: runs what is asked of the tables.
        notes: what outlives the process, and isn't in the tables.
        clock: the time of day.
        back_up: copies the store into a file.
        held, relay, stream: as `triobot.seams.Store` has them.
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
        relay: Relay | None = None,
        stream: LogStream | None = None,
    ) -> None:
        self.held = held
        self.relay = relay
        self.stream = stream
        self._opening = opening
        self._lease = Lease(0, opening.boot)
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
        admit_page(after, limit)
        return await self._read(lambda tables: tables.pending(chat_id, after, limit))

    async def backlog(self, *, after: int, limit: int) -> Sequence[InboxRow]:
        admit_page(after, limit)
        return await self._read(lambda tables: tables.backlog(after, limit))

    # --- conversations

    def opening(self) -> Opening:
        return self._opening

    def lease(self, chat_id: ChatId) -> Lease | None:
        return self._lease

    async def conversations(self, chat_id: ChatId) -> Sequence[ConversationRow]:
        check_chat(chat_id)
        return await self._read(lambda tables: tables.journals.conversations(chat_id))

    async def crashed(self, chat_id: ChatId) -> Sequence[ConversationRow]:
        check_chat(chat_id)
        return await self._read(lambda tables: tables.journals.crashed(chat_id))

    async def journal(self, conversation: ConversationId) -> Journal | None:
        admit_conversation(conversation)
        return await self._read(lambda tables: tables.journals.journal(conversation))

    async def unfinished(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        admit_page(after, limit)
        return await self._read(lambda tables: tables.journals.unfinished(after, limit))

    async def due(
        self, now: int, *, after: tuple[int, int] = (-1, -1), limit: int
    ) -> Sequence[ConversationRow]:
        admit_due(now, after, limit)
        return await self._read(lambda tables: tables.journals.due(now, after, limit))

    async def next_wake(self, *, after: int = -1) -> int | None:
        check_integer("after", after, least=-1)
        return await self._read(lambda tables: tables.journals.next_wake(after))

    async def parked(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        admit_page(after, limit)
        return await self._read(lambda tables: tables.journals.parked(after, limit))

    async def all_conversations(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        admit_page(after, limit)
        return await self._read(lambda tables: tables.journals.every(after, limit))

    async def forget(self, chat_id: ChatId) -> Forgotten:
        check_chat(chat_id)
        told = await self._writer.do(AskedJob(lambda tables: tables.forget(chat_id), writes=True))
        self._notes.drop([key for key in self._notes.noted() if names_chat(key, chat_id)], ())
        await self._writer.erase_log()
        return told

    async def backup(self, path: Path) -> None:
        await self._back_up(path)

    # --- small things

    async def unknown_effects(self) -> int:
        return await self._read(lambda tables: tables.journals.unknown_effects())

    async def setting(self, name: str) -> str | None:
        return await self._read(lambda tables: tables.setting(name))

    async def data(self, chat_id: ChatId) -> Mapping[str, str]:
        check_chat(chat_id)
        return await self._read(lambda tables: tables.data(chat_id))

    async def keyed(self, key: str, *, after: ChatId | None, limit: int) -> Sequence[tuple[ChatId, str]]:
        admit_keyed(key, after, limit)
        return await self._read(lambda tables: tables.keyed(key, after, limit))

    async def broadcasts(self) -> Sequence[BroadcastJob]:
        return await self._read(lambda tables: tables.broadcasts.jobs())

    async def broadcast(self, key: str) -> BroadcastJob | None:
        check_key(key)
        return await self._read(lambda tables: tables.broadcasts.job(key))

    async def receivers(self, key: str, *, after: int, limit: int, gone: bool = False) -> Sequence[Receiver]:
        admit_receivers(key, after, limit)
        return await self._read(lambda tables: tables.broadcasts.receivers(key, after, limit, gone=gone))

    async def raw(self, *, limit: int) -> Sequence[KeepRaw]:
        admit_page(0, limit)
        return await self._read(lambda tables: tables.raw(limit))

    async def check(self) -> None:
        now = self._clock.now()
        await self._writer.do(AskedJob(lambda tables: tables.note_alive(now), writes=True))

    def latencies(self) -> Mapping[str, Latencies]:
        return self._writer.latencies()
