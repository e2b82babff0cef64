"""In which history a server's files go on: which files they are, and which timeline.

A standby that is made the primary begins another timeline, and so does a recovery to a point in time. What
was acknowledged last may be missing there, and only a process that had the store open then can tell: it knows
the count of its commits.

An earlier timeline than another server's is that of a primary which was failed over, and doesn't know it.
Each process remembers the latest that it has seen by an address, and goes to no earlier one by it. A copy
that was restored for another use is in a later one, too, and has another address.
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
"""Seconds to connect in, where that says only more about a server that has answered; libpq's least."""
_REST: Final = 10.0
"""Seconds for which an address with a silent server isn't asked again in that way."""

# Names the server's files, the timeline, and the table, which is another one when a dump is loaded.
_HISTORY: Final = (
    b"SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()),"
    b" substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), 'owner'::regclass::oid)"
)
# Whoever takes the store meanwhile begins an epoch, or finds this: what was proven is true in either case.
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


def go_on(connection: psycopg.Connection[TupleRow], name: str) -> None:
    """Note that nothing acknowledged is missing in the server's history, and tell of it if that is new.

    For the one process that can tell, after it has found the count of its commits under its fence.
    """
    if connection.execute(_GO_ON, (history_of(connection),)).rowcount:
        _log.warning(
            "the store %s goes on after a failover or a restore; nothing acknowledged is missing", name
        )


@final
@guarded
class _Found:
    """A server, as a connection has found it.

    Attributes:
        place: its host and port.
        cluster: which files it has.
        timeline: in which it writes; None: it is a standby.
        began: when it was started, to a microsecond: one server may have several names, and several proxies.
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
    """See that no server is known which has gone on since this one was the primary.

    Of several servers libpq takes the first that is a primary. Asked from the other end it takes the last.

    Args:
        name: of the store, for the error.

    Raises:
        StoreAwayError: there is one, or may be.
    """
    here = _find(connection)
    if here.timeline is None:  # a standby, which is refused where that matters
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
    """Return the last primary of several servers; None: it isn't known, or one of them says nothing."""
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
    """What this process has seen of servers; in any thread.

    Of a server's files it is the latest timeline that was found by an address, and since when that is known;
    of an address of several servers, when one of them has last said nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: dict[tuple[str, str], tuple[int, float]] = {}
        self._silent: dict[str, float] = {}

    def see(self, conninfo: str, cluster: str, timeline: int) -> int:
        """Note that a server writes in this timeline, and return the latest that was seen."""
        with self._lock:
            latest, _ = self._latest.get((conninfo, cluster), (0, 0.0))
            if timeline > latest:
                self._latest[conninfo, cluster] = timeline, time.monotonic()
            return max(timeline, latest)

    def seconds(self, conninfo: str, cluster: str) -> float:
        """Return for how long the latest one has been known."""
        with self._lock:
            return time.monotonic() - self._latest[conninfo, cluster][1]

    def note_silence(self, conninfo: str) -> None:
        """Note that a server of this address has said nothing."""
        with self._lock:
            self._silent[conninfo] = time.monotonic()

    def silent(self, conninfo: str) -> bool:
        """Return whether that was so recently that it isn't asked again."""
        with self._lock:
            at = self._silent.get(conninfo)
        return at is not None and time.monotonic() < at + _REST


SEEN: Final = Timelines()
