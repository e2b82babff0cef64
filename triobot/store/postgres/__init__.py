"""Stores in PostgreSQL, each used by one process at a time. The extra ``postgres`` installs the needed
packages.

The tables, the statements and the writer are the same as for SQLite. These modules contain the differences:

* `dialect` translates statements, and `stream` sends them.
* `session` makes connections, and `server` checks a server's settings.
* `history` detects failovers, which may have lost commits.
* `transactions` runs each transaction under the store's fence, and finds the outcome of a COMMIT whose answer
  was lost.
* `schemas` makes a store's schema, and `opened` opens a store.
* `ownership` decides which process owns a store.
* `admitting` accepts events in every process, and `orders` sends operators' orders to the owner.
* `threads` runs calls to the server, and abandons a server that doesn't answer.
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
    """Open the store at this address while the block runs; make the schema if there is no store.

    When a method of the store returns, its writes are committed, as durably as the server is configured.

    The block is cancelled if another process takes the store over, or if the outcome of a COMMIT remains
    unknown for half a minute. LeaseLostError or StoreCorruptError is then raised from the block.

    Args:
        place: the address without ``postgresql:``; see `read_address`.
        stamp: platform and bot; a new store is bound to both. None: the store may belong to any bot, and must
            exist.
        clock: the time of day.
        retention: how long the store keeps data that is no longer needed.
        visit: whether a tool, and not the bot, opens the store. A visit doesn't change the stored facts about
            the bot's last stop.

    Raises:
        ConfigError: the address can't be parsed, the server or database is unsuitable, the server refused the
            role or the password, or the store belongs to another platform or bot.
        StoreAwayError: the server can't be reached.
        StoreLockedError: another process has the store open.
        StoreVersionError: a newer triobot made the store.
        StoreCorruptError: the schema is another program's; the schema was not changed.

    Cancellation: *forceful*: leaving the block always closes the store, after all accepted jobs are done.
    """
    address = read_address(place)
    opened = await ask(partial(open_here, address, stamp, now=clock.now(), retention=retention, visit=visit))
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
    """Wait until no process owns the store at this address; a store that doesn't exist counts as free.

    Another process may take the store between the return of this function and the caller's own attempt. While
    the server can't be reached, the wait goes on, and one warning of the outage is logged.

    Args:
        taken: called once, if a process owns the store.

    Raises: as `open_postgres`, for problems that the first check finds.

    Cancellation: *atomic*.
    """
    address = read_address(place)
    connection: Connection | None = None
    away = warned = False
    try:
        connection = await ask(partial(_listen, address))
        while True:
            try:
                if connection is None:
                    connection = await ask(partial(_listen, address))
                if not await ask(partial(_look, connection), connection):
                    return
                if not warned:
                    warned = True
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
    """Return whether the schema at this address has any tables.

    Raises: as `open_postgres`.
    """
    address = read_address(place)

    def look() -> bool:
        with connect(address) as connection:
            return is_there(connection, address)

    return await ask(look)


async def _back_up(path: Path) -> None:
    await trio.lowlevel.checkpoint()
    raise ConfigError("a store in PostgreSQL is backed up with PostgreSQL's own tools, such as pg_dump")
