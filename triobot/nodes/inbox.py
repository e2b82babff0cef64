"""Hands each event to the inbox of its shard, be it in this process or in another.

An event is handed on once: whoever gets it from another process takes it itself, or says that it can't. While
a shard has no owner, or that doesn't answer, its events are held, those of a chat one behind the other, for
two seconds at most each; where shards move between processes, for as long as a lease lives besides. Then they
are answered 503, which promises nothing. So are those at once that come when too many are held already.

If a shard comes to this process while events of a chat are held here, later ones go behind them. If one
leaves while an event is being stored, that one is handed on, and later ones of its chat go behind it.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from typing import Final, Protocol, final

import attrs
import trio

from ..errors import RemoteProtocolError, StoreError
from ..rooms import SHARED
from ..seams import Held
from ..shards import shard_of
from ..webhook.inbox import EventStored, Inbox, Outcome, Unreached, Unwritable
from ..wire.decode import decode_event
from ..wire.events import Event
from ..wire.ids import ChatId
from .doors import Doors
from .owners import NoOwnerError

HOLD_SECONDS: Final = 2.0
"""How long an event waits for the owner of its shard, where shards don't move."""
MOST_HELD: Final = 256
"""Events that may wait for the owners in one other process; further ones are refused at once."""
_AGAIN_SECONDS: Final = 0.02


class HandsOn(Protocol):
    """What brings events to the processes that have other shards."""

    def node_of(self, shard: int) -> int | None:
        """Return which process has a shard; None: none that is known."""
        ...

    def is_full(self, shard: int) -> bool:
        """Return whether so many events are under way to a shard's owner that no more are taken."""
        ...

    async def hand_on(self, shard: int, content_type: str, body: bytes, until: float) -> Outcome:
        """Bring an event to the owner of its shard, and return what became of it there.

        Args:
            until: Trio's time at which the caller gives it up; it isn't taken there later.

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
        here: the inboxes of the shards of this process, which may come and go.
        away: brings events to the others; None: there are no others.

    Attributes:
        hold_seconds: how long an event waits for the owner of its shard.
        certain: returns for how many seconds more no other process can have the shards of this one.
        late_after: seconds from an event's arrival, after which its 200 counts for nothing: a proxy may have
            asked another process meanwhile, and so a repetition is to be known as one.
    """

    def __init__(self, doors: Doors, here: Mapping[int, Inbox], away: HandsOn | None = None) -> None:
        self._doors = doors
        self._here = here
        self._away = away
        self.shared = False  # the owner of its shard alone takes an event
        self.hold_seconds = HOLD_SECONDS
        self.certain: Held = lambda: math.inf
        self.late_after = math.inf
        self._held: dict[int | None, int] = {}
        # Of chats whose events are under way, here or to another process: one after the other.
        self._turns: dict[ChatId, _Turn] = {}
        self.handed_on = self.refused = 0

    async def accept(self, content_type: str, body: bytes) -> Outcome:
        """Make one request's event durable in its shard; see `Inbox.accept`."""
        if not self.certain():
            # Whoever stood still may read here what was repeated elsewhere long ago, and answered there.
            self.refused += 1
            return Unreached()
        try:
            event = decode_event(content_type, body)
        except RemoteProtocolError:
            # It is kept as it came, wherever that is.
            where = next(iter(self._here), self._doors.home)
            until = trio.current_time() + self.hold_seconds
            return await self._bring(where, SHARED, content_type, body, None, until)
        shard: int | None = None
        arrived = trio.current_time()
        until = arrived + self.hold_seconds
        try:
            with trio.move_on_at(until):
                shard = await self._doors.shard_of_event(event)
        except StoreError:
            return Unwritable()
        if shard is None:
            self.refused += 1
            return Unreached()
        outcome = await self._bring(shard, event.chat_id, content_type, body, event, until)
        if isinstance(outcome, EventStored) and trio.current_time() >= arrived + self.late_after:
            return EventStored(outcome.repeated, None)
        return outcome

    async def _bring(
        self, shard: int, chat_id: ChatId, content_type: str, body: bytes, event: Event | None, until: float
    ) -> Outcome:
        inbox = self._here.get(shard)
        if inbox is not None and self._away is None:
            return await inbox.accept(content_type, body, event)
        if inbox is None or chat_id in self._turns:
            return await self._hand_on(shard, self._turn_of(chat_id), content_type, body, until)
        # In its turn, too: if the shard leaves meanwhile, later events of the chat go behind this one.
        async with self._turn_of(chat_id):
            with suppress(NoOwnerError):
                return await self._accept(inbox, content_type, body, event)
            return await self._hand_on(shard, nullcontext(), content_type, body, until)

    async def _accept(
        self, inbox: Inbox, content_type: str, body: bytes, event: Event | None = None
    ) -> Outcome:
        """Make an event durable in a shard of this process.

        Raises:
            NoOwnerError: the shard leaves this process, or another one may have it; nothing was stored.
        """
        try:
            outcome = await inbox.accept(content_type, body, event)
        except trio.ClosedResourceError:
            raise NoOwnerError from None
        if isinstance(outcome, Unwritable) and not self.certain():
            raise NoOwnerError
        return outcome

    async def take(self, shard: int, content_type: str, body: bytes) -> Outcome:
        """Accept an event that another process has handed on to this shard; never hand it on again.

        Raises:
            NoOwnerError: the shard isn't here.
        """
        if (inbox := self._here.get(shard)) is None:
            raise NoOwnerError
        return await self._accept(inbox, content_type, body)

    def answered(self, taken: EventStored) -> None:
        """Remember that the 200 of this was fully written. Never waits."""
        if taken.key is None:
            return
        shard = shard_of(_chat_of(taken.key), self._doors.shards)
        if (inbox := self._here.get(shard)) is not None:
            inbox.answered(taken)
        elif self._away is not None:
            self._away.answered(shard, taken.key)

    def answered_there(self, key: str) -> None:
        """Hear from another process that it has written the 200 of a delivery; never tell it on."""
        if (inbox := self._here.get(shard_of(_chat_of(key), self._doors.shards))) is not None:
            inbox.answered(EventStored(False, key))

    async def _hand_on(
        self,
        shard: int,
        turn: AbstractAsyncContextManager[None],
        content_type: str,
        body: bytes,
        until: float,
    ) -> Outcome:
        away = self._away
        assert away is not None
        node = away.node_of(shard)
        if self._held.get(node, 0) >= MOST_HELD or away.is_full(shard):
            self.refused += 1
            return Unreached()
        self._held[node] = self._held.get(node, 0) + 1
        try:
            with trio.move_on_at(until) as scope:
                async with turn:
                    while True:
                        try:
                            if shard in self._here:
                                # What is being stored is not given up: nobody would know what came of it.
                                scope.deadline = math.inf
                                return await self.take(shard, content_type, body)
                            outcome = await away.hand_on(shard, content_type, body, until)
                        except NoOwnerError:
                            scope.deadline = until
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
        """Wait until all earlier events of a chat are stored, or given up."""
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
