"""What outlives the process: what is behind `triobot.store.Store`, and one contract for all of them.

`open_store` picks the store by its address: SQLite in a file; SQLite in memory, which gives everything but
durability; or PostgreSQL, which is experimental, and loaded only where an address names it. Of a store in
shards on a server `open_membership` makes a process one of the nodes that share it. The rules that
decide (redelivery, quota, the ring of raw requests) are a pure module of their own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from ..errors import ConfigError
from ..extras import needing
from ..seams import Hear, Relayed, WallClock
from ..shards import IN_ONE_FILE, read_shards
from .members import Membership, Roster
from .memory import MemoryRows as MemoryRows
from .memory import open_memory as open_memory
from .replica import Manifest as Manifest
from .replica import Replica as Replica
from .replica import copy_replica as copy_replica
from .replica import is_replica as is_replica
from .replica import lock_replica as lock_replica
from .rules import DAY as DAY
from .rules import RETENTION
from .rules import Retention as Retention
from .schema import Stamp as Stamp
from .sqlite import back_up_sqlite as back_up_sqlite
from .sqlite import examine_sqlite as examine_sqlite
from .sqlite import open_sqlite as open_sqlite
from .sqlite import rebind_sqlite as rebind_sqlite
from .sqlite import restore_sqlite as restore_sqlite
from .still import copy_still as copy_still
from .table_store import ReadPayments as ReadPayments
from .table_store import Store as Store

if TYPE_CHECKING:
    from .postgres.admitting import Admission

_NO_ADDRESS: Final = "a store's address is sqlite:PATH, such as sqlite:bot.db or sqlite:/var/lib/bot.db"


async def rebind_store(url: str, *, stamp: Stamp, clock: WallClock) -> None:
    """Bind the store at this address to another platform address or token; nothing else in it is changed.

    Raises:
        ConfigError: there is no store, or it has no stamp.
        StoreError: as `open_store`.
    """
    for one in read_shards(url).each:
        address = read_shards(one)
        engine, _, place = address.whole.partition(":")
        if engine == "postgresql":
            with needing("postgres", "a store in PostgreSQL"):
                from .postgres import rebind_postgres
            await rebind_postgres(place, stamp=stamp, clock=clock, share=address.share)
            continue
        if (file := address.file) is None:
            raise ConfigError(_NO_ADDRESS)
        await rebind_sqlite(file, stamp=stamp, clock=clock)


async def wait_free(url: str, *, taken: Callable[[], None]) -> None:
    """Wait until no process has the store at this address; at once if only one machine can have it.

    A store in shards is free when nobody has any of them.

    Args:
        taken: called once, if a process has it.

    Raises:
        StoreError, ConfigError: as `open_store`, for what is found at the first look.
    """
    await trio.lowlevel.checkpoint()
    for one in read_shards(url).each:
        address = read_shards(one)
        engine, _, place = address.whole.partition(":")
        if engine == "postgresql":
            with needing("postgres", "a store in PostgreSQL"):
                from .postgres import wait_free_postgres
            await wait_free_postgres(place, taken=taken, share=address.share)


async def is_made(url: str) -> bool:
    """Return whether there is something at this address of a store, or of a shard; an empty file is nothing.

    Raises:
        StoreError, ConfigError: it can't be found out; as `open_store`.
    """
    address = read_shards(url)
    engine, _, place = address.whole.partition(":")
    if engine == "postgresql":
        with needing("postgres", "a store in PostgreSQL"):
            from .postgres import is_made_postgres
        return await is_made_postgres(place, share=address.share)
    await trio.lowlevel.checkpoint()
    file = address.file
    return file is not None and file.exists() and file.stat().st_size > 0


async def ask_owner(url: str, relayed: Relayed, hear: Hear) -> bool:
    """Have the process that has the store at this address asked through it; False if none has it.

    Args:
        hear: takes the answer, part by part; what it raises is raised.

    Raises:
        ConfigError: the address names no store on a server, or none that this user may use.
        StoreError: the process gave no answer, or the server is away.

    Cancellation: *ambiguous*: the request may be carried out.
    """
    address = read_shards(url)
    engine, _, place = address.whole.partition(":")
    if engine != "postgresql":
        raise ConfigError("only a store on a server carries requests")
    with needing("postgres", "a store in PostgreSQL"):
        from .postgres import ask_owner as ask
    return await ask(place, relayed, hear, share=address.share)


@asynccontextmanager
async def open_store(
    url: str, *, stamp: Stamp | None, clock: WallClock, retention: Retention = RETENTION, visit: bool = False
) -> AsyncGenerator[Store, None]:
    """Open the store that this address names, for as long as the block runs.

    Args:
        url: ``sqlite:PATH``, the path absolute or relative to the working directory; ``memory:``; or
            ``postgresql:`` with what `triobot.store.postgres.address.read_address` takes, and with
            ``?shards=4&shard=0`` for one of several shards.
        stamp: platform and bot; a file is bound to them when it is made. None for a tool that only reads:
            whoever may read the file may see what is in it.
        clock: the time of day.
        retention: how long what nothing needs any more is kept.
        visit: open it with a tool, not to run the bot.

    Raises:
        ConfigError: the address names no store, or what its engine needs isn't installed.
        StoreError: as `open_sqlite` and `triobot.store.postgres.open_postgres`.

    Cancellation: as `open_sqlite`.
    """
    address = read_shards(url)
    engine, colon, place = address.whole.partition(":")
    # The address may hold a password, so no error repeats more of it than the engine's name.
    if address.shards is not None and address.share is None:
        raise ConfigError("a store in shards is opened one by one; name one, such as ?shards=4&shard=0")
    if engine == "memory" and colon and not place:
        async with open_memory(clock=clock, retention=retention) as store:
            yield store
    elif engine == "sqlite" and place and not place.startswith("//"):
        file = address.file
        assert file is not None
        _refuse_beside_several(file)
        opened = open_sqlite(file, stamp=stamp, clock=clock, retention=retention, visit=visit)
        async with opened as store:
            yield store
    elif engine == "postgresql":
        with needing("postgres", "a store in PostgreSQL"):
            from .postgres import open_postgres
        open_it = partial(open_postgres, place, stamp=stamp, clock=clock, retention=retention)
        async with open_it(visit=visit, share=address.share) as store:
            yield store
    elif engine == "sqlite":
        raise ConfigError(_NO_ADDRESS)
    else:
        raise ConfigError("a store's address is sqlite:PATH, postgresql://HOST/DATABASE or memory:")


@asynccontextmanager
async def open_admission(url: str) -> AsyncGenerator[Admission, None]:
    """Take events in for the store on a server at this address, whichever process has it.

    Raises:
        ConfigError: the address names no store on a server.
    """
    engine, _, place = url.partition(":")
    if engine != "postgresql":
        raise ConfigError("only a store on a server takes events in for another process")
    with needing("postgres", "a store in PostgreSQL"):
        from .postgres import open_admission as open_it
    async with open_it(place) as admission:
        yield admission


@asynccontextmanager
async def open_membership(url: str) -> AsyncGenerator[Membership, None]:
    """Make this process one of the nodes of the store in shards at this address, once it has joined.

    Every method of what is yielded raises, besides what it says:
        StoreAwayError: the server can't be reached now.

    Raises:
        ConfigError: the address names no store in shards on a server, or none that can be used.
        StoreAwayError: the server can't be reached.
    """
    with needing("postgres", "a store in PostgreSQL"):
        from .postgres.members import open_postgres_membership
    address = read_shards(url)
    async with open_postgres_membership(_place_of(url), address.shards or 1) as membership:
        yield membership


async def read_common(url: str, stamp: Stamp, names: Sequence[str]) -> Mapping[str, str]:
    """Read the settings of the whole bot that are kept in its home shard, whoever has it.

    Raises: as `open_membership`; ConfigError: the store is another bot's.
    """
    async with open_membership(url) as membership:
        return await membership.common(stamp, names)


async def read_members(url: str) -> Roster:
    """Return who is there, and who has what.

    Raises: as `open_membership`; ConfigError: there is no such store.
    """
    with needing("postgres", "a store in PostgreSQL"):
        from .postgres.members import read_postgres_members
    return await read_postgres_members(_place_of(url))


async def drain_member(url: str, name: str) -> None:
    """Have a node give up its shards to the others, and take none until it is started again.

    Raises: as `read_members`; ConfigError: no node, or several, are called so; or no other one is there.
    """
    with needing("postgres", "a store in PostgreSQL"):
        from .postgres.members import drain_postgres_member
    await drain_postgres_member(_place_of(url), name)


async def prefer_build(url: str, name: str) -> None:
    """Have the shards go to the nodes of a build, until a build comes that was never seen.

    Raises: as `read_members`; ConfigError: no node runs it that may have shards.
    """
    with needing("postgres", "a store in PostgreSQL"):
        from .postgres.members import prefer_postgres_build
    await prefer_postgres_build(_place_of(url), name)


def _place_of(url: str) -> str:
    address = read_shards(url)
    engine, _, place = address.whole.partition(":")
    if engine != "postgresql" or address.shards is None:
        raise ConfigError(
            "only a store in PostgreSQL and in shards has several nodes, such as"
            " postgresql://HOST/DATABASE?shards=4"
        )
    return place


def _refuse_beside_several(path: Path) -> None:
    """Refuse to make a new store beside the files of one that was made in several.

    Raises:
        ConfigError: there is one: the bot would begin anew, and nobody would see that its chats are there.
    """
    first = path.with_name(f"{path.name}.0")
    if not path.exists() and first.exists():
        raise ConfigError(
            f"there is no store at {path}, but {first}. {IN_ONE_FILE}. If it is something else, move it"
        )
