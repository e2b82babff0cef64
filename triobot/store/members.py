"""Which processes share a store in shards, as its database tells it: what they see, and how to join them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, final

import attrs

from ..seams import WallClock
from .rules import Retention
from .schema import Stamp
from .table_store import Store


@final
@attrs.frozen
class NodeRow:
    """A node that lives.

    Attributes:
        name: what people call it: its machine and the number of its process.
        door: where the others reach it, HOST:PORT.
        version: of triobot.
        seconds: since it came.
        drained: it is to have no shards.
        build: what it runs, as its owner calls it; empty: it doesn't say.
        build_number: of builds that are there the newest has the highest, and the shards go there.
        failing: the work of a shard has failed there.
        clock_off: by how many milliseconds its machine's clock is ahead of the server's, or behind if that is
            negative; 0: it is right.
    """

    id: int
    name: str
    door: str
    version: str
    seconds: float
    drained: bool
    build: str = ""
    build_number: int = 0
    failing: bool = False
    clock_off: int = 0


@final
@attrs.frozen
class OwnerRow:
    """A shard, and who has it.

    Attributes:
        owner: a node, or a tool that has it open; None: nobody that lives.
        name: of whoever has it, or had it last; empty: nobody yet.
        seconds: for how long that has been so.
        works: its events are handled there.
    """

    shard: int
    owner: int | None
    name: str
    seconds: float
    works: bool


@final
@attrs.frozen
class Roster:
    """The nodes and the shards of a store, at one moment.

    Attributes:
        now: the server's time of day at about that moment, in milliseconds; None: it isn't known.
    """

    nodes: Sequence[NodeRow]
    owners: Sequence[OwnerRow]
    now: int | None = None


class Membership(Protocol):
    """This process as one of the nodes that share a store."""

    @property
    def id(self) -> int:
        """Return its number; another one after the lease was lost."""
        ...

    def held(self) -> float:
        """Return for how many seconds more its lease is certain: nobody else can have what it has."""
        ...

    @property
    def lost(self) -> bool:
        """Return whether others may have taken all that it had; `join` makes it a node again."""
        ...

    async def host(self) -> str:
        """Return the address of this machine, as the database sees it."""
        ...

    async def now(self) -> int:
        """Return the server's time of day, in milliseconds since 1970 in UTC."""
        ...

    async def common(self, stamp: Stamp, names: Sequence[str]) -> Mapping[str, str]:
        """Read the settings of the whole bot that are kept in its home shard.

        Raises:
            ConfigError: the store is another bot's.
        """
        ...

    async def join(
        self, door: str, build: str | None, prepare: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Be a node from now on.

        Args:
            door: where the others reach it.
            build: what it runs; None: it is called by triobot's version. One that is seen for the first time
                is newer than all before it.
            prepare: makes the store ready; called first if no other node lives, and by one at a time.
        """
        ...

    async def leave(self) -> None:
        """Be none any more, and tell the others."""
        ...

    async def look(self) -> Roster:
        """Return who is there, and who has what."""
        ...

    async def wait(self, seconds: float) -> None:
        """Wait until somebody has said that something changed, or so long."""
        ...

    async def say_works(self, shard: int) -> None:
        """Say that a shard's events are handled by this node now."""
        ...

    async def say_failing(self, failing: bool) -> None:
        """Say whether a shard's work has failed at this node."""
        ...

    async def say_drained(self) -> None:
        """Say that this node is to have no shards, for as long as it is one."""
        ...

    async def say_clock(self, off: int) -> None:
        """Say by how much this machine's clock differs; see `NodeRow.clock_off`."""
        ...

    async def let_go(self, shard: int) -> None:
        """Let others have a shard that this node has by its row alone, and not open."""
        ...

    def open_store(
        self, url: str, *, stamp: Stamp, clock: WallClock, retention: Retention
    ) -> AbstractAsyncContextManager[Store]:
        """Open a shard under this node's lease; as `triobot.store.open_store`."""
        ...
