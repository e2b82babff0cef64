"""The webhook as a quart-trio application, alone or under a prefix of a site; and a hypercorn server for it.

Quart dispatches each request to the single view, reads the body and writes the answer. The class `_Passage`,
between the server and Quart, does three things that a view can't do. `_Passage` hides the path, which
contains the secret, from Quart and from the server's access log. `_Passage` delays the sender's disconnect,
since Quart would cancel the view in the middle of a commit. `_Passage` also checks whether the sender is
still connected, right before the answer is written.

Within a site, the webhook remains a separate application, so that the site's limits and ``before_request``
hooks can't refuse the platform.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias, cast, final

import trio
from hypercorn.config import Config
from hypercorn.trio import serve as serve_asgi  # pyright: ignore[reportUnknownVariableType]
from hypercorn.typing import (
    ASGIFramework,
    ASGIReceiveCallable,
    ASGIReceiveEvent,
    ASGISendCallable,
    ASGISendEvent,
    HTTPScope,
    Scope,
    WebsocketScope,
)
from quart import Request, Response, request
from quart_trio import QuartTrio

from ..base.binding import Bind, address_of, open_listeners
from ..errors import ConfigError
from . import answers
from .answers import try_later
from .endpoint import ACCESS, ALIVE_PATH, HIDDEN_PATH, READY_PATH, Endpoint
from .exchange import Reading, RequestFraming
from .limits import Limits

_log: Final = logging.getLogger("triobot.hypercorn")
_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)+", re.ASCII)
_DIGITS: Final = re.compile(rb"[0-9]{1,18}")
_PASSAGE: Final = "triobot.passage"
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")

FindEndpoint: TypeAlias = Callable[[str], Endpoint | None]
"""Finds the endpoint for a path below the prefix. None: no bot runs, and the answer is 503."""


def build_app(find: FindEndpoint, prefix: str = "") -> QuartTrio:
    """Make an application that serves only the webhook.

    The application answers ``POST /<secret>``, ``GET /healthz`` and ``GET /readyz`` under the prefix, and
    every other path with the same 404. The application's lifespan is Quart's, so ``before_serving`` and
    ``after_serving`` work as usual.
    """
    app = QuartTrio("triobot", static_folder=None)
    # The endpoint applies its own limits, the same for every body format.
    for name in ("MAX_CONTENT_LENGTH", "BODY_TIMEOUT", "RESPONSE_TIMEOUT"):
        app.config[name] = None
    _declare_routes(app, find)
    behind = app.asgi_app

    async def front(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "lifespan":
            await behind(scope, receive, send)
        elif scope["type"] == "websocket":
            await _refuse_websocket(scope, receive, send, find(""))
        else:
            passage = _Passage(scope, prefix, receive, send)
            # Hide the path in the server's own mapping: a server writes its access log from this mapping.
            _hide_path(scope, passage.path)
            inner = cast("HTTPScope", {**scope, "root_path": "", _PASSAGE: passage})
            try:
                await behind(inner, passage.receive, passage.send)
            finally:
                passage.end()

    app.asgi_app = front  # type: ignore[method-assign]  # Quart's documented place for a middleware
    return app


def mount_endpoint(app: QuartTrio, prefix: str, find: FindEndpoint) -> None:
    """Mount a webhook in an existing application under `prefix`. `find` may return None while no bot runs.

    Raises:
        ConfigError: the prefix is empty, or contains anything but plain segments.
    """
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError("the webhook's prefix must look like /bot: it can't share a site's root")
    own, behind = build_app(find, prefix), app.asgi_app

    async def front(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "lifespan" and _is_below(scope, prefix):
            await own.asgi_app(scope, receive, send)
        else:
            await behind(scope, receive, send)

    app.asgi_app = front  # type: ignore[method-assign]  # Quart's documented place for a middleware


def _declare_routes(app: QuartTrio, find: FindEndpoint) -> None:
    async def webhook(_: object = None) -> Response:
        """Answer a request of any method, even if Quart has no route for the method."""
        # Use the request object, not Quart's proxy: each access through the proxy costs ten calls.
        proxy: Any = request
        asked: Request = proxy._get_current_object()
        scope: Any = asked.scope
        passage: _Passage = scope[_PASSAGE]
        passage.request = asked
        if (endpoint := find(passage.path)) is None:
            await passage.refuse(try_later(1), unread=passage.framing.unread, linger=0)
        else:
            if endpoint.begins is not None:
                endpoint.begins()
            await endpoint.respond(passage, passage.path, asked.method, passage.framing)
        return passage.response()

    # A plain view and not a blueprint: for blueprints, Quart searches for hooks at three points of each
    # request.
    for path in (HIDDEN_PATH, ALIVE_PATH, READY_PATH):
        app.add_url_rule(path, view_func=webhook, methods=_METHODS, provide_automatic_options=False)
    for status in (404, 405):
        app.register_error_handler(status, webhook)


@final
class _Passage:
    """A request and its answer, between the ASGI server and Quart; implements `RequestExchange`.

    ASGI servers pass a body through a bounded queue. If an application answers without reading the whole
    body, the server may wait for room in the queue forever, and the connection hangs. Quart reads the body
    until the answer is written; `receive` discards the bytes that the view doesn't want.
    """

    def __init__(
        self, scope: HTTPScope, prefix: str, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        self.path = _local_path(scope)[len(prefix) :]
        self.framing = read_framing(scope["headers"], scope["http_version"])
        # HTTP/2 forbids the header ``Connection: close``.
        self._closable = scope["http_version"].startswith("1")
        self._receive = receive
        self._send = send
        self.request: Request | None = None
        self._wanted = True
        self._left = self._cut = self._written = self._stayed = False
        self._whole = self._over = False
        # These trio.Event objects are created only when a task waits, which is rare.
        self._until_whole: trio.Event | None = None
        self._until_over: trio.Event | None = None
        self._answer: answers.Response | None = None
        self._closes = self._body_first = False
        self._linger = 0.0
        self._on_written: Callable[[bool], None] | None = None

    # --- between the server and Quart

    async def receive(self) -> ASGIReceiveEvent:
        """Return the next ASGI event with a piece of the body.

        A disconnect is reported only after the answer.
        """
        if not self._left:
            message = await self._receive()
            if message["type"] != "http.disconnect":
                if message["type"] == "http.request" and not message.get("more_body", False):
                    self._end_body()
                return message if self._wanted else _nothing_of(message)
            self._left = True
            if not self._whole:
                # Quart gets the end of the body, and `read` returns "truncated".
                self._cut = True
                self._end_body()
                return {"type": "http.request", "body": b"", "more_body": False}
        if not self._over:
            self._until_over = trio.Event()
            await self._until_over.wait()
        return {"type": "http.disconnect"}

    def _end_body(self) -> None:
        self._whole = True
        if self._until_whole is not None:
            self._until_whole.set()

    async def send(self, message: ASGISendEvent) -> None:
        """Send one ASGI event of Quart's answer to the server.

        Before the last event, wait for the end of a request body that the endpoint left unread.
        """
        if message["type"] == "http.response.start":
            if self._body_first:
                await self._wait_for_whole()
            # A disconnect follows the body in the server's queue, and after two checkpoints Quart has read
            # the disconnect. A check after the answer would be too late: a sender that opens a connection per
            # request may read the answer and disconnect before the check. The sender's next equal event would
            # then count as a repetition.
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            self._stayed = not self._left
        last = False
        if message["type"] == "http.response.body":
            last = not message.get("more_body", False)
            if not last and not message["body"]:
                return  # the piece of the body is empty, because the answer has no body
        if last and self._closes and not self._body_first:
            await self._wait_for_whole()
        if self._answer is not None:
            await self._send(message)
        if last:
            self._written = True
            self._let_go()

    async def _wait_for_whole(self) -> None:
        # If the server closed the connection before the sender has written everything, the connection would
        # be reset, and the sender would lose the answer.
        if not self._whole:
            self._until_whole = trio.Event()
            with trio.move_on_after(self._linger):
                await self._until_whole.wait()

    def _let_go(self) -> None:
        self._over = True
        if self._until_over is not None:
            self._until_over.set()

    def end(self) -> None:
        """Call the endpoint's `on_written` with True if the answer was written while the sender was
        connected, else with False.
        """
        self._let_go()
        if self._on_written is not None:
            self._on_written(self._written and self._stayed)

    # --- for the endpoint

    async def read(self, *, most: int, seconds: float) -> Reading:
        assert self.request is not None
        chunks = bytearray()
        with trio.move_on_after(seconds):
            async for piece in self.request.body:
                chunks += piece
                if len(chunks) > most:
                    self._wanted = False
                    return "too long"
            return "truncated" if self._cut else bytes(chunks)
        self._wanted = False
        return "too slow"

    def has_left(self) -> bool:
        return self._left

    async def answer(self, answer: answers.Response, on_written: Callable[[bool], None]) -> None:
        """See `RequestExchange`. Quart writes the answer after the view returns; `receive` detects a
        disconnect.
        """
        self._answer, self._on_written = answer, on_written

    async def refuse(
        self, answer: answers.Response, *, unread: bool, linger: float, body_first: bool = False
    ) -> None:
        """See `RequestExchange`.

        Args:
            body_first: whether to discard the body before the answer is sent. A sender may send another
                request directly after the body. If more input arrives before the answer, hypercorn drops an
                answer with ``Connection: close``.
        """
        self._wanted = False
        self._answer, self._closes = answer, unread
        # Over HTTP/2, hypercorn treats body data after the answer as an error, and closes the connection.
        self._linger = linger if self._closable else math.inf
        self._body_first = body_first and unread

    def response(self) -> Response:
        """Return the view's answer. If the endpoint set no answer, `send` doesn't send this answer."""
        return _response_of(self._answer or answers.BAD_FRAMING, closes=self._closes and self._closable)


@lru_cache(64)
def _response_of(answer: answers.Response, *, closes: bool) -> Response:
    """Convert an answer to a Quart response. All requests share the response, because the application has no
    hooks that change responses.
    """
    # Quart's default content type is HTML.
    response = Response(answer.body, answer.status)
    response.headers.clear()
    for name, value in (*answer.headers, (b"content-length", b"%d" % len(answer.body))):
        response.headers.add(name.decode(), value.decode())
    if closes:
        response.headers.add("connection", "close")
    return response


def _nothing_of(message: ASGIReceiveEvent) -> ASGIReceiveEvent:
    return cast("ASGIReceiveEvent", {**message, "body": b""})


def read_framing(headers: Iterable[tuple[bytes, bytes]], http_version: str) -> RequestFraming:
    """Read the body's length and type from a request's headers; the headers' names are in lower case."""
    content_type = ""
    lengths: set[bytes] = set()
    encoded = False
    for name, value in headers:
        if name == b"content-type":
            content_type = value.decode("latin-1")
        elif name == b"content-length":
            lengths.update(part.strip() for part in value.split(b","))
        elif name == b"transfer-encoding":
            encoded = True
    readable = all(_DIGITS.fullmatch(length) for length in lengths)
    length = int(next(iter(lengths))) if len(lengths) == 1 and readable else None
    # Without a length or an encoding, an HTTP/1 request has no body, but an HTTP/2 request may have a body.
    unread = bool(lengths and length != 0) or encoded or not http_version.startswith("1")
    conflicting = len(lengths) > 1 or not readable or bool(encoded and lengths)
    return RequestFraming(content_type, length, conflicting, unread)


