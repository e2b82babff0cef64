"""Say something to everybody: the door to a broadcast, which is a job of the store and no conversation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing
from typing import Any, Final, Literal, TypeAlias, cast, final

import attrs
import trio

from .conversations.data import Key
from .conversations.questions.asking import check_content
from .conversations.questions.buttons import Buttons, inline_of
from .conversations.running.branches import refuse_conversations
from .errors import LocalProtocolError
from .outbox import Announcement
from .runtime import Runtime
from .seams import BroadcastStatus, check_key
from .wire.content import Content
from .wire.ids import ChatId, as_chat_id

Audience: TypeAlias = AsyncIterable[int] | Iterable[int] | Key[Any]
"""Chat ids, or everybody who keeps something under a key."""

INSTEAD_OF_TELLING: Final = "chat.step() with a function that starts it"

_SOMEBODY: Final = ChatId(1)


def _is_key(instance: object, attribute: attrs.Attribute[str], value: str) -> None:
    check_key(value)


@final
@attrs.frozen
class Broadcast:
    """One message to many chats, by a key of your choice; made by `Bot.broadcast`.

    Each receiver is told at most once, in order with what else goes to that chat, and replies to others go
    first. It goes on after a crash or a restart behind the last receiver who was tried. Those to whom a
    request may have been on its way at a crash, 16 at most while the platform answers, are counted as
    `BroadcastStatus.unknown` and not tried again, unless you choose that with ``on_unknown="resend"``.

    Examples:
        >>> async def announce(bot: Bot) -> None:
        ...     await bot.broadcast("version-2").start("Version 2 is here.", SUBSCRIBED)
    """

    _work: Runtime = attrs.field(repr=False)
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
        it again. So it may be called again with the same key for ever, also in a `Chat.step`.

        Args:
            content: as for `Chat.send`. A file is uploaded here, once for all.
            to: chat ids, from a list, a database's cursor, or a `Key`: everybody who has it.
            buttons: they live as long as their message; `triobot.filters.pressed` takes them.
            on_unknown: what becomes of a receiver when nobody knows whether the message arrived: counted,
                and told nothing more; or with ``"resend"`` told again, so that nobody is left out and a few
                may read it twice.

        Returns:
            False if this key's broadcast was started before, whatever became of it.

        Raises:
            ForeignTaskError: called from a conversation, outside a step.
            LocalProtocolError: the content can't be sent, this is no chat's id, or no key. Your program's
                fault; nothing was started.
            RefusedError, TransportError, OSError: the file could not be uploaded; nothing was started.
            StoreFullError: nothing was started; repeat it once there is room.

        Cancellation: *ambiguous*: the key tells. It may simply be repeated.
        """
        self._check("start")
        check_content(content)
        if not isinstance(cast("object", to), Key | Iterable | AsyncIterable):
            raise LocalProtocolError("to", "must be chat ids, from a list or an async iterator, or a Key")
        if on_unknown not in ("count", "resend"):
            raise LocalProtocolError("on_unknown", 'is "count" or "resend"')
        keyboard = None if buttons is None else inline_of(buttons)
        announcement = Announcement(content, keyboard, on_unknown)
        # What can't be sent to anybody is refused here, and not two hundred thousand times.
        announcement.to(_SOMEBODY)
        async with aclosing(self._chats(to)) as chats:
            return await self._work.broadcasts.start(self.key, announcement, chats)

    async def status(self) -> BroadcastStatus:
        """Read how far it is; its state is ``none`` before it was started."""
        self._check("status")
        return await self._work.broadcasts.status(self.key)

    async def stop(self) -> bool:
        """Tell nobody more, for good. Durable when this returns; those on their way get two seconds.

        Returns:
            False if there was nothing to stop.

        Cancellation: *ambiguous*; it may be repeated.
        """
        self._check("stop")
        return await self._work.broadcasts.stop(self.key)

    def gone(self) -> AsyncIterator[ChatId]:
        """Iterate over the receivers who have left or blocked the bot; while it goes on, those known so far.

        Raises:
            ForeignTaskError: called from a conversation, outside a step.
        """
        self._check("gone")
        return self._work.broadcasts.gone(self.key)

    def _check(self, what: str) -> None:
        refuse_conversations(f"Broadcast.{what}()", INSTEAD_OF_TELLING)

    async def _chats(self, to: Audience) -> AsyncGenerator[ChatId]:
        if isinstance(to, Key):
            after: ChatId | None = None
            while page := await self._work.dispatcher.keeping.keyed(to.name, after):
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
