"""The engine that forgets: for tests, and for bots that may be thrown away.

Same rules, same order, same errors for bad values as the others, and nothing survives the process. It
shares their pure parts; what differs is that a write is done the moment it is handed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Final, assert_never, final

import attrs
import trio

from ..jobs import (
    AddReceivers,
    AdvanceBroadcast,
    BroadcastJob,
    DropBroadcast,
    OpenBroadcast,
    Receiver,
    TurnBroadcast,
    check_key,
)
from ..seams import (
    Acceptance,
    Accepted,
    Acknowledge,
    Arrival,
    Consume,
    InboxRow,
    Intent,
    KeepRaw,
    PutData,
    PutSetting,
    Quota,
    Redelivered,
    Settle,
    Store,
    StoreStatistics,
    WallClock,
    Write,
)
from ..wire.ids import ChatId, SenderId
from .admission import (
    admit_arrival,
    admit_chat,
    admit_keyed,
    admit_page,
    admit_receivers,
    admit_writes,
)
from .broadcast_memory import BroadcastMemory
from .deliveries import Delivery, cutoff, is_redelivery
from .ring import overflows
from .tally import Tally

_SWEEP_EVERY: Final = 60 * 1000


@asynccontextmanager
async def open_memory(*, clock: WallClock) -> AsyncGenerator[Store, None]:
    """Open an empty store that lives as long as the block.

    Args:
        clock: the time of day.
    """
    await trio.lowlevel.checkpoint()
    store = _MemoryStore(clock)
    try:
        yield store
    finally:
        store.close()


@final
class _MemoryStore:
    """`triobot.seams.Store` in dictionaries. Each method checkpoints first and then acts at once."""

    def __init__(self, clock: WallClock) -> None:
        self._clock = clock
        self._closed = False
        self._tally = Tally()
        self._last_seq = 0
        self._inbox: dict[int, InboxRow] = {}
        self._chats: dict[ChatId, dict[int, InboxRow]] = {}
        self._deliveries: dict[str, tuple[Arrival, Delivery]] = {}
        self._swept_at = clock.now()
        self._first_senders: dict[ChatId, SenderId] = {}
        self._groups: set[ChatId] = set()
        self._intents: dict[str, Intent] = {}
        self._raw: deque[KeepRaw] = deque()
        self._settings: dict[str, str] = {}
        self._data: dict[ChatId, dict[str, str]] = {}
        self._broadcasts = BroadcastMemory()

    def close(self) -> None:
        self._closed = True

    async def accept(
        self,
        arrival: Arrival,
        *,
        quota: Quota,
        also: Sequence[Write] = (),
        on_commit: Callable[[InboxRow], None] | None = None,
    ) -> Acceptance:
        admit_arrival(arrival)
        writes = admit_writes(also)
        await self._turn()
        self._forget_old_deliveries()
        if is_redelivery(arrival, self._last_delivery(arrival.key)):
            return Redelivered()
        refusal = self._tally.refusal(arrival.chat_id, len(arrival.body), quota)
        if refusal is not None:
            return refusal
        for write in writes:
            self._apply(write)
        row = self._store(arrival)
        self._tally.settle()
        if on_commit is not None:
            on_commit(row)
        return Accepted(row)

    async def commit(self, *writes: Write) -> None:
        admitted = admit_writes(writes)
        await self._turn()
        for write in admitted:
            self._apply(write)
        self._tally.settle()

    async def pending(self, chat_id: ChatId, *, after: int, limit: int) -> Sequence[InboxRow]:
        admit_page(after, limit)
        await self._turn()
        rows = (row for row in self._chats.get(chat_id, {}).values() if row.seq > after)
        return [self._as_now(row) for row in islice(rows, limit)]

    async def backlog(self, *, after: int, limit: int) -> Sequence[InboxRow]:
        admit_page(after, limit)
        await self._turn()
        # The inbox is in the order of `seq`, and what is consumed goes from its front.
        rows = (row for row in self._inbox.values() if row.seq > after)
        return [self._as_now(row) for row in islice(rows, limit)]

    async def intents(self) -> Sequence[Intent]:
        await self._turn()
        return list(self._intents.values())

    async def setting(self, name: str) -> str | None:
        await self._turn()
        return self._settings.get(name)

    async def data(self, chat_id: ChatId) -> Mapping[str, str]:
        admit_chat(chat_id)
        await self._turn()
        return dict(self._data.get(chat_id, {}))

    async def keyed(self, key: str, *, after: ChatId | None, limit: int) -> Sequence[tuple[ChatId, str]]:
        admit_keyed(key, after, limit)
        await self._turn()
        chats = sorted(chat for chat in self._data if after is None or chat > after)
        found = ((chat, self._data[chat][key]) for chat in chats if key in self._data[chat])
        return list(islice(found, limit))

    async def broadcasts(self) -> Sequence[BroadcastJob]:
        await self._turn()
        return self._broadcasts.jobs()

    async def broadcast(self, key: str) -> BroadcastJob | None:
        check_key(key)
        await self._turn()
        return self._broadcasts.job(key)

    async def receivers(self, key: str, *, after: int, limit: int, gone: bool = False) -> Sequence[Receiver]:
        admit_receivers(key, after, limit)
        await self._turn()
        return self._broadcasts.receivers(key, after, limit, gone=gone)

    async def raw(self, *, limit: int) -> Sequence[KeepRaw]:
        admit_page(0, limit)
        await self._turn()
        return list(islice(reversed(self._raw), limit))

    async def check(self) -> None:
        await self._turn()

    def statistics(self) -> StoreStatistics:
        return self._tally.statistics()

    async def _turn(self) -> None:
        await trio.lowlevel.checkpoint()
        if self._closed:
            raise trio.ClosedResourceError("the store is closed")

    def _store(self, arrival: Arrival) -> InboxRow:
        self._last_seq += 1
        self._note_sender(arrival)
        row = InboxRow(self._last_seq, arrival.chat_id, arrival.at, arrival.content_type, arrival.body)
        row = self._as_now(row)
        self._inbox[row.seq] = row
        self._chats.setdefault(row.chat_id, {})[row.seq] = row
        self._tally.count_event(row.chat_id, len(row.body), sign=1)
        if arrival.key is not None:
            self._deliveries[arrival.key] = (arrival, Delivery(arrival.at, acknowledged=False))
        return row

    def _note_sender(self, arrival: Arrival) -> None:
        if arrival.sender_id is not None:
            first = self._first_senders.setdefault(arrival.chat_id, arrival.sender_id)
            if first != arrival.sender_id:
                self._groups.add(arrival.chat_id)

    def _as_now(self, row: InboxRow) -> InboxRow:
        group = row.chat_id in self._groups
        return row if row.group == group else attrs.evolve(row, group=group)

    def _apply(self, write: Write) -> None:
        match write:
            case Consume(seqs):
                for seq in seqs:
                    self._consume(seq)
            case Acknowledge(keys):
                for key in keys:
                    self._acknowledge(key)
            case Intent():
                if write.id not in self._intents:
                    self._tally.add("intents", 1)
                self._intents[write.id] = write
            case Settle(ids):
                for id_ in ids:
                    if self._intents.pop(id_, None) is not None:
                        self._tally.add("intents", -1)
            case KeepRaw():
                self._keep_raw(write)
            case PutSetting(name, value):
                self._settings[name] = value
            case PutData(chat_id, key, value):
                self._put_data(chat_id, key, value)
            case OpenBroadcast() | AddReceivers() | AdvanceBroadcast() | TurnBroadcast() | DropBroadcast():
                self._broadcasts.apply(write)
            case _:
                assert_never(write)

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

    def _acknowledge(self, key: str) -> None:
        known = self._deliveries.get(key)
        if known is not None:
            arrival, delivery = known
            self._deliveries[key] = (arrival, Delivery(delivery.at, acknowledged=True))

    def _keep_raw(self, write: KeepRaw) -> None:
        self._raw.append(write)
        self._tally.add("raw", 1)
        self._tally.add("raw_bytes", len(write.body))
        while overflows(self._tally["raw"], self._tally["raw_bytes"]):
            self._tally.add("raw", -1)
            self._tally.add("raw_bytes", -len(self._raw.popleft().body))

    def _last_delivery(self, key: str | None) -> Delivery | None:
        known = None if key is None else self._deliveries.get(key)
        return None if known is None else known[1]

    def _forget_old_deliveries(self) -> None:
        now = self._clock.now()
        if abs(now - self._swept_at) < _SWEEP_EVERY:
            return
        self._swept_at = now
        old = cutoff(now)
        self._deliveries = {
            key: (arrival, delivery)
            for key, (arrival, delivery) in self._deliveries.items()
            if delivery.at >= (old.once if arrival.once else old.repeatable)
        }
