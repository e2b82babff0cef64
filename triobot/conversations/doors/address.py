"""How one chat gets to another: what an `Address` of a conversation does are operations of its own.

There are two doors to an `Address`: `Chat.to` is a conversation's, where each call is one of its operations;
`Bot.chat` is for everybody else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar, final

import attrs

from ...engine.records import Id
from ...errors import UnrecordableError
from ...seams import OnUnknown
from ...values import encode_value
from ...wire.ids import ChatId
from ...wire.operations import Operation
from ..conversation import Conversation
from ..running.branches import OperationKind
from ..running.lines import calling_line

T = TypeVar("T")


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
