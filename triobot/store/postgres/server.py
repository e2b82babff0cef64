"""Requirements that a server must meet to have a store, such as durable commits. Pure."""

from __future__ import annotations

from typing import Final, final

from ...base.frozen import guarded

OLDEST: Final = 14


@final
@guarded
class ServerFacts:
    """Facts about a server, read in one session.

    Attributes:
        version: PostgreSQL's version number, such as 150018.
        pid: number of the server process that answers queries.
        greeted_as: number of the server process that the server named when the connection was made. Behind a
            pooling proxy, this number differs from `pid`.
    """

    version: int
    standby: bool
    read_only: bool
    fsync: str
    full_page_writes: str
    synchronous_commit: str
    standbys: str
    encoding: str
    pid: int
    greeted_as: int


FACTS: Final = (
    "SELECT current_setting('server_version_num')::bigint, pg_is_in_recovery(),"
    " current_setting('transaction_read_only') = 'on', current_setting('fsync'),"
    " current_setting('full_page_writes'), current_setting('synchronous_commit'),"
    " current_setting('synchronous_standby_names'), current_setting('server_encoding'),"
    " pg_backend_pid()::bigint"
)
"""Query for all fields except `greeted_as`, in this order."""


def refusal(server: ServerFacts) -> str | None:
    """Return why no store can be on this server, and the remedy; None for a suitable server."""
    if server.version < OLDEST * 10_000:
        return f"it is PostgreSQL {server.version // 10_000}, and a store needs {OLDEST} or later"
    if server.pid != server.greeted_as:
        return (
            "a proxy that shares sessions (pgbouncer, or one like it) stands before the server: the store's"
            " lock belongs to one session; name the server itself"
        )
    if server.encoding != "UTF8":
        return (
            f"the database is encoded in {server.encoding}, which can't hold every text; make one with"
            " ENCODING 'UTF8' TEMPLATE template0"
        )
    return None


def why_closed(server: ServerFacts) -> str | None:
    """Return why this server accepts no writes now, as during a failover; None if it accepts writes."""
    if server.standby:
        return "it is a standby, which takes no writes; name the primary"
    if server.read_only:
        return "it takes no writes in this session (default_transaction_read_only is on)"
    return None


def risk(server: ServerFacts) -> str | None:
    """Return why this server may lose acknowledged commits, and the remedy; None for a safe server."""
    if server.fsync != "on":
        return "fsync is off: a crash of the machine may lose or damage everything; turn it on"
    if server.full_page_writes != "on":
        return "full_page_writes is off: a crash of the machine may damage the store; turn it on"
    if server.synchronous_commit == "off":
        return (
            "synchronous_commit is off: a crash may lose what was acknowledged last; turn it on, for this"
            " role or this database at least"
        )
    if server.synchronous_commit == "local" and server.standbys:
        return (
            "synchronous_commit is local, although there are synchronous standbys: a failover may lose what"
            " was acknowledged last; turn it on"
        )
    return None
