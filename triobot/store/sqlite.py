"""The default engine: one file, one connection, one writer, group commit.

`open_sqlite` owns the writer's nursery. What is decided elsewhere: when an arrival is a redelivery and what
there is room for (`rules`), how a transaction fails (`transactions`), how a file is opened (`file`).
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Final, Protocol, TypeVar, final

import trio

from ..alarm_kinds import AlarmKind
from ..errors import ConfigError, StoreError, StoreFullError
from ..journals import ConversationId, ConversationRow, Journal, Lease, Opening
from ..money import AlarmRow, MovePayment, PaymentMove, PaymentRow, PaymentTotal
from ..seams import (
    Acceptance,
    Arrival,
    Beginning,
    BroadcastJob,
    Forgotten,
    InboxRow,
    KeepRaw,
    Latencies,
    Quota,
    Receiver,
    Store,
    StoreStatistics,
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
from .backups import back_up_file, examine_file, restore_file
from .file import StoreFile, open_file
from .inline import AnyWriter
from .notes import AnyNotes
from .payment_rows import MoneyTables
from .rules import RETENTION, Retention, names_chat, tell_moved
from .schema import MIGRATIONS, Migration, Stamp
from .statements import Tables
from .writer import Arriving, AskedJob, Writer

_log: Final = logging.getLogger("triobot.store")

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


@asynccontextmanager
async def open_sqlite(
    path: str | PathLike[str],
    *,
    stamp: Stamp | None,
    clock: WallClock,
    migrations: Sequence[Migration] = MIGRATIONS,
    retention: Retention = RETENTION,
    any_filesystem: bool = False,
    visit: bool = False,
) -> AsyncGenerator[Store, None]:
    """Open the store in this file, making it if it isn't there, for as long as the block runs.

    What a method has returned from is on the disk, fsynced. The file, its log and its lock are readable by
    their owner only. On leaving the block, however it is left, whatever was handed over is finished first.

    If the disk fails in the middle of a commit, what reached it can't be known: the block is cancelled, and
    StoreCorruptError is raised from it. Open the store again, in a new process, to go on.

    Args:
        path: the file; its folder must exist.
        stamp: platform and bot; the store is bound to them when it is made. None: whosever it is; then it
            must be there.
        clock: the time of day.
        migrations: the schema; for tests.
        retention: how long what nothing needs any more is kept.
        any_filesystem: accept a network or user-space filesystem, whose promises are unchecked.
        visit: open it with a tool, not to run the bot: whether the bot stopped cleanly stays as it is.

    Raises:
        StoreLockedError: another process has it open. Names the file.
        StoreVersionError: a newer triobot made it, or an older one whose conversations this one can't read.
        StoreCorruptError: the file is damaged, or is no store; it was left alone.
        StoreFullError: there is no room to make it.
        ConfigError: it belongs to another platform or bot, or it can't be kept there.

    Cancellation: *forceful*: leaving closes the store in any case, after what was handed over.
    """
    file = await trio.to_thread.run_sync(
        partial(
            open_file,
            Path(path),
            stamp,
            migrations=migrations,
            any_filesystem=any_filesystem,
            now=clock.now(),
            retention=retention,
            visit=visit,
        )
    )
    body = trio.CancelScope()
    raised: BaseException | None = None
    writer = Writer(file, clock, body.cancel)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        # Kept until the writer has ended and raised again then: a nursery of ours is no reason for the
        # caller's errors to come back in a group.
        try:
            with body:
                yield SqliteStore(
                    file.opening,
                    writer,
                    file.notes,
                    clock,
                    back_up=partial(_back_up_open, file, clock),
                )
        except BaseException as error:
            raised = error
        finally:
            writer.close()
            file.notes.close()
    try:
        with trio.CancelScope(shield=True):  # as the writer: what was handed over is finished first
            await trio.to_thread.run_sync(partial(_close, file, clean=writer.unharmed, now=clock.now()))
    finally:
        if writer.crash is not None and (raised is None or isinstance(raised, StoreError)):
            raise writer.crash
        if raised is not None:
            raise raised


async def rebind_sqlite(path: str | PathLike[str], *, stamp: Stamp, clock: WallClock) -> None:
    """Bind a store to another platform address or token: after a token was replaced, or a platform moved.

    Nothing in the store is changed besides. Only one process at a time, as with `open_sqlite`.

    Raises: as `open_sqlite`, but for the stamp.
    """
    file = await trio.to_thread.run_sync(
        partial(
            open_file,
            Path(path),
            stamp,
            migrations=MIGRATIONS,
            any_filesystem=True,
            now=clock.now(),
            visit=True,
            rebind=True,
        )
    )
    with trio.CancelScope(shield=True):  # it is open: a file left open would keep its lock
        await trio.to_thread.run_sync(partial(_close, file, clean=True, now=clock.now()))


async def back_up_sqlite(path: str | PathLike[str], target: str | PathLike[str], *, clock: WallClock) -> None:
    """Copy a store that no program has open into a new file.

    Raises:
        ConfigError: there is no store, or `target` is there already.
        StoreLockedError: a program has it; ask that for a backup.
        StoreCorruptError: it is damaged.
    """
    await trio.to_thread.run_sync(back_up_file, Path(path), Path(target), clock.now())


async def restore_sqlite(
    backup: str | PathLike[str], path: str | PathLike[str], *, stamp: Stamp, clock: WallClock
) -> Path | None:
    """Make a backup the store at `path` again, in the next epoch; nothing is lost of the one before it.

    Returns: where that is kept now, or None if there was none.

    Raises:
        ConfigError: it is no backup, or another bot's.
        StoreLockedError: a program has the store or the backup.
        StoreVersionError: a newer triobot made it.
        StoreCorruptError: the backup is damaged, and nothing was changed.
    """
    return await trio.to_thread.run_sync(restore_file, Path(backup), Path(path), stamp, clock.now())


async def examine_sqlite(path: str | PathLike[str]) -> Sequence[str]:
    """Return what is wrong in a store, or a backup, that no program has open: lines for a person, or none.

    Raises: as `back_up_sqlite`.
    """
    return await trio.to_thread.run_sync(examine_file, Path(path))


def _close(file: StoreFile, *, clean: bool, now: int) -> None:
    try:
        file.close(clean=clean, now=now)
    except Exception as error:
        # Everything that was acknowledged is in the log, and the next start finds it there.
        _log.warning("the store %s could not be closed cleanly: %s", file.path, error)


def _let_others_write() -> None:
    """Sleep between two steps of a copy, long enough for the writer to have its turn; stop if cancelled."""
    trio.from_thread.check_cancelled()
    time.sleep(0.002)


async def _back_up_open(file: StoreFile, clock: WallClock, path: Path) -> None:
    try:
        await trio.to_thread.run_sync(partial(file.copy, path, clock.now(), between=_let_others_write))
    except FileExistsError:
        raise ConfigError(f"{path} is there already; name a new file") from None
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise ConfigError(f"the backup {path} can't be written: {error.strerror}") from error
    except (OSError, sqlite3.Error) as error:
        raise StoreFullError(f"the backup {path} could not be written: {error}") from error


@final
class SqliteStore:
    """`triobot.seams.Store` over a writer: of a file, or of a database in memory.

    Args:
        opening: what is known of this run.
        writer: runs what is asked of the tables.
        notes: what outlives the process, and isn't in the tables.
        clock: the time of day.
        back_up: copies the store into a file.
    """

    def __init__(
        self,
        opening: Opening,
        writer: AnyWriter,
        notes: AnyNotes,
        clock: WallClock,
        *,
        back_up: Callable[[Path], Awaitable[None]],
    ) -> None:
        self._opening = opening
        self._lease = Lease(0, opening.boot)
        self._writer = writer
        self._notes = notes
        # These are called for each event, the last several times.
        self.note_answered = writer.note_answered
        self.note_consumed = writer.note_consumed
        self.at_work: WorkSlots = notes.at_work
        self._clock = clock
        self._back_up = back_up
        self.payments = ReadPayments(self._ask_money)
        self.alarms = ReadAlarms(self._ask_money)

    async def _ask_money(self, work: Callable[[MoneyTables], R]) -> R:
        return await self._writer.ask(lambda tables: work(tables.money), writes=False)

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
        writes, now = admit_writes(also), self._clock.now()

        def work(tables: Tables) -> Acceptance:
            return tables.accept(arrival, quota, writes, beginning, now)

        def announce(acceptance: Acceptance) -> None:
            if isinstance(acceptance, InboxRow):
                tell_moved(writes)
                if on_commit is not None:
                    on_commit(acceptance)

        return self._writer.ask(
            work, writes=True, size=lambda: len(arrival.body) + size_of(writes), announce=announce
        )

    async def commit(self, *writes: Write) -> None:
        admitted = admit_writes(writes)
        now = self._clock.now()

        def work(tables: Tables) -> None:
            for write in admitted:
                tables.apply(write, now)

        moved = [write for write in admitted if isinstance(write, MovePayment)]

        def announce(_: None) -> None:
            tell_moved(moved)

        await self._writer.do(
            AskedJob(
                work,
                writes=True,
                size=lambda: size_of(admitted),
                announce=announce if moved else None,
                among_others=lambda tables: tables.apply_all(admitted, now),
            )
        )

    async def pending(self, chat_id: ChatId, *, after: int, limit: int) -> Sequence[InboxRow]:
        admit_page(after, limit)
        return await self._writer.ask(lambda tables: tables.pending(chat_id, after, limit), writes=False)

    async def backlog(self, *, after: int, limit: int) -> Sequence[InboxRow]:
        admit_page(after, limit)
        return await self._writer.ask(lambda tables: tables.backlog(after, limit), writes=False)

    # --- conversations

    def opening(self) -> Opening:
        return self._opening

    def lease(self, chat_id: ChatId) -> Lease | None:
        return self._lease

    async def conversations(self, chat_id: ChatId) -> Sequence[ConversationRow]:
        check_chat(chat_id)
        return await self._writer.ask(lambda tables: tables.journals.conversations(chat_id), writes=False)

    async def crashed(self, chat_id: ChatId) -> Sequence[ConversationRow]:
        check_chat(chat_id)
        return await self._writer.ask(lambda tables: tables.journals.crashed(chat_id), writes=False)

    async def journal(self, conversation: ConversationId) -> Journal | None:
        admit_conversation(conversation)
        return await self._writer.ask(lambda tables: tables.journals.journal(conversation), writes=False)

    async def unfinished(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        admit_page(after, limit)
        return await self._writer.ask(lambda tables: tables.journals.unfinished(after, limit), writes=False)

    async def due(
        self, now: int, *, after: tuple[int, int] = (-1, -1), limit: int
    ) -> Sequence[ConversationRow]:
        admit_due(now, after, limit)
        return await self._writer.ask(lambda tables: tables.journals.due(now, after, limit), writes=False)

    async def next_wake(self, *, after: int = -1) -> int | None:
        check_integer("after", after, least=-1)
        return await self._writer.ask(lambda tables: tables.journals.next_wake(after), writes=False)

    async def parked(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        admit_page(after, limit)
        return await self._writer.ask(lambda tables: tables.journals.parked(after, limit), writes=False)

    async def all_conversations(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        admit_page(after, limit)
        return await self._writer.ask(lambda tables: tables.journals.every(after, limit), writes=False)

    async def forget(self, chat_id: ChatId) -> Forgotten:
        check_chat(chat_id)
        told = await self._writer.ask(lambda tables: tables.forget(chat_id), writes=True)
        self._notes.drop([key for key in self._notes.noted() if names_chat(key, chat_id)], ())
        await self._writer.erase_log()
        return told

    async def backup(self, path: Path) -> None:
        await self._back_up(path)

    # --- small things

    async def unknown_effects(self) -> int:
        return await self._writer.ask(lambda tables: tables.journals.unknown_effects(), writes=False)

    async def setting(self, name: str) -> str | None:
        return await self._writer.ask(lambda tables: tables.setting(name), writes=False)

    async def data(self, chat_id: ChatId) -> Mapping[str, str]:
        check_chat(chat_id)
        return await self._writer.ask(lambda tables: tables.data(chat_id), writes=False)

    async def keyed(self, key: str, *, after: ChatId | None, limit: int) -> Sequence[tuple[ChatId, str]]:
        admit_keyed(key, after, limit)
        return await self._writer.ask(lambda tables: tables.keyed(key, after, limit), writes=False)

    async def broadcasts(self) -> Sequence[BroadcastJob]:
        return await self._writer.ask(lambda tables: tables.broadcasts.jobs(), writes=False)

    async def broadcast(self, key: str) -> BroadcastJob | None:
        check_key(key)
        return await self._writer.ask(lambda tables: tables.broadcasts.job(key), writes=False)

    async def receivers(self, key: str, *, after: int, limit: int, gone: bool = False) -> Sequence[Receiver]:
        admit_receivers(key, after, limit)
        return await self._writer.ask(
            lambda tables: tables.broadcasts.receivers(key, after, limit, gone=gone), writes=False
        )

    async def raw(self, *, limit: int) -> Sequence[KeepRaw]:
        admit_page(0, limit)
        return await self._writer.ask(lambda tables: tables.raw(limit), writes=False)

    async def check(self) -> None:
        now = self._clock.now()
        await self._writer.ask(lambda tables: tables.note_alive(now), writes=True)

    def statistics(self) -> StoreStatistics:
        return self._writer.statistics

    def latencies(self) -> Mapping[str, Latencies]:
        return self._writer.latencies()
