"""How one place gets to another: what is said through a conversation's reference are operations of its own.

There are two doors to a place: `Room.to` is a conversation's, where each call is one of its operations;
`Bot.to` is for everybody else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, final

import attrs

from ...engine.records import Id
from ...errors import UnrecordableError
from ...seams import OnUnknown
from ...values import encode_value
from ...wire.ids import ChatId, Recipient, as_chat_id
from ...wire.operations import Operation
from ..advice import copied
from ..conversation import Conversation
from ..data import Key, check_key
from ..running.branches import OperationKind
from ..running.lines import calling_line

T = TypeVar("T")


@final
@attrs.frozen
class RecordedDoor:
    """The door of `Room.to`.

    What it stores has a key made of the conversation, the operation and what is stored: when a crash lets the
    operation happen again, the second is dropped.
    """

    _conversation: Conversation = attrs.field(repr=False)

    async def perform(self, operation: Operation[T], on_unknown: OnUnknown) -> T:
        """Send something, in the order of that chat."""
        return await self._conversation.perform(operation, on_unknown=on_unknown)

    async def signal(self, chat_id: ChatId, value: object, key: str | None) -> None:
        """Tell another chat something."""
        elsewhere = self._conversation.shared.elsewhere

        async def body(own: Id) -> None:
            await elsewhere.signal(chat_id, value, key or self._once(own, value))

        await self._conversation.effect(OperationKind.SIGNAL, body)

    async def start(
        self, chat_id: ChatId, fn: Callable[..., object], args: tuple[object, ...], key: str | None
    ) -> bool:
        """Start a route."""
        there, elsewhere = self._conversation, self._conversation.shared.elsewhere
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
        elsewhere = self._conversation.shared.elsewhere
        name = elsewhere.table.route_of(fn, None, f"{calling_line()}: stop()").name
        return await self._conversation.effect(
            OperationKind.STOP, lambda _: elsewhere.stop(chat_id, name, key)
        )

    async def data(self, chat_id: ChatId) -> Mapping[str, str]:
        """Read what a chat keeps, as an operation of the conversation."""
        keeping = self._conversation.shared.keeping

        async def body(own: Id) -> dict[str, str]:
            return dict(await keeping.data(chat_id))

        return await self._conversation.effect(OperationKind.GET, body)

    def reading(self) -> AbstractContextManager[None]:
        """Return a context in which a value that can't be read parks the conversation."""
        return self._conversation.reading()

    async def put_data(self, chat_id: ChatId, key: str, value: str | None) -> None:
        """Keep something for a chat."""
        keeping = self._conversation.shared.keeping
        await self._conversation.effect(OperationKind.SET, lambda _: keeping.put(chat_id, key, value))

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
    """How a reference gets to its place."""

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


@attrs.frozen
class RoomRef:
    """A place of the bot's, seen from elsewhere: what it keeps, and what it can be told.

    `Room.to` and `Bot.to` make one; `ChatRef` is that of a chat. What is said through `Room.to` are
    operations of the conversation: the same things are refused there that are refused on its own place.
    Through `Bot.to` nothing is recorded.
    """

    _door: Door = attrs.field(repr=False)
    _whose: Recipient = attrs.field(repr=False)

    @property
    def _place(self) -> ChatId:
        return as_chat_id(self._whose)

    async def get(self, key: Key[T]) -> T:
        """Read a fresh copy of what the place keeps under a key; see `Room.data`.

        Raises:
            KeyError: the slot is empty, and the key has no default.
            UnreadableRecordError: this program can't read what is stored, or it is of another class; names
                the chat and the key. A conversation that asks is parked here instead.
            LocalProtocolError: the chat is not named by its id.
        """
        check_key(key)
        data = await self._door.data(chat_id := self._place)
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
        await self._door.put_data(self._place, key.name, key.dump(value))

    async def clear(self, key: Key[Any]) -> None:
        """Empty a slot of the chat, as ``del chat.data[KEY]`` does there; an empty one stays so.

        Raises:
            LocalProtocolError: the chat is not named by its id.

        Cancellation: *ambiguous*; it may be repeated.
        """
        check_key(key)
        await self._door.put_data(self._place, key.name, None)

    async def signal(self, value: object, *, key: str | None = None) -> None:
        """Tell the chat something: whoever there takes `triobot.filters.signal` of its class gets it.

        It is durable when this returns, and comes in order with the chat's events. When nobody takes it now
        it waits for a conversation that does.

        Args:
            value: a frozen attrs class's, by preference; anything that can be recorded, but None.
            key: a second signal with the same key to this chat within seven days is dropped. Through
                `Room.to` each call has one of its own: what a restart repeats is told once.

        Raises:
            UnrecordableError: the value can't be recorded.
            LocalProtocolError: the chat is not named by its id.
            StoreFullError: too many wait in this chat; nothing was stored.

        Cancellation: *ambiguous*; with a `key` it may simply be repeated.
        """
        await self._door.signal(self._place, value, key)


@final
class ChatData:
    """The values of one chat, as one conversation sees them; `Chat.data`.

    Example:
        >>> async def greet(chat: Chat) -> None:
        ...     chat.data[VISITS] = chat.data[VISITS] + 1
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def __getitem__(self, key: Key[T]) -> T:
        """A fresh copy of the value: changing it changes nothing here.

        What is stored and can't be read, or is of another type, parks the conversation here: nothing of it
        is lost, and other code goes on from here.

        Raises:
            KeyError: the slot is empty, and the key has no default.
        """
        check_key(key)
        text = self._conversation.kept().get(key.name)
        with self._conversation.reading():
            value = key.load(text)
        if self._conversation.services.advice is not None:
            copy = copied(key.name, key.dump(value), value)
            if copy is not None:
                self._conversation.copies.append(copy)
        return value

    def __setitem__(self, key: Key[T], value: T) -> None:
        """Keep a value; it is durable together with the consumption of the event that caused it.

        What others write under the key while this turn lasts comes after it, and stays.

        Raises:
            UnrecordableError: it can't be recorded; nothing was changed.
        """
        check_key(key)
        self._conversation.keep(key.name, key.dump(value))

    def __delitem__(self, key: Key[T]) -> None:
        """Empty the slot; an empty one stays so."""
        check_key(key)
        self._conversation.keep(key.name, None)

    def __contains__(self, key: Key[T]) -> bool:
        """Whether the slot holds a value, its default aside."""
        return key.name in self._conversation.kept()
