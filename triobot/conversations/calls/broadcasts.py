"""Broadcasts: one message to many chats. A broadcast has rows of its own, and is no conversation.

Code outside of conversations uses `Bot.broadcast`. In a conversation, `Room.broadcast` makes each call an
operation of that conversation.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, final

import attrs
import trio

from ...base.frozen import guarded
from ...engine.records import Id
from ...errors import ForeignTaskError, LocalProtocolError
from ...seams.broadcasts import Announcement, BroadcastStatus, check_key
from ...seams.patience import await_store
from ...seams.values import register
from ...wire.content import Content
from ...wire.ids import ChatId, as_chat_id
from ..data import JOINED, Keeping, Key
from ..questions.asking import check_content
from ..questions.buttons import Buttons, inline_of
from ..running.branches import OperationKind, step_tasks
from ..running.lines import calling_line
from ..services import Announcing
from .refs import Door

if TYPE_CHECKING:
    from ..shared import Shared


@final
class Everybody:
    """All chats for which the platform posted a join and no later leave; see `EVERYBODY`."""

    name = JOINED


EVERYBODY: Final = Everybody()
"""For `Broadcast.start`: all users who joined and did not leave, and all groups with the bot."""

Audience: TypeAlias = AsyncIterable[int] | Iterable[int] | Key[Any] | Everybody
"""Chat ids; a `Key`, for all chats with a value under that key; or `EVERYBODY`."""

_SOMEBODY: Final = ChatId(1)

register(BroadcastStatus, name="triobot.BroadcastStatus")


def _is_key(instance: object, attribute: attrs.Attribute[str], value: str) -> None:
    check_key(value)


@final
@guarded
class Broadcast:
    """One message to many chats, under a key of your choice; made by `Room.broadcast` and `Bot.broadcast`.

    Each receiver gets the message at most once, in order with other messages to that chat. The exception is
    ``on_unknown="resend"``: a request with an unknown result is repeated, and a receiver may get the message
    twice. Replies to other chats are sent before the broadcast's messages. After a crash or a restart the
    broadcast continues after the last receiver that was tried. Requests that were in flight at a crash count
    as `BroadcastStatus.unknown`. While the platform answers, at most 16 requests are in flight.

    Examples:
        >>> async def announce(chat: Chat) -> None:
        ...     await chat.broadcast("version-2").start("Version 2 is here.", SUBSCRIBED)
    """

    _door: Door = attrs.field(repr=False)
    key: str = attrs.field(validator=_is_key)

    async def start(
        self,
        content: Content,
        to: Audience,
        *,
        buttons: Buttons[Any] | None = None,
        on_unknown: Literal["count", "resend"] = "count",
    ) -> bool:
        """Store the audience and start sending, unless a broadcast with this key was started before.

        The audience is read once, in pieces; a chat that occurs twice gets one message. When `start` returns,
        audience and content are durable, and sending has begun. If a crash comes while the audience is read,
        nothing is sent: call `start` again. A repeated call with the same key is always safe. In a
        conversation no second call is needed, because an operation that a crash interrupts is repeated.

        Args:
            content: as for `Chat.send`. A file is uploaded here, once for all receivers.
            to: chat ids, from a list or a database's cursor; a `Key`, for all chats with a value under that
                key; or `EVERYBODY`.
            buttons: buttons that work as long as their message exists; use `triobot.filters.pressed` to take
                presses.
            on_unknown: treatment of a receiver for whom the result of the request is unknown. ``"count"``
                counts the receiver as unknown, and sends nothing more to the receiver. ``"resend"`` sends
                again: all receivers get the message, and a few may get it twice.

        Returns:
            False if a broadcast with this key was started before, whether it has ended or not.

        Raises:
            LocalProtocolError: the content can't be sent, `to` is no audience, or a chat id in `to` is
                invalid. This is an error of your program; nothing was started.
            RefusedError, TransportError, OSError: the file could not be uploaded; nothing was started.
            StoreFullError: nothing was started; repeat the call once the store has room.
            StepError: in a conversation, reading the audience failed; the broadcast may be started again.
            ForeignTaskError: `Bot.broadcast` was used in a conversation, outside of a step.

        Cancellation: *ambiguous*: the broadcast may have started. Repeat the call with the same key.
        """
        check_content(content)
        if not isinstance(cast("object", to), Key | Everybody | Iterable | AsyncIterable):
            rule = "must be chat ids, from a list or an async iterator, or a Key, or EVERYBODY"
            raise LocalProtocolError("to", rule)
        if on_unknown not in ("count", "resend"):
            raise LocalProtocolError("on_unknown", 'is "count" or "resend"')
        announcement = Announcement(content, inline_of(buttons), on_unknown)
        announcement.to(_SOMEBODY)  # raises here for an invalid message, not for each receiver
        shared = self._shared("start")

        async def send(own: Id | None) -> bool:
            also = self._door.done(own, OperationKind.BROADCAST)
            async with aclosing(self._chats(shared.keeping, to)) as chats:
                return await _announcing(shared).start(self.key, announcement, chats, also)

        async def body(own: Id) -> bool:
            # The audience may be an iterator of the author's code. This code may use the bot, as a step may.
            task = trio.lowlevel.current_task()
            step_tasks.add(task)
            try:
                return await send(own)
            finally:
                step_tasks.discard(task)

        if self._door.operations is None:
            return await send(None)
        self._door.gives("")
        return await self._door.operations.effect(OperationKind.BROADCAST, body)

    async def status(self) -> BroadcastStatus:
        """Return the broadcast's progress; the state is ``none`` before the start."""
        shared = self._shared("status")
        return await self._door.effect(
            OperationKind.BROADCAST, lambda _: _announcing(shared).status(self.key)
        )

    async def stop(self) -> bool:
        """Stop sending permanently. The stop is durable on return; requests in flight get two more seconds.

        Returns:
            False if nothing was left to stop. An earlier call that was cancelled may have stopped the
                broadcast.

        Cancellation: *ambiguous*; the call may be repeated.
        """
        shared = self._shared("stop")

        async def body(own: Id | None) -> bool:
            also = self._door.done(own, OperationKind.BROADCAST)
            return await _announcing(shared).stop(self.key, also)

        return await self._door.effect(OperationKind.BROADCAST, body)

    def gone(self) -> AsyncIterator[ChatId]:
        """Iterate over the receivers that are known by now to have left or blocked the bot.

        Raises:
            ForeignTaskError: called from a conversation, outside of a step.
        """
        if self._door.operations is not None:
            raise ForeignTaskError(
                f"{calling_line()}: Broadcast.gone() inside a conversation; use chat.step() with a function"
                " that reads bot.broadcast(key).gone()"
            )
        return _announcing(self._shared("gone")).gone(self.key)

    def _shared(self, method: str) -> Shared:
        return self._door.shared(f"Broadcast.{method}()", "chat.broadcast(key)")

    async def _chats(self, keeping: Keeping, to: Audience) -> AsyncGenerator[ChatId]:
        if isinstance(to, Key | Everybody):
            after: ChatId | None = None
            while page := await await_store(partial(keeping.keyed, to.name, after)):
                for chat_id, _ in page:
                    yield chat_id
                after = page[-1][0]
        elif isinstance(to, AsyncIterable):
            # Close an author's generator afterwards: the generator may keep a cursor or a connection open.
            opened = cast("AsyncGenerator[int]", to) if isinstance(to, AsyncGenerator) else None
            async with nullcontext() if opened is None else aclosing(opened):
                async for given in to:
                    yield as_chat_id(given)
        else:
            for given in to:
                yield as_chat_id(given)
            await trio.lowlevel.checkpoint()


def _announcing(shared: Shared) -> Announcing:
    assert shared.services.announcing is not None
    return shared.services.announcing
