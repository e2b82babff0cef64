"""Finds out whether our own HTTP is here: `triobot.http` is faster, and can be deleted.

Without it transports of httpx's own carry requests, and hypercorn listens for the webhook. What else listens,
for operators and beside another process, doesn't.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

    from ..http.connections import Connections as Connections


def is_here() -> bool:
    """Return whether there is our own HTTP."""
    return find_spec("triobot.http") is not None


def new_connections(most: int) -> Connections | None:
    """Return so many connections of our own HTTP; None where it is not here."""
    if not is_here():
        return None
    from ..http.connections import Connections

    return Connections(most=most)


def new_transport(
    connections: int | Connections = 100, *, idle: int | None = None, uds: str | None = None
) -> httpx.AsyncBaseTransport:
    """Return a transport with so many connections, or over these; see `triobot.http.TrioTransport`."""
    if is_here():
        from ..http.transport import TrioTransport

        return TrioTransport(connections=connections, idle=idle, uds=uds)
    import httpx

    assert isinstance(connections, int)  # there are none without our own HTTP
    kept = connections if idle is None else idle
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=kept, keepalive_expiry=4.0)
    return httpx.AsyncHTTPTransport(limits=limits, uds=uds, trust_env=False)


def connections_of(transport: httpx.AsyncBaseTransport) -> Connections | None:
    """Return the connections of a transport of ours; None of any other."""
    if not is_here():
        return None
    from ..http.transport import TrioTransport

    return transport.connections if isinstance(transport, TrioTransport) else None
