"""The lease under which a process has what it has: a row of the database, which is renewed.

A shard's row names its owner, a row of the table ``nodes``, and that says until when it lives, by the
server's clock. It is renewed over a connection of its own, in a row that no commit locks, in a thread: the
loop may be busy. One lease is for all shards of a process. Whoever takes a shard takes it only if it has no
owner, or deletes the owner's row because its time is over; so an owner whose row is gone has nothing more.

What the process itself goes by is in `triobot.store.belief`. Until its row is gone a lease can be had again:
a row is renewed or deleted by one of the two, and the other one finds that.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final, final

import psycopg

from ...errors import TriobotError
from ..belief import SECONDS, LeaseBelief
from .address import PostgresAddress
from .session import Connection, make_connection

LASTS: Final = f"clock_timestamp() + interval '{SECONDS} s'".encode()
"""Until when a lease lives that is made or renewed now."""

TAKE: Final = b"INSERT INTO nodes (id, name, until) VALUES ($1, $2, " + LASTS + b")"
"""Begins a lease."""

END_OVER: Final = b"DELETE FROM nodes WHERE id = $1 AND until <= clock_timestamp()"
"""Ends that of an owner whose time is over; nothing if it was renewed meanwhile."""

END: Final = b"DELETE FROM nodes WHERE id = $1"
"""Ends one's own."""

_RENEW: Final = b"UPDATE nodes SET until = " + LASTS + b" WHERE id = $1"


@final
class NodeLease:
    """The lease of one process, which it keeps until `end`.

    Args:
        address: where it is renewed.
        node: the process's number.
        asked: what `triobot.clock.steady_time` was before the lease was asked for.

    Attributes:
        node: as given.
        belief: until when the process may go by it.
        left: the fence and the count of commits of each shard that could not be let go, as with a server
            that was away, by its schema: if the server comes back with less, commits are missing.
    """

    def __init__(self, address: PostgresAddress, node: int, asked: int) -> None:
        self._address = address
        self.node: Final = node
        self.belief: Final = LeaseBelief(asked)
        self.left: Final = dict[str, tuple[int, int]]()
        self._over = threading.Event()
        # A daemon: a server that doesn't answer must not keep the process from ending.
        self._thread = threading.Thread(target=self._keep, name="triobot lease", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Renew it no more."""
        self._over.set()

    def _keep(self) -> None:
        connection: Connection | None = None
        while not self._over.wait(self.belief.pause):
            asked = self.belief.before()
            try:
                connection = connection or make_connection(self._address, patience=2)
                lives = connection.execute(_RENEW, (self.node,)).rowcount == 1
            except (TriobotError, psycopg.Error):
                self.belief.unanswered()
                if connection is not None:
                    connection.close()
                connection = None
            else:
                if not lives:
                    self._over.set()
                    self.belief.lose()
                    break
                self.belief.renewed(asked)
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()
