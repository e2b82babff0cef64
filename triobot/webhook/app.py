"""The webhook as a quart-trio application: by itself under an ASGI server, or under a prefix of a site.

Quart dispatches each request to one route, reads its body and writes its answer. Three things a view can't
know or do, and `_Passage` does them between the server and Quart. It keeps the path, which is the secret, out
of Quart and of the server's access log. It doesn't pass on that a sender has left: Quart would cancel the
view, in the middle of a commit. And it knows whether the answer was written while its sender was there.

The application is the bot's own in a site as well, so that the site's limits and ``before_request`` hooks
don't turn the platform away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, cast, final

import trio
from hypercorn.typing import (
    ASGIReceiveCallable,
    ASGIReceiveEvent,
    ASGISendCallable,
    ASGISendEvent,
    HTTPScope,
    Scope,
    WebsocketScope,
)
from quart import Blueprint, Response, request
from quart_trio import QuartTrio

from ..errors import ConfigError
from . import answers
from .answers import try_later
from .endpoint import ALIVE_PATH, HIDDEN_PATH, READY_PATH, Endpoint
from .exchange import Complete, Reading, RequestFraming, TooLong, TooSlow, Truncated

_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)+", re.ASCII)
_DIGITS: Final = re.compile(rb"[0-9]{1,18}")
_PASSAGE: Final = "triobot.passage"
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")

FindEndpoint: TypeAlias = Callable[[str], Endpoint | None]
"""Returns the endpoint for a path below the prefix, or None while there is none: then the answer is 503."""


def build_app(find: FindEndpoint, prefix: str = "") -> QuartTrio:
    """Make an application that is the webhook and nothing else.

    It answers ``POST /<secret>``, ``GET /healthz`` and ``GET /readyz`` under the prefix; whatever else gets
    the same 404. Its lifespan is Quart's own: attach ``before_serving`` and ``after_serving`` to it as to any
    other.
    """
    app = QuartTrio("triobot", static_folder=None)
    # The view has limits of its own, for every format the same.
    for name in ("MAX_CONTENT_LENGTH", "BODY_TIMEOUT", "RESPONSE_TIMEOUT"):
        app.config[name] = None
    app.register_blueprint(_blueprint(find))
    behind = app.asgi_app

    async def front(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "lifespan":
            await behind(scope, receive, send)
        elif scope["type"] == "websocket":
            await _refuse_websocket(scope, receive, send, find(""))
        else:
            passage = _Passage(scope, prefix, receive, send)
            # In place: servers write their access log from this very mapping, after the answer.
            _hide_path(scope, passage.path)
            inner = cast("HTTPScope", {**scope, "root_path": "", _PASSAGE: passage})
            try:
                await behind(inner, passage.receive, passage.send)
            finally:
                passage.end()

    app.asgi_app = front  # type: ignore[method-assign]  # Quart's documented place for a middleware
    return app


def mount_endpoint(app: QuartTrio, prefix: str, find: FindEndpoint) -> None:
    """Put a webhook that comes and goes into an existing application, under a prefix of its own.

    Raises:
        ConfigError: the prefix is empty, or not made of plain segments.
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


def _blueprint(find: FindEndpoint) -> Blueprint:
    blueprint = Blueprint("webhook", __name__)

    async def webhook(_: object = None) -> Response:
        """Answer one request; what no route takes comes here too, such as a method that HTTP doesn't know."""
        passage = cast("dict[str, _Passage]", request.scope)[_PASSAGE]
        if (endpoint := find(passage.path)) is None:
            await passage.refuse(try_later(1), unread=passage.framing.unread, linger=0)
        else:
            if endpoint.begins is not None:
                endpoint.begins()
            await endpoint.respond(passage, passage.path, request.method, passage.framing)
        return passage.response()

    for path in (HIDDEN_PATH, ALIVE_PATH, READY_PATH):
        blueprint.add_url_rule(path, view_func=webhook, methods=_METHODS, provide_automatic_options=False)
    blueprint.app_errorhandler(404)(webhook)
    blueprint.app_errorhandler(405)(webhook)
    return blueprint


