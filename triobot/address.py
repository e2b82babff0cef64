"""The door from outside: a chat, for tasks that are none of its conversations.

What is sent here takes its place in the chat's lane like everything else, but no conversation records it.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar, final

import attrs

from .conversations.buttons import Buttons, Keyboard, inline_of, reply_of
from .conversations.data import Key
from .runtime import Work
from .seams import OnUnknown, Urgency
from .wire.content import Content
from .wire.ids import Recipient, as_chat_id
from .wire.operations import DeleteMessage, EditMessage, SendMessage
from .wire.results import Sent

T = TypeVar("T")


@final
@attrs.frozen
class Address:
    """A chat, seen from outside its conversations. What is sent takes its place in the chat's lane."""

    _work: Work = attrs.field(repr=False)
    id: Recipient = attrs.field(repr=False)

    async def send(
        self,
        content: Content,
        *,
        buttons: Buttons[Any] | None = None,
        keyboard: Keyboard | None = None,
        on_unknown: Literal["resend", "raise"] = "resend",
    ) -> Sent:
        """Send something; see `Chat.send`."""
        operation = SendMessage(
            self.id,
            content,
            reply_keyboard=reply_of(keyboard),
            inline_keyboard=inline_of(buttons),
        )
        return await self._work.outbox.perform(
            operation, urgency=Urgency.REPLY, on_unknown=OnUnknown(on_unknown)
        )

    async def edit(self, sent: Sent, content: Content, *, buttons: Buttons[Any] | None = None) -> None:
        """Replace a message; see `Chat.edit`."""
        keyboard = inline_of(buttons)
        await self._work.outbox.perform(EditMessage(sent.chat_id, sent.id, content, keyboard))

    async def get(self, key: Key[T]) -> T:
        """A fresh copy of what the chat keeps under a key; see `Chat.data`.

        Raises:
            KeyError: the slot is empty, and the key has no default.
            UnreadableRecordError: what is stored is of another class.
            LocalProtocolError: the chat is not named by its id.
        """
        data = await self._work.dispatcher.data(as_chat_id(self.id))
        return key.load(data.get(key.name))

    async def set(self, key: Key[T], value: T) -> None:
        """Keep a value for the chat: its conversations see it at once, and it is durable when this returns.

        While the store is full this waits.

        Raises:
            UnrecordableError: the value can't be recorded.
            LocalProtocolError: the chat is not named by its id.

        Cancellation: *ambiguous*; it may be repeated.
        """
        await self._work.dispatcher.put_data(as_chat_id(self.id), key.name, key.dump(value))

    async def signal(self, value: object, *, key: str | None = None) -> None:
        """Tell the chat something: whoever there takes `triobot.filters.signal` of its class gets it.

        It is durable when this returns, and comes in order with the chat's events. When nobody takes it now
        it waits for a conversation that does.

        Args:
            value: a frozen attrs class's, by preference; anything that can be recorded, but None.
            key: a second signal with the same key to this chat within seven days is dropped.

        Raises:
            UnrecordableError: the value can't be recorded.
            LocalProtocolError: the chat is not named by its id.
            StoreFullError: too many wait in this chat; nothing was stored.

        Cancellation: *ambiguous*; with a `key` it may simply be repeated.
        """
        await self._work.dispatcher.signal(as_chat_id(self.id), value, key)

    async def delete(self, sent: Sent) -> None:
        """Delete a message; deleting what is gone is no error."""
        await self._work.outbox.perform(DeleteMessage(sent.chat_id, sent.id))