async def _refuse_websocket(
    scope: WebsocketScope, receive: ASGIReceiveCallable, send: ASGISendCallable, endpoint: Endpoint | None
) -> None:
    """Answer a WebSocket handshake with 404, as for any unknown path; close the WebSocket if no bot runs."""
    _hide_path(scope, "")
    await receive()
    if endpoint is None:
        await send({"type": "websocket.close", "code": 1013, "reason": None})
        return
    endpoint.count_unknown_path()
    lacking = answers.NOT_FOUND
    length = (b"content-length", str(len(lacking.body)).encode())
    headers = [*lacking.headers, length]
    await send({"type": "websocket.http.response.start", "status": lacking.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": lacking.body, "more_body": False})


def _hide_path(scope: HTTPScope | WebsocketScope, local: str) -> None:
    shown = local if local in (ALIVE_PATH, READY_PATH) else HIDDEN_PATH
    scope["path"] = shown
    scope["raw_path"] = shown.encode()
    scope["query_string"] = b""


def _is_below(scope: HTTPScope | WebsocketScope, prefix: str) -> bool:
    path = _local_path(scope)
    return path == prefix or path.startswith(prefix + "/")


def _local_path(scope: HTTPScope | WebsocketScope) -> str:
    path, root = scope["path"], scope["root_path"]
    return path[len(root) :] if root and path.startswith(root + "/") else path


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
    """Serve the webhook until `shutdown` is set, then answer the requests in progress, and return.

    The limits of a request apply as on triobot's own listener, with one exception: hypercorn checks only an
    incomplete head's size. The limits of connections don't apply: hypercorn accepts connections up to the
    process's limit of open files.

    Args:
        find: finds the endpoint of a path, for one bot or several.
        binds: addresses to listen on.
        shutdown: event that stops the server.
        certificate: PEM file of the server's certificate, read once; None: no TLS.
        key: PEM file of the key, if separate.
        task_status: receives the addresses, with the ports that the system chose.

    Raises:
        ConfigError: the process can't listen on one of the addresses; nothing was started.

    Cancellation: *forceful*, as `triobot.webhook.serving.serve`.
    """
    listeners = await open_listeners(binds, backlog=limits.backlog)
    addresses = [address_of(listener, secured=certificate is not None) for listener in listeners]
    config = Config()
    # Pass open sockets to hypercorn: only `open_listeners` sets the owner and the mode of a Unix socket.
    config.bind = [f"fd://{listener.socket.detach()}" for listener in listeners]
    config.certfile, config.keyfile = certificate, key or certificate
    config.accesslog = ACCESS if ACCESS.isEnabledFor(logging.INFO) else None
    # The log may show the path, because `_hide_path` has replaced the secret.
    config.access_log_format = "%(m)s %(U)s %(s)s %(L)s s"
    config.errorlog = _log
    config.include_server_header = False
    config.backlog = limits.backlog
    config.h11_max_incomplete_size = limits.header_bytes
    config.keep_alive_timeout = limits.idle_seconds
    config.graceful_timeout = limits.grace_seconds
    app = cast("ASGIFramework", build_app(find))

    async def wait_settled() -> None:
        await shutdown.wait()
        # Once hypercorn stops, it closes each connection with an incomplete request head.
        await trio.sleep(limits.settle_seconds)

    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_asgi, app, config, shutdown_trigger=wait_settled, mode="asgi"))
        task_status.started(addresses)
