"""Cuts a process off as a kill does: the store stays as it was, and no request leaves any more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import final

import httpx
import trio

from ..jobs import BroadcastJob, Receiver
from ..journals import ConversationId, ConversationRow, Journal, Lease, Opening
from ..money import AlarmRows, PaymentRows
from ..seams import (
    Acceptance,
    Arrival,
    Beginning,
    Forgotten,
    InboxRow,
    KeepRaw,
    OverQuota,
    Quota,
    Store,
    StoreStatistics,
    Write,
)
from ..wire.ids import ChatId


@final
class Crashable:
    """One process's hold on the store and on the network; `die` lets go of both at once.

    While the process is torn down, it still acts as a killed one could not: its writes are dropped, its
    requests never leave.
    """

    def __init__(self) -> None:
        self.dead = False

    def die(self) -> None:
        """Let no write reach the store, and no request the network, from now on."""
        self.dead = True


@final
class CrashableTransport(httpx.AsyncBaseTransport):
    """Requests of a process that may die."""

    def __init__(self, inner: httpx.AsyncBaseTransport, mortal: Crashable) -> None:
        self._inner = inner
        self._mortal = mortal

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Carry one request, unless it is too late."""
        if self._mortal.dead:
            await trio.sleep_forever()
        return await self._inner.handle_async_request(request)


@final
class CrashableStore:
    """The store of a process that may die; the store itself lives on."""

    def __init__(self, inner: Store, mortal: Crashable) -> None:
        self._inner = inner
        self._mortal = mortal

    @property
    def payments(self) -> PaymentRows:
        return self._inner.payments

    @property
    def alarms(self) -> AlarmRows:
        return self._inner.alarms

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
        if self._mortal.dead:
            await trio.lowlevel.checkpoint()
            return OverQuota(whole=True)
        return await self._inner.accept(
            arrival, quota=quota, also=also, taking=taking, beginning=beginning, on_commit=on_commit
        )

    async def commit(self, *writes: Write) -> None:
        if self._mortal.dead:
            await trio.lowlevel.checkpoint()
            return
        await self._inner.commit(*writes)

    def note_answered(self, key: str) -> None:
        if not self._mortal.dead:
            self._inner.note_answered(key)

    def note_at_work(self, slot: int, number: int) -> None:
        if not self._mortal.dead:
            self._inner.note_at_work(slot, number)

    async def pending(self, chat_id: ChatId, *, after: int, limit: int) -> Sequence[InboxRow]:
        return await self._inner.pending(chat_id, after=after, limit=limit)

    async def backlog(self, *, after: int, limit: int) -> Sequence[InboxRow]:
        return await self._inner.backlog(after=after, limit=limit)

    def opening(self) -> Opening:
        return self._inner.opening()

    def lease(self, chat_id: ChatId) -> Lease | None:
        return self._inner.lease(chat_id)

    async def conversations(self, chat_id: ChatId) -> Sequence[ConversationRow]:
        return await self._inner.conversations(chat_id)

    async def journal(self, conversation: ConversationId) -> Journal | None:
        return await self._inner.journal(conversation)

    async def unfinished(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        return await self._inner.unfinished(after=after, limit=limit)

    async def due(
        self, now: int, *, after: tuple[int, int] = (-1, -1), limit: int
    ) -> Sequence[ConversationRow]:
        return await self._inner.due(now, after=after, limit=limit)

    async def next_wake(self, *, after: int = -1) -> int | None:
        return await self._inner.next_wake(after=after)

    async def parked(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        return await self._inner.parked(after=after, limit=limit)

    async def all_conversations(self, *, after: int, limit: int) -> Sequence[ConversationRow]:
        return await self._inner.all_conversations(after=after, limit=limit)

    async def forget(self, chat_id: ChatId) -> Forgotten:
        if self._mortal.dead:
            await trio.sleep_forever()
        return await self._inner.forget(chat_id)

    async def backup(self, path: Path) -> None:
        await self._inner.backup(path)

    async def unknown_effects(self) -> int:
        return await self._inner.unknown_effects()

    async def setting(self, name: str) -> str | None:
        return await self._inner.setting(name)

    async def data(self, chat_id: ChatId) -> Mapping[str, str]:
        return await self._inner.data(chat_id)

    async def broadcasts(self) -> Sequence[BroadcastJob]:
        return await self._inner.broadcasts()

    async def broadcast(self, key: str) -> BroadcastJob | None:
        return await self._inner.broadcast(key)

    async def receivers(self, key: str, *, after: int, limit: int, gone: bool = False) -> Sequence[Receiver]:
        return await self._inner.receivers(key, after=after, limit=limit, gone=gone)

    async def keyed(self, key: str, *, after: ChatId | None, limit: int) -> Sequence[tuple[ChatId, str]]:
        return await self._inner.keyed(key, after=after, limit=limit)

    async def raw(self, *, limit: int) -> Sequence[KeepRaw]:
        return await self._inner.raw(limit=limit)

    async def check(self) -> None:
        await self._inner.check()

    def statistics(self) -> StoreStatistics:
        return self._inner.statistics()
