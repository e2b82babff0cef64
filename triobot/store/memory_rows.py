"""The rows of the engine that forgets. As `statements`, in dictionaries; nothing here waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final, final

import attrs

from ..jobs import AddReceivers, AdvanceBroadcast, DropBroadcast, OpenBroadcast, TurnBroadcast
from ..journals import Lease, Opening
from ..money import AcknowledgeAlarms, AlarmTold, PutPayment, RaiseAlarm
from ..seams import (
    WORK_SLOTS,
    Acceptance,
    Accepted,
    Acknowledge,
    Arrival,
    Beginning,
    ChatAtArrival,
    Consume,
    Forgotten,
    InboxRow,
    KeepRaw,
    PlainWrite,
    PutData,
    PutSetting,
    Quota,
    Redelivered,
    StoreStatistics,
    Write,
)
from ..wire.ids import ChatId, SenderId
from .admission import admit_begun, admit_writes
from .broadcast_memory import BroadcastMemory
from .deliveries import Delivery, cutoff, is_redelivery, names_chat
from .memory_journals import MemoryJournals
from .memory_money import MemoryMoney
from .money_admission import MONEY
from .moves import all_decided
from .retention import Retention
from .ring import overflows
from .tally import Tally

_SWEEP_EVERY: Final = 60 * 1000

_BROADCASTS: Final = (OpenBroadcast, AddReceivers, AdvanceBroadcast, TurnBroadcast, DropBroadcast)
_OTHERS: Final = (Consume, Acknowledge, KeepRaw, PutSetting, PutData, *_BROADCASTS, *MONEY)


@final
class MemoryRows:
    """All that a memory store holds; one store at a time."""

    def __init__(self) -> None:
        self._opening: Opening | None = None
        self._clean = True
        self._retention = Retention()
        self._tally = Tally()
        self.journals = MemoryJournals(self._tally)
        self.money = MemoryMoney()
        self.broadcasts = BroadcastMemory()
        self._last_seq = 0
        self._inbox: dict[int, InboxRow] = {}
        self._chats: dict[ChatId, dict[int, InboxRow]] = {}
        self._deliveries: dict[str, tuple[Arrival, Delivery]] = {}
        self._swept_at = 0
        self._first_senders: dict[ChatId, SenderId] = {}
        self._groups: set[ChatId] = set()
        self._raw: deque[KeepRaw] = deque()
        self._settings: dict[str, str] = {}
        self.at_work = [0] * WORK_SLOTS
        self._data: dict[ChatId, dict[str, str]] = {}

    def open(self, now: int, retention: Retention) -> Opening:
        """A run begins."""
        self._retention = retention
        before = self._opening
        if before is None:
            opening = Opening(boot=1, at=now)
        else:
            unclean = 0 if self._clean else before.unclean + 1
            noted = tuple(self.at_work) if unclean and any(self.at_work) else ()
            opening = Opening(before.boot + 1, now, unclean, before.at, at_work=noted)
        self._opening = opening
        self.at_work = [0] * WORK_SLOTS
        self._clean = False
        self._swept_at = now
        self.journals.lease = Lease(0, opening.boot)
        return opening

    def close(self) -> None:
        """The run has ended as it should."""
        self._clean = True

    def crashed(self) -> None:
        """Have the next run believe that this one, which was closed, had been killed."""
        self._clean = False

    def accept(
        self,
        arrival: Arrival,
        quota: Quota,
        also: Sequence[Write],
        taking: Callable[[InboxRow], Sequence[Write]] | None,
        beginning: Beginning | None,
        now: int,
    ) -> Acceptance:
        """Take an event in, unless it is here already or there is no room."""
        self._sweep(now)
        if is_redelivery(arrival, self._last_delivery(arrival.key)):
            return Redelivered()
        refusal = self._tally.refusal(arrival.chat_id, len(arrival.body), quota)
        if refusal is not None:
            return refusal
        seq = self._last_seq + 1
        others: list[PlainWrite] = []
        try:
            self._apply_journals(also, others)
            row = self._row_of(arrival, seq, beginning)
            if taking is not None:
                self._apply_journals(admit_writes(taking(row)), others)
        except BaseException:
            self._take_back()
            raise
        self._store(arrival, row)
        self._settle_with(others)
        return Accepted(row)

    def commit(self, writes: Sequence[Write], now: int) -> None:
        """Do all of these or none."""
        self._sweep(now)
        others: list[PlainWrite] = []
        try:
            self._apply_journals(writes, others)
        except BaseException:
            self._take_back()
            raise
        self._settle_with(others)

    def _apply_journals(self, writes: Sequence[Write], others: list[PlainWrite]) -> None:
        """Do what can fail first; the others can't, and neither sort sees what the other does."""
        for write in all_decided(writes, self.money.get, others):
            if isinstance(write, _OTHERS):
                others.append(write)
            else:
                self.journals.apply(write)
        self.money.check(others)

    def _take_back(self) -> None:
        self.journals.undo()
        self._tally.undo()

    def _settle_with(self, others: Sequence[PlainWrite]) -> None:
        for write in others:
            self._apply(write)
        self.journals.settle()
        self._tally.settle()

    def acknowledge(self, key: str) -> None:
        """The 200 of the last accepted delivery with this key was written."""
        known = self._deliveries.get(key)
        if known is not None:
            arrival, delivery = known
            self._deliveries[key] = (arrival, Delivery(delivery.at, acknowledged=True))

    def pending(self, chat_id: ChatId, after: int, limit: int) -> list[InboxRow]:
        """The chat's rows behind `after`, oldest first."""
        rows = (row for row in self._chats.get(chat_id, {}).values() if row.seq > after)
        return [self._as_now(row) for row in islice(rows, limit)]

    def backlog(self, after: int, limit: int) -> list[InboxRow]:
        """The rows of all chats behind `after`, oldest first."""
        # The inbox is in the order of `seq`, and what is consumed goes from its front.
        rows = (row for row in self._inbox.values() if row.seq > after)
        return [self._as_now(row) for row in islice(rows, limit)]

    def setting(self, name: str) -> str | None:
        """One setting."""
        return self._settings.get(name)

    def data(self, chat_id: ChatId) -> dict[str, str]:
        """All values of a chat."""
        return dict(self._data.get(chat_id, {}))

    def keyed(self, key: str, after: ChatId | None, limit: int) -> list[tuple[ChatId, str]]:
        """The chats that have a value under a key."""
        chats = sorted(chat for chat in self._data if after is None or chat > after)
        found = ((chat, self._data[chat][key]) for chat in chats if key in self._data[chat])
        return list(islice(found, limit))

    def raw(self, limit: int) -> list[KeepRaw]:
        """The newest unreadable requests, newest first."""
        return list(islice(reversed(self._raw), limit))

    def statistics(self) -> StoreStatistics:
        """Where the store stands."""
        return self._tally.statistics()

    def forget(self, chat_id: ChatId) -> Forgotten:
        """Delete everything of a chat."""
        seqs = list(self._chats.get(chat_id, {}))
        for seq in seqs:
            self._consume(seq)
        conversations, records = self.journals.forget(chat_id)
        values = len(self._data.pop(chat_id, {}))
        others = int(self._first_senders.pop(chat_id, None) is not None)
        self._groups.discard(chat_id)
        # Nobody could read those, so nobody knows whose they are: what names the chat goes.
        named = [kept for kept in self._raw if str(chat_id).encode() in kept.body]
        self._lose_raw(named)
        self._tally.settle()
        others += self.broadcasts.forget(chat_id)
        keys = [key for key in self._deliveries if names_chat(key, chat_id)]
        for key in keys:
            del self._deliveries[key]
        others += len(keys)
        return Forgotten(len(seqs), conversations, records, values, others + len(named))

    def _row_of(self, arrival: Arrival, seq: int, beginning: Beginning | None) -> InboxRow:
        first = self._first_senders.get(arrival.chat_id)
        another = arrival.sender_id is not None and first is not None and first != arrival.sender_id
        group, parked = another or arrival.chat_id in self._groups, self.journals.has(arrival.chat_id)
        begun = None
        if beginning is not None:
            waiting, data = self._tally.waiting(arrival.chat_id), partial(self.data, arrival.chat_id)
            begun = admit_begun(
                beginning(ChatAtArrival(waiting, parked, group, data, self.journals.position))
            )
        return InboxRow(
            seq, arrival.chat_id, arrival.at, arrival.content_type, arrival.body, group, parked, begun
        )

    def _store(self, arrival: Arrival, row: InboxRow) -> None:
        self._last_seq = row.seq
        if arrival.sender_id is not None:
            self._first_senders.setdefault(arrival.chat_id, arrival.sender_id)
        if row.group:
            self._groups.add(arrival.chat_id)
        self._inbox[row.seq] = row
        self._chats.setdefault(row.chat_id, {})[row.seq] = row
        self._tally.count_event(row.chat_id, len(row.body), sign=1)
        if arrival.key is not None:
            self._deliveries[arrival.key] = (arrival, Delivery(arrival.at, acknowledged=False))

    def _as_now(self, row: InboxRow) -> InboxRow:
        group, parked = row.chat_id in self._groups, self.journals.has(row.chat_id)
        same = row.group == group and row.parked == parked
        return row if same else attrs.evolve(row, group=group, parked=parked)

    def _apply(self, write: PlainWrite) -> None:
        match write:
            case Consume(seqs):
                for seq in seqs:
                    self._consume(seq)
            case Acknowledge(keys):
                for key in keys:
                    self.acknowledge(key)
            case KeepRaw():
                self._keep_raw(write)
            case PutSetting(name, value):
                self._settings[name] = value
            case PutData(chat_id, key, value):
                self._put_data(chat_id, key, value)
            case PutPayment() | RaiseAlarm() | AcknowledgeAlarms() | AlarmTold():
                self.money.apply(write)
            case OpenBroadcast() | AddReceivers() | AdvanceBroadcast() | TurnBroadcast() | DropBroadcast():
                self.broadcasts.apply(write)
            case _:
                self.journals.apply(write)

    def _put_data(self, chat_id: ChatId, key: str, value: str | None) -> None:
        values = self._data.setdefault(chat_id, {})
        if value is not None:
            values[key] = value
        else:
            values.pop(key, None)
        if not values:
            del self._data[chat_id]

    def _consume(self, seq: int) -> None:
        row = self._inbox.pop(seq, None)
        if row is None:
            return
        rows = self._chats[row.chat_id]
        del rows[seq]
        if not rows:
            del self._chats[row.chat_id]
        self._tally.count_event(row.chat_id, len(row.body), sign=-1)

    def _keep_raw(self, write: KeepRaw) -> None:
        self._raw.append(write)
        self._tally.add("raw", 1)
        self._tally.add("raw_bytes", len(write.body))
        while overflows(self._tally["raw"], self._tally["raw_bytes"]):
            self._tally.add("raw", -1)
            self._tally.add("raw_bytes", -len(self._raw.popleft().body))

    def _lose_raw(self, lost: Sequence[KeepRaw]) -> None:
        for kept in lost:
            self._raw.remove(kept)
            self._tally.add("raw", -1)
            self._tally.add("raw_bytes", -len(kept.body))

    def _last_delivery(self, key: str | None) -> Delivery | None:
        known = None if key is None else self._deliveries.get(key)
        return None if known is None else known[1]

    def _sweep(self, now: int) -> None:
        if abs(now - self._swept_at) < _SWEEP_EVERY:
            return
        self._swept_at = now
        old = cutoff(now)
        self._deliveries = {
            key: (arrival, delivery)
            for key, (arrival, delivery) in self._deliveries.items()
            if delivery.at >= (old.once if arrival.once else old.repeatable)
        }
        self._lose_raw([kept for kept in self._raw if kept.at < now - self._retention.raw])
        self.journals.drop_ended(now - self._retention.crashed)
        self._tally.settle()
