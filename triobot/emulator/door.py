"""The front ASGI application: refuses foreign requests, carries out planned faults, and calls the others.

Any web page that a developer has open can post to a loopback port. If the page's host name resolves to
127.0.0.1, the browser considers the page's requests to be of the same origin. So `Host` is checked first,
then `Origin`, then the control API's token. WebSockets get the same checks, since browsers don't apply CORS
rules to WebSockets. No answer has a CORS header.

A router accepts several spellings of a path, but the guard checks only one spelling. So the guard replaces
the path by the checked spelling, and marks requests to the control API. The control API's HTTP routes serve
only marked requests.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from functools import partial
from typing import Any, Final, TypeAlias, cast, final
from urllib.parse import urlsplit

import trio

from ..wire.platform_side import encode_error
from .faults import Fault, FaultPlan, in_words

# ASGI defines its messages as dictionaries of any values.
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]
Record: TypeAlias = Callable[[Message, Receive, Send, AsgiApp, str], Awaitable[None]]
"""Serves a request with the application, and records the request with its planned fault."""

CONTROL_HEADER: Final = "X-Triobot-Control"
PROTOCOL: Final = "triobot"
"""First subprotocol of a WebSocket. The second subprotocol is the control token in hexadecimal.

A page can't send the token in a header of a WebSocket.
"""
MAY_CONTROL: Final = "triobot.may_control"
"""Key in a connection's scope: whether the connection may use the control API."""
LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
_CONTROL: Final = "/control/"
_LINGER: Final = 2.0


@final
class RequestGuard:
    """ASGI application that refuses foreign requests, and carries out planned faults.

    Args:
        record: records the bot's requests.

    Attributes:
        authorities: accepted values of `Host`, each with its port.
    """

    def __init__(
        self,
        inner: AsgiApp,
        *,
        plan: FaultPlan,
        control_token: str,
        authorities: Collection[str],
        record: Record | None = None,
    ) -> None:
        self.authorities = frozenset(authorities)
        self._inner = inner
        self._plan = plan
        self._control_token = control_token.encode()
        self._record = record

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                body = _UnreadRest(receive, send)
                await self._http(scope, body.receive, body.send)
            case "lifespan":
                await _lifespan(receive, send)
            case "websocket" if self._stopped_socket(scope) is None:
                await self._inner(scope, receive, send)
            case _:
                # A close before the WebSocket is accepted reaches the client as a 403.
                await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Message, receive: Receive, send: Send) -> None:
        headers = cast("list[tuple[bytes, bytes]]", list(scope["headers"]))
        path = _plain(str(scope["path"]))
        if (reason := self._stopped(path, str(scope["method"]), headers)) is not None:
            await _answer(send, 403, reason)
            return
        scope = {**scope, "path": path, MAY_CONTROL: path.startswith(_CONTROL)}
        if scope["method"] != "POST" or path.startswith(_CONTROL):
            await self._inner(scope, receive, send)
            return
        fault = self._plan.for_operation(path.strip("/"))
        serve = partial(self._faulty, fault or Fault())
        if self._record is None:
            await serve(scope, receive, send)
        else:
            await self._record(scope, receive, send, serve, in_words(fault))

    def _stopped(self, path: str, method: str, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        if (reason := self._foreign(headers)) is not None:
            return reason
        if not path.startswith(_CONTROL):
            return None
        tokens = _values(headers, CONTROL_HEADER.lower().encode())
        if len(tokens) != 1 or not hmac.compare_digest(tokens[0], self._control_token):
            return f"the header {CONTROL_HEADER} doesn't hold this run's control token"
        kinds = [kind.partition(b";")[0].strip() for kind in _values(headers, b"content-type")]
        # Without permission by CORS, a page can post a form to another origin, but not JSON.
        if method not in ("GET", "HEAD") and kinds != [b"application/json"]:
            return "the control API takes JSON only"
        return None

    def _stopped_socket(self, scope: Message) -> str | None:
        """Return why a WebSocket is refused, or None.

        CORS rules don't apply to WebSockets: only the checks of origin and token refuse other pages.
        """
        headers = cast("list[tuple[bytes, bytes]]", list(scope["headers"]))
        if (reason := self._foreign(headers)) is not None:
            return reason
        match scope.get("subprotocols"):
            case [first, second] if first == PROTOCOL and _same(second, self._control_token):
                return None
            case _:
                return f"the subprotocols aren't {PROTOCOL} and this run's control token"

    def _foreign(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        hosts = _values(headers, b"host")
        if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in self.authorities:
            return "this host name is not served here"
        origins = {f"http://{authority}".encode() for authority in self.authorities}
        if any(origin not in origins for origin in _values(headers, b"origin")):
            return "pages of another origin are not served here"
        return None

    async def _faulty(self, fault: Fault, scope: Message, receive: Receive, send: Send) -> None:
        await trio.sleep(fault.latency)
        if fault.status is not None:
            await _drain(receive)
            await _answer(send, fault.status, fault.reason)
        elif fault.drop == "before":
            await _drain(receive)
            await _cut(send)
        elif fault.drop == "after":
            await self._inner(scope, receive, _unsent)
            await _cut(send)
        else:
            await self._inner(scope, receive, send)


@final
class _UnreadRest:
    """Reads a request's body to its end, for at most `_LINGER` seconds, before the answer ends. The
    application need not read the body.

    If a body is unread, Hypercorn closes the connection after the answer. Before closing, Hypercorn sends the
    application a disconnect. Quart then cancels the task that closes the connection, so the connection stays
    open without a reader. This class therefore delivers the disconnect only after the answer is written.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._whole = trio.Event()
        self._ends = False
        self._over = trio.Event()

    async def receive(self) -> Message:
        message = await self._receive()
        if not message.get("more_body", False):
            self._whole.set()
        if message["type"] == "http.disconnect" and self._ends:
            await self._over.wait()
        return message

    async def send(self, message: Message) -> None:
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if not last:
            await self._send(message)
            return
        if not self._whole.is_set():
            await self._throw_away()
        self._ends = True
        try:
            await self._send(message)
        finally:
            self._over.set()

    async def _throw_away(self) -> None:
        # The application may read the body at the same time, and receive the body's end instead of `_drain`.
        with trio.move_on_after(_LINGER):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_drain, self.receive)
                await self._whole.wait()
                nursery.cancel_scope.cancel()


def _plain(path: str) -> str:
    """Return the path without doubled slashes, also if the client sent a complete URL instead of a path."""
    return re.sub("//+", "/", path if path.startswith("/") else f"/{urlsplit(path).path}")


def _same(in_hex: str, token: bytes) -> bool:
    return hmac.compare_digest(in_hex.encode("utf-8", "replace"), token.hex().encode())


def _values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for key, value in headers if key.lower() == name]


async def _drain(receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return


async def _answer(send: Send, status: int, reason: str) -> None:
    await send_json(send, status, encode_error(reason))


async def send_json(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _cut(send: Send) -> None:
    # ASGI has no message that closes a connection. But a server closes the connection if an application stops
    # in the middle of an answer. The client receives a status line, and then nothing. The status 502 means
    # only that a gateway got no answer.
    headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 502, "headers": headers})


async def _unsent(message: Message) -> None:
    await trio.lowlevel.checkpoint()


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        else:
            await send({"type": "lifespan.shutdown.complete"})
            return
