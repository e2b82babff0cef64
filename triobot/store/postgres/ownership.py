"""Whose a store is: PostgreSQL's own lock, held by the session that commits.

A process has its store for as long as that session lives and holds the lock on the process's number: without
it no commit succeeds, and while it lives nobody else takes what is the process's. Nothing is renewed, and a
process at rest writes nothing.

Who dies loses the lock with the session. A session that is lost while the process lives is made anew within a
moment; so a lock counts as free once it has been so for `GRACE`. Who stands still, or is cut off, keeps the
session on the server: whoever waits for the store ends one that has said nothing for three seconds, by what
the server has heard and by its clock. One that waits for a row's lock or for the disk lives, and is let be.
PostgreSQL's own `idle_session_timeout` can't do that: a Flush behind the answer switches it off, and psycopg
sends one with each pipeline.

The process says something every `SPEAKS_EVERY`, from a thread, in the turn of what commits: so an interpreter
that stands still is silent, and a loop that is busy isn't. The same thread sees every `LOOK_EVERY` whether
the session has ended. Nothing may begin that others see (`SpokenLease.held`) if the session was not seen to
live for `GRACE`, since another process may have the store by then; or if nothing was heard for three seconds,
since it may have been ended where a cut network doesn't tell.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, final

from ...base.clock import steady_time
from ...base.version import __version__
from .session import Connection

SECONDS: Final = 3.0
"""How long an owner may say nothing, in seconds."""
GRACE: Final = 0.5
"""How long a lock is free before its owner counts as dead, in seconds."""
SPEAKS_EVERY: Final = 0.75
LOOK_EVERY: Final = 0.25

TAKE: Final = b"UPDATE owner SET id = $1, name = $2"
"""Says whose the store is; the lock says whether that is still so."""

COUNT: Final = b"INSERT INTO commits VALUES ($1, 0)"
"""Begins to count a process's commits."""

# By the number: the dead rows of all its commits may be there yet.
CUT: Final = b"DELETE FROM commits WHERE node = $1 AND n = (SELECT max(n) FROM commits WHERE node = $1)"
"""Forget a process: one's own, or one whose lock `free_for` has found free in this transaction."""

SETTLE: Final = b"SELECT max(n) FROM commits WHERE node = $1"
"""Asks how many commits a process has made; NULL: others have what it had."""

SETTLE_SURELY: Final = b"SELECT n FROM commits WHERE node = $1 ORDER BY n DESC LIMIT 1 FOR UPDATE"
"""The same, after a COMMIT whose answer was lost: a lock makes it a commit, which waits for synchronous
standbys, so that what it finds is there as well."""

LIVES: Final = b"NOT pg_try_advisory_xact_lock_shared(owner.id)"
"""Whether the owner lives."""

SESSION: Final = b"pg_stat_activity ON starts_with(application_name || ' ', 'node owner ' || owner.id || ' ')"
"""The owner's session."""

SILENT: Final = f"""coalesce(CASE
    WHEN wait_event_type = 'Client' AND state_change < clock_timestamp() - interval '{SECONDS} s'
    THEN extract(epoch FROM clock_timestamp() - state_change) END, 0)::float8""".encode()
"""For how many seconds the server has waited for a session's next word, if that is long; else 0."""

THERE: Final = b"SELECT to_regclass('owner') IS NOT NULL"
"""Whether there is a store."""

_HOLD: Final = b"SELECT pg_advisory_lock($1)"
_END_OLDER: Final = (
    b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    b" WHERE application_name = $1 AND usename = current_user AND pid <> pg_backend_pid()"
)
# It waits for the end, so that the look behind it finds the lock free.
_END_SILENT: Final = f"""SELECT pg_terminate_backend(pid, 200) FROM pg_stat_activity
    WHERE usename = current_user AND datname = current_database()
    AND application_name LIKE 'node %'
    AND wait_event IN ('ClientRead', 'ClientWrite')
    AND state_change < clock_timestamp() - interval '{SECONDS} s'
    AND (state <> 'idle' OR application_name LIKE 'node owner %')""".encode()
_IS_FREE: Final = b"SELECT pg_try_advisory_xact_lock_shared($1)"
# Since when, and until when at least, the lock of a process has been free, by its number, as this process has
# seen it; in any thread.
_free: Final[dict[int, tuple[float, float]]] = {}


def hold(connection: Connection, node: int) -> None:
    """Have this session hold a process's lock, in place of an older one of its own.

    Behind this nothing is under way that the older one had begun.

    Raises:
        psycopg.Error: not now.
    """
    name = f"node owner {node} {__version__}"
    connection.execute(f"SET application_name = '{name}'".encode(), prepare=False)
    connection.execute(_END_OLDER, (name,))
    connection.execute(_HOLD, (node,))


def end_silent(connection: Connection) -> None:
    """End the sessions of owners that have said nothing for three seconds.

    And whichever of a process stands still between statements that it sends without waiting for answers.
    """
    connection.execute(_END_SILENT)


def free_for(connection: Connection, node: int) -> float | None:
    """Return for how many seconds this process has seen a process's lock free; None: it isn't.

    In a transaction it stays free to its end: whose it was can't have it back before.
    """
    (free,) = connection.execute(_IS_FREE, (node,)).fetchone() or (False,)
    now = time.monotonic()
    since, seen = _free.pop(node, (now, now))
    if not free:
        return None
    if now - seen > 2 * GRACE:
        since = now  # its session may have been made anew in between, and lost again
    _free[node] = since, now
    return now - since


@final
class SpokenLease:
    """What a process believes of its lock, and the thread that looks after it; may be told in any thread.

    It counts from the moment *before* it asked, by a clock that goes on while the machine sleeps and which
    nobody sets: so it stops believing no later than others may take what it has.

    Args:
        node: the process's number.
        asked: what `triobot.base.clock.steady_time` was before the lock was had.
    """

    def __init__(self, node: int, asked: int) -> None:
        self.node: Final = node
        self._heard_at = self._seen_at = asked
        self._over = threading.Event()

    def begin(self, look: Callable[[bool], bool]) -> None:
        """Look after it from now on, until `end`.

        Args:
            look: returns whether the session lives, and says something over it if it is told to; in a thread.
        """
        # A daemon: a server that doesn't answer must not keep the process from ending.
        threading.Thread(target=self._keep, args=(look,), name="triobot owner", daemon=True).start()

    def hear(self, asked: int) -> None:
        """Hear that the session has answered what was asked at this moment."""
        self._heard_at = asked

    def held(self) -> float:
        """Return for how many seconds more nobody else can have the store; 0 if they may."""
        now = steady_time()
        left = min(SECONDS - (now - self._heard_at) / 1000, GRACE - (now - self._seen_at) / 1000)
        return max(0.0, left)

    def end(self) -> None:
        """Look no more."""
        self._over.set()

    def _keep(self, look: Callable[[bool], bool]) -> None:
        while not self._over.wait(LOOK_EVERY):
            now = steady_time()
            # What is lost counts as never seen: the time of another process begins with its end.
            self._seen_at = now if look(now - self._heard_at >= SPEAKS_EVERY * 1000) else 0
