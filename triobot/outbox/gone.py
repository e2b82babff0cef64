"""Who has left while a broadcast was told: an iterator over pages of the store.

Not a generator: there is nothing to close for whoever leaves it in the middle.
"""

from __future__ import annotations

from collections import deque
from typing import final

from ..jobs import Receiver
from ..seams import Store
from ..wire.ids import ChatId
from .course import PAGE


@final
class Gone:
    """The receivers who have left, in the order of the audience, as far as is known; each once."""

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key
        self._after = 0
        self._page = deque[Receiver]()

    def __aiter__(self) -> Gone:
        return self

    async def __anext__(self) -> ChatId:
        if not self._page:
            found = await self._store.receivers(self._key, after=self._after, limit=PAGE, gone=True)
            if not found:
                raise StopAsyncIteration
            self._page.extend(found)
            self._after = found[-1].position
        return self._page.popleft().chat_id
