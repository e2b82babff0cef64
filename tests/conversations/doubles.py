"""Stand-ins for the packages around the conversations: an outbox that is scripted, a store whose disk is.

The outbox keeps its protocol's promises (places in the lane), and nothing else. The store is the one in
memory; only what a disk can do to it is made up.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import outcome
import trio

from triobot.errors import ForbiddenError, StoreFullError
from triobot.seams.inbox import Acceptance, Arrival, InboxRow
from triobot.seams.journals import Opening
from triobot.seams.outbox import OnUnknown, Urgency
from triobot.seams.writes import Consume, PutData, Write
from triobot.store.journal_rows import JournalTables
from triobot.store.memory import MemoryRows
from triobot.store.payment_rows import MoneyTables
from triobot.store.statements import Tables
from triobot.store.table_store import ReadAlarms, ReadPayments
from triobot.wire.events import Press
from triobot.wire.ids import ChatId, InvoiceId
from triobot.wire.operations import (
    CreateInvoice,
    InquireInvoice,
    InquirePayment,
    Operation,
    SendMessage,
    VerifyInvoice,
    VerifyPayment,
)
from triobot.wire.results import InvoiceCreated, PaymentState, Sent

Wanted = Callable[[Operation[object]], bool]

EPOCH = 1_700_000_000_000
PAYMENTS = (VerifyInvoice, InquireInvoice, VerifyPayment, InquirePayment)


class FakeClock:
    """The time of day, which passes as Trio's time does until it is set."""

    def __init__(self) -> None:
        self._told: list[Callable[[], None]] = []
        self._set_by = 0

    def now(self) -> int:
        return EPOCH + int(trio.current_time() * 1000) + self._set_by

    def set(self, by: int) -> None:
        """Set it by so many milliseconds."""
        self._set_by += by
        for told in self._told:
            told()

    def when_set(self, told: Callable[[], None]) -> None:
        self._told.append(told)


@attrs.define(eq=False)
class Script:
    """What becomes of the operations that `wanted` says yes to."""

    wanted: Wanted
    outcome: object
    times: int | None = None
    gate: trio.Event | None = None

    def release(self) -> None:
        """Let what was held go on."""
        assert self.gate is not None
        self.gate.set()


class FakeOutbox:
    """Performs everything at once, in lanes, unless a script says otherwise.

    Attributes:
        called: the operations that were asked for, in that order.
        left: those that left, in that order.
        message_ids: the messages that arrived, with the ids they got.
        presses: what became of presses: ("taken" | "due" | "answered" | "refused", callback id, text).
        typing_now: how many typing blocks are open, by chat.
        latency: virtual seconds that each operation takes.
    """

    def __init__(self, latency: float = 0.0) -> None:
        self.called: list[Operation[object]] = []
        self.left: list[Operation[object]] = []
        self.message_ids: list[tuple[int, SendMessage]] = []
        self.urgencies: list[Urgency] = []
        self.on_unknown: list[OnUnknown] = []
        self.presses: list[tuple[str, str, str]] = []
        self.typing_now: dict[object, int] = {}
        self.dropped: list[object] = []
        self.latency = latency
        self._scripts: list[Script] = []
        self._lanes: dict[object, trio.StrictFIFOLock] = {}
        self._next_id = 1000
        self._open_presses: dict[str, float] = {}

    # --- scripts; the newest that fits decides

    def hold(self, wanted: Wanted = lambda _: True) -> Script:
        """Keep these in flight until `release`."""
        return self._script(Script(wanted, None, gate=trio.Event()))

    def fail(self, error: Exception, wanted: Wanted = lambda _: True, *, times: int | None = None) -> Script:
        """Answer these with an error."""
        return self._script(Script(wanted, error, times))

    def reply(self, result: object, wanted: Wanted, *, times: int | None = None) -> Script:
        """Answer these with this."""
        return self._script(Script(wanted, result, times))

    def forget(self, script: Script) -> None:
        """Do without this script from now on."""
        self._scripts.remove(script)

    def _script(self, script: Script) -> Script:
        self._scripts.append(script)
        return script

    # --- the protocol

    async def perform(
        self,
        operation: Operation[object],
        *,
        urgency: Urgency = Urgency.REPLY,
        on_unknown: OnUnknown = OnUnknown.RESEND,
        doubted: Callable[[], None] | None = None,
        recorded: trio.Event | None = None,
    ) -> object:
        self.called.append(operation)
        key = operation if isinstance(operation, PAYMENTS) else operation.chat_id
        lane = self._lanes.setdefault(key, trio.StrictFIFOLock())
        async with lane:
            self.left.append(operation)
            self.urgencies.append(urgency)
            self.on_unknown.append(on_unknown)
            script = self._script_of(operation)
            if script is not None and script.gate is not None:
                await script.gate.wait()
            await trio.sleep(self.latency)
            if script is None or script.gate is not None:
                return self._usual(operation)
            if isinstance(script.outcome, Exception):
                raise script.outcome
            return script.outcome

    def _script_of(self, operation: Operation[object]) -> Script | None:
        for script in reversed(self._scripts):
            if script.wanted(operation):
                if script.times is not None:
                    script.times -= 1
                    if script.times == 0:
                        self._scripts.remove(script)
                return script
        return None

    def _usual(self, operation: Operation[object]) -> object:
        self._next_id += 1
        if isinstance(operation, SendMessage):
            self.message_ids.append((self._next_id, operation))
            return Sent(operation.chat_id, self._next_id)
        if isinstance(operation, CreateInvoice):
            return InvoiceCreated(InvoiceId(f"inv{self._next_id}"))
        return PaymentState(False, None) if isinstance(operation, PAYMENTS) else None

    @contextmanager
    def typing(self, chat: object) -> Generator[None]:
        self.typing_now[chat] = self.typing_now.get(chat, 0) + 1
        try:
            yield
        finally:
            self.typing_now[chat] -= 1

    def press_taken(self, press: Press[object]) -> None:
        self.presses.append(("taken", press.callback_id, ""))
        self._open_presses[press.callback_id] = trio.current_time()

    def press_due(self, press: Press[object]) -> None:
        if self._open_presses.pop(press.callback_id, None) is not None:
            self.presses.append(("due", press.callback_id, ""))

    async def answer(self, press: Press[object], text: str, *, alert: bool) -> bool:
        await trio.lowlevel.checkpoint()
        taken = self._open_presses.pop(press.callback_id, None)
        if taken is None or trio.current_time() - taken > 1:
            return False
        self.presses.append(("alerted" if alert else "answered", press.callback_id, text))
        return True

    def refuse_press(self, press: Press[object], text: str) -> None:
        self.presses.append(("refused", press.callback_id, text))

    def drop(self, chat: object) -> None:
        self.dropped.append(chat)


