"""Requests from our own listener, without ASGI: the socket itself shows whether the sender has left."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, final
from urllib.parse import unquote_to_bytes

import attrs
import trio

from ..http.request import Incoming
from ..http.talk import SenderLeftError, Talk
from .answers import Response
from .exchange import Complete, Malformed, Reading, TooLong, TooSlow, Truncated

_DIGITS: Final = re.compile(rb"[0-9]{1,18}")


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
