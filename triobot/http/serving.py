"""`serve_asgi`: any ASGI application on our listener."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import trio

from .asgi import AsgiApp, asgi_handler
from .binding import Bind, address_of, open_listeners
from .certificates import Tls
from .forwarded import Proxies
from .lifespan import open_lifespan
from .limits import ServingLimits
from .listener import serve_listeners

_BACKLOG = 4096


async def serve_asgi(
    app: AsgiApp,
    binds: Sequence[Bind],
    *,
    shutdown: trio.Event,
    limits: ServingLimits | None = None,
    tls: Tls | None = None,
    proxies: Proxies | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an ASGI application over HTTP/1.1 until told to stop; its lifespan is run around it.

    The application runs on Trio, as a quart-trio application does. WebSockets and HTTP/2 are not offered.
    What a stop does is told at `triobot.http.listener.serve_listeners`.

    Args:
        app: the application.
        binds: where to listen; on all of them or on none.
        shutdown: set it to stop.
        limits: of connections and time; the defaults if None.
        tls: the server's certificate, see `triobot.http.server_context` and, for one that is renewed while
            this runs, `triobot.http.RenewedCertificate`; None: plain.
        proxies: whose word on who sent a request is believed; None: nobody's.
        task_status: is given the addresses, with the ports that the system chose.

    Raises:
        ConfigError: an address can't be listened on, or the application could not start.

    Cancellation: *forceful*: closes listeners and connections at once; requests in hand get no answer.

    Example:
        >>> stop = trio.Event()
        >>> addresses = await nursery.start(
        ...     partial(serve_asgi, app, [parse_bind("127.0.0.1:8080")], shutdown=stop)
        ... )
    """
    listeners = await open_listeners(binds, backlog=_BACKLOG)
    addresses = [address_of(listener, secured=tls is not None) for listener in listeners]
    try:
        async with open_lifespan(app) as state, trio.open_nursery() as nursery:
            await nursery.start(
                partial(
                    serve_listeners,
                    asgi_handler(app, proxies=proxies, state=state),
                    listeners,
                    shutdown=shutdown,
                    limits=limits or ServingLimits(),
                    tls=tls,
                )
            )
            task_status.started(addresses)
    finally:
        for listener in listeners:
            listener.socket.close()
