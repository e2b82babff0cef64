"""One request and its answer: reads a bounded body, answers, and tells whether the sender was still there.

`RequestExchange` is what the endpoint needs of a server; `AsgiExchange` implements it over ASGI, and
`DirectExchange` over our own listener, where the socket itself shows whether the sender has left. ASGI
servers hand the body over through a bounded queue. An application that answers without emptying it can leave
the server waiting for ever for room in that queue, and the connection with it. A refusal therefore goes on
reading, and throws away, until its answer is written.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, final
from urllib.parse import unquote_to_bytes

import attrs
import trio

from ..http.request import Incoming
from ..http.server_connection import SenderLeftError, Talk
from .answers import Response

if TYPE_CHECKING:
    # Their shapes only: our own listener needs no ASGI server.
    from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable

_CLOSE: Final = (b"connection", b"close")
_DIGITS: Final = re.compile(rb"[0-9]{1,18}")


@final
@attrs.frozen
class Complete:
    """The whole body."""

    body: bytes = attrs.field(repr=False)


@final
@attrs.frozen
class TooLong:
    """More than the limit; the rest is unread."""


@final
@attrs.frozen
class TooSlow:
    """Not complete in time; the rest is unread."""


@final
@attrs.frozen
class Truncated:
    """The sender left in the middle; no answer can reach it."""


@final
@attrs.frozen
class Malformed:
    """Its chunks or trailers break HTTP's rules; the listener answers it."""


Reading: TypeAlias = Complete | TooLong | TooSlow | Truncated | Malformed


