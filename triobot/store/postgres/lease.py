"""The lease under which a process has a shard: until when nobody else may take it.

The shard's row names its owner, a row of the table ``nodes``, and that says until when it lives, by the
server's clock. It is renewed over a connection of its own, in a row that no commit locks, in a thread: the
loop may be busy. Whoever takes a shard holds the lock of the shard's row, and takes it only if it has no
owner, or the owner's time is over.

The process itself goes by its own clock, one that counts while the machine sleeps: it believes in its lease
until so many seconds after the moment *before* it asked. So it stops believing no later than the server does.
Then nothing may begin; but the shard is lost only once another process has it. Until then the lease can be
had again, under the lock that a taker needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

import psycopg

from ...clock import steady_time
from ...errors import TriobotError
from .address import PostgresAddress
from .session import Connection, make_connection

SECONDS: Final = 3.0
"""How long a lease lives that isn't renewed."""

RENEWED_EVERY: Final = 0.75
_REPEATED_AFTER: Final = 0.2
_LEASE: Final = b"clock_timestamp() + interval '3 s'"

TAKE: Final = b"INSERT INTO nodes (id, name, until) VALUES ($1, $2, " + _LEASE + b")"
"""Begins a lease."""

END_OVER: Final = b"DELETE FROM nodes WHERE id = $1 AND until <= clock_timestamp()"
"""Ends that of an owner whose time is over; nothing if it was renewed meanwhile."""

END: Final = b"DELETE FROM nodes WHERE id = $1"
"""Ends one's own."""

_RENEW: Final = b"UPDATE nodes SET until = " + _LEASE + b" WHERE id = $1 AND until > clock_timestamp()"
_OWNED: Final = b"SELECT 1 FROM shard WHERE owner = $1 FOR UPDATE"
_REVIVE: Final = b"UPDATE nodes SET until = " + _LEASE + b" WHERE id = $1"


@final
class ShardLease:
    """The lease of one process on its shard, which it keeps until `end`.

    Args:
        address: where it is renewed.
        node: the owner's number.
        asked: what `steady_time` was before the lease was asked for.
        lost: called once, in the lease's thread, when another process has the shard.
    """

    def __init__(self, address: PostgresAddress, node: int, asked: int, lost: Callable[[], None]) -> None:
        self._address = address
        self._node = node
        self._until = asked + SECONDS * 1000
        self._lost = lost
        self._over = threading.Event()
        # A daemon: a server that doesn't answer must not keep the process from ending.
        self._thread = threading.Thread(target=self._keep, name="triobot lease", daemon=True)
        self._thread.start()

    def held(self) -> bool:
        """Return whether nobody else can have the shard now; in any thread."""
        return steady_time() < self._until

    def end(self) -> None:
        """Renew it no more."""
        self._over.set()

    def _keep(self) -> None:
        connection: Connection | None = None
        pause = RENEWED_EVERY
        while not self._over.wait(pause):
            asked, pause = steady_time(), RENEWED_EVERY
            try:
                connection = connection or make_connection(self._address, patience=2)
                lives = self._renew(connection)
            except (TriobotError, psycopg.Error):
                pause = _REPEATED_AFTER
                if connection is not None:
                    connection.close()
                connection = None
            else:
                if not lives:
                    self._until = 0
                    self._over.set()
                    self._lost()
                    break
                self._until = asked + SECONDS * 1000
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _renew(self, connection: Connection) -> bool:
        """Return whether the shard is still this process's, and then its lease is new."""
        if connection.execute(_RENEW, (self._node,)).rowcount:
            return True
        with connection.transaction():
            if connection.execute(_OWNED, (self._node,)).fetchone() is None:
                return False
            return connection.execute(_REVIVE, (self._node,)).rowcount == 1
