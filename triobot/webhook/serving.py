"""Serves the webhook on our own listener."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

import trio

from ..http.binding import Bind, Tls, address_of, open_listeners
from ..http.listener import serve_listeners
from ..http.server_connection import Talk
from .answers import TrafficCounters
from .endpoint import ALIVE_PATH, HIDDEN_PATH, READY_PATH
from .limits import Limits

ACCESS: Final = logging.getLogger("triobot.webhook.access")

_SHOWN: Final = {ALIVE_PATH.encode(): ALIVE_PATH, READY_PATH.encode(): READY_PATH}


class Handles(Protocol):
    """What answers requests."""

    async def handle(self, talk: Talk) -> None:
        """Answer one."""
        ...


async def serve(
    endpoint: Handles,
    binds: Sequence[Bind],
    *,
    shutdown: trio.Event,
    limits: Limits | None = None,
    tls: Tls | None = None,
    traffic: TrafficCounters | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the webhook until `shutdown` is set, then answer the requests in hand, and return.

    A stop refuses no request that has arrived; see `triobot.http.listener.serve_listeners`.

    Args:
        endpoint: the webhook, or those of several bots, or what stands in their place.
        binds: where to listen; on all of them or on none.
        shutdown: set it to stop.
        limits: of connections and time; the defaults if None.
        tls: the server's certificate; None: plain, behind a proxy that has one.
        traffic: counts what is refused before the endpoint sees it.
        task_status: is given the addresses, with the ports that the system chose.

    Raises:
        ConfigError: an address can't be listened on; nothing was started.

    Cancellation: *forceful*: closes listeners and connections at once; requests in hand get no answer,
    and their events may or may not have been stored.
    """
    limits = limits or Limits()
    listeners = await open_listeners(binds, backlog=limits.backlog)
    addresses = [address_of(listener, secured=tls is not None) for listener in listeners]

    def log_answer(method: str, target: bytes, status: int, seconds: float) -> None:
        if method == "?" and traffic is not None:
            traffic.bad_framing += 1
        if ACCESS.isEnabledFor(logging.INFO):
            # Neither the path nor a header is in it: the path holds the secret or a good part of it.
            ACCESS.info("%s %s %d %.1f ms", method, _SHOWN.get(target, HIDDEN_PATH), status, seconds * 1000)

    async with trio.open_nursery() as nursery:
        await nursery.start(
            partial(
                serve_listeners,
                endpoint.handle,
                listeners,
                shutdown=shutdown,
                limits=limits.serving,
                tls=tls,
                on_answer=log_answer,
            )
        )
        task_status.started(addresses)
