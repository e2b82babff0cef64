"""The lease under which a process has what it has: until when nobody else may take any of it.

A shard's row names its owner, a row of the table ``nodes``, and that says until when it lives, by the
server's clock. It is renewed over a connection of its own, in a row that no commit locks, in a thread: the
loop may be busy. One lease is for all shards of a process. Whoever takes a shard takes it only if it has no
owner, or deletes the owner's row because its time is over; so an owner whose row is gone has nothing more.

The process itself goes by its own clock, one that counts while the machine sleeps: it believes in its lease
until so many seconds after the moment *before* it asked. So it stops believing no later than the server does.
Then nothing may begin; but the lease is lost only once its row is gone. Until then it can be had again: a row
is renewed or deleted by one of the two, and the other one finds that.
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
LASTS: Final = b"clock_timestamp() + interval '3 s'"
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
        asked: what `steady_time` was before the lease was asked for.

    Attributes:
        node: as given.
    """

    def __init__(self, address: PostgresAddress, node: int, asked: int) -> None:
        self._address = address
        self.node: Final = node
        self._until = asked + SECONDS * 1000
        self._lock = threading.Lock()
        self._lost = False
        self._told: list[Callable[[], None]] = []
        self._over = threading.Event()
        # A daemon: a server that doesn't answer must not keep the process from ending.
        self._thread = threading.Thread(target=self._keep, name="triobot lease", daemon=True)
        self._thread.start()

    def held(self) -> bool:
        """Return whether nobody else can have what is this process's; in any thread."""
        return steady_time() < self._until

    @property
    def lost(self) -> bool:
        """Return whether its row is gone, and all that this process had may be others'."""
        return self._lost

    def listen(self, lost: Callable[[], None]) -> None:
        """Have this called once, in the lease's thread, when the lease is lost; at once if it is."""
        with self._lock:
            if not self._lost:
                self._told.append(lost)
                return
        lost()

    def forget(self, lost: Callable[[], None]) -> None:
        """Call this no more."""
        with self._lock:
            if lost in self._told:
                self._told.remove(lost)

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
                lives = connection.execute(_RENEW, (self.node,)).rowcount == 1
            except (TriobotError, psycopg.Error):
                pause = _REPEATED_AFTER
                if connection is not None:
                    connection.close()
                connection = None
            else:
                if not lives:
                    self._lose()
                    break
                self._until = asked + SECONDS * 1000
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _lose(self) -> None:
        self._until = 0
        self._over.set()
        with self._lock:
            self._lost = True
            told, self._told = self._told, []
        for lost in told:
            lost()
