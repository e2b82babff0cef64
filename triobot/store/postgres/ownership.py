"""Ownership of a store: an advisory lock of PostgreSQL, in the session that commits.

A process owns its store while this session lives and has the lock on the process's number. Without the lock,
no commit succeeds. While the session lives, no other process takes the store. The lock needs no renewal, and
an idle process writes nothing to the store.

When a process dies, the server ends its session and frees the lock. A living process that loses its session
makes a new session within a moment. So an owner counts as dead only if its lock has been free for `GRACE`.
But the session of a frozen or disconnected process stays on the server. So a process that waits for the store
ends an owner's session if the server has got nothing from this session for three seconds. A session that
waits for a row lock or the disk counts as alive, and is not ended. PostgreSQL's own `idle_session_timeout`
can't end a silent session: a Flush after the answer disables this timeout, and psycopg sends a Flush with
each pipeline.

While no commit is being executed, a thread of the owner sends a query every `SPEAKS_EVERY` seconds. So an
owner with a busy event loop isn't silent, but an owner with a frozen interpreter is silent. The same thread
checks every `LOOK_EVERY` seconds whether the session has ended. In two cases, the process must not begin any
work that other programs can observe (`SpokenLease.held`). First, no check has found the session alive for
`GRACE` seconds: another process may own the store by now. Second, the server has answered nothing for three
seconds: another process may have ended the session. After a network failure, this process isn't notified of
that end.
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
"""Seconds of an owner's silence after which another process may end the owner's session."""
GRACE: Final = 0.5
"""Number of seconds for which a lock must be free before its owner counts as dead."""
SPEAKS_EVERY: Final = 0.75
LOOK_EVERY: Final = 0.25

TAKE: Final = b"UPDATE owner SET id = $1, name = $2"
"""Statement that stores the owner's number and name. Only the lock shows whether this owner still lives."""

COUNT: Final = b"INSERT INTO commits VALUES ($1, 0)"
"""Statement that begins the count of a process's commits."""

# Each commit of the process has left one dead row in the table. Because of the condition on `n`, the server
# doesn't scan these rows.
CUT: Final = b"DELETE FROM commits WHERE node = $1 AND n = (SELECT max(n) FROM commits WHERE node = $1)"
"""Statement that deletes a commit count: of this process, or of a process whose lock `free_for` found free in
the same transaction."""

SETTLE: Final = b"SELECT max(n) FROM commits WHERE node = $1"
"""Query for the number of a process's commits; NULL if another process has taken the store."""

SETTLE_SURELY: Final = b"SELECT n FROM commits WHERE node = $1 ORDER BY n DESC LIMIT 1 FOR UPDATE"
"""Query for the same number as `SETTLE`, after the answer to a COMMIT was lost. Because of FOR UPDATE, the
query's own commit waits until the synchronous standbys have the found row too."""

LIVES: Final = b"NOT pg_try_advisory_xact_lock_shared(owner.id)"
"""SQL condition: the owner lives, because its lock is taken."""

SESSION: Final = b"pg_stat_activity ON starts_with(application_name || ' ', 'node owner ' || owner.id || ' ')"
"""Part of an SQL join, which finds the session of the process in the table `owner`."""

SILENT: Final = f"""coalesce(CASE
    WHEN wait_event_type = 'Client' AND state_change < clock_timestamp() - interval '{SECONDS} s'
    THEN extract(epoch FROM clock_timestamp() - state_change) END, 0)::float8""".encode()
"""SQL expression: seconds for which the server has waited for the session; 0 if less than `SECONDS`."""

THERE: Final = b"SELECT to_regclass('owner') IS NOT NULL"
"""Query for whether the schema has a store."""

