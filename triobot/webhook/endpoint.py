"""The webhook itself: checks each request, hands its event to the inbox, and answers.

The checks come in this order: the secret, the method, the length in the headers, the framing, the body
itself, the event. A request without the right secret gets the same 404, whatever it asks for, before a byte
of its body is read.

There are two more pages, for the supervisor of the process. The operator's commands have none: they do not
belong on a port that strangers reach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, assert_never, final

import trio

from ..http.request import Incoming
from ..http.server_connection import Talk
from . import answers
from .answers import Readiness, Response, TrafficCounters, readiness_answer
from .exchange import (
    AsgiExchange,
    Complete,
    DirectExchange,
    Malformed,
    RequestExchange,
    RequestFraming,
    TooLong,
    TooSlow,
    Truncated,
    framing_of,
    path_of,
    read_framing,
)
from .inbox import EventStored, Inbox, NoRoom, Outcome, Unread, Unstorable, Unwritable
from .limits import Limits
from .secrets import Secrets

if TYPE_CHECKING:
    # Their shapes only: our own listener needs no ASGI server.
    from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope, WebsocketScope

HIDDEN_PATH: Final = "/***"
"""What logs show in place of a path, which may hold the secret or most of it."""

_GIVEN_UP_EVERY: Final = 0.0025

ALIVE_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"


@final
class Endpoint:
    """The webhook under one prefix.

    Args:
        inbox: takes the events.
        secrets: the accepted ones.
        limits: of one request and of all together.
        readiness: asked for each ``/readyz``; quick, and must not raise.
        prefix: the path in front, such as ``/bot``; empty if the webhook has the server to itself.
        traffic: counts what is refused before the inbox sees it.
        begins: called at each request in the task of a listener that others use, too.
    """

    def __init__(
        self,
        inbox: Inbox,
        secrets: Secrets,
        *,
        limits: Limits,
        readiness: Callable[[], Readiness],
        prefix: str = "",
        traffic: TrafficCounters | None = None,
        begins: Callable[[], None] | None = None,
    ) -> None:
        self.begins = begins
        self._inbox = inbox
        self._secrets = secrets
        self._limits = limits
        self._readiness = readiness
        self._prefix = prefix
        self._own_path = f"{prefix}/".encode()
        self._traffic = TrafficCounters() if traffic is None else traffic
        self._in_hand = 0
        self._given_up = trio.CapacityLimiter(1)
        self._later = answers.try_later(limits.retry_seconds)

    def owns(self, scope: HTTPScope | WebsocketScope) -> bool:
        """Return whether the webhook answers this path: the prefix, and all below it."""
        return not self._prefix or is_below(scope, self._prefix)

    async def __call__(self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Answer one request from an ASGI server.

        Cancellation: *ambiguous*, as `Inbox.accept`; the connection must be closed then.
        """
        if self.begins is not None:
            self.begins()
        path = _local_path(scope)[len(self._prefix) :]
        framing = read_framing(scope["headers"], scope["http_version"])
        exchange = AsgiExchange(receive, send, closable=scope["http_version"].startswith("1"))
        if path not in (ALIVE_PATH, READY_PATH):
            hide_path(scope)
        await self._respond(exchange, path, scope["method"], framing)

    async def handle(self, talk: Talk) -> None:
        """Answer one request from our own listener.

        Cancellation: as above.
        """
        request = talk.request
        if not (request.complete and self._wants(request)):
            path = path_of(request)[len(self._prefix) :]
            await self._respond(DirectExchange(talk), path, request.method, framing_of(request))
            return
        # The usual request: nothing of it has to be waited for, and nothing in it is left to be refused.
        content_type = request.header(b"content-type").decode("latin-1")
        body = b"".join(request.pieces)
        request.pieces.clear()
        self._in_hand += len(body)
        try:
            outcome = await self._inbox.accept(content_type, body)
            there = not talk.has_left()
            answer = answers.TAKEN if type(outcome) is EventStored else self._answer_to(outcome)
            await talk.answer(answer.status, answer.headers, answer.body)
            if type(outcome) is EventStored:
                if there:
                    self._inbox.answered(outcome)
                else:
                    self._traffic.unanswered += 1
        finally:
            self._in_hand -= len(body)

    def _wants(self, request: Incoming) -> bool:
        """Return whether a request that has come whole passes all checks of `_respond`, as it is written."""
        length, own = request.length, self._own_path
        return (
            request.method == "POST"
            and length is not None
            and length <= self._limits.body_bytes
            and self._in_hand + length <= self._limits.bodies_bytes
            and request.target[: len(own)] == own
            and self._secrets.matches_bytes(request.target[len(own) :])
        )

    def accepts(self, request: Incoming) -> bool:
        """Return whether the request names this webhook's secret."""
        return self._secrets.matches(path_of(request)[len(self._prefix) :].removeprefix("/"))

    async def _respond(
        self, exchange: RequestExchange, path: str, method: str, framing: RequestFraming
    ) -> None:
        if path in (ALIVE_PATH, READY_PATH):
            await self._refuse(exchange, self._probe(path, method), framing)
        elif not self._secrets.matches(path.removeprefix("/")):
            self._traffic.unknown_path += 1
            await self._refuse(exchange, answers.NOT_FOUND, framing)
        elif method != "POST":
            self._traffic.wrong_method += 1
            await self._refuse(exchange, answers.POST_ONLY, framing)
        elif framing.length is not None and framing.length > self._limits.body_bytes:
            self._traffic.too_long += 1
            await self._refuse(exchange, answers.TOO_LONG, framing)
        elif framing.conflicting:
            self._traffic.bad_framing += 1
            await exchange.refuse(
                answers.BAD_FRAMING,
                unread=framing.unread,
                linger=self._limits.linger_seconds,
                body_first=True,
            )
        else:
            await self._take_in_turn(exchange, framing)

    async def refuse_websocket(
        self, scope: WebsocketScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Answer a WebSocket's handshake with 404, like any other unknown path."""
        hide_path(scope)
        self._traffic.unknown_path += 1
        await receive()
        lacking = answers.NOT_FOUND
        length = (b"content-length", str(len(lacking.body)).encode())
        await send(
            {
                "type": "websocket.http.response.start",
                "status": lacking.status,
                "headers": [*lacking.headers, length],
            }
        )
        await send({"type": "websocket.http.response.body", "body": lacking.body, "more_body": False})

    def _probe(self, path: str, method: str) -> Response:
        if method not in ("GET", "HEAD"):
            return answers.GET_ONLY
        return answers.ALIVE if path == ALIVE_PATH else readiness_answer(self._readiness())

    async def _refuse(self, exchange: RequestExchange, answer: Response, framing: RequestFraming) -> None:
        await exchange.refuse(answer, unread=framing.unread, linger=self._limits.linger_seconds)

    async def _take_in_turn(self, exchange: RequestExchange, framing: RequestFraming) -> None:
        # What is not told is taken for the most it may become; many long bodies at once must not add up.
        size = self._limits.body_bytes if framing.length is None else framing.length
        if self._in_hand + size > self._limits.bodies_bytes:
            self._traffic.overloaded += 1
            await self._refuse(exchange, self._later, framing)
            return
        self._in_hand += size
        try:
            await self._take(exchange, framing)
        finally:
            self._in_hand -= size

    async def _take(self, exchange: RequestExchange, framing: RequestFraming) -> None:
        reading = await exchange.read(most=self._limits.body_bytes, seconds=self._limits.body_seconds)
        match reading:
            case Complete(body):
                await exchange.attend(partial(self._accept, exchange, framing.content_type, body))
            case TooLong():
                self._traffic.too_long += 1
                await self._refuse(exchange, answers.TOO_LONG, framing)
            case TooSlow():
                self._traffic.too_slow += 1
                # Thousands may be over together, and come again once they are told: one after the other.
                async with self._given_up:
                    if self._given_up.statistics().tasks_waiting:
                        await trio.sleep(_GIVEN_UP_EVERY)
                # It has had its time: waiting for more of it is what is refused.
                await exchange.refuse(answers.TOO_SLOW, unread=True, linger=0)
            case Truncated():
                self._traffic.truncated += 1
            case Malformed():
                self._traffic.bad_framing += 1
            case _ as never:
                assert_never(never)

    async def _accept(self, exchange: RequestExchange, content_type: str, body: bytes) -> None:
        outcome = await self._inbox.accept(content_type, body)
        answered = await exchange.answer(self._answer_to(outcome))
        if isinstance(outcome, EventStored):
            if answered:
                self._inbox.answered(outcome)
            else:
                self._traffic.unanswered += 1

    def _answer_to(self, outcome: Outcome) -> Response:
        match outcome:
            case EventStored() | Unread():
                return answers.TAKEN
            case NoRoom() | Unwritable():
                return self._later
            case Unstorable():
                return answers.UNSTORABLE
            case _ as never:
                assert_never(never)


def is_below(scope: HTTPScope | WebsocketScope, prefix: str) -> bool:
    """Return whether a request's path is this prefix or below it."""
    path = _local_path(scope)
    return path == prefix or path.startswith(prefix + "/")


def hide_path(scope: HTTPScope | WebsocketScope) -> None:
    """Replace the path in a request's scope, in place.

    Servers write their access log from this very mapping after the answer, so that the secret stays out of
    the log of any ASGI server.
    """
    scope["path"] = HIDDEN_PATH
    scope["raw_path"] = HIDDEN_PATH.encode()
    scope["query_string"] = b""


def _local_path(scope: HTTPScope | WebsocketScope) -> str:
    path, root = scope["path"], scope["root_path"]
    return path[len(root) :] if root and path.startswith(root + "/") else path


@final
class SharedEndpoint:
    """The webhooks of several bots behind one listener: each has a path of its own, its secret."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._endpoints = endpoints

    async def handle(self, talk: Talk) -> None:
        """Answer one request: by the webhook whose secret it names, else by the first.

        Cancellation: as `Endpoint.handle`.
        """
        named = (one for one in self._endpoints if one.accepts(talk.request))
        endpoint = next(named, self._endpoints[0])
        if endpoint.begins is not None:
            endpoint.begins()
        await endpoint.handle(talk)
