"""A server's history: the identity of the server's files, and their timeline.

The promotion of a standby to primary begins a new timeline, and so does a recovery to a point in time. The
last acknowledged commits may be missing in the new timeline. Only a process that had the store open at that
time can detect a missing commit, because the process knows the number of its commits.

If two primaries are in different timelines, the primary in the earlier timeline is outdated. The outdated
server was not stopped when the other server was promoted. For each address, a process remembers the latest
timeline that it has seen, and doesn't use a server in an earlier timeline. A copy of the database for another
purpose may also have a later timeline, but the copy has another address.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Final, final

import psycopg
from psycopg.rows import TupleRow

from ...base.frozen import guarded
from ...errors import StoreAwayError
from .address import PostgresAddress, from_the_other_end

_log: Final = logging.getLogger("triobot.store")
_SHORT: Final = 2
"""Timeout of the additional connection that looks for a later primary, in seconds; libpq's minimum."""
_REST: Final = 10.0
"""After a host didn't answer, the additional connection isn't tried again for so many seconds."""

# Query for a history: the identity of the server's files, the timeline, and the oid of the table `owner`. In
# a database that was loaded from a dump, the table `owner` has another oid.
_HISTORY: Final = (
    b"SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()),"
    b" substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), 'owner'::regclass::oid)"
)
# This statement needs no fence. If another process takes the store at the same time, that process begins an
# epoch, or reads the new value, which is right for both processes.
_GO_ON: Final = b"UPDATE meta SET value = $1 WHERE name = 'history' AND value <> $1"
_TIMELINE: Final = (
    b"SELECT system_identifier::text, CASE WHEN NOT pg_is_in_recovery()"
    b" THEN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END,"
    b" extract(epoch FROM pg_postmaster_start_time())::text FROM pg_control_system()"
)


def history_of(connection: psycopg.Connection[TupleRow]) -> str:
    """Return the identity of the server's history. In a new history, acknowledged commits may be missing."""
    row = connection.execute(_HISTORY, prepare=False).fetchone()
    assert row is not None
    return str(row[0])


def store_of(connection: psycopg.Connection[TupleRow]) -> str:
    """Return the store's identity, `cluster/table`; the same on a primary and on its standbys."""
    cluster, _, table = history_of(connection).split("/")
    return f"{cluster}/{table}"


def go_on(connection: psycopg.Connection[TupleRow], name: str) -> None:
    """Store the fact that the server's current history contains all commits; log a warning if the history is
    new.

    The caller must have verified its number of commits under its lock.
    """
    if connection.execute(_GO_ON, (history_of(connection),)).rowcount:
        _log.warning(
            "the store %s goes on after a failover or a restore; nothing acknowledged is missing", name
        )


@final
@guarded
class _Found:
    """The server at the other end of a connection.

    Attributes:
        place: host and port.
        cluster: identity of the server's files.
        timeline: the timeline in which the server writes; None for a standby.
        began: start time of the server, to a microsecond. Identifies a server that is reachable under several
            names or through proxies.
    """

    place: str
    cluster: str
    timeline: int | None
    began: str


def _find(connection: psycopg.Connection[TupleRow]) -> _Found:
    row = connection.execute(_TIMELINE, prepare=False).fetchone()
    assert row is not None
    cluster, timeline, began = row
    place = f"{connection.info.host}:{connection.info.port}"
    return _Found(place, str(cluster), None if timeline is None else int(str(timeline), 16), str(began))


def check_timeline(connection: psycopg.Connection[TupleRow], address: PostgresAddress, name: str) -> None:
    """Check that no other server of the address is a later primary than the connected server.

    libpq connects to the first primary in the address. A second connection, with the hosts in reverse order,
    finds the last primary in the address.

    Args:
        name: name of the store, for the error.

    Raises:
        StoreAwayError: another server is in a later timeline, or two servers accept writes.
    """
    here = _find(connection)
    if here.timeline is None:  # a standby; callers that need a primary refuse standbys
        return
    other = _last_of(address) if address.hosts > 1 else None
    if (
        other is not None
        and other.timeline is not None
        and other.cluster == here.cluster
        and other.began != here.began
    ):
        SEEN.see(address.conninfo, here.cluster, max(here.timeline, other.timeline))
        raise StoreAwayError(
            f"the store {name} is away: two of its servers take writes, {here.place} in timeline"
            f" {here.timeline} and {other.place} in timeline {other.timeline}; that in the lower one was the"
            " primary before a failover: stop it, and make a standby of it"
        )
    if here.timeline < (latest := SEEN.see(address.conninfo, here.cluster, here.timeline)):
        raise StoreAwayError(
            f"the store {name} is away: {here.place} is in timeline {here.timeline}, and the store has gone"
            f" on in timeline {latest}; that server was the primary before a failover: stop it, and make a"
            " standby of it"
        )


def _last_of(address: PostgresAddress) -> _Found | None:
    """Return the last primary among the address's servers; None if no primary is found, or a server
    doesn't answer.
    """
    if SEEN.silent(address.conninfo):
        return None
    given: dict[str, Any] = {
        **from_the_other_end(address.conninfo),
        "connect_timeout": _SHORT,
        "target_session_attrs": "primary",
    }
    asked = time.monotonic()
    try:
        with psycopg.connect("", autocommit=True, **given) as connection:
            return _find(connection)
    except psycopg.Error:
        return None
    finally:
        if time.monotonic() - asked >= _SHORT:
            SEEN.note_silence(address.conninfo)


@final
class Timelines:
    """This process's observations of servers; usable in any thread.

    For each address and cluster: the latest timeline, and when this timeline was first seen. For each
    address: when one of its servers last failed to answer.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: dict[tuple[str, str], tuple[int, float]] = {}
        self._silent: dict[str, float] = {}

    def see(self, conninfo: str, cluster: str, timeline: int) -> int:
        """Remember that a server writes in `timeline`; return the latest timeline of the address and
        cluster.
        """
        with self._lock:
            latest, _ = self._latest.get((conninfo, cluster), (0, 0.0))
            if timeline > latest:
                self._latest[conninfo, cluster] = timeline, time.monotonic()
            return max(timeline, latest)

    def seconds(self, conninfo: str, cluster: str) -> float:
        """Return how many seconds ago this process first saw the latest timeline of the address and
        cluster.
        """
        with self._lock:
            return time.monotonic() - self._latest[conninfo, cluster][1]

    def note_silence(self, conninfo: str) -> None:
        """Remember that a server of this address doesn't answer now."""
        with self._lock:
            self._silent[conninfo] = time.monotonic()

    def silent(self, conninfo: str) -> bool:
        """Return whether a server of this address failed to answer in the last `_REST` seconds."""
        with self._lock:
            at = self._silent.get(conninfo)
        return at is not None and time.monotonic() < at + _REST


SEEN: Final = Timelines()
