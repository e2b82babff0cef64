"""HTTP/1.1 on Trio, client and server, independent of bots.

A bot without this package is slower, and logs this fact (`triobot.seams.own_http`). Suggested reading order:

- both sides: `links` (bytes over a connection);
- the client: `outgoing` and `response` (pure), `connections`, `transport`;
- the server: `request` (pure), `server_connection` (with `Talk`, one request and its response), `listener`.

`TrioTransport`, the only name for other programs, is imported on first use. Its base class comes from httpx,
and importing httpx takes as long as importing Trio.
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
