"""Opens connections to the platform, and keeps idle connections for later requests.

`ClientConnection` is one connection: it sends a request, reads the response, and determines whether another
request may follow. A failed write alone doesn't fail the request: a server may answer before it has read the
whole body, and then close the connection. This early answer is the request's result.
"""

from __future__ import annotations

import ssl
from collections import deque
from typing import Final, NamedTuple, final

import trio

from .links import LOST, ByteLink, PlainLink, TlsLink, detached
from .response import ResponseReader

_CLOSED: Final = "these connections were closed"


class NothingSentError(Exception):
    """The connection ended before a byte of the request was written: the caller may use another
    connection instead.
    """


class NoConnectionError(Exception):
    """No connection was made: nothing listens, or TLS failed. No byte of a request was sent."""


@final
class Origin(NamedTuple):
    """Destination of connections.

    Attributes:
        scheme: ``http`` or ``https``.
        host, port: address to connect to; the certificate must be valid for `host`.
    """

    scheme: str
    host: str
    port: int


@final
class ClientConnection:
    """A connection with at most one request at a time.

    Attributes:
        reader: parser of the response.
        broken: whether a write failed; an answer that arrived before the failure is still valid.
        is_quiet: function that returns whether nothing has arrived, see `ByteLink.is_quiet`. Only a quiet
            idle connection may be used.
        may_have_left: whether a byte of the message passed to `post` may have left this computer.
    """

    def __init__(self, link: ByteLink) -> None:
        self.reader: Final = ResponseReader()
        self.broken = False
        self.may_have_left = False
        self.is_quiet: Final = link.is_quiet
        self._link = link
        self._message: bytes | None = None

    def post(self, message: bytes) -> None:
        """Store an encoded request, which `answer` sends unchecked."""
        self._link.wrote = False
        self.reader.begin()
        self._message = message
        self.may_have_left = False

    async def answer(self, most: int) -> bytes:
        """Send the message passed to `post`, and return the response's body.

        Args:
            most: length of the longest body that is read completely. For a longer body, the result is the
                body's beginning, which is longer than `most`; the connection can't be used again.

        Raises:
            NothingSentError: no byte of the request was sent.
            trio.BrokenResourceError: the connection failed, now or while the request was written.
            trio.ClosedResourceError: `cut` was called.
            MalformedError: the bytes are no response, or the response is incomplete.

        Cancellation: while the request is written, a cancellation ends the connection. During the wait for
        the response, a cancellation loses nothing: the next call of `answer` returns the response.
        """
        reader = self.reader
        if self._message is not None:
            message, self._message = self._message, None
            self.may_have_left = True
            try:
                await self._link.send(message)
            except LOST as error:
                if not self._link.wrote:
                    self.may_have_left = False
                    raise NothingSentError from error
                self.broken = True
            except BaseException:
                self.cut()
                raise
        while not reader.done and reader.size <= most:
            if data := await self._link.receive():
                reader.feed(data)
            else:
                reader.feed_eof()
        return reader.pieces[0] if len(reader.pieces) == 1 else b"".join(reader.pieces)

    def cut(self) -> None:
        """End the connection at once.

        The task that waits in `answer` gets an error, and must call `close`.
        """
        self._link.close()

    def close(self) -> None:
        self._link.close()
        self.reader.close()


async def dial(origin: Origin) -> ByteLink:
    """Connect to an origin.

    Raises:
        NoConnectionError: nothing listens there, or TLS failed.

    Cancellation: *atomic*: the connection is closed.
    """
    try:
        stream = await trio.open_tcp_stream(origin.host, origin.port)
    except (OSError, ValueError) as error:
        raise NoConnectionError(_reason(error)) from error
    try:
        if origin.scheme == "http":
            return PlainLink(detached(stream.socket))
        try:
            from ..base.authorities import client_context

            rules = client_context()
        except OSError as error:  # the process has no file descriptor left for reading the certificates
            raise NoConnectionError(_reason(error)) from error
        secured = trio.SSLStream(stream, rules, server_hostname=origin.host, https_compatible=True)
        try:
            await secured.do_handshake()
        except (trio.BrokenResourceError, ssl.SSLError, ValueError) as error:
            raise NoConnectionError(_reason(error.__cause__ or error)) from error
        return TlsLink(secured)
    except BaseException:
        stream.socket.close()
        raise


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


@final
class Connections:
    """The connections to one origin.

    The callers must limit the number of simultaneous requests, and thereby the number of connections.

    Args:
        keep_seconds: seconds after which an idle connection is no longer used. If the server closes a
            connection while a request is sent, the request's outcome is unknown. Common servers keep an idle
            connection for at least 5 s, so the client closes the connection earlier.
    """

    def __init__(self, origin: Origin, *, keep_seconds: float = 4.0) -> None:
        self._origin: Final = origin
        self._closed = False
        # Clock of the loop that opened the last connection; read only while a connection exists.
        self._time = trio.current_time
        self._keep_seconds: Final = keep_seconds
        # Idle connections with the times of their last use, the oldest first.
        self._idle: deque[tuple[ClientConnection, float]] = deque()

    def close(self) -> None:
        """Close the idle connections now, and each busy connection after its request. `open` then raises
        ClosedResourceError.
        """
        self._closed = True
        self.close_idle()

    def close_idle(self) -> None:
        while self._idle:
            self._close_oldest()

    def idle(self) -> ClientConnection | None:
        """Remove and return the most recently used idle connection that is quiet; None without such a
        connection.

        Close old idle connections, and connections on which a byte, the end or a failure has arrived.
        """
        if not self._idle:
            return None
        now = self._time()
        while self._idle and now - self._idle[0][1] > self._keep_seconds:
            self._close_oldest()
        while self._idle:
            connection, _ = self._idle.pop()
            if connection.is_quiet():
                return connection
            connection.close()
        return None

    async def open(self) -> ClientConnection:
        """Open a connection.

        First close the oldest idle connection, if any.

        Raises:
            NoConnectionError: no connection could be opened.
            trio.ClosedResourceError: `close` was called.

        Cancellation: *atomic*.
        """
        if self._closed:
            raise trio.ClosedResourceError(_CLOSED)
        if self._idle:
            self._close_oldest()
        link = await dial(self._origin)
        self._time = trio.lowlevel.current_clock().current_time
        return ClientConnection(link)

    def settle(self, connection: ClientConnection) -> None:
        """Keep the connection of a finished request for later requests, or close a connection that
        can't be used again.

        A connection can be used again if request and response are complete, and both sides keep the
        connection open.
        """
        if connection.reader.reusable and not connection.broken and not self._closed:
            self._idle.append((connection, self._time()))
        else:
            connection.close()

    def _close_oldest(self) -> None:
        connection, _ = self._idle.popleft()
        connection.close()
