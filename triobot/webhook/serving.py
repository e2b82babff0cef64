"""Serves the webhook with triobot's own HTTP listener."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

import trio

from ..base.binding import Bind, Tls, address_of, open_listeners
from ..http.listener import serve_listeners
from ..http.request import Incoming
from ..http.server_connection import Handler, SenderLeftError, Talk
from .answers import Response, TrafficCounters
from .endpoint import ACCESS, ALIVE_PATH, HIDDEN_PATH, READY_PATH, Endpoint, endpoint_of
from .exchange import Reading, RequestFraming
from .limits import Limits

_SHOWN: Final = {ALIVE_PATH.encode(): ALIVE_PATH, READY_PATH.encode(): READY_PATH}


def answering(endpoints: Sequence[Endpoint]) -> Handler:
    """Return the listener's request handler. The handler passes each request to the endpoint that accepts the
    secret in the path, or to the first endpoint.

    Cancellation: as `Endpoint.respond`.
    """

    async def answer(talk: Talk) -> None:
        request, endpoint = talk.request, endpoints[0]
        path = request.path
        if len(endpoints) > 1:
            endpoint = endpoint_of(endpoints, path)
            if endpoint.begins is not None:
                endpoint.begins()
        await endpoint.respond(_DirectExchange(talk), path, request.method, _framing_of(request))

    return answer


async def _read_body(talk: Talk, *, most: int, seconds: float) -> Reading:
    if talk.request.complete:
        body = b"".join(talk.request.pieces)
        talk.request.pieces.clear()
        return body if len(body) <= most else "too long"
    chunks = bytearray()
    with trio.move_on_after(seconds):
        try:
            while piece := await talk.read():
                chunks += piece
                if len(chunks) > most:
                    return "too long"
        except SenderLeftError:
            return "truncated" if talk.broken is None else "malformed"
        return bytes(chunks)
    return "too slow"


@final
class _DirectExchange:
    """`RequestExchange` on triobot's own listener; the socket itself shows whether the sender has
    disconnected.
    """

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    async def read(self, *, most: int, seconds: float) -> Reading:
        return await _read_body(self._talk, most=most, seconds=seconds)

    def has_left(self) -> bool:
        return self._talk.has_left()

    async def answer(self, answer: Response, on_written: Callable[[bool], None]) -> None:
        """See `RequestExchange`. No task watches for a disconnect: a system call checks the socket."""
        stayed = not self._talk.has_left()
        await self._talk.answer(answer.status, answer.headers, answer.body)
        on_written(stayed)

    async def refuse(
        self, answer: Response, *, unread: bool, linger: float, body_first: bool = False
    ) -> None:
        """See `RequestExchange`. The listener itself closes the connection if the body is incomplete."""
        await self._talk.answer(answer.status, answer.headers, answer.body)


def _framing_of(request: Incoming) -> RequestFraming:
    """Return the body's type and length. The listener has refused requests with conflicting headers."""
    return RequestFraming(request.content_type, request.length, False, not request.complete)


async def serve(
    handler: Handler,
    binds: Sequence[Bind],
    *,
    shutdown: trio.Event,
    limits: Limits | None = None,
    tls: Tls | None = None,
    traffic: TrafficCounters | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the webhook until `shutdown` is set, then answer the requests in progress, and return.

    A stop refuses no request that has arrived; see `triobot.http.listener.serve_listeners`.

    Args:
        handler: handler of the requests, for one bot or several.
        binds: addresses to listen on.
        shutdown: event that stops the server.
        limits: limits of connections and time; None: the defaults.
        tls: the server's certificate; None: no TLS, for use behind a proxy with a certificate.
        traffic: counters of the requests refused before the endpoint.
        task_status: receives the addresses, with the ports that the system chose.

    Raises:
        ConfigError: the process can't listen on one of the addresses; nothing was started.

    Cancellation: *forceful*: closes listeners and connections at once. Requests in progress get no answer,
    and their events may or may not have been stored.
    """
    limits = limits or Limits()
    listeners = await open_listeners(binds, backlog=limits.backlog)
    addresses = [address_of(listener, secured=tls is not None) for listener in listeners]

    def log_answer(method: str, target: bytes, status: int, seconds: float) -> None:
        if method == "?" and traffic is not None:
            traffic.bad_framing += 1
        if ACCESS.isEnabledFor(logging.INFO):
            # Log neither path nor headers: the path contains the secret, or a part of it.
            ACCESS.info("%s %s %d %.1f ms", method, _SHOWN.get(target, HIDDEN_PATH), status, seconds * 1000)

    async with trio.open_nursery() as nursery:
        await nursery.start(
            partial(
                serve_listeners,
                handler,
                listeners,
                shutdown=shutdown,
                limits=limits.serving,
                tls=tls,
                on_answer=log_answer,
            )
        )
        task_status.started(addresses)
