"""A conversation's own door to other chats, and to what code starts: each call is one of its operations."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import TypeVar, final

import attrs
import trio

from ..errors import UnrecordableError
from ..seams import OnUnknown
from ..values import encode_value
from ..wire.ids import ChatId
from ..wire.operations import Operation
from .branches import OperationId, OperationKind
from .conversation import Conversation
from .lines import calling_line

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
        own = await self._begin(OperationKind.SIGNAL)
        await self._conversation.house.elsewhere.signal(chat_id, value, key or self._once(own, value))

    async def start(
        self, chat_id: ChatId, fn: Callable[..., object], args: tuple[object, ...], key: str | None
    ) -> bool:
        """Start a route."""
        own = await self._begin(OperationKind.START)
        there, elsewhere = self._conversation, self._conversation.house.elsewhere
        name = elsewhere.table.route_of(fn, args, f"{calling_line()}: start()").name
        value, sender = recordable(there.value), there.event.sender
        once = key or self._once(own, (name, args))
        started = await elsewhere.start(chat_id, name, args, key=key, once=once, value=value, sender=sender)
        # Without a key of the author's, what was dropped is what this very operation had started.
        return started or key is None

    async def stop(self, chat_id: ChatId, fn: Callable[..., object], key: str | None) -> bool:
        """Stop a route."""
        await self._begin(OperationKind.STOP)
        elsewhere = self._conversation.house.elsewhere
        name = elsewhere.table.route_of(fn, None, f"{calling_line()}: stop()").name
        return await elsewhere.stop(chat_id, name, key)

    async def data(self, chat_id: ChatId) -> Mapping[str, str]:
        """What a chat keeps."""
        await self._begin(OperationKind.GET)
        return await self._conversation.house.data(chat_id)

    async def put_data(self, chat_id: ChatId, key: str, value: str) -> None:
        """Keep something for a chat."""
        await self._begin(OperationKind.SET)
        await self._conversation.house.put_data(chat_id, key, value)

    async def _begin(self, kind: OperationKind) -> OperationId:
        own = self._conversation.enter(kind)
        await trio.lowlevel.checkpoint_if_cancelled()
        return own

    def _once(self, own: OperationId, stored: object) -> str:
        # What an earlier process said at this operation may have been something else: until conversations are
        # replayed, nothing makes the second run take the same way.
        digest = hashlib.blake2b(encode_value(stored).encode(), digest_size=12).hexdigest()
        return f"{self._conversation.id}/{own}/{digest}"


def recordable(value: object) -> object:
    """A value that can be recorded, or None in its place."""
    try:
        encode_value(value)
    except UnrecordableError:
        return None
    return value
