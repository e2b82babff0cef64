"""What outlives the process: what is behind `triobot.store.Store`, and one contract for all of them.

`open_store` picks the store by its address: SQLite in a file; SQLite in memory, which gives everything but
durability; or PostgreSQL, which is loaded only where an address names it. The rules that decide (redelivery,
quota, the ring of raw requests) are a pure module of their own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from ..base.clock import WallClock
from ..base.extras import needing
from ..errors import ConfigError
from ..seams.writes import Answered, OperatorOrder
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
from .schema import file_of as file_of
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
    from .postgres.roster import NodeRow

_NO_ADDRESS: Final = "a store's address is sqlite:PATH, such as sqlite:bot.db or sqlite:/var/lib/bot.db"


async def rebind_store(url: str, *, stamp: Stamp, clock: WallClock) -> None:
    """Bind the store at this address to another platform address or token; nothing else in it is changed.

    Raises:
        ConfigError: there is no store, or it has no stamp.
        StoreError: as `open_store`.
    """
    engine, _, place = url.partition(":")
    if engine == "postgresql":
        with needing("postgres", "a store in PostgreSQL"):
            from .postgres import rebind_postgres
        await rebind_postgres(place, stamp=stamp, clock=clock)
        return
    if (file := file_of(url)) is None:
        raise ConfigError(_NO_ADDRESS)
    await rebind_sqlite(file, stamp=stamp, clock=clock)


async def wait_free(url: str, *, taken: Callable[[], None]) -> None:
    """Wait until no process has the store at this address; at once if only one machine can have it.

    Args:
        taken: called once, if a process has it.

    Raises:
        StoreError, ConfigError: as `open_store`, for what is found at the first look.
    """
    await trio.lowlevel.checkpoint()
    engine, _, place = url.partition(":")
    if engine == "postgresql":
        with needing("postgres", "a store in PostgreSQL"):
            from .postgres import wait_free_postgres
        await wait_free_postgres(place, taken=taken)


async def is_made(url: str) -> bool:
    """Return whether there is something at this address of a store; an empty file is nothing.

    Raises:
        StoreError, ConfigError: it can't be found out; as `open_store`.
    """
    engine, _, place = url.partition(":")
    if engine == "postgresql":
        with needing("postgres", "a store in PostgreSQL"):
            from .postgres import is_made_postgres
        return await is_made_postgres(place)
    await trio.lowlevel.checkpoint()
    file = file_of(url)
    return file is not None and file.exists() and file.stat().st_size > 0


async def ask_owner(url: str, order: OperatorOrder) -> Answered | None:
    """Have the process that has the store at this address asked through it; None if none has it.

    Raises:
        ConfigError: the address names no store on a server, or none that this user may use.
        StoreError: the process gave no answer, or the server is away.

    Cancellation: *ambiguous*: the request may be carried out.
    """
    engine, _, place = url.partition(":")
    if engine != "postgresql":
        raise ConfigError("only a store on a server carries orders")
    with needing("postgres", "a store in PostgreSQL"):
        from .postgres import ask_owner as ask
    return await ask(place, order)


@asynccontextmanager
async def open_store(
    url: str, *, stamp: Stamp | None, clock: WallClock, retention: Retention = RETENTION, visit: bool = False
) -> AsyncGenerator[Store, None]:
    """Open the store that this address names, for as long as the block runs.

    Args:
        url: ``sqlite:PATH``, the path absolute or relative to the working directory; ``memory:``; or
            ``postgresql:`` with what `triobot.store.postgres.address.read_address` takes.
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
    engine, colon, place = url.partition(":")
    # The address may hold a password, so no error repeats more of it than the engine's name.
    if engine == "memory" and colon and not place:
        async with open_memory(clock=clock, retention=retention) as store:
            yield store
    elif (file := file_of(url)) is not None and not place.startswith("//"):
        opened = open_sqlite(file, stamp=stamp, clock=clock, retention=retention, visit=visit)
        async with opened as store:
            yield store
    elif engine == "postgresql":
        with needing("postgres", "a store in PostgreSQL"):
            from .postgres import open_postgres
        open_it = partial(open_postgres, place, stamp=stamp, clock=clock, retention=retention)
        async with open_it(visit=visit) as store:
            yield store
    elif engine == "sqlite":
        raise ConfigError(_NO_ADDRESS)
    else:
        raise ConfigError("a store's address is sqlite:PATH, postgresql://HOST/DATABASE or memory:")


def admission_at(url: str) -> Admission:
    """Return what takes events in for the store on a server at this address, whichever process has that.

    Raises:
        ConfigError: the address names no store on a server.
    """
    engine, _, place = url.partition(":")
    if engine != "postgresql":
        raise ConfigError("only a store on a server takes events in for another process")
    with needing("postgres", "a store in PostgreSQL"):
        from .postgres import admission_at as at
    return at(place)


async def read_nodes(url: str) -> Sequence[NodeRow]:
    """Return the processes that share the store at this address.

    Raises:
        ConfigError: the address names no store on a server, or none is there.
        StoreAwayError: the server can't be reached.
    """
    engine, _, place = url.partition(":")
    if engine != "postgresql":
        raise ConfigError("only a store in PostgreSQL has several processes: postgresql://HOST/DATABASE")
    with needing("postgres", "a store in PostgreSQL"):
        from .postgres.roster import read_postgres_nodes
    return await read_postgres_nodes(place)
