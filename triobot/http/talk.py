"""One request and its response on a server's connection."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final, TypeAlias, final

import trio

from .links import ByteLink
from .outgoing import LAST_CHUNK, UnsendableError, encode_chunk
from .request import Incoming, MalformedError, RequestReader

_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(rb"[^\x00\r\n]*")

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

_LINES: Final = {
    status.value: b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}

_DIGITS: Final = re.compile(rb"[0-9]{1,18}")


def encode_answer_head(
    status: int, headers: Iterable[tuple[bytes, bytes]], *, now: float, close: bool
) -> bytes:
    """Return a response's head, up to and with the empty line.

    Args:
        headers: with the one for the body's length; this adds ``connection`` and ``date``.
        now: seconds since 1970, for the date.
        close: this is the last response of the connection.

    Raises:
        UnsendableError: a header has a character that would end it early.
    """
    parts = [_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status, _date(int(now))]
    for name, value in headers:
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise UnsendableError("a header of the response has characters that end it early")
        parts.append(b"%s: %s\r\n" % (name, value))
    parts.append(b"connection: close\r\n\r\n" if close else b"\r\n")
    return b"".join(parts)


@lru_cache(32)
def encode_whole_head(
    status: int, headers: tuple[tuple[bytes, bytes], ...], length: int, *, second: int, close: bool
) -> bytes:
    """Return the head of a response whose whole body is known; cached, since most of a second's are equal.

    Args:
        length: of the body.
        second: since 1970, for the date.

    Raises: as `encode_answer_head`, which says the rest.
    """
    told = (*headers, (b"content-length", b"%d" % length))
    return encode_answer_head(status, told, now=second, close=close)


def has_no_body(method: str, status: int) -> bool:
    """Return whether a response has no body, whatever its headers say."""
    return method == "HEAD" or status in (204, 304) or status < 200


@lru_cache(1)
def _date(second: int) -> bytes:
    return b"date: %s\r\n" % formatdate(second, usegmt=True).encode()


def seconds_now() -> float:
    """Return the time of day, for the date of responses only."""
    return time.time()


Headers: TypeAlias = Iterable[tuple[bytes, bytes]]


class SenderLeftError(Exception):
    """The sender left in the middle of its request, or broke HTTP's rules there."""


