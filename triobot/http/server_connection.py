"""One connection of a listener, with its requests and responses.

`ServerConnection` serves one request after another until either side ends the connection. A `Talk` is one
request with its response; the handler gets a `Talk`.
"""

from __future__ import annotations

import logging
import math
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
from .request import HEAD_END, Incoming, KnownHeads, MalformedError, RequestReader

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"

_LINES: Final = {
    status.value: b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}


def encode_answer_head(
    status: int, headers: Iterable[tuple[bytes, bytes]], *, now: float, close: bool
) -> bytes:
    """Return a response's encoded head, including the empty line. The headers aren't checked.

    Args:
        headers: the response's headers, including the headers for the body's length. ``connection`` and
            ``date`` are added.
        now: seconds since 1970, for the date.
        close: whether this is the connection's last response.
    """
    parts = [_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status, _date(int(now))]
    for name, value in headers:
        parts.append(b"%s: %s\r\n" % (name, value))
    parts.append(b"connection: close\r\n\r\n" if close else b"\r\n")
    return b"".join(parts)


def has_no_body(method: str, status: int) -> bool:
    """Return whether a response has no body, even if its headers announce a body."""
    return method == "HEAD" or status in (204, 304) or status < 200


@lru_cache(1)
def _date(second: int) -> bytes:
    return b"date: %s\r\n" % formatdate(second, usegmt=True).encode()


def seconds_now() -> float:
    """Return the time of day; used only for the date of responses."""
    return time.time()


Headers: TypeAlias = Iterable[tuple[bytes, bytes]]


class SenderLeftError(Exception):
    """The sender closed the connection before the request's end, or broke HTTP's rules in the request."""


