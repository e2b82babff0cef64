"""Stores: state that outlives the process, behind one interface, `triobot.store.Store`.

`open_store` picks one of three databases by the address: SQLite in a file, SQLite in memory (not durable), or
PostgreSQL. The code for a memory or PostgreSQL store is imported only if an address names such a store. Only
commands import `restoring` and `offline_copy`. The rules for redelivery, quota and unreadable requests are in
`rules`, a pure module.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

from ..base.clock import WallClock
from ..base.extras import needing
from ..errors import ConfigError
from ..seams.writes import Answered, OperatorOrder
from .rules import DAY as DAY
from .rules import RETENTION
from .rules import Retention as Retention
from .schema import Stamp as Stamp
from .schema import file_of as file_of
from .schema import sealed
from .sqlite import open_sqlite as open_sqlite
from .table_store import ReadPayments as ReadPayments
from .table_store import Store as Store

if TYPE_CHECKING:
    from .postgres.admitting import Admission
    from .postgres.roster import NodeRow

_NO_ADDRESS: Final = "a store's address is sqlite:PATH, such as sqlite:bot.db or sqlite:/var/lib/bot.db"


async def rebind_store(url: str, *, stamp: Stamp, clock: WallClock) -> None:
    """Replace the store's stamp: the platform's address and the token's digest. Nothing else changes.

    A bot needs a new stamp if its token was replaced, or if its platform moved to another address.

    Raises:
        ConfigError, StoreError: as `open_store`.
    """
    async with open_store(url, stamp=None, clock=clock, visit=True) as store:
        await store.commit(sealed(stamp))


@asynccontextmanager
async def open_store(
    url: str, *, stamp: Stamp | None, clock: WallClock, retention: Retention = RETENTION, visit: bool = False
) -> AsyncGenerator[Store, None]:
    """Open the store at this address while the block runs.

    Args:
        url: ``sqlite:PATH``, absolute or relative to the working directory; ``memory:``; or ``postgresql:``
            and an address for `triobot.store.postgres.address.read_address`.
        stamp: platform and bot; a new store is bound to both. With None, the store may belong to any bot.
            `rebind_store` and operators' commands use None.
        clock: the time of day.
        retention: how long the store keeps data that is no longer needed.
        visit: whether a tool, and not the bot, opens the store.

    Raises:
        ConfigError: the address names no store, or a package for its database isn't installed.
        StoreError: as `open_sqlite` and `triobot.store.postgres.open_postgres`.

    Cancellation: as `open_sqlite`.
    """
    engine, colon, place = url.partition(":")
    # The address may contain a password, so errors don't repeat the address.
    if engine == "memory" and colon and not place:
        from .memory import open_memory

        async with open_memory(clock=clock, retention=retention) as store:
            yield store
    elif (file := file_of(url)) is not None and not place.startswith("//"):
        opened = open_sqlite(file, stamp=stamp, clock=clock, retention=retention, visit=visit)
        async with opened as store:
            yield store
    elif engine == "postgresql":
        place = _place(url)
        from .postgres import open_postgres

        open_it = partial(open_postgres, place, stamp=stamp, clock=clock, retention=retention)
        async with open_it(visit=visit) as store:
            yield store
    elif engine == "sqlite":
        raise ConfigError(_NO_ADDRESS)
    else:
        raise ConfigError("a store's address is sqlite:PATH, postgresql://HOST/DATABASE or memory:")


# --- stores on a server


def _place(url: str) -> str:
    """Return the part of a PostgreSQL address after ``postgresql:``.

    Raises:
        ConfigError: the address names no store on a server, or the needed package isn't installed.
    """
    engine, _, place = url.partition(":")
    if engine != "postgresql":
        raise ConfigError("only a store in PostgreSQL has several processes: postgresql://HOST/DATABASE")
    with needing("postgres", "a store in PostgreSQL"):
        import_module("psycopg")
    return place


async def wait_free(url: str, *, taken: Callable[[], None]) -> None:
    """Wait until no process owns the store at this address.

    Args:
        taken: called once if a process owns the store now.

    Raises:
        StoreError, ConfigError: as `open_store`, for problems that the first check finds.
    """
    place = _place(url)
    from .postgres import wait_free_postgres

    await wait_free_postgres(place, taken=taken)


async def is_made(url: str) -> bool:
    """Return whether the schema at this address has any tables, made by triobot or by another program.

    Raises:
        StoreError, ConfigError: as `open_store`.
    """
    place = _place(url)
    from .postgres import is_made_postgres

    return await is_made_postgres(place)


async def ask_owner(url: str, order: OperatorOrder) -> Answered | None:
    """Send an operator's order, through the store, to the process that owns the store.

    Returns:
        The owner's answer; None if no process owns the store.

    Raises:
        ConfigError: the address names no store on a server, or this user may not use the store.
        StoreError: the owner gave no answer, or the server can't be reached.

    Cancellation: *ambiguous*: the owner may still execute the order.
    """
    place = _place(url)
    from .postgres import ask_owner as ask

    return await ask(place, order)


def admission_at(url: str) -> Admission:
    """Return an object that inserts events into a store on a server, even if another process owns the store.

    Raises:
        ConfigError: the address names no store on a server.
    """
    place = _place(url)
    from .postgres import admission_at as at

    return at(place)


async def read_nodes(url: str) -> Sequence[NodeRow]:
    """Return the processes that share the store at this address.

    Raises:
        ConfigError: the address names no store on a server, or a store that doesn't exist.
        StoreAwayError: the server can't be reached.
    """
    place = _place(url)
    from .postgres.roster import read_postgres_nodes

    return await read_postgres_nodes(place)
