"""One request and its answer: reads a bounded body, answers, and tells whether the sender was still there.

`RequestExchange` is what the endpoint needs of a server; `AsgiExchange` implements it over ASGI, and `direct`
over our own listener. ASGI servers hand the body over through a bounded queue. An application that answers
without emptying it can leave the server waiting for ever for room in that queue, and the connection with it.
A refusal therefore goes on reading, and throws away, until its answer is written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias, final

import attrs
import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable

from .answers import Response

_CLOSE: Final = (b"connection", b"close")


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
