"""What chats keep beyond their conversations: each chat's values while it is in memory, and all chats' door.

`data` is what an author sees of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, final

import trio

from ...seams import PutData, Store
from ...wire.ids import ChatId
from ..inbox.consumption import Consumption
from ..running.failures import Speech, words_for
from ..texts import Texts
from .slots import OURS, any_declared

PAGE: Final = 256


class Keeper(Protocol):
    """Whoever knows what one chat keeps, or is about to."""

    @property
    def values(self) -> Mapping[str, str] | None:
        """Return what the chat keeps, by key, as text; None while that is not known."""
        ...

    def put(self, key: str, value: str | None) -> None:
        """Keep this for the chat, or with None nothing, under a key."""
        ...


def of_authors(stored: Mapping[str, str]) -> dict[str, str]:
    """Return what is kept, without what the runtime keeps for itself."""
    return {key: value for key, value in stored.items() if not key.startswith(OURS)}


@final
class Kept:
    """What one chat keeps, by key, as text.

    Args:
        flush: has the writers of the chat's conversations, but for this one, hand over what they have put.

    Attributes:
        values: None until they are read.
    """

    def __init__(
        self, keeping: Keeping, chat_id: ChatId, flush: Callable[[object], None], texts: Speech
    ) -> None:
        self.values: dict[str, str] | None = None
        self._keeping = keeping
        self._chat_id = chat_id
        self._flush = flush
        self._texts = texts
        self._put_early: dict[str, str | None] = {}

    async def load(self) -> None:
        """Read what the chat keeps, unless that has been done or no key was declared."""
        if self.values is None and any_declared():
            stored = await self._keeping.stored(self._chat_id)
            if self.values is None:  # another conversation of the chat may have been faster
                self.begin_with(stored)

    @property
    def known(self) -> bool:
        """Return whether what the chat keeps has been read, or need not be."""
        return self.values is not None or not any_declared()

    def begin_with(self, stored: Mapping[str, str]) -> None:
        """Begin with what the store has, and put on it what was put here before."""
        self.values = dict(stored)
        for key, value in self._put_early.items():
            self.put(key, value)

    def put(self, key: str, value: str | None, writer: object = None) -> None:
        """Keep this, or with None nothing, under a key; conversations see it in their next turn."""
        # What others have put and not handed to the commit queue comes before it.
        self._flush(writer)
        if self.values is None:
            self._put_early[key] = value
        elif value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value

    @property
    def texts(self) -> Texts:
        """Return the runtime's own words, as this chat is to hear them."""
        return self.words(self.values)

    def words(self, data: Mapping[str, str] | None) -> Texts:
        """Return the runtime's own words for a chat that keeps this."""
        return words_for(self._texts, data)


@final
class Keeping:
    """What any chat keeps, in memory or not.

    Args:
        find: who knows what the chat keeps, while it is in memory.
    """

    def __init__(
        self, store: Store, consumption: Consumption, find: Callable[[ChatId], Keeper | None]
    ) -> None:
        self._store = store
        self._consumption = consumption
        self._find = find

    async def stored(self, chat_id: ChatId) -> Mapping[str, str]:
        """Read what a chat keeps from the store, once all of it is written there."""
        await self._consumption.wait_written(chat_id)
        stored = await self._store.data(chat_id)
        return of_authors(stored)

    def is_stored(self, chat_id: ChatId) -> bool:
        """Return whether all that the chat keeps is in the store."""
        return not self._consumption.has_data(chat_id)

    async def data(self, chat_id: ChatId) -> Mapping[str, str]:
        """Return what a chat keeps, as its conversations see it."""
        kept = self._find(chat_id)
        if kept is not None and kept.values is not None:
            await trio.lowlevel.checkpoint()
            return dict(kept.values)
        return await self.stored(chat_id)

    async def put(self, chat_id: ChatId, key: str, value: str | None) -> None:
        """Keep a value; the chat's conversations see it at once, and it is durable when this returns."""
        await trio.lowlevel.checkpoint_if_cancelled()
        kept = self._find(chat_id)
        if kept is not None:
            kept.put(key, value)
        self._consumption.add([PutData(chat_id, key, value)])
        await self._consumption.wait_written()

    async def keyed(self, key: str, after: ChatId | None) -> Sequence[tuple[ChatId, str]]:
        """Read a page of the chats that keep a value under this key."""
        await self._consumption.wait_written()
        return await self._store.keyed(key, after=after, limit=PAGE)
