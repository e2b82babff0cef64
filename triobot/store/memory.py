"""The engine that forgets: for tests, and for bots that may be thrown away.

Same rules, same order, same errors for bad values as the others, and nothing survives the process. It
shares their pure parts; what differs is that a write is done the moment it is handed over. The rows are in
`memory_rows`, apart from the store, so that a test can close a store and open the next one on what it left.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar, final

import trio

from ..errors import ConfigError
from ..jobs import BroadcastJob, Receiver, check_key
from ..journals import ConversationId, ConversationRow, Journal, Lease, Opening
from ..seams import (
    Acceptance,
    Accepted,
    Arrival,
    Beginning,
    Forgotten,
    InboxRow,
    KeepRaw,
    Quota,
    Store,
    StoreStatistics,
    WallClock,
    Write,
)
from ..wire.ids import ChatId
from ..wire.rules import check_integer
from .admission import admit_arrival, admit_due, admit_keyed, admit_page, admit_receivers, admit_writes
from .columns import check_chat
from .journal_admission import admit_conversation
from .memory_rows import MemoryRows
from .moves import tell_moved
from .reading import Money, ReadAlarms, ReadPayments
from .retention import RETENTION, Retention

R = TypeVar("R")


@asynccontextmanager
async def open_memory(
    *, clock: WallClock, retention: Retention = RETENTION, rows: MemoryRows | None = None
) -> AsyncGenerator[Store, None]:
    """Open a store that lives as long as the block.

    Args:
        clock: the time of day.
        retention: how long what nothing needs any more is kept.
        rows: what a store before it left; otherwise it is empty.
    """
    await trio.lowlevel.checkpoint()
    rows = rows or MemoryRows()
    store = _MemoryStore(clock, rows, rows.open(clock.now(), retention))
    try:
        yield store
    finally:
        store.close()
        rows.close()


@final
class _MemoryStore:
    """`triobot.seams.Store` over rows in memory. Each method checkpoints first and then acts at once."""

    def __init__(self, clock: WallClock, rows: MemoryRows, opening: Opening) -> None:
        self._clock = clock
        self._rows = rows
        self._opening = opening
        self._closed = False
        self.payments = ReadPayments(self._ask_money)
        self.alarms = ReadAlarms(self._ask_money)

    async def _ask_money(self, work: Callable[[Money], R]) -> R:
        await self._turn()
        return work(self._rows.money)

    def close(self) -> None:
        self._closed = True

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
        admit_arrival(arrival)
        writes = admit_writes(also)
        await self._turn()
        answer = self._rows.accept(arrival, quota, writes, taking, beginning, self._clock.now())
        if isinstance(answer, Accepted):
            tell_moved(writes)
            if on_commit is not None:
                on_commit(answer.row)
        return answer

    async def commit(self, *writes: Write) -> None:
        admitted = admit_writes(writes)
        await self._turn()
        self._rows.commit(admitted, self._clock.now())
        tell_moved(admitted)

    def note_answered(self, key: str) -> None:
        self._rows.acknowledge(key)

    async def pending(self, chat_id: ChatId, *, after: int, limit: int) -> Sequence[InboxRow]:
        admit_page(after, limit)
        await self._turn()
        return self._rows.pending(chat_id, after, limit)

    async def backlog(self, *, after: int, limit: int) -> Sequence[InboxRow]:
        admit_page(after, limit)
        await self._turn()
        return self._rows.backlog(after, limit)

    # --- conversations

    def opening(self) -> Opening:
        return self._opening

    def lease(self, chat_id: ChatId) -> Lease | None:
        return Lease(0, self._opening.boot)

    async def conversations(self, chat_id: ChatId) -> Sequence[ConversationRow]:
        check_chat(chat_id)
        await self._turn()
        return self._rows.journals.conversations(chat_id)

    async def journal(self, conversation: ConversationId) -> Journal | None:
        admit_conversation(conversation)
        await self._turn()
        return self._rows.journals.journal(conversation)

    async def unfinished(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        admit_page(after, limit)
        await self._turn()
        return self._rows.journals.unfinished(after, limit)

    async def due(
        self, now: int, *, after: tuple[int, int] = (-1, -1), limit: int
    ) -> Sequence[ConversationRow]:
        admit_due(now, after, limit)
        await self._turn()
        return self._rows.journals.due(now, after, limit)

    async def next_wake(self, *, after: int = -1) -> int | None:
        check_integer("after", after, least=-1)
        await self._turn()
        return self._rows.journals.next_wake(after)

    async def parked(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        admit_page(after, limit)
        await self._turn()
        return self._rows.journals.parked(after, limit)

    async def all_conversations(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        admit_page(after, limit)
        await self._turn()
        return self._rows.journals.every(after, limit)

    async def forget(self, chat_id: ChatId) -> Forgotten:
        check_chat(chat_id)
        await self._turn()
        return self._rows.forget(chat_id)

    async def backup(self, path: Path) -> None:
        await self._turn()
        raise ConfigError("a store in memory can't be backed up; use one in a file")

    # --- small things

    async def unknown_effects(self) -> int:
        await self._turn()
        return self._rows.journals.unknown_effects()

    async def setting(self, name: str) -> str | None:
        await self._turn()
        return self._rows.setting(name)

    async def data(self, chat_id: ChatId) -> Mapping[str, str]:
        check_chat(chat_id)
        await self._turn()
        return self._rows.data(chat_id)

    async def keyed(self, key: str, *, after: ChatId | None, limit: int) -> Sequence[tuple[ChatId, str]]:
        admit_keyed(key, after, limit)
        await self._turn()
        return self._rows.keyed(key, after, limit)

    async def broadcasts(self) -> Sequence[BroadcastJob]:
        await self._turn()
        return self._rows.broadcasts.jobs()

    async def broadcast(self, key: str) -> BroadcastJob | None:
        check_key(key)
        await self._turn()
        return self._rows.broadcasts.job(key)

    async def receivers(self, key: str, *, after: int, limit: int, gone: bool = False) -> Sequence[Receiver]:
        admit_receivers(key, after, limit)
        await self._turn()
        return self._rows.broadcasts.receivers(key, after, limit, gone=gone)

    async def raw(self, *, limit: int) -> Sequence[KeepRaw]:
        admit_page(0, limit)
        await self._turn()
        return self._rows.raw(limit)

    async def check(self) -> None:
        await self._turn()

    def statistics(self) -> StoreStatistics:
        return self._rows.statistics()

    def note_at_work(self, slot: int, number: int) -> None:
        self._rows.at_work[slot] = number

    async def _turn(self) -> None:
        await trio.lowlevel.checkpoint()
        if self._closed:
            raise trio.ClosedResourceError("the store is closed")
