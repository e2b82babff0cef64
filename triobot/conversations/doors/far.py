"""Places in other shards, as the conversations of one shard reach them.

What is asked of another shard may be asked twice: its owner may die after it has done it and before it says
so. So what changes something has a key, `once`, by which its owner knows that it has been done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ...seams import Arrival
from ...wire.ids import ChatId
from .calls import Halt


class Far(Protocol):
    """The places of all shards, seen from one. What has no answer yet waits for the owner of the place.

    Raises, from every method that waits:
        StoreFullError: nothing of it was stored; repeat it once there is room.
    """

    def is_here(self, place: ChatId) -> bool:
        """Return whether this shard itself has the place."""
        ...

    async def tell(self, arrival: Arrival) -> None:
        """Store a signal in the inbox of its place, once."""
        ...

    async def start(self, arrival: Arrival, run: Halt | None) -> bool:
        """Store a call there, unless what it starts runs already."""
        ...

    async def stop(self, halt: Halt) -> bool:
        """Have a route's runs ended there; False if none runs."""
        ...

    async def data(self, place: ChatId) -> Mapping[str, str]:
        """Read what the place keeps."""
        ...

    async def put(self, place: ChatId, key: str, value: str | None, once: str) -> None:
        """Keep a value for the place, once; durable when it returns."""
        ...

    async def replace(self, place: ChatId, key: str, old: str | None, new: str, once: str) -> str | None:
        """Put a value in the place of this one; return what is there by this, or None if `old` isn't there.

        A second call with the same `once` returns what the first one has put.
        """
        ...

    async def settle(self, place: ChatId, once: str) -> None:
        """Let the owner forget that this was done: it won't be asked again."""
        ...

    async def keyed(self, key: str, after: ChatId | None) -> Sequence[tuple[ChatId, str]]:
        """Read a page of the chats of all shards that keep a value under this key, by growing id."""
        ...
