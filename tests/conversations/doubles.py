"""Stand-ins for the packages around the conversations: an outbox that is scripted, a store in a dictionary.

Both keep their protocol's promises (places in the lane, order of acceptance), and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import attrs
import trio

from triobot.errors import ForbiddenError, StoreFullError
from triobot.journals import (
    ConversationId,
    ConversationRow,
    Journal,
    JournalWrite,
    Lease,
    Opening,
)
from triobot.money import AcknowledgeAlarms, AlarmTold, PutPayment, RaiseAlarm
from triobot.seams import (
    Acceptance,
    Accepted,
    Arrival,
    Beginning,
    ChatAtArrival,
    Consume,
    InboxRow,
    OnUnknown,
    OverQuota,
    PutData,
    PutSetting,
    Quota,
    Redelivered,
    StoreStatistics,
    Urgency,
    Write,
)
from triobot.store.memory_money import MemoryMoney
from triobot.store.memory_rows import MemoryRows
from triobot.store.moves import all_decided, tell_moved
from triobot.store.reading import ReadAlarms, ReadPayments
from triobot.store.retention import RETENTION
from triobot.wire.events import Press
from triobot.wire.ids import ChatId, InvoiceId, SenderId
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
    """The time of day, which passes as Trio's time does."""

    def now(self) -> int:
        return EPOCH + int(trio.current_time() * 1000)


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

    @asynccontextmanager
    async def typing(self, chat: object) -> AsyncGenerator[None]:
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
    """An inbox in a dictionary, with settings.

    Attributes:
        consumed: the rows that were consumed, in that order; a row may come twice.
        latency: virtual seconds that reads and commits take.
        commit_lag: virtual seconds between a row's commit, when others can read it, and `on_commit`.
        full: this many commits fail before one succeeds.
    """

    def __init__(self, *, latency: float = 0.0, commit_lag: float = 0.0) -> None:
        self.rows: dict[int, InboxRow] = {}
        self.consumed: list[int] = []
        self.latency = latency
        self.commit_lag = commit_lag
        self.full = 0
        self.reads = 0
        self._seq = 0
        self._first_sender: dict[ChatId, SenderId] = {}
        self._groups: set[ChatId] = set()
        self._settings: dict[str, str] = {}
        self.kept: dict[tuple[ChatId, str], str] = {}
        self.money = MemoryMoney()
        self.payments = ReadPayments(self._ask_money)
        self.alarms = ReadAlarms(self._ask_money)
        self._writer = trio.StrictFIFOLock()
        # Journals are the memory engine's own: a double of them would be a second engine.
        self._memory = MemoryRows()
        self._opening = self._memory.open(EPOCH, RETENTION)
        self.journals = self._memory.journals
        self._once: set[str] = set()

    async def accept(
        self,
        arrival: Arrival,
        *,
        quota: Quota,
        also: Sequence[Write] = (),
        taking: Callable[[InboxRow], Sequence[Write]] | None = None,
        beginning: Beginning | None = None,
        on_commit: Callable[[InboxRow], None] | None = None,
    ) -> Acceptance:
        async with self._writer:
            if arrival.once and arrival.key in self._once:
                return Redelivered()
            waiting = sum(1 for row in self.rows.values() if row.chat_id == arrival.chat_id)
            if waiting >= quota.events_per_chat:
                return OverQuota(whole=False)
            if arrival.sender_id is not None:
                first = self._first_sender.setdefault(arrival.chat_id, arrival.sender_id)
                if first != arrival.sender_id:
                    self._groups.add(arrival.chat_id)
            self._seq += 1
            if arrival.once and arrival.key is not None:
                self._once.add(arrival.key)
            self._apply(also)
            group = arrival.chat_id in self._groups
            parked = bool(self.journals.conversations(arrival.chat_id))
            data = partial(self._of, arrival.chat_id)
            chat = ChatAtArrival(waiting, parked, group, data, self.journals.position)
            row = InboxRow(
                self._seq,
                arrival.chat_id,
                arrival.at,
                arrival.content_type,
                arrival.body,
                group,
                parked,
                None if beginning is None else beginning(chat),
            )
            self.rows[row.seq] = row
            if taking is not None:
                self._apply(taking(row))
            if self.commit_lag:
                with trio.CancelScope(shield=True):  # it takes effect whether or not anyone waits
                    await trio.sleep(self.commit_lag)
            if on_commit is not None:
                on_commit(row)
            return Accepted(row)

    async def commit(self, *writes: Write) -> None:
        await self._turn()
        if self.full:
            self.full -= 1
            raise StoreFullError("the disk is full")
        self._apply(writes)

    def _apply(self, asked: Sequence[Write]) -> None:
        writes = all_decided(asked, self.money.get)
        self.money.check(writes)
        journal = [write for write in writes if isinstance(write, JournalWrite)]
        if journal:
            self._memory.commit(journal, EPOCH + int(trio.current_time() * 1000))
        for write in writes:
            match write:
                case PutPayment() | RaiseAlarm() | AcknowledgeAlarms() | AlarmTold():
                    self.money.apply(write)
                case Consume(seqs):
                    self.consumed.extend(seqs)
                    for seq in seqs:
                        self.rows.pop(seq, None)
                case PutSetting(name, value):
                    self._settings[name] = value
                case PutData(chat_id, key, None):
                    self.kept.pop((chat_id, key), None)
                case PutData(chat_id, key, value):
                    self.kept[chat_id, key] = value
                case _:
                    pass
        tell_moved(asked)

    async def pending(self, chat_id: ChatId, *, after: int, limit: int) -> Sequence[InboxRow]:
        rows = [row for seq, row in self.rows.items() if row.chat_id == chat_id and seq > after][:limit]
        self.reads += 1
        await self._turn()
        return rows

    def _as_read(self, row: InboxRow) -> InboxRow:
        return attrs.evolve(row, parked=bool(self.journals.conversations(row.chat_id)))

    async def backlog(self, *, after: int, limit: int) -> Sequence[InboxRow]:
        rows = [self._as_read(row) for seq, row in self.rows.items() if seq > after][:limit]
        self.reads += 1
        await self._turn()
        return rows

    def opening(self) -> Opening:
        return self._opening

    def note_at_work(self, slot: int, number: int) -> None:
        self._memory.at_work[slot] = number

    def statistics(self) -> StoreStatistics:
        return self._memory.statistics()

    def lease(self, chat_id: ChatId) -> Lease | None:
        return Lease(0, self._opening.boot)

    async def conversations(self, chat_id: ChatId) -> Sequence[ConversationRow]:
        await self._turn()
        return self.journals.conversations(chat_id)

    async def journal(self, conversation: ConversationId) -> Journal | None:
        await self._turn()
        return self.journals.journal(conversation)

    async def unfinished(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        await self._turn()
        return self.journals.unfinished(after, limit)

    async def due(
        self, now: int, *, after: tuple[int, int] = (-1, -1), limit: int
    ) -> Sequence[ConversationRow]:
        await self._turn()
        return self.journals.due(now, after, limit)

    async def parked(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        await self._turn()
        return self.journals.parked(after, limit)

    async def all_conversations(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        await self._turn()
        return self.journals.every(after, limit)

    async def next_wake(self, *, after: int = -1) -> int | None:
        await self._turn()
        return self.journals.next_wake(after)

    def _of(self, chat_id: ChatId) -> dict[str, str]:
        return {key: value for (chat, key), value in self.kept.items() if chat == chat_id}

    async def data(self, chat_id: ChatId) -> dict[str, str]:
        kept = self._of(chat_id)
        self.reads += 1
        await self._turn()
        return kept

    async def keyed(self, key: str, *, after: ChatId | None, limit: int) -> Sequence[tuple[ChatId, str]]:
        found = [(chat, value) for (chat, name), value in sorted(self.kept.items()) if name == key]
        await self._turn()
        return [one for one in found if after is None or one[0] > after][:limit]

    async def unknown_effects(self) -> int:
        await self._turn()
        return self._memory.journals.unknown_effects()

    async def setting(self, name: str) -> str | None:
        await self._turn()
        return self._settings.get(name)

    async def _ask_money(self, work: Callable[[MemoryMoney], object]) -> object:
        await self._turn()
        return work(self.money)

    async def _turn(self) -> None:
        """A read shows what was there when it was asked for, and takes its time."""
        if self.latency:
            await trio.sleep(self.latency)
        else:
            await trio.lowlevel.checkpoint()


def forbidden(path: str = "sendMessage") -> ForbiddenError:
    """What the platform says of a chat that was left."""
    return ForbiddenError(path, 403)
