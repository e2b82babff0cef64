"""The list of the processes that share a store, read from the server's sessions.

The owner is in the table `owner`, and has the owner's lock. Each standby process has a session whose
application name describes the process. So no process writes a row for the list.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Final, final

import psycopg

from ...base.frozen import guarded
from ...base.version import __version__
from ...errors import ConfigError, StoreAwayError
from .address import PostgresAddress, read_address
from .failures import first_line
from .ownership import LIVES, SESSION, SILENT, THERE
from .schemas import key_of
from .session import Connection, connect, named
from .threads import ask

_MOST: Final = 20
"""Maximum length of a computer's name in a session's name, which the server cuts after 63 characters."""
_WORKS: Final = (
    b"SELECT owner.name, coalesce(split_part(application_name, ' ', 4), ''), coalesce(host(client_addr), ''),"
    b" extract(epoch FROM clock_timestamp() - backend_start)::float8,"
    b" coalesce(CASE WHEN wait_event_type <> 'Client' THEN wait_event END, ''), "
    + SILENT
    + b" FROM owner LEFT JOIN "
    + SESSION
    + b" WHERE "
    + LIVES
)
_WAITING: Final = b"""
SELECT application_name, coalesce(host(client_addr), ''),
    extract(epoch FROM clock_timestamp() - backend_start)::float8
FROM pg_stat_activity WHERE starts_with(application_name, $1)
AND usename = current_user AND datname = current_database() ORDER BY backend_start"""


@final
@guarded
class NodeRow:
    """A process of a bot that is alive.

    Attributes:
        name: the process's name for people.
        version: version of triobot; empty if unknown.
        address: address from which the process is connected; empty for a process on the server's own
            computer.
        seconds: age of the process's session.
        works: whether the process owns the store and does the bot's work. Other processes stand by, and
            accept events.
        waits_for: PostgreSQL's name for the condition that the session waits for on the server; empty if the
            session doesn't wait.
        silent: number of seconds for which the process has sent nothing; 0 if the process has sent something
            recently.
    """

    name: str
    version: str
    address: str
    seconds: float
    works: bool
    waits_for: str = ""
    silent: float = 0.0


def name_as_standby(connection: Connection, address: PostgresAddress) -> None:
    """Set a standby session's name to a description of this process."""
    name = f"{_name_of(address)}{os.getpid()} {__version__} {socket.gethostname()[:_MOST]}"
    connection.execute(b"SELECT set_config('application_name', $1, false)", (name,))


async def read_postgres_nodes(place: str) -> Sequence[NodeRow]:
    """Return the processes that share the store at this address: the owner, then the standbys by age.

    Raises: as `triobot.store.read_nodes`.
    """
    address = read_address(place)

    def read() -> Sequence[NodeRow]:
        with connect(address) as connection:
            return _read(connection, address)

    try:
        return await ask(read)
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigError(f"this role may not look at {named(address)}: {first_line(error)}") from None
    except psycopg.Error as error:
        raise StoreAwayError(f"the store {named(address)} is away: {first_line(error)}") from None


def _read(connection: Connection, address: PostgresAddress) -> Sequence[NodeRow]:
    if connection.execute(THERE).fetchone() != (True,):
        raise ConfigError(f"there is no store at {named(address)}")
    found = [
        NodeRow(name, version, place, float(seconds or 0), True, waits_for, silent)
        for name, version, place, seconds, waits_for, silent in connection.execute(_WORKS)
    ]
    for said, place, seconds in connection.execute(_WAITING, (_name_of(address),)):
        pid, version, machine = str(said).removeprefix(_name_of(address)).split(" ", 2)
        found.append(NodeRow(f"number {pid} on {machine}", version, place, float(seconds), False))
    return found


def _name_of(address: PostgresAddress) -> str:
    """Return the prefix of standby sessions' names, which is different for each store in a database."""
    return f"node standby {key_of(address) % 2**32:08x} "