@final
@attrs.define(eq=False, repr=False)
class Talk:
    """One request and its response; each connection has one `Talk` at a time.

    Attributes:
        request: the request's head, and the received part of its body.
        status: the response's status; 0 until the response has begun.
        finished: whether the response is complete.
        closing: whether the connection ends after the response.
        broken: the error of a body that breaks HTTP's rules, or None. If the handler doesn't answer, the
            connection sends an answer with this error's status.
        starved_since: when a read began to wait for the body's next bytes; infinite while no read waits.
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
    _mute: bool = False

    async def read(self) -> bytes:
        """Return the next piece of the body, of any size; empty at the body's end.

        If the sender waits for a status 100 before it sends the body, the first call sends this status.

        Raises:
            SenderLeftError: the rest of the body will not arrive. If `broken` is None, the sender has
                disconnected, and can't get an answer.
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
        """Write a whole response. Returns without a checkpoint if the kernel accepts all bytes at once.

        Args:
            close: whether to end the connection afterwards, even if the sender wants to keep the connection.

        Raises:
            trio.BrokenResourceError: the sender has gone.
        """
        self._begin(status, close=close)
        all_headers = (*headers, (b"content-length", b"%d" % len(body)))
        head = encode_answer_head(status, all_headers, now=seconds_now(), close=self.closing)
        self.status = status
        await self._link.send(head if self._mute else head + body)
        self.finished = True

    async def begin(self, status: int, headers: Headers, piece: bytes) -> None:
        """Write a response's head and the first piece of its body; then call `write` and `end`.

        The body is sent in chunks. For a sender with HTTP/1.0, the connection's end marks the body's end.

        Raises: as `answer`.
        """
        self._begin(status)
        if self.request.version == "1.1":
            headers = (*headers, (b"transfer-encoding", b"chunked"))
        else:
            self.closing = True
        head = encode_answer_head(status, headers, now=seconds_now(), close=self.closing)
        await trio.lowlevel.checkpoint()
        self.status = status
        await self._link.send(head + self._framed(piece))

    async def write(self, piece: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if framed := self._framed(piece):
            await self._link.send(framed)

    async def end(self) -> None:
        if self.request.version == "1.1" and not self._mute:
            await self._link.send(_LAST_CHUNK)
        self.finished = True

    def _framed(self, piece: bytes) -> bytes:
        if self._mute or not piece:  # an empty chunk would end the body
            return b""
        return b"%x\r\n%s\r\n" % (len(piece), piece) if self.request.version == "1.1" else piece

    def _begin(self, status: int, *, close: bool = False) -> None:
        request = self.request
        # Discard the received part of the body that the handler left unread. If the rest of the body has
        # arrived, the connection can be kept.
        try:
            while not request.complete and self._reader.more(request):
                request.pieces.clear()
        except MalformedError:
            pass
        self._mute = has_no_body(request.method, status)
        self.closing = close or not request.complete or not request.keep_alive or self._stopping()


Handler: TypeAlias = Callable[[Talk], Awaitable[None]]
"""Answers one request. If the handler returns without an answer, the connection is closed."""


_log: Final = logging.getLogger("triobot.http")

# Once an incomplete head has this number of bytes, its connection gets a task. A shorter incomplete head
# stays in the kernel's buffer.
_LOOKED_AT: Final = 2048
# Within this number of seconds, a sender that reads its answers makes room for more bytes.
_MOMENT: Final = 1.0
_TEXT: Final = ((b"content-type", b"text/plain; charset=utf-8"),)

OnAnswer: TypeAlias = Callable[[str, bytes, int, float], None]
"""Called after each answer: method, target, status (0: no answer was written), seconds; must not raise."""

OnEnd: TypeAlias = Callable[["ServerConnection", Exception | None], None]
"""Called at the end of a connection with the connection and its failure, or None; must not raise."""


@final
class ServerConnection:
    """Serves one connection.

    Attributes:
        sender: key under which the connection is counted.
        waiting_since: when the wait for a request or for the end of a head began; infinite while a request is
            in progress.
        lingering_since: when the connection began to discard bytes after its last answer; infinite before.
        descriptor: the socket's descriptor while the connection has no task, see `look`; otherwise None.
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
        # The clock's method: `trio.current_time` would look up the loop and the clock in each call.
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
        self._talk = partial(Talk, link=link, reader=self._reader, stopping=stopping)

    @property
    def idle(self) -> bool:
        """Whether the connection waits for a request, and no byte of a request has arrived."""
        return self.waiting_since < math.inf and not (self._reader.begun or self._link.seen)

    def look(self) -> bool:
        """Return whether the connection needs a task, because a complete head, a long incomplete head,
        or the connection's end has arrived.
        """
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
        """Time at which a write began to wait for the sender to read; infinite while no write waits."""
        return self._link.stalled_since

    @property
    def starved_since(self) -> float:
        """Time at which a read began to wait for a body's next bytes; infinite while no read waits."""
        return math.inf if self._in_hand is None else self._in_hand.starved_since

    @property
    def kept_waiting_since(self) -> float:
        """Start of the connection's present wait for the sender; infinite while a handler works without
        such a wait.

        The connection may wait for a request, for the rest of a head, for the next bytes of a body, and for
        its end after the last answer. A pipelined request's wait for its start counts as a wait for the
        sender, too. If the sender doesn't read an answer, the wait counts after `_MOMENT` seconds.
        """
        return min(
            self.waiting_since,
            self.starved_since,
            self.lingering_since,
            self.stalled_since + _MOMENT,
            self._queued_since,
        )

    def give_way(self, since: float) -> bool:
        """Close the connection if `kept_waiting_since` is still `since`, and nothing has arrived since then.

        Returns:
            Whether the connection was closed.
        """
        if self.kept_waiting_since != since:
            return False
        # Keep the connection if the kernel has unread bytes, because these may be a proper request.
        if min(self.waiting_since, self.starved_since) == since and not self._link.is_quiet():
            return False
        self._gave_way = True
        self._link.close()
        if self._queued is not None:
            self._queued.cancel()
        return True

    def close(self) -> None:
        """Close the connection at once; a request in progress gets no answer."""
        self._link.close()

    def drop(self) -> None:
        """Free the resources of a closed connection that never had a task."""
        self._reader.close()

    async def run(self, ended: OnEnd) -> None:
        """Serve the connection to its end. A failure is not raised, but passed to `ended`.

        Args:
            ended: called with this connection, and its failure or None.

        Cancellation: *forceful*: the connection is closed, and a request in progress gets no answer.
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
            # The sender has gone, or the connection was closed on this side: no answer can be written.
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
                # A connection may have thousands of pipelined requests, so the tasks of other connections run
                # before each request starts.
                self._queued_since = trio.current_time()
                with trio.CancelScope() as self._queued:
                    async with self._turnstile:
                        await trio.lowlevel.checkpoint()
                self._queued_since = math.inf
                if self._gave_way:
                    return None
            while request is None:
                if self.waiting_since == math.inf or reader.begun > begun:
                    # The time limit starts again at the first byte of a request, so a request that begins
                    # late can still be completed.
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
            # The handler's error. Its text may contain anything, so the log has only the error's class.
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
        """Answer malformed bytes with the error's status, then close the connection."""
        self.waiting_since = math.inf
        request = Incoming(
            "?", b"*", "1.1", [], "", None, expects=False, keep_alive=False, upgrade=False, pieces=[]
        )
        if self._on_answer is not None:
            self._on_answer("?", b"*", error.status, 0.0)
        await self._talk(request).answer(error.status, _TEXT, f"{error.rule}\n".encode(), close=True)
        await self._linger(complete=False)

    async def _linger(self, *, complete: bool) -> None:
        # If the connection were closed before the sender has written everything, it would be reset, and the
        # sender would lose the answer.
        if complete and self._link.is_quiet():
            return
        self.lingering_since = trio.current_time()
        with trio.move_on_after(self._limits.linger_seconds):
            await self._link.send_eof()
            while await self._link.receive():
                pass