class FakeStore:
    """The store in memory, with switches for what a disk can do, and a view of what it holds.

    Attributes:
        consumed: the rows that were consumed, in that order; a row may come twice.
        latency: virtual seconds that reads and commits take.
        commit_lag: virtual seconds between a row's commit, when others can read it, and `on_commit`.
        full: this many commits fail before one succeeds.
        reads: how often the inbox or what a chat keeps was read.
    """

    def __init__(self, *, latency: float = 0.0, commit_lag: float = 0.0) -> None:
        self.memory = MemoryRows()
        self.store = self.memory.open(FakeClock())
        self.began = self.store.opening()
        self.consumed: list[int] = []
        self.latency = latency
        self.commit_lag = commit_lag
        self.full = 0
        self.reads = 0
        self.payments = ReadPayments(self._ask_tables)
        self.alarms = ReadAlarms(self._ask_tables)
        self._accepts, self._commits = Behind(), Behind()

    def reopen(self, *, cleanly: bool) -> None:
        """As the next process finds it."""
        self.memory.close(FakeClock().now())
        if not cleanly:
            self.memory.crashed()
        self.store = self.memory.open(FakeClock())
        self.began = self.store.opening()

    # --- what it holds

    @property
    def rows(self) -> Inbox:
        return Inbox(self.memory.tables)

    @property
    def kept(self) -> KeptData:
        return KeptData(self.memory.tables)

    @property
    def journals(self) -> JournalTables:
        return self.memory.tables.journals

    @property
    def money(self) -> MoneyTables:
        return self.memory.tables.money

    def put(self, *writes: Write) -> None:
        """Store these, without any fault and at once."""
        for write in writes:
            self.memory.tables.apply(write)
        self.memory.tables.tally.settle()

    # --- the protocol

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)
        if not inspect.iscoroutinefunction(method):
            return method

        async def read(*args: object, **how: object) -> object:
            """Show what was there when it was asked for, and take its time."""
            self.reads += name in ("pending", "backlog", "data")
            answer = await method(*args, **how)
            await trio.sleep(self.disk_seconds())
            return answer

        return read

    def disk_seconds(self) -> float:
        """How long the disk takes now."""
        return self.latency

    def opening(self) -> Opening:
        return self.began

    async def accept(
        self,
        arrival: Arrival,
        *,
        on_commit: Callable[[InboxRow], None] | None = None,
        **how: Any,
    ) -> Acceptance:
        if not self.commit_lag and not self._accepts.busy:
            return await self.store.accept(arrival, on_commit=on_commit, **how)

        async def work() -> Acceptance:
            lag, accepted = self.commit_lag, await self.store.accept(arrival, **how)
            await trio.sleep(lag)
            if on_commit is not None and isinstance(accepted, InboxRow):
                on_commit(accepted)
            return accepted

        return await self._accepts.do(work)

    async def commit(self, *writes: Write) -> None:
        async def work() -> None:
            if self.full:
                self.full -= 1
                await trio.lowlevel.checkpoint()
                raise StoreFullError("the disk is full")
            await self.store.commit(*writes)
            for write in writes:
                if isinstance(write, Consume):
                    self.consumed.extend(write.seqs)

        seconds = self.disk_seconds()
        await (self._commits.do(work, seconds) if seconds or self._commits.busy else work())

    def note_consumed(self, seqs: Sequence[int]) -> bool:
        """A disk that is slow or full has no room for notes, either: then it is committed as everything."""
        if self.full or self.disk_seconds() or self._commits.busy or not self.store.note_consumed(seqs):
            return False
        self.consumed.extend(seqs)
        return True

    async def _ask_tables(self, work: Callable[[Tables], object]) -> object:
        answer = work(self.memory.tables)
        await trio.sleep(self.disk_seconds())
        return answer


