"""A store in PostgreSQL, for one process at a time; its extra brings what it needs.

The tables, their statements and the writer are those of SQLite. What differs is how a statement is put
(`dialect`) and sent (`stream`), how a session is made (`session`), what a server must be (`server`), what a
failover may have lost there (`history`), how a transaction is kept by its fence and settled when a connection
is lost (`transactions`), where a store lies (`schemas`, `opened`), whose it is (`ownership`), how events come
in whoever has it (`admitting`), how operators reach whoever has it (`orders`), and how a server that stands
still is given up (`threads`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
import trio

from ...base.clock import WallClock
from ...errors import ConfigError, TriobotError
from ..rules import RETENTION, Retention
from ..schema import Stamp
from ..table_store import Store, serve
from .address import PostgresAddress, read_address
from .admitting import admission_at as admission_at
from .admitting import hear_news
from .failures import first_line
from .opened import acquit_late, channel_of, is_had, open_here
from .orders import ask_owner as ask_owner
from .ownership import LOOK_EVERY
from .roster import name_as_standby
from .schemas import is_there
from .session import Connection, connect, named
from .threads import ask

_log: Final = logging.getLogger("triobot.store")


@asynccontextmanager
async def open_postgres(
    place: str,
    *,
    stamp: Stamp | None,
    clock: WallClock,
    retention: Retention = RETENTION,
    visit: bool = False,
) -> AsyncGenerator[Store, None]:
    """Open the store at this address, making its schema if it isn't there, for as long as the block runs.

    What a method has returned from is committed, under the server's own settings of durability.

    If another process takes the store over, or an answer to a COMMIT can't be had for half a minute, the
    block is cancelled, and LeaseLostError or StoreCorruptError is raised from it.

    Args:
        place: what stands behind ``postgresql:`` in the address; see `read_address`.
        stamp: platform and bot; the store is bound to them when it is made. None: whosever it is; then it
            must be there.
        clock: the time of day.
        retention: how long what nothing needs any more is kept.
        visit: open it with a tool, not to run the bot: whether the bot stopped cleanly stays as it is.

    Raises:
        ConfigError: the address can't be read, the server or the database is none for a store, it refused the
            role or its password, or the store belongs to another platform or bot.
        StoreAwayError: the server can't be reached.
        StoreLockedError: another process has it open.
        StoreVersionError: a newer triobot made it.
        StoreCorruptError: the schema is another program's; it was left alone.

    Cancellation: *forceful*: leaving closes the store in any case, after what was handed over.
    """
    address = read_address(place)
    opened = await ask(
        partial(
            open_here,
            address,
            stamp,
            now=clock.now(),
            retention=retention,
            visit=visit,
        )
    )
    async with serve(
        opened,
        clock,
        back_up=_back_up,
        held=opened.held,
        on_loss=opened.on_loss,
        on_end=opened.hurry,
        news=partial(hear_news, address, opened.node),
    ) as store:
        yield store


async def wait_free_postgres(place: str, *, taken: Callable[[], None]) -> None:
    """Wait until no process has the store at this address, or there is none yet.

    Args:
        taken: called once, if a process has it.

    Another one may take it before the caller does. While the server is away it is not free, and the log says
    so once.

    Raises: as `open_postgres`, for what is found at the first look.

    Cancellation: *atomic*.
    """
    address = read_address(place)
    connection: Connection | None = None
    away = told = False
    try:
        connection = await ask(partial(_listen, address))
        while True:
            try:
                if connection is None:
                    connection = await ask(partial(_listen, address))
                if not await ask(partial(_look, connection), connection):
                    return
                if not told:
                    told = True
                    taken()
                away = False
                with trio.move_on_after(LOOK_EVERY):
                    await trio.lowlevel.wait_readable(connection.fileno())
            except (TriobotError, psycopg.Error) as error:
                if not away:
                    _log.warning(
                        "the store %s can't be asked who has it: %s", named(address), first_line(error)
                    )
                away = True
                if connection is not None:
                    connection.close()
                connection = None
                await trio.sleep(LOOK_EVERY)
    finally:
        if connection is not None:
            connection.close()


def _listen(address: PostgresAddress) -> Connection:
    connection = connect(address)
    acquit_late(address)
    name_as_standby(connection, address)
    connection.execute(f'LISTEN "{channel_of(address)}"'.encode())
    return connection


def _look(connection: Connection) -> bool:
    for _ in connection.notifies(timeout=0):
        pass
    return is_had(connection)


async def is_made_postgres(place: str) -> bool:
    """Return whether there is something in the schema of this address.

    Raises: as `open_postgres`.
    """
    address = read_address(place)

    def look() -> bool:
        with connect(address) as connection:
            return is_there(connection, address)

    return await ask(look)


async def rebind_postgres(place: str, *, stamp: Stamp, clock: WallClock) -> None:
    """Bind a store to another platform address or token: after a token was replaced, or a platform moved.

    Raises: as `open_postgres`, but for the stamp; ConfigError: there is no store.
    """
    opened = await trio.to_thread.run_sync(
        partial(
            open_here,
            read_address(place),
            stamp,
            now=clock.now(),
            retention=RETENTION,
            visit=True,
            rebind=True,
        )
    )
    with trio.CancelScope(shield=True):  # it is open: a session left open would keep its lock
        await trio.to_thread.run_sync(partial(opened.close, clean=True, now=clock.now()))


async def _back_up(path: Path) -> None:
    await trio.lowlevel.checkpoint()
    raise ConfigError("a store in PostgreSQL is backed up with PostgreSQL's own tools, such as pg_dump")
