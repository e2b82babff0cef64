"""A conversation's own door to other chats, and to what code starts: each call is one of its operations."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TypeVar, final

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
