"""Time, and what ends a block, as a chat's methods."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import datetime
from math import inf
from typing import TypeVar, final

from ...engine import Channel, Event
from ..routes.filters import Filter
from .nursery import ChatNursery, open_nursery
from .replayed import Replayed
from .scopes import FailScope, Scope, check_sleep, wall_time

E = TypeVar("E")
T = TypeVar("T")


@final
class ChatEvent(Event):
    """Something that happens once; made by `Chat.open_event`."""

    __slots__ = ()


@final
class ChatChannel(Channel[T]):
    """A bounded queue between children; made by `Chat.open_channel`. A full one makes `send` wait."""

    __slots__ = ()


class Blocks(Replayed):
    """The part of `Chat` that shapes the code: blocks that end by themselves, sleep, children."""

    def move_on_after(self, seconds: float) -> Scope[None]:
        """Return a block that ends by itself after `seconds`; see its `cancelled_caught`."""
        return Scope(self._conversation, seconds)

    def move_on_at(self, when: datetime) -> Scope[None]:
        """Return a block that ends by itself at a time of day; at once if that is over.

        Args:
            when: with a time zone. A clock that is set meanwhile counts, as it doesn't for `move_on_after`.

        Raises:
            LocalProtocolError: `when` has no time zone. Your program's fault.
        """
        return Scope(self._conversation, inf, at=wall_time(when))

    def move_on_when(self, taken: Filter[E]) -> Scope[E]:
        """Return a block that ends when something comes that the filter takes; see its `event`.

        Such an event goes to the block before interrupts and questions see it, whatever the conversation
        does meanwhile; of several open blocks the innermost that takes it ends. What is queued when the
        block begins may end it at once. A block that is on its way out takes nothing more. Its event is its
        own, even if it comes to its own end before it feels that.

        The block is cancelled at its next chat operation: a question ends with its buttons, a send that is
        queued is withdrawn. Verifying a payment is not cut short for some seconds.

        Example:
            >>> async def ask_twice(chat: Chat) -> None:
            ...     with chat.move_on_when(text("back")) as back:
            ...         await chat.ask("One?")
            ...         await chat.ask("Two?")
            ...     if back.event is not None:
            ...         await chat.send("Back, then.")
        """
        return Scope(self._conversation, inf, until=taken)

    def fail_after(self, seconds: float) -> FailScope:
        """Return a block that raises `trio.TooSlowError` after `seconds`."""
        return FailScope(self._conversation, seconds)

    def cancel_scope(self) -> Scope[None]:
        """Return a block that only its own `cancel` ends."""
        return Scope(self._conversation, inf)

    def shield(self) -> Scope[None]:
        """Return a block that timeouts around it and interrupts wait for. Give it a timeout of its own."""
        return Scope(self._conversation, inf, shield=True)

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`. The conversation is deaf meanwhile: what is sent waits in its mailbox."""
        await self._conversation.sleep(check_sleep(seconds))

    async def sleep_until(self, when: datetime) -> None:
        """Wait until a time of day, which has a time zone; return at once if it is over. Else as `sleep`.

        Raises:
            LocalProtocolError: `when` has no time zone. Your program's fault.
        """
        await self._conversation.sleep_until(wall_time(when))

    def open_nursery(self) -> AbstractAsyncContextManager[ChatNursery]:
        """Open a nursery of children that may use the chat; they end with the block."""
        return open_nursery(self._conversation)

    def open_event(self) -> ChatEvent:
        """Return an event, for one child to tell others of something; Trio's own would be lost on replay."""
        self._conversation.check_task()
        return ChatEvent(self._conversation.journal, self._conversation.journal.promote)

    def open_channel(self, kind: type[T], capacity: int = 0) -> ChatChannel[T]:
        """Return a channel from one child to another, for values in order; when it is full, `send` waits.

        Args:
            kind: of the values, for type checkers.
            capacity: how many values may wait to be received.
        """
        self._conversation.check_task()
        return ChatChannel(self._conversation.journal, self._conversation.journal.promote, capacity)
