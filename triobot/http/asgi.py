"""ASGI applications on our listener: each request becomes a scope, a `receive` and a `send`.

Nothing is buffered between: the application's `receive` reads from the connection, so that a sender is only
as fast as the application takes its body.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeAlias, cast, final
from urllib.parse import unquote_to_bytes

import trio

from ..errors import ConfigError
from .binding import Bind, Tls, address_of, open_listeners
from .forwarded import Proxies
from .listener import serve_listeners
from .server_connection import Handler, SenderLeftError, ServingLimits, Talk

# The shapes that ASGI itself gives: the messages are open dictionaries.
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

# What is read ahead while an application waits for its sender to leave.
_READ_AHEAD: Final = 64 * 1024
_FAILED: Final = "the application could not {}{}"


def asgi_handler(
    app: AsgiApp, *, proxies: Proxies | None = None, state: dict[str, Any] | None = None
) -> Handler:
    """Return a handler that passes each request to an ASGI application; WebSockets are not offered.

    Args:
        proxies: the ones whose headers on the sender are believed; None: no proxy's.
        state: the lifespan's; each request gets a shallow copy.
    """
    believed = Proxies() if proxies is None else proxies

    async def handle(talk: Talk) -> None:
        await app(_scope(talk, believed, state), *_doors(talk))

    return handle


def _scope(talk: Talk, proxies: Proxies, state: dict[str, Any] | None) -> dict[str, Any]:
    request = talk.request
    raw_path, _, query = _path_and_query(request.target)
    sender = proxies.sender(request, talk.peer, secured=talk.secured)
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": request.version,
        "method": request.method,
        "scheme": sender.scheme,
        "path": unquote_to_bytes(raw_path).decode("utf-8", "replace"),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": list(request.headers),
        "client": sender.address,
        "server": talk.server,
        "state": {} if state is None else state.copy(),
        "extensions": {},
    }


def _path_and_query(target: bytes) -> tuple[bytes, bytes, bytes]:
    if not target.startswith(b"/"):
        _, found, rest = target.partition(b"://")
        target = b"/" + rest.partition(b"/")[2] if found else target
    return target.partition(b"?")


def _doors(talk: Talk) -> tuple[Receive, Send]:
    doors = _Doors(talk)
    return doors.receive, doors.send


@final
class _Doors:
    """An application's `receive` and `send` for one request."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._told_all = False
        self._left = False
        self._started: tuple[int, list[tuple[bytes, bytes]]] | None = None
        self._finished = trio.Event()

    async def receive(self) -> Message:
        """Return the next part of the body; after it, wait until the sender leaves or the answer ends."""
        talk = self._talk
        if not self._told_all:
            await trio.lowlevel.checkpoint()
            try:
                piece = await talk.read()
            except SenderLeftError:
                self._told_all = self._left = True
                return {"type": "http.disconnect"}
            self._told_all = talk.request.complete and not talk.request.pieces
            return {"type": "http.request", "body": piece, "more_body": not self._told_all}
        if not self._left and not talk.finished:
            async with trio.open_nursery() as nursery:

                async def until_finished() -> None:
                    await self._finished.wait()
                    nursery.cancel_scope.cancel()

                nursery.start_soon(until_finished)
                await talk.wait_left(_READ_AHEAD)
                nursery.cancel_scope.cancel()
            self._left = not talk.finished
        await trio.lowlevel.checkpoint()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Write a part of the answer. The head goes with the first part of the body."""
        talk = self._talk
        match message["type"]:
            case "http.response.start":
                if self._started is not None:
                    raise RuntimeError("the response has been started already")
                self._started = (message["status"], _pairs(message.get("headers", ())))
                await trio.lowlevel.checkpoint()
            case "http.response.body":
                if self._started is None or talk.finished:
                    raise RuntimeError("a body outside of its response")
                await self._send_body(cast("bytes", message.get("body", b"")), bool(message.get("more_body")))
            case kind:
                raise RuntimeError(f"nothing is known of {kind!r}")

    async def _send_body(self, piece: bytes, more: bool) -> None:
        talk = self._talk
        assert self._started is not None
        status, headers = self._started
        close = any(name == b"connection" and b"close" in value.lower() for name, value in headers)
        try:
            if not talk.status and not more and _length(headers) in (None, b"%d" % len(piece)):
                await trio.lowlevel.checkpoint()
                await talk.answer(status, _own(headers), piece, close=close)
            else:
                if not talk.status:
                    await talk.begin(status, headers, piece, close=close)
                else:
                    await talk.write(piece)
                if not more:
                    await talk.end()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            # In ASGI, sending after the sender has left is no error; `receive` tells.
            self._left = True
            await trio.lowlevel.checkpoint()
        if not more:
            self._finished.set()


def _pairs(headers: Iterable[Iterable[bytes]]) -> list[tuple[bytes, bytes]]:
    return [(bytes(name).lower(), bytes(value)) for name, value in headers]


def _own(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    ours = (b"transfer-encoding", b"connection", b"date", b"content-length")
    return [pair for pair in headers if pair[0] not in ours]


def _length(headers: list[tuple[bytes, bytes]]) -> bytes | None:
    return next((value for name, value in headers if name == b"content-length"), None)


@asynccontextmanager
async def open_lifespan(app: AsgiApp) -> AsyncGenerator[dict[str, Any]]:
    """Start an application, and stop it at the end of the block; yields its state.

    An application that knows nothing of lifespans is served without one.

    Raises:
        ConfigError: the application said that it could not start, or could not stop.
    """
    state: dict[str, Any] = {}
    # Two messages: there are no others.
    to_app, app_receives = trio.open_memory_channel[Message](2)
    started, stopped = trio.Event(), trio.Event()
    failures: list[str] = []
    supported = True

    async def send(message: Message) -> None:
        await trio.lowlevel.checkpoint()
        match message["type"]:
            case "lifespan.startup.complete":
                started.set()
            case "lifespan.shutdown.complete":
                stopped.set()
            case "lifespan.startup.failed" | "lifespan.shutdown.failed":
                text = str(message.get("message", ""))
                failures.append(f": {text}" if text else "")
                started.set()
                stopped.set()
            case kind:
                raise RuntimeError(f"nothing is known of {kind!r}")

    async def live() -> None:
        nonlocal supported
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": state}
        try:
            await app(scope, app_receives.receive, send)
        except Exception:
            # The specification: an application that raises before it has started knows no lifespans.
            if started.is_set():
                raise
            supported = False
        finally:
            started.set()
            stopped.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(live)
        await to_app.send({"type": "lifespan.startup"})
        await started.wait()
        if failures:
            raise ConfigError(_FAILED.format("start", failures[0]))
        yield state
        if supported and not stopped.is_set():
            await to_app.send({"type": "lifespan.shutdown"})
            await stopped.wait()
            if failures:
                raise ConfigError(_FAILED.format("stop", failures[0]))
        nursery.cancel_scope.cancel()


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
    """Serve an ASGI application over HTTP/1.1 until `shutdown` is set; its lifespan is run around it.

    The application runs on Trio, as a quart-trio application does. WebSockets and HTTP/2 are not offered.
    `triobot.http.listener.serve_listeners` says what a stop does.

    Args:
        app: the application.
        binds: where to listen; on all of them or on none.
        shutdown: set it to stop.
        limits: of connections and time; the defaults if None.
        tls: the server's certificate, see `triobot.http.server_context` and, for one that is renewed while
            this runs, `triobot.http.RenewedCertificate`; None: plain.
        proxies: the ones whose headers on the sender are believed; None: no proxy's.
        task_status: is given the addresses, with the ports that the system chose.

    Raises:
        ConfigError: an address can't be listened on, or the application could not start.

    Cancellation: *forceful*: closes listeners and connections at once; requests in hand get no answer.

    Examples:
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
