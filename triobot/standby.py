"""Waits beside a process that has the store, behind a listener of its own: a hot standby.

A proxy that follows ``/readyz`` or a 503 sends nothing here meanwhile. What comes all the same is answered
with 503: nothing of it was stored. When the store is free the listener closes, and the bot starts as after
any stop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, final

import trio

from . import own_http
from .binding import Bind, Tls
from .store import wait_free
from .webhook.answers import ALIVE, Response, try_later
from .webhook.endpoint import ALIVE_PATH, READY_PATH
from .webhook.limits import Limits

if TYPE_CHECKING:
    from .http.server_connection import Talk

log: Final = logging.getLogger("triobot")

_WAITS: Final = Response(
    503, b"standby\n", ((b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store"))
)


@final
class Doorkeeper:
    """What answers requests while another process has the store."""

    def __init__(self, limits: Limits) -> None:
        self._later = try_later(limits.retry_seconds)

    async def handle(self, talk: Talk) -> None:
        """Answer one request."""
        path = talk.request.path
        answer = ALIVE if path == ALIVE_PATH else _WAITS if path == READY_PATH else self._later
        await talk.answer(answer.status, answer.headers, answer.body)


async def stand_by(
    stores: Sequence[str],
    binds: Sequence[Bind],
    *,
    limits: Limits,
    tls: Tls | None,
    stop: trio.Event,
    listening: Callable[[list[str]], None],
) -> None:
    """Return once all of these stores are free, or at `stop`; listen while another process has one.

    Args:
        listening: told where, if it comes to that.

    Raises: as `triobot.store.wait_free`; ConfigError: an address can't be listened on.
    """
    over, taken = trio.Event(), trio.Event()

    async def watch() -> None:
        for store in stores:
            await wait_free(store, taken=taken.set)
        over.set()

    async def listen() -> None:
        await taken.wait()
        if not own_http.is_here():
            return  # whoever comes is refused, and may go to the other process
        from .webhook.serving import serve  # not under another's server, unless it comes to this

        serving = partial(
            serve, Doorkeeper(limits).handle, binds, shutdown=trio.Event(), limits=limits, tls=tls
        )
        bound: list[str] = await nursery.start(serving)
        log.info("another process has the store; this one waits, and listens on %s", ", ".join(bound))
        listening(bound)

    async def stopped() -> None:
        await stop.wait()
        over.set()

    async with trio.open_nursery() as nursery:
        for part in (watch, listen, stopped):
            nursery.start_soon(part)
        await over.wait()
        nursery.cancel_scope.cancel()
