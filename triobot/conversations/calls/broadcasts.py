"""Broadcasts: one message to many chats. A broadcast is a job of the store, not a conversation.

Code outside of conversations uses `Bot.broadcast`. In a conversation, `Room.broadcast` makes each call an
operation of that conversation.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Literal, TypeAlias, cast, final

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
from ..operations import Operations
from ..questions.asking import check_content
from ..questions.buttons import Buttons, inline_of
from ..running.branches import OperationKind, refuse_conversations, step_tasks
from ..running.lines import calling_line
from ..services import Also, Announcing


@final
class Everybody:
    """All chats that were joined and not left since, according to the platform's events; see `EVERYBODY`."""

    name = JOINED


EVERYBODY: Final = Everybody()
"""For `Broadcast.start`: all users who joined and did not leave, and all groups with the bot."""

Audience: TypeAlias = AsyncIterable[int] | Iterable[int] | Key[Any] | Everybody
"""Chat ids, or a `Key`: all chats with a value under that key; or `EVERYBODY`."""

_SOMEBODY: Final = ChatId(1)

register(BroadcastStatus, name="triobot.BroadcastStatus")


def _is_key(instance: object, attribute: attrs.Attribute[str], value: str) -> None:
    check_key(value)


@final
@guarded
class Broadcast:
    """One message to many chats, under a key of your choice; made by `Room.broadcast` and `Bot.broadcast`.

    Each receiver gets the message at most once, in order with other messages to that chat. Replies to other
    chats are sent before the broadcast's messages. After a crash or a restart the broadcast continues after
    the last receiver that was tried. Requests that were in flight at a crash count as
    `BroadcastStatus.unknown`. While the platform answers, at most 16 requests are in flight. Such requests
    are repeated only with ``on_unknown="resend"``.

    Examples:
        >>> async def announce(chat: Chat) -> None:
        ...     await chat.broadcast("version-2").start("Version 2 is here.", SUBSCRIBED)
    """

    _door: Announcing = attrs.field(repr=False)
    _keeping: Keeping = attrs.field(repr=False)
    key: str = attrs.field(validator=_is_key)
    _outside: bool = attrs.field(default=False, repr=False, alias="outside")

    async def start(
        self,
        content: Content,
        to: Audience,
        *,
        buttons: Buttons[Any] | None = None,
        on_unknown: Literal["count", "resend"] = "count",
    ) -> bool:
        """Store the audience and start sending, unless a broadcast with this key was started before.

        The audience is read once, in pieces, and each chat counts once. When `start` returns, audience and
        content are durable, and sending has begun. If a crash comes earlier, nothing is stored: call `start`
        again. A repeated call with the same key is always safe. In a conversation no second call is needed,
        because an operation that a crash interrupts is repeated.

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
            False if a broadcast with this key was started before, in whatever state it is now.

        Raises:
            LocalProtocolError: the content can't be sent, or `to` contains an invalid chat id, or is no
                audience. An error of your program; nothing was started.
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
        announcement.to(_SOMEBODY)  # refuses an invalid message once, instead of once for each receiver
        async with aclosing(self._chats(to)) as chats:
            return await self._door_of("start").start(self.key, announcement, chats)

    async def status(self) -> BroadcastStatus:
        """Return the broadcast's progress; the state is ``none`` before the start."""
        return await self._door_of("status").status(self.key)

    async def stop(self) -> bool:
        """Stop sending permanently. The stop is durable on return; requests in flight get two more seconds.

        Returns:
            False if nothing was left to stop. An earlier call that was cancelled may have stopped the
                broadcast.

        Cancellation: *ambiguous*; the call may be repeated.
        """
        return await self._door_of("stop").stop(self.key)

    def gone(self) -> AsyncIterator[ChatId]:
        """Iterate over the receivers known so far that have left or blocked the bot.

        Raises:
            ForeignTaskError: called from a conversation, outside of a step.
        """
        return self._door_of("gone").gone(self.key)

    def _door_of(self, method: str) -> Announcing:
        if self._outside:
            refuse_conversations(f"Broadcast.{method}()", "chat.broadcast(key)")
        return self._door

    async def _chats(self, to: Audience) -> AsyncGenerator[ChatId]:
        if isinstance(to, Key | Everybody):
            after: ChatId | None = None
            while page := await await_store(partial(self._keeping.keyed, to.name, after)):
                for chat_id, _ in page:
                    yield chat_id
                after = page[-1][0]
        elif isinstance(to, AsyncGenerator):
            # An author's generator may keep a cursor or a connection open.
            async with aclosing(cast("AsyncGenerator[int]", to)) as opened:
                async for given in opened:
                    yield as_chat_id(given)
        elif isinstance(to, AsyncIterable):
            async for given in to:
                yield as_chat_id(given)
        else:
            for given in to:
                yield as_chat_id(given)
            await trio.lowlevel.checkpoint()


@final
@guarded
class RecordedAnnouncing:
    """Implementation of `Room.broadcast`: the store commits each action together with its record."""

    _operations: Operations = attrs.field(repr=False)

    async def start(
        self,
        key: str,
        announcement: Announcement,
        audience: AsyncGenerator[ChatId],
        also: Also | None = None,
    ) -> bool:
        async def body(own: Id) -> bool:
            # The author's code may provide the audience, from a cursor or through the bot.
            task = trio.lowlevel.current_task()
            done = partial(self._operations.done, own, OperationKind.BROADCAST)
            step_tasks.add(task)
            try:
                async with aclosing(audience):  # closed here, as no replay reads the audience
                    return await self._live.start(key, announcement, audience, done)
            finally:
                step_tasks.discard(task)

        self._operations.gives("")
        return await self._operations.effect(OperationKind.BROADCAST, body)

    async def status(self, key: str) -> BroadcastStatus:
        return await self._operations.effect(
            OperationKind.BROADCAST, lambda _: await_store(partial(self._live.status, key))
        )

    async def stop(self, key: str, also: Also | None = None) -> bool:
        async def body(own: Id) -> bool:
            done = partial(self._operations.done, own, OperationKind.BROADCAST)
            return await await_store(partial(self._live.stop, key, done))

        return await self._operations.effect(OperationKind.BROADCAST, body)

    def gone(self, key: str) -> AsyncIterator[ChatId]:
        """Raise an error: an iteration can't be an operation."""
        raise ForeignTaskError(
            f"{calling_line()}: Broadcast.gone() inside a conversation; use chat.step() with a function that"
            " reads bot.broadcast(key).gone()"
        )

    @property
    def _live(self) -> Announcing:
        announcing = self._operations.services.announcing
        assert announcing is not None
        return announcing