@final
class Talk:
    """One request and its response; the listener makes one after another on each connection.

    Attributes:
        request: its head, and what has come of its body.
        peer: the sender's address and port, if it has one.
        server: our address and port, as the sender reached it.
        secured: it came through TLS.
        status: of the response; 0 until it has begun.
        finished: the response is complete.
        closing: the connection ends behind the response.
        broken: the rule of HTTP that the body breaks, once known; the listener answers if no handler has.
        starved_since: when a read began to wait for the next bytes of the body; infinite while none does.
    """

    __slots__ = (
        "_asked",
        "_chunked",
        "_link",
        "_mute",
        "_owed",
        "_reader",
        "_stopping",
        "broken",
        "closing",
        "finished",
        "peer",
        "request",
        "secured",
        "server",
        "starved_since",
        "status",
    )

    def __init__(
        self,
        request: Incoming,
        link: ByteLink,
        reader: RequestReader,
        *,
        peer: tuple[str, int] | None,
        server: tuple[str, int] | None,
        secured: bool,
        stopping: Callable[[], bool],
    ) -> None:
        self.request = request
        self.peer = peer
        self.server = server
        self.secured = secured
        self.status = 0
        self.finished = False
        self.closing = False
        self.broken: MalformedError | None = None
        self.starved_since = math.inf
        self._link = link
        self._reader = reader
        self._stopping = stopping
        self._asked = not request.expects
        self._chunked = False
        self._mute = False
        self._owed: int | None = None

    async def read(self) -> bytes:
        """Return the next bytes of the body, some or many; empty at its end.

        The first call sends a 100 to a sender that waits for one.

        Raises:
            SenderLeftError: the rest will not come. Unless it is `broken`, no answer can reach the sender.
        """
        request = self.request
        while not request.pieces:
            if request.complete:
                return b""
            try:
                if self._reader.more(request):
                    continue
            except MalformedError as error:
                self.broken = error
                raise SenderLeftError(str(error)) from error
            await self._receive()
        body = request.pieces[0] if len(request.pieces) == 1 else b"".join(request.pieces)
        request.pieces.clear()
        return body

    async def _receive(self) -> None:
        if not self._asked and not self.status:
            self._asked = True
            await self._link.send(CONTINUE)
        self.starved_since = trio.current_time()
        try:
            data = await self._link.receive()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise SenderLeftError(str(error)) from error
        finally:
            self.starved_since = math.inf
        if not data:
            raise SenderLeftError("it left in the middle of a body")
        self._reader.feed(data)

    def has_left(self) -> bool:
        """Return whether the sender has closed its half of the connection, as far as the kernel knows."""
        return self._link.has_left()

    async def wait_left(self, most: int) -> None:
        """Wait until the sender leaves; for ever once `most` bytes of further requests have come."""
        while self._reader.unread < most:
            try:
                data = await self._link.receive()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return
            if not data:
                return
            self._reader.feed(data)
        await trio.sleep_forever()

    async def answer(self, status: int, headers: Headers, body: bytes, *, close: bool = False) -> None:
        """Write a whole response. Returns without a checkpoint when the kernel takes it at once.

        Args:
            close: end the connection after it, whatever the request says.

        Raises:
            UnsendableError: a header has characters that would end it early; nothing was written.
            trio.BrokenResourceError: the sender has gone.
        """
        self._begin(status, close=close)
        head = encode_whole_head(
            status, tuple(headers), len(body), second=int(seconds_now()), close=self.closing
        )
        self.status = status
        await self._link.send(head if self._mute else head + body)
        self.finished = True

    async def begin(self, status: int, headers: Headers, piece: bytes, *, close: bool = False) -> None:
        """Write a response's head and the first piece of its body; `write` and `end` follow.

        Raises: as `answer`.

        The body must be as long as a ``content-length`` among the headers says; an answer that is not ends
        the connection, since what follows would be taken for a part of it. Without one the body goes in
        chunks, or up to the end of the connection for a sender that knows no chunks.
        """
        pairs = [
            pair for pair in headers if pair[0].lower() not in (b"transfer-encoding", b"connection", b"date")
        ]
        lengths = [value for name, value in pairs if name.lower() == b"content-length"]
        if len(lengths) > 1 or not all(map(_DIGITS.fullmatch, lengths)):
            raise UnsendableError("the length of the response is told in two ways, or is no number")
        told = bool(lengths)
        self._begin(status, close=close)
        self._owed = int(lengths[0]) if told and not self._mute else None
        if not told and not self._mute:
            if self.request.version == "1.1":
                self._chunked = True
                pairs.append((b"transfer-encoding", b"chunked"))
            else:
                self.closing = True
        head = encode_answer_head(status, pairs, now=seconds_now(), close=self.closing)
        await trio.lowlevel.checkpoint()
        # Raises for a piece that is too long, before the head is written.
        framed = self._framed(piece)
        self.status = status
        await self._link.send(head + framed)

    async def write(self, piece: bytes) -> None:
        """Write a piece of the body.

        Raises:
            UnsendableError: the body is longer than the headers say; nothing of the piece was written.
        """
        await trio.lowlevel.checkpoint()
        if framed := self._framed(piece):
            await self._link.send(framed)

    async def end(self) -> None:
        """End the response.

        Raises:
            UnsendableError: the body is shorter than the headers say.
        """
        if self._owed:
            raise UnsendableError("the response is shorter than its headers say")
        if self._chunked:
            await self._link.send(LAST_CHUNK)
        self.finished = True

    def _framed(self, piece: bytes) -> bytes:
        if self._mute:
            return b""
        if self._owed is not None:
            self._owed -= len(piece)
            if self._owed < 0:
                raise UnsendableError("the response is longer than its headers say")
        return encode_chunk(piece) if self._chunked else piece

    def _begin(self, status: int, *, close: bool) -> None:
        request = self.request
        # What has come is read, so that a short body that was left unread doesn't cost the connection.
        try:
            while not request.complete and self._reader.more(request):
                request.pieces.clear()
        except MalformedError:
            pass
        self._mute = has_no_body(request.method, status)
        self.closing = close or not request.complete or not request.keep_alive or self._stopping()


Handler: TypeAlias = Callable[[Talk], Awaitable[None]]
"""Answers one request. Returning without an answer closes the connection."""