@final
class _Passage:
    """One request and its answer on their way through Quart; implements `RequestExchange`.

    ASGI servers hand a body over through a bounded queue. An application that answers without emptying it can
    leave the server waiting for ever for room in that queue, and the connection with it. Quart goes on
    reading until its answer is written; what the view doesn't want is thrown away here.
    """

    def __init__(
        self, scope: HTTPScope, prefix: str, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        self.path = _local_path(scope)[len(prefix) :]
        self.framing = read_framing(scope["headers"], scope["http_version"])
        # HTTP/2 forbids the header that HTTP/1 closes a connection with.
        self._closable = scope["http_version"].startswith("1")
        self._receive = receive
        self._send = send
        self._wanted = True
        self._whole = trio.Event()
        self._left = self._cut = self._written = False
        self._stayed = True
        self._over = trio.Event()
        self._answer: answers.Response | None = None
        self._closes = self._body_first = False
        self._linger = 0.0
        self._told: Callable[[bool], None] | None = None

    # --- between the server and Quart

    async def receive(self) -> ASGIReceiveEvent:
        """Return the next part of the body; that the sender has left is told once the answer is over."""
        if not self._left:
            message = await self._receive()
            if message["type"] != "http.disconnect":
                if message["type"] == "http.request" and not message.get("more_body", False):
                    self._whole.set()
                return message if self._wanted else _nothing_of(message)
            self._left = True
            if not self._whole.is_set():
                # Quart hears of the end of a body, and `read` of what has ended it.
                self._cut = True
                self._whole.set()
                return {"type": "http.request", "body": b"", "more_body": False}
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: ASGISendEvent) -> None:
        """Pass a part of Quart's answer on. Where the body is unread, wait for its end before the last."""
        if message["type"] == "http.response.start":
            if self._body_first:
                await self._wait_for_whole()
            # The disconnect comes behind the body in the queue: two passes of the scheduler, and Quart has
            # read it. Not after the answer: a sender that closes its connection with each request has read
            # the answer and left by then, and its next equal event would be taken for a repetition.
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            self._stayed = not self._left
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if last and self._closes and not self._body_first:
            await self._wait_for_whole()
        if self._answer is not None:
            await self._send(message)
        if last:
            self._written = True
            self._over.set()

    async def _wait_for_whole(self) -> None:
        # Closing before the sender has written all would reset the connection and take the answer with it.
        with trio.move_on_after(self._linger):
            await self._whole.wait()

    def end(self) -> None:
        """Tell whether the answer was written while its sender was there."""
        self._over.set()
        if self._told is not None:
            self._told(self._written and self._stayed)

    # --- for the endpoint

    async def read(self, *, most: int, seconds: float) -> Reading:
        """See `RequestExchange`."""
        chunks = bytearray()
        with trio.move_on_after(seconds):
            async for piece in request.body:
                chunks += piece
                if len(chunks) > most:
                    self._wanted = False
                    return TooLong()
            return Truncated() if self._cut else Complete(bytes(chunks))
        self._wanted = False
        return TooSlow()

    async def answer(self, answer: answers.Response, told: Callable[[bool], None]) -> None:
        """See `RequestExchange`. It is written once the view has returned; `receive` notices who leaves."""
        self._answer, self._told = answer, told

    async def refuse(
        self, answer: answers.Response, *, unread: bool, linger: float, body_first: bool = False
    ) -> None:
        """See `RequestExchange`.

        Args:
            body_first: throw the body away before the answer, for senders that put another request behind
                it: hypercorn drops an answer that closes if it finds more to read before that is out.
        """
        self._wanted = False
        self._answer, self._closes, self._linger = answer, unread, linger
        self._body_first = body_first and unread

    def response(self) -> Response:
        """Return what the view answers; nothing of it is sent if the endpoint has no answer."""
        answer = self._answer or answers.BAD_FRAMING
        # Quart's own default is a type for HTML.
        response = Response(answer.body, answer.status)
        response.headers.clear()
        for name, value in (*answer.headers, (b"content-length", b"%d" % len(answer.body))):
            response.headers.add(name.decode(), value.decode())
        if self._closes and self._closable:
            response.headers.add("connection", "close")
        return response


def _nothing_of(message: ASGIReceiveEvent) -> ASGIReceiveEvent:
    return cast("ASGIReceiveEvent", {**message, "body": b""})


def read_framing(headers: Iterable[tuple[bytes, bytes]], http_version: str) -> RequestFraming:
    """Read what a head says of the body; the headers' names are in lower case."""
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
    # HTTP/1 without either header has no body; HTTP/2 needs neither to have one.
    unread = bool(lengths and length != 0) or encoded or not http_version.startswith("1")
    conflicting = len(lengths) > 1 or not readable or bool(encoded and lengths)
    return RequestFraming(content_type, length, conflicting, unread)


async def _refuse_websocket(
    scope: WebsocketScope, receive: ASGIReceiveCallable, send: ASGISendCallable, endpoint: Endpoint | None
) -> None:
    """Answer a WebSocket's handshake with 404, like any other unknown path."""
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
    """Replace the path in a request's scope, in place."""
    shown = local if local in (ALIVE_PATH, READY_PATH) else HIDDEN_PATH
    scope["path"] = shown
    scope["raw_path"] = shown.encode()
    scope["query_string"] = b""


def _is_below(scope: HTTPScope | WebsocketScope, prefix: str) -> bool:
    """Return whether a request's path is this prefix or below it."""
    path = _local_path(scope)
    return path == prefix or path.startswith(prefix + "/")


def _local_path(scope: HTTPScope | WebsocketScope) -> str:
    path, root = scope["path"], scope["root_path"]
    return path[len(root) :] if root and path.startswith(root + "/") else path