class Behind:
    """Does what it is given, one after another; and does it, whether or not its caller goes on waiting."""

    def __init__(self) -> None:
        self._jobs = deque[tuple[float, Callable[[], Awaitable[object]], trio.Event, list[Any]]]()
        self.busy = False

    async def do(self, work: Callable[[], Awaitable[object]], seconds: float = 0.0) -> Any:
        """Have this done, not before so many seconds have passed; *atomic* until it was handed over."""
        await trio.lowlevel.checkpoint_if_cancelled()
        done, came = trio.Event(), list[outcome.Outcome[Any]]()
        self._jobs.append((trio.current_time() + seconds, work, done, came))
        if not self.busy:
            self.busy = True
            trio.lowlevel.spawn_system_task(self._run)
        await done.wait()
        return came[0].unwrap()

    async def _run(self) -> None:
        while self._jobs:
            at, work, done, came = self._jobs.popleft()
            await trio.sleep_until(at)
            try:
                came.append(outcome.Value(await work()))
            except Exception as error:
                came.append(outcome.Error(error))
            done.set()
        self.busy = False


class Inbox(MutableMapping[int, InboxRow]):
    """The rows that wait, by their number; a test may put others there."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def __getitem__(self, seq: int) -> InboxRow:
        for row in self._tables.backlog(after=seq - 1, limit=1):
            if row.seq == seq:
                return row
        raise KeyError(seq)

    def __setitem__(self, seq: int, row: InboxRow) -> None:
        self.pop(seq, None)
        self._tables._sql.execute(
            "INSERT INTO inbox (seq, chat_id, at, content_type, body, begun) VALUES (?, ?, ?, ?, ?, ?)",
            (seq, row.chat_id, row.at, row.content_type, row.body, row.begun),
        )
        self._tables.tally.count_event(row.chat_id, len(row.body), 0 if row.begun is None else seq)
        self._tables.tally.settle()

    def __delitem__(self, seq: int) -> None:
        self._tables.apply(Consume((seq,)))
        self._tables.tally.settle()

    def __iter__(self) -> Iterator[int]:
        return iter([row.seq for row in self._tables.backlog(after=-1, limit=-1)])

    def __len__(self) -> int:
        return self._tables.tally["inbox"]

    def __repr__(self) -> str:
        return repr(dict(self))


class KeptData(MutableMapping[tuple[ChatId, str], str]):
    """What the chats keep, by chat and key; a test may change it as others do."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def __getitem__(self, key: tuple[ChatId, str]) -> str:
        chat_id, name = key
        return self._tables.data(chat_id)[name]

    def __setitem__(self, key: tuple[ChatId, str], value: str) -> None:
        self._tables.apply(PutData(*key, value))

    def __delitem__(self, key: tuple[ChatId, str]) -> None:
        self._tables.apply(PutData(*key, None))

    def __iter__(self) -> Iterator[tuple[ChatId, str]]:
        return iter(self._tables._sql.execute("SELECT chat_id, key FROM data").fetchall())

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return repr(dict(self))


def forbidden(path: str = "sendMessage") -> ForbiddenError:
    """What the platform says of a chat that was left."""
    return ForbiddenError(path, 403)
