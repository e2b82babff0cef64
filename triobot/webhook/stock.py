"""Serves the webhook on the stock lane: hypercorn, and Quart's routes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final, cast

import trio
from hypercorn.config import Config
from hypercorn.trio import serve as serve_asgi  # pyright: ignore[reportUnknownVariableType]
from hypercorn.typing import ASGIFramework

from ..http.binding import Bind, address_of, open_listeners
from .app import FindEndpoint, build_app
from .endpoint import ACCESS
from .limits import Limits

_log: Final = logging.getLogger("triobot.hypercorn")


async def serve_stock(
    find: FindEndpoint,
    binds: Sequence[Bind],
    *,
    shutdown: trio.Event,
    limits: Limits,
    certificate: str | None = None,
    key: str | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the webhook until `shutdown` is set, then answer the requests in hand, and return.

    The limits of a request hold as on our own listener. Those of connections don't: hypercorn takes as many
    as the process may open files.

    Args:
        find: the webhook, or those of several bots.
        binds: where to listen; on all of them or on none.
        shutdown: set it to stop.
        certificate: of the server, a PEM file that is read once; None: plain.
        key: its key, if that is in a file of its own.
        task_status: is given the addresses, with the ports that the system chose.

    Raises:
        ConfigError: an address can't be listened on; nothing was started.

    Cancellation: *forceful*, as `triobot.webhook.serving.serve`.
    """
    listeners = await open_listeners(binds, backlog=limits.backlog)
    addresses = [address_of(listener, secured=certificate is not None) for listener in listeners]
    config = Config()
    # Sockets that are open already: whose a path is, and who may connect there, is looked after in one place.
    config.bind = [f"fd://{listener.socket.detach()}" for listener in listeners]
    config.certfile, config.keyfile = certificate, key or certificate
    config.accesslog = ACCESS if ACCESS.isEnabledFor(logging.INFO) else None
    # The application has hidden the path by then.
    config.access_log_format = "%(m)s %(U)s %(s)s %(L)s s"
    config.errorlog = _log
    config.include_server_header = False
    config.backlog = limits.backlog
    config.h11_max_incomplete_size = limits.header_bytes
    config.keep_alive_timeout = limits.idle_seconds
    config.graceful_timeout = limits.grace_seconds
    app = cast("ASGIFramework", build_app(find))
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_asgi, app, config, shutdown_trigger=shutdown.wait, mode="asgi"))
        task_status.started(addresses)
