"""One request and its answer: reads a bounded body, answers, and tells whether the sender was still there.

`RequestExchange` is what the endpoint needs of a server. `DirectExchange` implements it over our own
listener, where the socket itself shows whether the sender has left; `app` does over Quart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, final
from urllib.parse import unquote_to_bytes

import attrs
import trio

from ..http.request import Incoming
from ..http.server_connection import SenderLeftError, Talk
from .answers import Response


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


CutShort: TypeAlias = TooLong | TooSlow | Truncated | Malformed
"""Why there is no whole body."""
Reading: TypeAlias = Complete | CutShort


class RequestExchange(Protocol):
    """One request and its answer, whichever server it came through."""

    async def read(self, *, most: int, seconds: float) -> Reading:
        """Read the whole body, unless it is longer than `most` bytes or takes longer than `seconds`."""
        ...

    async def answer(self, answer: Response, told: Callable[[bool], None]) -> None:
        """Write an answer, after `read`.

        Args:
            told: called with whether the sender was still there when the answer was handed to the kernel.
        """
        ...

    async def refuse(
        self, answer: Response, *, unread: bool, linger: float, body_first: bool = False
    ) -> None:
        """Write an answer without wanting the body; close the connection if some of it is `unread`.

        Args:
            linger: seconds for which what still comes is thrown away.
            body_first: throw the body away before the answer.
        """
        ...


async def read_body(talk: Talk, *, most: int, seconds: float) -> Reading:
    """Read the whole body of a request from our own listener; see `RequestExchange.read`."""
    chunks = bytearray()
    with trio.move_on_after(seconds):
        try:
            while piece := await talk.read():
                chunks += piece
                if len(chunks) > most:
                    return TooLong()
        except SenderLeftError:
            return Truncated() if talk.broken is None else Malformed()
        return Complete(bytes(chunks))
    return TooSlow()


@final
class DirectExchange:
    """A request from our own listener; see `RequestExchange`."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    async def read(self, *, most: int, seconds: float) -> Reading:
        """See `RequestExchange`."""
        return await read_body(self._talk, most=most, seconds=seconds)

    async def answer(self, answer: Response, told: Callable[[bool], None]) -> None:
        """See `RequestExchange`. No task watches for a sender that leaves: the kernel is asked."""
        stayed = not self._talk.has_left()
        await self._talk.answer(answer.status, answer.headers, answer.body)
        told(stayed)

    async def refuse(
        self, answer: Response, *, unread: bool, linger: float, body_first: bool = False
    ) -> None:
        """See `RequestExchange`. If the body has not come, the listener closes after its own linger."""
        await self._talk.answer(answer.status, answer.headers, answer.body)


def framing_of(request: Incoming) -> RequestFraming:
    """Return what the head says of the body. It is never conflicting: the listener has refused those."""
    return RequestFraming(request.content_type, request.length, False, not request.complete)


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
