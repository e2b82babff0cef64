"""HTTP/1.1 on Trio, client and server; nothing in it knows of bots.

A bot without this package is slower, and says so (`triobot.seams.own_http`). Read it in this order. Shared:
`links` (bytes over a
connection). The client's side: `outgoing` and `response` (pure), `connections`, `transport`.
The server's side: `request` (pure), `server_connection` (with one request, its talk), `listener`.

The one name that programs of others want here, `TrioTransport`, is loaded when it is used: httpx, on which it
stands, takes as long as Trio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .transport import TrioTransport as TrioTransport
else:

    def __getattr__(name: str) -> object:
        if name == "TrioTransport":
            from .transport import TrioTransport

            return TrioTransport
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
