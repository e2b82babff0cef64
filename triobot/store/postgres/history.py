"""In which history a server's files go on: which files they are, and which timeline.

A standby that is made the primary begins another timeline, and so does a recovery to a point in time. What
was acknowledged last may be missing there, and only a process that had the store open then can tell: it knows
the count of its commits.

An earlier timeline than another server's is that of a primary which was failed over, and doesn't know it.
Each process remembers the latest that it has seen, and goes to no earlier one.
"""

from __future__ import annotations

import threading
import time
from typing import Final, final

import psycopg
from psycopg.rows import TupleRow

# Names the server's files, the timeline, and the table, which is another one when a dump is loaded.
_HISTORY: Final = (
    b"SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()),"
    b" substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), 'shard'::regclass::oid)"
)
# Whoever takes the shard meanwhile begins an epoch, or finds this: what was proven is true in either case.
_GO_ON: Final = b"UPDATE meta SET value = $1 WHERE name = 'history' AND value <> $1"
_TIMELINE: Final = (
    b"SELECT system_identifier::text, CASE WHEN NOT pg_is_in_recovery()"
    b" THEN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END,"
    b" extract(epoch FROM pg_postmaster_start_time())::text FROM pg_control_system()"
)


def history_of(connection: psycopg.Connection[TupleRow]) -> str:
    """Return what is another text once something acknowledged may be missing."""
    row = connection.execute(_HISTORY, prepare=False).fetchone()
    assert row is not None
    return str(row[0])


def store_of(connection: psycopg.Connection[TupleRow]) -> str:
    """Return what names a store on whatever server has it now: a standby has it from its primary."""
    cluster, _, table = history_of(connection).split("/")
    return f"{cluster}/{table}"


def go_on(connection: psycopg.Connection[TupleRow]) -> bool:
    """Note that nothing acknowledged is missing in the server's history; False if it was noted before.

    For the one process that can tell, after it has found the count of its commits under its fence.
    """
    history = history_of(connection)
    return connection.execute(_GO_ON, (history,)).rowcount > 0


def timeline_of(connection: psycopg.Connection[TupleRow]) -> tuple[str, int | None, str]:
    """Return which files the server has, and the timeline in which it writes; None: it is a standby.

    And when it was started, to a microsecond: by whatever name it is reached, that tells it from another.
    """
    row = connection.execute(_TIMELINE, prepare=False).fetchone()
    assert row is not None
    cluster, timeline, began = row
    return str(cluster), None if timeline is None else int(str(timeline), 16), str(began)


@final
class Timelines:
    """The latest timeline that this process has seen of a server's files, and since when; in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: dict[str, tuple[int, float]] = {}

    def see(self, cluster: str, timeline: int) -> int:
        """Note that a server writes in this timeline, and return the latest that was seen."""
        with self._lock:
            latest, _ = self._latest.get(cluster, (0, 0.0))
            if timeline > latest:
                self._latest[cluster] = timeline, time.monotonic()
            return max(timeline, latest)

    def seconds(self, cluster: str) -> float:
        """Return for how long the latest one has been known."""
        with self._lock:
            return time.monotonic() - self._latest[cluster][1]


SEEN: Final = Timelines()
