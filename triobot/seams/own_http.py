"""Detection of triobot's own HTTP, `triobot.http`, which is faster than httpx and can be deleted.

Without `triobot.http`, httpx's own transports carry requests, and hypercorn listens for the webhook. The
listeners for operators and for other processes don't run without `triobot.http`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

    from ..http.connections import Connections as Connections


def is_here() -> bool:
    """Return whether the package `triobot.http` is installed."""
    return find_spec("triobot.http") is not None


def new_connections(most: int) -> Connections | None:
    """Return a pool of `most` connections of `triobot.http`; None without this package."""
    if not is_here():
        return None
    from ..http.connections import Connections

    return Connections(most=most)


def new_transport(
    connections: int | Connections = 100, *, idle: int | None = None, uds: str | None = None
) -> httpx.AsyncBaseTransport:
    """Return a transport with a number of connections or a given pool; see `triobot.http.TrioTransport`."""
    if is_here():
        from ..http.transport import TrioTransport

        return TrioTransport(connections=connections, idle=idle, uds=uds)
    import httpx

    assert isinstance(connections, int)  # Without `triobot.http` no Connections exist.
    kept = connections if idle is None else idle
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=kept, keepalive_expiry=4.0)
    return httpx.AsyncHTTPTransport(limits=limits, uds=uds, trust_env=False)


def connections_of(transport: httpx.AsyncBaseTransport) -> Connections | None:
    """Return the connections of a `triobot.http` transport; None for any other transport."""
    if not is_here():
        return None
    from ..http.transport import TrioTransport

    return transport.connections if isinstance(transport, TrioTransport) else None
