"""One chat as others see it: say something there, tell it something, start and stop what runs in it.

There are two doors to an `Address`: `Chat.to` is a conversation's own, where each call is one of its
operations; `Bot.chat` is for everybody else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, final

import attrs
from typing_extensions import TypeVarTuple

from ...engine.records import Id
from ...errors import UnrecordableError
from ...seams import OnUnknown
from ...values import encode_value
from ...wire.content import Content
from ...wire.ids import ChatId, Recipient, as_chat_id
from ...wire.operations import DeleteMessage, EditMessage, Operation, SendMessage
from ...wire.results import Sent
from ..conversation import Conversation
from ..data.slots import Key, check_key
from ..questions.arguments import check_content, check_edit, check_sent, on_unknown_of
from ..questions.buttons import Buttons, Keyboard, inline_of, reply_of
from ..running.branches import OperationKind
from ..running.lines import calling_line

if TYPE_CHECKING:
    from ..chat import Chat

T = TypeVar("T")
Args = TypeVarTuple("Args")


@final
@attrs.frozen
class RecordedDoor:
    """The door of `Chat.to`.

    What it stores has a key made of the conversation, the operation and what is stored: when a crash lets the
    operation happen again, the second is dropped.
    """

    _conversation: Conversation = attrs.field(repr=False)

    async def perform(self, operation: Operation[T], on_unknown: OnUnknown) -> T:
        """Send something, in the order of that chat."""
        return await self._conversation.perform(operation, on_unknown=on_unknown)

    async def signal(self, chat_id: ChatId, value: object, key: str | None) -> None:
        """Tell another chat something."""
        elsewhere = self._conversation.house.elsewhere

        async def body(own: Id) -> None:
            await elsewhere.signal(chat_id, value, key or self._once(own, value))

        await self._conversation.effect(OperationKind.SIGNAL, body)

    async def start(
        self, chat_id: ChatId, fn: Callable[..., object], args: tuple[object, ...], key: str | None
    ) -> bool:
        """Start a route."""
        there, elsewhere = self._conversation, self._conversation.house.elsewhere
        route = elsewhere.table.route_of(fn, args, f"{calling_line()}: start()")
        value, sender = recordable(there.value), there.event.sender

        async def body(own: Id) -> bool:
            once = key or self._once(own, (route.first_name, args))
            return await elsewhere.start(
                chat_id, route.name, args, key=key, once=once, value=value, sender=sender
            )

        started = await there.effect(OperationKind.START, body)
        # Without a key of the author's, what was dropped is what this very operation had started.
        return started or key is None

    async def stop(self, chat_id: ChatId, fn: Callable[..., object], key: str | None) -> bool:
        """Stop a route."""
        elsewhere = self._conversation.house.elsewhere
        name = elsewhere.table.route_of(fn, None, f"{calling_line()}: stop()").name
        return await self._conversation.effect(
            OperationKind.STOP, lambda _: elsewhere.stop(chat_id, name, key)
        )

    async def data(self, chat_id: ChatId) -> Mapping[str, str]:
        """Read what a chat keeps, as an operation of the conversation."""
        house = self._conversation.house

        async def body(own: Id) -> dict[str, str]:
            return dict(await house.keeping.data(chat_id))

        return await self._conversation.effect(OperationKind.GET, body)

    def reading(self) -> AbstractContextManager[None]:
        """Return a context in which a value that can't be read parks the conversation."""
        return self._conversation.reading()

    async def put_data(self, chat_id: ChatId, key: str, value: str | None) -> None:
        """Keep something for a chat."""
        house = self._conversation.house
        await self._conversation.effect(OperationKind.SET, lambda _: house.keeping.put(chat_id, key, value))

    def _once(self, own: Id, stored: object) -> str:
        digest = hashlib.blake2b(encode_value(stored).encode(), digest_size=12).hexdigest()
        return f"{self._conversation.id}/{own}/{digest}"


def recordable(value: object) -> object:
    """Return the value if it can be recorded, else None."""
    try:
        encode_value(value)
    except UnrecordableError:
        return None
    return value


class Door(Protocol):
    """How an `Address` gets to its chat."""

    async def perform(self, operation: Operation[T], on_unknown: OnUnknown) -> T:
        """Send something."""
        ...

    async def signal(self, chat_id: ChatId, value: object, key: str | None) -> None:
        """Tell the chat something."""
        ...

    async def start(
        self, chat_id: ChatId, fn: Callable[..., object], args: tuple[object, ...], key: str | None
    ) -> bool:
        """Start a route."""
        ...

    async def stop(self, chat_id: ChatId, fn: Callable[..., object], key: str | None) -> bool:
        """Stop a route."""
        ...

    async def data(self, chat_id: ChatId) -> Mapping[str, str]:
        """Read what the chat keeps."""
        ...

    def reading(self) -> AbstractContextManager[None]:
        """Return a context to read a kept value in; it says what a failure to read that does."""
        ...

    async def put_data(self, chat_id: ChatId, key: str, value: str | None) -> None:
        """Keep something for the chat, or with None nothing."""
        ...