class RequestExchange(Protocol):
    """One request and its answer, whichever server it came through."""

    async def read(self, *, most: int, seconds: float) -> Reading:
        """Read the whole body, unless it is longer than `most` bytes or takes longer than `seconds`."""
        ...

    async def attend(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work`, which calls `answer`, and notice if the sender leaves meanwhile; call after `read`."""
        ...

    async def answer(self, answer: Response) -> bool:
        """Write an answer, within `attend`.

        Returns:
            Whether the sender was still there when the answer was handed to the kernel.
        """
        ...

    async def refuse(
        self, answer: Response, *, unread: bool, linger: float, body_first: bool = False
    ) -> None:
        """Write an answer without wanting the body; close the connection if some of it is `unread`."""
        ...


@final
class AsgiExchange:
    """A request from an ASGI server."""

    def __init__(self, receive: ASGIReceiveCallable, send: ASGISendCallable, *, closable: bool) -> None:
        self._receive = receive
        self._send = send
        self._closable = closable  # HTTP/2 forbids the header that HTTP/1 closes a connection with.
        self._left = False

    async def read(self, *, most: int, seconds: float) -> Reading:
        """See `RequestExchange`."""
        chunks = bytearray()
        with trio.move_on_after(seconds):
            while True:
                message = await self._receive()
                if message["type"] != "http.request":
                    return Truncated()
                chunks += message.get("body", b"")
                if len(chunks) > most:
                    return TooLong()
                if not message.get("more_body", False):
                    return Complete(bytes(chunks))
        return TooSlow()

    async def attend(self, work: Callable[[], Awaitable[None]]) -> None:
        """See `RequestExchange`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            await work()
            nursery.cancel_scope.cancel()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._left = True

    async def answer(self, answer: Response) -> bool:
        """See `RequestExchange`."""
        # The disconnect comes behind the body in the queue: two passes of the scheduler, and `_watch` has
        # read it. Not after the answer: a sender that closes its connection with each request has read the
        # answer and left by then, and its next equal event would be taken for a repetition.
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        there = not self._left
        await self._begin(answer, close=False)
        await self._send({"type": "http.response.body", "body": answer.body, "more_body": False})
        return there

    async def refuse(
        self, answer: Response, *, unread: bool, linger: float, body_first: bool = False
    ) -> None:
        """See `RequestExchange`.

        What still comes is thrown away for `linger` seconds at most, since closing before the sender has
        written all would reset the connection and take the answer with it.

        Args:
            body_first: throw the body away before the answer, for senders that put another request behind
                it: hypercorn drops an answer that closes if it finds more to read before that is out.
        """
        if not unread:
            await self._begin(answer, close=False)
            await self._send({"type": "http.response.body", "body": answer.body, "more_body": False})
            return
        done = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._discard, done)
            if body_first:
                await _wait_at_most(linger, done)
                # As in `answer`: now the server, too, has seen that the body is over.
                await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()
            await self._begin(answer, close=True)
            await self._send({"type": "http.response.body", "body": answer.body, "more_body": True})
            if not body_first:
                await _wait_at_most(linger, done)
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
            nursery.cancel_scope.cancel()

    async def _discard(self, done: trio.Event) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                done.set()
                return
            if message["type"] == "http.request" and not message.get("more_body", False):
                done.set()

    async def _begin(self, answer: Response, *, close: bool) -> None:
        headers = [*answer.headers, (b"content-length", str(len(answer.body)).encode())]
        if close and self._closable:
            headers.append(_CLOSE)
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})


async def _wait_at_most(seconds: float, event: trio.Event) -> None:
    with trio.move_on_after(seconds):
        await event.wait()


# --- our own listener


@final
class DirectExchange:
    """A request from our own listener; see `RequestExchange`."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    async def read(self, *, most: int, seconds: float) -> Reading:
        """See `RequestExchange`."""
        request = self._talk.request
        if request.complete:
            # The usual one came whole, with its head.
            body = b"".join(request.pieces)
            request.pieces.clear()
            return Complete(body) if len(body) <= most else TooLong()
        chunks = bytearray()
        with trio.move_on_after(seconds):
            try:
                while piece := await self._talk.read():
                    chunks += piece
                    if len(chunks) > most:
                        return TooLong()
            except SenderLeftError:
                return Truncated() if self._talk.broken is None else Malformed()
            return Complete(bytes(chunks))
        return TooSlow()

    async def attend(self, work: Callable[[], Awaitable[None]]) -> None:
        """See `RequestExchange`. No task watches for a sender that leaves: `answer` asks the kernel."""
        await work()

    async def answer(self, answer: Response) -> bool:
        """See `RequestExchange`."""
        there = not self._talk.has_left()
        await self._talk.answer(answer.status, answer.headers, answer.body)
        return there

    async def refuse(
        self, answer: Response, *, unread: bool, linger: float, body_first: bool = False
    ) -> None:
        """See `RequestExchange`. If the body has not come, the listener closes after its own linger."""
        await self._talk.answer(answer.status, answer.headers, answer.body)


def framing_of(request: Incoming) -> RequestFraming:
    """Return what the head says of the body. It is never conflicting: the listener has refused those."""
    content_type = request.header(b"content-type").decode("latin-1")
    return RequestFraming(content_type, request.length, False, not request.complete)


def path_of(request: Incoming) -> str:
    """Return the path of the request target, decoded."""
    target = request.target
    if not target.startswith(b"/"):
        # A whole URL, which servers must take too.
        _, found, rest = target.partition(b"://")
        target = b"/" + rest.partition(b"/")[2] if found else target
    path = target.partition(b"?")[0]
    return (unquote_to_bytes(path) if b"%" in path else path).decode("utf-8", "replace")


@final
@attrs.frozen
class RequestFraming:
    """What the headers say of the body.

    Attributes:
        content_type: as it came, or empty.
        length: in bytes; None if no header says it.
        conflicting: the headers give two lengths, or one that can't be read.
        unread: a body may follow.
    """

    content_type: str
    length: int | None
    conflicting: bool
    unread: bool


def read_framing(headers: Iterable[tuple[bytes, bytes]], http_version: str) -> RequestFraming:
    """Read the headers, their names in lower case."""
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
