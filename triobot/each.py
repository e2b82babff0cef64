"""Every chat that keeps something: an iterator over pages of the store.

Not a generator: one that somebody leaves in the middle, by a break or because the program ends, would have to
be closed by hand, or be complained about when it is collected. There is nothing here to close.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar, final

from .conversations.data.keeping import Keeping
from .conversations.data.slots import Key
from .wire.ids import ChatId

T = TypeVar("T")


@final
class Each(Generic[T]):
    """The chats that keep a value under a key, by growing id, with the value; each once."""

    def __init__(self, keeping: Keeping, key: Key[T]) -> None:
        self._keeping = keeping
        self._key = key
        self._after: ChatId | None = None
        self._page = deque[tuple[ChatId, str]]()

    def __aiter__(self) -> Each[T]:
        return self

    async def __anext__(self) -> tuple[ChatId, T]:
        if not self._page:
            self._page.extend(await self._keeping.keyed(self._key.name, self._after))
            if not self._page:
                raise StopAsyncIteration
            self._after = self._page[-1][0]
        chat_id, text = self._page.popleft()
        return chat_id, self._key.load_of(chat_id, text)
