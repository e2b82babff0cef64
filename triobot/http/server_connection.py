"""One connection of a listener, and the requests and responses on it.

`ServerConnection` serves request after request until either side ends it; a `Talk` is one of them, and what a
handler is given.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from email.utils import formatdate
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Final, TypeAlias, final

import attrs
import trio

from ..base.limits import ServingLimits
from .links import ByteLink, PlainLink
from .outgoing import LAST_CHUNK, UnsendableError, encode_chunk
from .request import HEAD_END, Incoming, KnownHeads, MalformedError, RequestReader

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
@attrs.define(eq=False, repr=False)
class Talk:
    """One request and its response; the listener makes one after another on each connection.

    Attributes:
        request: its head, and what has come of its body.
        status: of the response; 0 until it has begun.
        finished: the response is complete.
        closing: the connection ends behind the response.
        broken: the rule of HTTP that the body breaks, once known; the listener answers if no handler has.
        starved_since: when a read began to wait for the next bytes of the body; infinite while none does.
    """

    request: Incoming
    _link: ByteLink = attrs.field(alias="link")
    _reader: RequestReader = attrs.field(alias="reader")
    _stopping: Callable[[], bool] = attrs.field(alias="stopping")
    status: int = 0
    finished: bool = False
    closing: bool = False
    broken: MalformedError | None = None
    starved_since: float = math.inf
    _asked: bool = False
    _chunked: bool = False
    _mute: bool = False
    _owed: int | None = None

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
        if self.request.expects and not self._asked and not self.status:
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

    async def answer(self, status: int, headers: Headers, body: bytes, *, close: bool = False) -> None:
        """Write a whole response. Returns without a checkpoint when the kernel takes it at once.

        Args:
            close: end the connection after it, whatever the request says.

        Raises:
            UnsendableError: a header has characters that would end it early; nothing was written.
            trio.BrokenResourceError: the sender has gone.
        """
        self._begin(status, close=close)
        told = (*headers, (b"content-length", b"%d" % len(body)))
        head = encode_answer_head(status, told, now=seconds_now(), close=self.closing)
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


_log: Final = logging.getLogger("triobot.http")

# Of a head without its end, so much waits in the kernel; with more, the head is a task's.
_LOOKED_AT: Final = 2048
# A sender that reads its answers has made room by then.
_MOMENT: Final = 1.0
_TEXT: Final = ((b"content-type", b"text/plain; charset=utf-8"),)

OnAnswer: TypeAlias = Callable[[str, bytes, int, float], None]
"""Called after each answer: method, target, status (0: none was written), seconds; must not raise."""

OnEnd: TypeAlias = Callable[["ServerConnection", Exception | None], None]
"""Called with a connection once that is over, and why it failed; must not raise."""


@final
class ServerConnection:
    """Serves one connection.

    Attributes:
        sender: the name under which it is counted.
        waiting_since: when it began to wait for a request or for the end of a head; infinite while a
            request is in hand.
        lingering_since: when it began to throw away what follows its last answer; infinite before.
        descriptor: of its socket while it has no task, see `look`; None otherwise.
    """

    def __init__(
        self,
        link: ByteLink,
        handler: Handler,
        limits: ServingLimits,
        *,
        sender: str,
        stopping: Callable[[], bool],
        turnstile: trio.CapacityLimiter,
        on_answer: OnAnswer | None,
        known: KnownHeads,
    ) -> None:
        self.sender = sender
        self.descriptor: int | None = None
        # What `trio.current_time` asks, which looks for the loop and its clock each time.
        self._time = trio.lowlevel.current_clock().current_time
        self._turnstile = turnstile
        self.waiting_since = self._time()
        self.lingering_since = math.inf
        self._queued_since = math.inf
        self._queued: trio.CancelScope | None = None
        self._gave_way = False
        self._link = link
        self._handler = handler
        self._limits = limits
        self._on_answer = on_answer
        self._in_hand: Talk | None = None
        self._reader = RequestReader(head_bytes=limits.header_bytes, known=known)
        self._talk = partial(
            Talk,
            link=link,
            reader=self._reader,
            stopping=stopping,
        )

    @property
    def idle(self) -> bool:
        """Return whether it waits for a request of which no byte has come."""
        return self.waiting_since < math.inf and not (self._reader.begun or self._link.seen)

    def look(self) -> bool:
        """Return whether there is work for a task: more has come than the beginning of a head, or the end."""
        link = self._link
        if not isinstance(link, PlainLink):
            return True
        try:
            data = link.peek(_LOOKED_AT)
        except BlockingIOError:
            return False
        except OSError:
            return True
        whole = len(data) == _LOOKED_AT or not data[:1].isalpha() or HEAD_END in data
        if not (whole or link.seen):
            self.waiting_since = self._time()
        link.seen = 0 if whole else len(data)
        return whole

    @property
    def stalled_since(self) -> float:
        """Return when a write began to wait for the sender to read; infinite while none does."""
        return self._link.stalled_since

    @property
    def starved_since(self) -> float:
        """Return when a read began to wait for the next bytes of a body; infinite while none does."""
        return math.inf if self._in_hand is None else self._in_hand.starved_since

    @property
    def kept_waiting_since(self) -> float:
        """Return since when only the sender holds this connection up; infinite while a handler works on it.

        It may wait for a request, the rest of a head or the next bytes of a body; for the end of what is
        thrown away behind an answer; or, after a moment, for room to write an answer that the sender doesn't
        read. A request that came behind another and has not begun counts as well.
        """
        return min(
            self.waiting_since,
            self.starved_since,
            self.lingering_since,
            self.stalled_since + _MOMENT,
            self._queued_since,
        )

    def give_way(self, since: float) -> bool:
        """Close it if `kept_waiting_since` is still this instant and nothing has arrived meanwhile.

        Returns:
            Whether it was closed.
        """
        if self.kept_waiting_since != since:
            return False
        # Bytes that the kernel has and nobody has looked at yet may be a proper request.
        if min(self.waiting_since, self.starved_since) == since and not self._link.is_quiet():
            return False
        self._gave_way = True
        self._link.close()
        if self._queued is not None:
            self._queued.cancel()
        return True

    def close(self) -> None:
        """Close it at once; a request that is in hand gets no answer."""
        self._link.close()

    def drop(self) -> None:
        """Let go of a connection that was closed and never had a task."""
        self._reader.close()

    async def run(self, ended: OnEnd) -> None:
        """Serve it to its end; its failure goes to `ended` instead of being raised.

        Args:
            ended: told of this connection, and why it failed, or None.

        Cancellation: *forceful*: it is closed, and a request in hand gets no answer.
        """
        failure: Exception | None = None
        self._link.seen = 0
        try:
            try:
                while (request := await self._next()) is not None and await self._serve(request):
                    pass
            finally:
                self._link.close()
                self._reader.close()
        except (trio.BrokenResourceError, trio.ClosedResourceError, SenderLeftError):
            # The sender has gone, or the connection was closed here: no answer can be written.
            pass
        except Exception as error:
            failure = error
        finally:
            ended(self, failure)

    async def _next(self) -> Incoming | None:
        reader = self._reader
        begun = False
        try:
            request = reader.next()
            if request is not None:
                self.waiting_since = math.inf
                # It came with the one before it, and thousands may have come with that: these take turns.
                self._queued_since = trio.current_time()
                with trio.CancelScope() as self._queued:
                    async with self._turnstile:
                        await trio.lowlevel.checkpoint()
                self._queued_since = math.inf
                if self._gave_way:
                    return None
            while request is None:
                if self.waiting_since == math.inf or reader.begun > begun:
                    # Counted anew from its first byte on, so that a request in the last moment is heard out.
                    begun = reader.begun
                    self.waiting_since = trio.current_time()
                data = await self._link.receive()
                if not data:
                    return None
                request = reader.read(data)
        except MalformedError as error:
            await self._refuse(error)
            return None
        self.waiting_since = math.inf
        return request

    async def _serve(self, request: Incoming) -> bool:
        talk = self._in_hand = self._talk(request)
        began = self._time()
        try:
            try:
                await self._handler(talk)
            except SenderLeftError:
                if talk.broken is None:
                    raise
            if talk.broken is not None and not talk.status:
                await talk.answer(talk.broken.status, _TEXT, f"{talk.broken.rule}\n".encode(), close=True)
        except (trio.BrokenResourceError, trio.ClosedResourceError, SenderLeftError):
            talk.closing = True
            raise
        except Exception as error:
            # The application's mistake; its text may hold anything.
            _log.error("a request failed with %s", type(error).__name__)
            _log.debug("a request failed", exc_info=error)
            if not talk.status:
                await talk.answer(500, _TEXT, b"failed\n", close=True)
        finally:
            self._in_hand = None
            ended = self._time()
            if self._on_answer is not None:
                status = talk.status if talk.finished else 0
                self._on_answer(request.method, request.target, status, ended - began)
        if not talk.finished:
            return False
        if talk.closing:
            await self._linger(complete=request.complete)
            return False
        self.waiting_since = ended
        return True

    async def _refuse(self, error: MalformedError) -> None:
        """Answer bytes that are no request with the error's status, then close."""
        self.waiting_since = math.inf
        request = Incoming(
            "?", b"*", "1.1", [], "", None, expects=False, keep_alive=False, upgrade=False, pieces=[]
        )
        if self._on_answer is not None:
            self._on_answer("?", b"*", error.status, 0.0)
        await self._talk(request).answer(error.status, _TEXT, f"{error.rule}\n".encode(), close=True)
        await self._linger(complete=False)

    async def _linger(self, *, complete: bool) -> None:
        # Closing before the sender has written all would reset the connection and take the answer with it.
        if complete and self._link.is_quiet():
            return
        self.lingering_since = trio.current_time()
        with trio.move_on_after(self._limits.linger_seconds):
            await self._link.send_eof()
            while await self._link.receive():
                pass