@final
@attrs.frozen
class Address:
    """A chat, seen from elsewhere; made by `Chat.to` and `Bot.chat`.

    What is sent takes its place in the chat's lane. What is said through `Chat.to` are operations of the
    conversation: the same things are refused there that are refused on its own chat.
    """

    _door: Door = attrs.field(repr=False)
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
        check_content(content)
        operation = SendMessage(
            self.id,
            content,
            reply_keyboard=reply_of(keyboard),
            inline_keyboard=inline_of(buttons),
        )
        return await self._door.perform(operation, on_unknown_of(on_unknown))

    async def edit(
        self, sent: Sent, content: Content | None = None, *, buttons: Buttons[Any] | None = None
    ) -> None:
        """Replace a message; see `Chat.edit`."""
        check_edit(sent, content, buttons)
        operation = EditMessage(sent.chat_id, sent.message_id, content, inline_of(buttons))
        await self._door.perform(operation, OnUnknown.RESEND)

    async def delete(self, sent: Sent) -> None:
        """Delete a message; deleting what is gone is no error."""
        check_sent(sent)
        await self._door.perform(DeleteMessage(sent.chat_id, sent.message_id), OnUnknown.RESEND)

    async def get(self, key: Key[T]) -> T:
        """Read a fresh copy of what the chat keeps under a key; see `Chat.data`.

        Raises:
            KeyError: the slot is empty, and the key has no default.
            UnreadableRecordError: this program can't read what is stored, or it is of another class; names
                the chat and the key. A conversation that asks is parked here instead.
            LocalProtocolError: the chat is not named by its id.
        """
        check_key(key)
        data = await self._door.data(chat_id := as_chat_id(self.id))
        with self._door.reading():
            return key.load_of(chat_id, data.get(key.name))

    async def set(self, key: Key[T], value: T) -> None:
        """Keep a value for the chat: its conversations see it at once, and it is durable when this returns.

        While the store is full this waits.

        Raises:
            UnrecordableError: the value can't be recorded.
            LocalProtocolError: the chat is not named by its id.

        Cancellation: *ambiguous*; it may be repeated.
        """
        check_key(key)
        await self._door.put_data(as_chat_id(self.id), key.name, key.dump(value))

    async def clear(self, key: Key[Any]) -> None:
        """Empty a slot of the chat, as ``del chat.data[KEY]`` does there; an empty one stays so.

        Raises:
            LocalProtocolError: the chat is not named by its id.

        Cancellation: *ambiguous*; it may be repeated.
        """
        check_key(key)
        await self._door.put_data(as_chat_id(self.id), key.name, None)

    async def signal(self, value: object, *, key: str | None = None) -> None:
        """Tell the chat something: whoever there takes `triobot.filters.signal` of its class gets it.

        It is durable when this returns, and comes in order with the chat's events. When nobody takes it now
        it waits for a conversation that does.

        Args:
            value: a frozen attrs class's, by preference; anything that can be recorded, but None.
            key: a second signal with the same key to this chat within seven days is dropped. Through
                `Chat.to` each call has one of its own: what a restart repeats is told once.

        Raises:
            UnrecordableError: the value can't be recorded.
            LocalProtocolError: the chat is not named by its id.
            StoreFullError: too many wait in this chat; nothing was stored.

        Cancellation: *ambiguous*; with a `key` it may simply be repeated.
        """
        await self._door.signal(as_chat_id(self.id), value, key)

    async def start(
        self,
        fn: Callable[[Chat[object], *Args], Awaitable[None]],
        *args: *Args,
        key: str | None = None,
    ) -> bool:
        """Start a route in the chat, in the way of its kind; it is durable when this returns.

        An aside starts at once, an interrupt ends what is live first, a conversation waits until the chat
        has no live one. `Chat.event` there is that of the conversation that calls, and None without one.

        Args:
            fn: a function that a decorator of the bot has declared, and that doesn't insist on an event.
            args: what it gets besides the chat; each must be recordable, and arrives as a copy.
            key: while a run with this key lives, and for seven days after it was started, starting it again
                does nothing. Without one each call starts another.

        Returns: False if there was nothing to do.

        Raises:
            ConfigError: `fn` is no route, or doesn't take these arguments.
            UnrecordableError: an argument can't be recorded.
            LocalProtocolError: the chat is not named by its id, or the key is empty or no text.
            StoreFullError: too much waits in this chat; nothing was stored.

        Cancellation: *ambiguous*; with a `key` it may simply be repeated.

        Example:
            >>> @bot.aside
            ... async def remind(chat: Chat, order: int) -> None:
            ...     await chat.sleep(3 * 24 * 3600)
            ...     await chat.send(f"Has order {order} arrived?")
            >>> await bot.chat(chat_id).start(remind, 7, key="order-7")
        """
        return await self._door.start(as_chat_id(self.id), fn, args, key)

    async def stop(self, fn: Callable[..., Awaitable[None]], *, key: str | None = None) -> bool:
        """End a route's runs in the chat, as an interrupt would; it is durable when this returns.

        Also those that wait for their place. What people said meanwhile is routed again.

        Args:
            fn: as for `start`.
            key: only the run that was started with this key.

        Returns: False if there is nothing to end; True may also mean that nobody can know yet.

        Raises: as `start`.
        """
        return await self._door.stop(as_chat_id(self.id), fn, key)
