"""Hands each event to the inbox of its shard, be it in this process or in another.

An event is handed on once: whoever gets it from another process takes it itself, or says that it can't. While
a shard has no owner, or that doesn't answer, its events are held, those of a chat one behind the other, for
two seconds at most each. Then they are answered 503, which promises nothing. So are those at once that come
when too many are held already.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Protocol, final

import attrs
import trio

from ..errors import RemoteProtocolError, StoreError
from ..shards import shard_of
from ..webhook.inbox import EventStored, Inbox, Outcome, Unreached, Unwritable
from ..wire.decode import decode_event
from ..wire.ids import ChatId
from .doors import Doors
from .owners import NoOwnerError

HOLD_SECONDS: Final = 2.0
"""How long an event waits for the owner of its shard."""
MOST_HELD: Final = 256
"""Events that may wait for the owners in one other process; further ones are refused at once."""
_AGAIN_SECONDS: Final = 0.02


class HandsOn(Protocol):
    """What brings events to the processes that have other shards."""

    def node_of(self, shard: int) -> int:
        """Return which process has a shard."""
        ...

    def is_full(self, shard: int) -> bool:
        """Return whether so many events are under way to a shard's owner that no more are taken."""
        ...

    async def hand_on(self, shard: int, content_type: str, body: bytes) -> Outcome:
        """Bring an event to the owner of its shard, and return what became of it there.

        Raises:
            NoOwnerError: there is no answer: it may have been stored, or not.
        """
        ...

    def answered(self, shard: int, key: str) -> None:
        """Tell a shard's owner that the 200 of a delivery was fully written. Never waits."""
        ...


@final
class NodeInbox:
    """The way in for all events of a bot whose store is in shards.

    Args:
        here: the inboxes of the shards of this process.
        away: brings events to the others; None: there are no others.
    """

    def __init__(self, doors: Doors, here: Mapping[int, Inbox], away: HandsOn | None = None) -> None:
        self._doors = doors
        self._here = here
        self._away = away
        self._first = next(iter(here.values()))
        self._held: dict[int, int] = {}
        # Of chats whose events are under way to another process: one after the other.
        self._turns: dict[ChatId, _Turn] = {}
        self.handed_on = self.refused = 0

    async def accept(self, content_type: str, body: bytes) -> Outcome:
        """Make one request's event durable in its shard; see `Inbox.accept`."""
        try:
            event = decode_event(content_type, body)
        except RemoteProtocolError:
            return await self._first.accept(content_type, body)
        shard: int | None = None
        try:
            with trio.move_on_after(HOLD_SECONDS):
                shard = await self._doors.shard_of_event(event)
        except StoreError:
            return Unwritable()
        if shard is None:
            self.refused += 1
            return Unreached()
        if (inbox := self._here.get(shard)) is not None:
            return await inbox.accept(content_type, body, event)
        return await self._hand_on(shard, event.chat_id, content_type, body)

    async def take(self, shard: int, content_type: str, body: bytes) -> Outcome:
        """Accept an event that another process has handed on to this shard; never hand it on again.

        Raises:
            NoOwnerError: the shard isn't here.
        """
        if (inbox := self._here.get(shard)) is None:
            raise NoOwnerError
        return await inbox.accept(content_type, body)

    def answered(self, taken: EventStored) -> None:
        """Remember that the 200 of this was fully written. Never waits."""
        if taken.key is None:
            return
        shard = shard_of(_chat_of(taken.key), self._doors.shards)
        if (inbox := self._here.get(shard)) is not None:
            inbox.answered(taken)
        elif self._away is not None:
            self._away.answered(shard, taken.key)

    async def _hand_on(self, shard: int, chat_id: ChatId, content_type: str, body: bytes) -> Outcome:
        away = self._away
        assert away is not None
        node = away.node_of(shard)
        if self._held.get(node, 0) >= MOST_HELD or away.is_full(shard):
            self.refused += 1
            return Unreached()
        self._held[node] = self._held.get(node, 0) + 1
        try:
            with trio.move_on_after(HOLD_SECONDS):
                async with self._turn_of(chat_id):
                    while True:
                        try:
                            outcome = await away.hand_on(shard, content_type, body)
                        except NoOwnerError:
                            await trio.sleep(_AGAIN_SECONDS)
                        except StoreError:
                            return Unwritable()
                        else:
                            self.handed_on += 1
                            return outcome
            self.refused += 1
            return Unreached()
        finally:
            self._held[node] -= 1

    @asynccontextmanager
    async def _turn_of(self, chat_id: ChatId) -> AsyncGenerator[None]:
        """Wait until all earlier events of a chat have been handed on, or given up."""
        turn = self._turns.setdefault(chat_id, _Turn())
        turn.waiting += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                del self._turns[chat_id]


@attrs.define(eq=False)
class _Turn:
    """Whose turn it is among a chat's events: a lock's, which is given in the order of asking."""

    lock: trio.Lock = attrs.field(factory=trio.Lock)
    waiting: int = 0


def _chat_of(key: str) -> ChatId:
    """Return the chat of a delivery's key, which begins with a word and the chat."""
    return ChatId(int(key.split(":", 2)[1]))