_HOLD: Final = b"SELECT pg_advisory_lock($1)"
_END_OLDER: Final = (
    b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    b" WHERE application_name = $1 AND usename = current_user AND pid <> pg_backend_pid()"
)
# This query waits up to 200 ms for the end of each session, so that the next check finds the session's lock
# free.
_END_SILENT: Final = f"""SELECT pg_terminate_backend(pid, 200) FROM pg_stat_activity
    WHERE usename = current_user AND datname = current_database()
    AND application_name LIKE 'node %'
    AND wait_event IN ('ClientRead', 'ClientWrite')
    AND state_change < clock_timestamp() - interval '{SECONDS} s'
    AND (state <> 'idle' OR application_name LIKE 'node owner %')""".encode()
_IS_FREE: Final = b"SELECT pg_try_advisory_xact_lock_shared($1)"
# For each node number with a free lock: the time of the first check in an unbroken row of checks that found
# the lock free, and the time of the last check. Used in any thread.
_free: Final[dict[int, tuple[float, float]]] = {}


def hold(connection: Connection, node: int) -> None:
    """End older sessions of this process, and take the process's lock in the session of `connection`.

    Once the lock is taken, the server executes no work of the older sessions any more.

    Raises:
        psycopg.Error: the lock can't be taken now.
    """
    name = f"node owner {node} {__version__}"
    connection.execute(f"SET application_name = '{name}'".encode(), prepare=False)
    connection.execute(_END_OLDER, (name,))
    connection.execute(_HOLD, (node,))


def end_silent(connection: Connection) -> None:
    """End the sessions of owners that have sent nothing for `SECONDS`.

    Also end the bot's other sessions that are inside a transaction and have sent nothing for `SECONDS`.
    """
    connection.execute(_END_SILENT)


def free_for(connection: Connection, node: int) -> float | None:
    """Return for how many seconds this process has found the lock of `node` free; None if the lock is
    not free now.

    In a transaction, this function also takes the free lock in shared mode. So the node can't take its own
    lock before the transaction ends.
    """
    (free,) = connection.execute(_IS_FREE, (node,)).fetchone() or (False,)
    now = time.monotonic()
    since, seen = _free.pop(node, (now, now))
    if not free:
        return None
    if now - seen > 2 * GRACE:
        since = now  # the owner may have had another session since the last check
    _free[node] = since, now
    return now - since


@final
class SpokenLease:
    """The lease: how long this process will certainly still own the store. A thread checks the session.

    The lease counts from a moment *before* the last answered query was sent. The lease is measured by a clock
    that is never set, and that runs while the computer sleeps. So the lease expires before other processes
    may take the store. Usable in any thread.

    Args:
        node: the process's number.
        asked: `triobot.base.clock.steady_time` before the lock was taken.
    """

    def __init__(self, node: int, asked: int) -> None:
        self.node: Final = node
        self._heard_at = self._seen_at = asked
        self._over = threading.Event()

    def begin(self, look: Callable[[bool], bool]) -> None:
        """Check the session regularly from now on, until `end`.

        Args:
            look: called in a thread; returns whether the session is alive. If its argument is True, `look`
                also sends a query to the server.
        """
        # The thread is a daemon: a server that doesn't answer must not keep the process alive.
        threading.Thread(target=self._keep, args=(look,), name="triobot owner", daemon=True).start()

    def hear(self, asked: int) -> None:
        """Extend the lease: the server has answered a query that was sent at the time `asked`."""
        self._heard_at = asked

    def held(self) -> float:
        """Return for how many seconds this process will certainly still own the store; 0 if the store may be
        lost already.
        """
        now = steady_time()
        left = min(SECONDS - (now - self._heard_at) / 1000, GRACE - (now - self._seen_at) / 1000)
        return max(0.0, left)

    def end(self) -> None:
        """Stop checking."""
        self._over.set()

    def _keep(self, look: Callable[[bool], bool]) -> None:
        while not self._over.wait(LOOK_EVERY):
            now = steady_time()
            # If the session is lost, `held` must return 0 at once. The session may have ended before this
            # check, and other processes count `GRACE` from that end.
            self._seen_at = now if look(now - self._heard_at >= SPEAKS_EVERY * 1000) else 0
