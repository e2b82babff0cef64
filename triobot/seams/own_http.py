"""Check for the optional package `triobot.http`, triobot's own HTTP code, which is faster than httpx.

Without `triobot.http`, httpx sends all requests, and hypercorn serves the webhook. The servers for operators'
requests and for other processes of the bot require `triobot.http`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..http.connections import Connections as Connections


def is_here() -> bool:
    """Return whether the package `triobot.http` is installed."""
    return find_spec("triobot.http") is not None


def new_connections(scheme: str, host: str, port: int) -> Connections | None:
    """Return a pool of connections to this origin; None if `triobot.http` is not installed."""
    if not is_here():
        return None
    from ..http.connections import Connections, Origin

    return Connections(Origin(scheme, host, port))
