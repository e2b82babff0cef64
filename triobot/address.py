"""The door from outside: a chat, for tasks that are none of its conversations.

What is sent here takes its place in the chat's lane like everything else, but no conversation records it. So
a conversation's own code is refused at each call, except in a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TypeVar, final

import attrs

from .conversations.doors.address import Address as Address
from .conversations.running.branches import refuse_conversations
from .conversations.running.lines import calling_line
from .runtime import Runtime
from .seams import OnUnknown, Urgency
from .wire.ids import ChatId
from .wire.operations import Operation

T = TypeVar("T")

INSTEAD: Final = "chat.to(chat_id), or the chat's own methods"


@final
@attrs.frozen
class OutsideDoor:
    """The door of `Bot.chat`."""

    _work: Runtime = attrs.field(repr=False)

    async def perform(self, operation: Operation[T], on_unknown: OnUnknown) -> T:
        """Send something."""
        refuse_conversations("bot.chat()", INSTEAD)
        return await self._work.outbox.perform(operation, urgency=Urgency.REPLY, on_unknown=on_unknown)

    async def signal(self, chat_id: ChatId, value: object, key: str | None) -> None:
        """Tell the chat something."""
        refuse_conversations("bot.chat()", INSTEAD)
        await self._work.dispatcher.elsewhere.signal(chat_id, value, key)

    async def start(
        self, chat_id: ChatId, fn: Callable[..., object], args: tuple[object, ...], key: str | None
    ) -> bool:
        """Start a route."""
        refuse_conversations("bot.chat()", INSTEAD)
        elsewhere = self._work.dispatcher.elsewhere
        name = elsewhere.table.route_of(fn, args, f"{calling_line()}: start()").name
        return await elsewhere.start(chat_id, name, args, key=key, once=key)

    async def stop(self, chat_id: ChatId, fn: Callable[..., object], key: str | None) -> bool:
        """Stop a route."""
        refuse_conversations("bot.chat()", INSTEAD)
        elsewhere = self._work.dispatcher.elsewhere
        name = elsewhere.table.route_of(fn, None, f"{calling_line()}: stop()").name
        return await elsewhere.stop(chat_id, name, key)

    async def data(self, chat_id: ChatId) -> Mapping[str, str]:
        """Return what the chat keeps."""
        refuse_conversations("bot.chat()", INSTEAD)
        return await self._work.dispatcher.keeping.data(chat_id)

    def reading(self) -> AbstractContextManager[None]:
        """Enter before something that is kept is read; there is nothing to guard here."""
        return nullcontext()

    async def put_data(self, chat_id: ChatId, key: str, value: str | None) -> None:
        """Keep something for the chat."""
        refuse_conversations("bot.chat()", INSTEAD)
        await self._work.dispatcher.keeping.put(chat_id, key, value)
