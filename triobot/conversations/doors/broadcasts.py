"""Say something to everybody: the door to a broadcast, which is a job of the store and no conversation.

A `Broadcast` has one of two doors, as a reference to a place has: `Bot.broadcast` is for everybody else, and
through `Room.broadcast` each call is an operation of its conversation.
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
from ...seams.broadcasts import BroadcastStatus, check_key
from ...seams.patience import await_store
from ...seams.values import register
from ...wire.content import Content
from ...wire.ids import ChatId, as_chat_id
from ...wire.markup import InlineKeyboard
from ...wire.operations import SendMessage
from ..conversation import Conversation
from ..data import JOINED, Keeping, Key
from ..questions.asking import check_content
from ..questions.buttons import Buttons, inline_of
from ..running.branches import OperationKind, step_tasks
from ..running.lines import calling_line
from ..services import Also, Announcing, OnDoubt


@final
class Everybody:
    """All chats that were joined and not left since, as the platform has told; see `EVERYBODY`."""

    name = JOINED


EVERYBODY: Final = Everybody()
"""For `Broadcast.start`: all who have joined and have not left, and all groups that the bot was added to."""

Audience: TypeAlias = AsyncIterable[int] | Iterable[int] | Key[Any] | Everybody
"""Chat ids, or everybody who keeps something under a key, or `EVERYBODY`."""

_SOMEBODY: Final = ChatId(1)

register(BroadcastStatus, name="triobot.BroadcastStatus")


def _is_key(instance: object, attribute: attrs.Attribute[str], value: str) -> None:
    check_key(value)


@final
@guarded
class Broadcast:
    """One message to many chats, by a key of your choice; made by `Room.broadcast` and `Bot.broadcast`.

    Each receiver is told at most once, in order with what else goes to that chat, and replies to others go
    first. It goes on after a crash or a restart behind the last receiver who was tried. Those to whom a
    request may have been on its way at a crash, 16 at most while the platform answers, are counted as
    `BroadcastStatus.unknown` and not tried again, unless you choose that with ``on_unknown="resend"``.

    Examples:
        >>> async def announce(chat: Chat) -> None:
        ...     await chat.broadcast("version-2").start("Version 2 is here.", SUBSCRIBED)
    """

    _door: Announcing = attrs.field(repr=False)
    _keeping: Keeping = attrs.field(repr=False)
    key: str = attrs.field(validator=_is_key)

    async def start(
        self,
        content: Content,
        to: Audience,
        *,
        buttons: Buttons[Any] | None = None,
        on_unknown: Literal["count", "resend"] = "count",
    ) -> bool:
        """Capture the audience and begin to tell it, unless this key was started before.

        The audience is read once, in pieces, and each chat counts once. When this returns, audience and
        content are durable and the first receivers are being told. A crash before that leaves nothing: start
        it again. So it may be called again with the same key for ever. A conversation does that by itself:
        there it is recorded.

        Args:
            content: as for `Chat.send`. A file is uploaded here, once for all.
            to: chat ids, from a list, a database's cursor, or a `Key`: everybody who has it; or `EVERYBODY`.
            buttons: they live as long as their message; `triobot.filters.pressed` takes them.
            on_unknown: what becomes of a receiver when nobody knows whether the message arrived: counted,
                and told nothing more; or with ``"resend"`` told again, so that nobody is left out and a few
                may read it twice.

        Returns:
            False if this key's broadcast was started before, whatever became of it.

        Raises:
            LocalProtocolError: the content can't be sent, this is no chat's id, or no key. Your program's
                fault; nothing was started.
            RefusedError, TransportError, OSError: the file could not be uploaded; nothing was started.
            StoreFullError: nothing was started; repeat it once there is room.
            StepError: in a conversation: what reads the audience failed; it may be started again.
            ForeignTaskError: it is `Bot.broadcast`, called from a conversation, outside a step.

        Cancellation: *ambiguous*: the key tells. It may simply be repeated.
        """
        check_content(content)
        if not isinstance(cast("object", to), Key | Everybody | Iterable | AsyncIterable):
            rule = "must be chat ids, from a list or an async iterator, or a Key, or EVERYBODY"
            raise LocalProtocolError("to", rule)
        if on_unknown not in ("count", "resend"):
            raise LocalProtocolError("on_unknown", 'is "count" or "resend"')
        keyboard = inline_of(buttons)
        # What can't be sent to anybody is refused here, and not two hundred thousand times.
        SendMessage(_SOMEBODY, content, inline_keyboard=keyboard)
        async with aclosing(self._chats(to)) as chats:
            return await self._door.start(self.key, content, keyboard, on_unknown, chats)

    async def status(self) -> BroadcastStatus:
        """Read how far it is; its state is ``none`` before it was started."""
        return await self._door.status(self.key)

    async def stop(self) -> bool:
        """Tell nobody more, for good. Durable when this returns; those on their way get two seconds.

        Returns:
            False if there was nothing to stop; as for `start`, it may have been stopped by this very call.

        Cancellation: *ambiguous*; it may be repeated.
        """
        return await self._door.stop(self.key)

    def gone(self) -> AsyncIterator[ChatId]:
        """Iterate over the receivers who have left or blocked the bot; while it goes on, those known so far.

        Raises:
            ForeignTaskError: called from a conversation, outside a step.
        """
        return self._door.gone(self.key)

    async def _chats(self, to: Audience) -> AsyncGenerator[ChatId]:
        if isinstance(to, Key | Everybody):
            after: ChatId | None = None
            while page := await await_store(partial(self._keeping.keyed, to.name, after)):
                for chat_id, _ in page:
                    yield chat_id
                after = page[-1][0]
        elif isinstance(to, AsyncGenerator):
            # An author's generator may hold a cursor or a connection open.
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
    """The door of `Room.broadcast`: what is done is stored with its record."""

    _conversation: Conversation = attrs.field(repr=False)

    async def start(
        self,
        key: str,
        content: Content,
        keyboard: InlineKeyboard | None,
        on_unknown: OnDoubt,
        audience: AsyncGenerator[ChatId],
        also: Also | None = None,
    ) -> bool:
        """Begin to tell an audience."""

        async def body(own: Id) -> bool:
            # The audience may be read by the author's code: a cursor, or the bot's own doors.
            task = trio.lowlevel.current_task()
            done = partial(self._conversation.done, own, OperationKind.BROADCAST)
            step_tasks.add(task)
            try:
                async with aclosing(audience):  # here, since no replay awaits that
                    return await self._live.start(key, content, keyboard, on_unknown, audience, done)
            finally:
                step_tasks.discard(task)

        self._conversation.gives("")
        return await self._conversation.effect(OperationKind.BROADCAST, body)

    async def status(self, key: str) -> BroadcastStatus:
        """Read how far it is."""
        return await self._conversation.effect(
            OperationKind.BROADCAST, lambda _: await_store(partial(self._live.status, key))
        )

    async def stop(self, key: str, also: Also | None = None) -> bool:
        """Tell nobody more."""

        async def body(own: Id) -> bool:
            done = partial(self._conversation.done, own, OperationKind.BROADCAST)
            return await await_store(partial(self._live.stop, key, done))

        return await self._conversation.effect(OperationKind.BROADCAST, body)

    def gone(self, key: str) -> AsyncIterator[ChatId]:
        """Refuse: an iteration can't be an operation."""
        raise ForeignTaskError(
            f"{calling_line()}: Broadcast.gone() inside a conversation; use chat.step() with a function that"
            " reads bot.broadcast(key).gone()"
        )

    @property
    def _live(self) -> Announcing:
        announcing = self._conversation.services.announcing
        assert announcing is not None
        return announcing
