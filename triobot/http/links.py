"""Bytes over one connection, plain or through TLS, for both sides of HTTP.

A plain link uses the socket directly. A write is tried at once, and waits only if the kernel's buffer is
full. A read always waits for bytes first. In HTTP a write nearly always fits into the kernel's buffer, and a
read nearly always has to wait. So nearly every write and every read costs one system call. Closing is
synchronous and abrupt, since HTTP messages mark their own ends. So no task waits for the other side to close,
and a cancelled task can close a link.
"""

from __future__ import annotations

import errno
import math
import select
import socket
from collections.abc import Callable
from typing import Final, TypeAlias, final

import trio
from trio.lowlevel import wait_readable, wait_writable

# A read of this size returns any usual message as a whole. Each read allocates its buffer, and a larger
# buffer would rarely be filled.
_READ_BYTES: Final = 64 * 1024

POLLIN: Final[int] = getattr(select, "POLLIN", 1)
"""Poll event: there are bytes to read."""
# Linux's flag for a connection that the other side has half-closed; set even while received bytes are unread.
_GONE: Final[int] = getattr(select, "POLLRDHUP", 0)

LOST: Final = (trio.BrokenResourceError, trio.ClosedResourceError)
"""Errors of a link whose connection failed, or was closed on this side."""
_CLOSED: Final = "this connection was closed here"


@final
class ByReading:
    """Replacement for `select.poll` on systems without `poll`, such as Windows.

    Reports only readable sockets.
    """

    def __init__(self) -> None:
        self._asked: list[int] = []

    def register(self, fd: int, eventmask: int, /) -> None:
        if eventmask & POLLIN:
            self._asked.append(fd)

    def poll(self, timeout: float | None, /) -> list[tuple[int, int]]:
        if not self._asked:
            return []
        return [(fd, POLLIN) for fd in select.select(self._asked, [], [], timeout)[0]]


Poll: TypeAlias = "select.poll | ByReading"
poll: Final[Callable[[], Poll]] = getattr(select, "poll", ByReading)
"""Creates the system's `select.poll`, or its replacement."""


class _SocketLink:
    """Base class of links: a connection's bytes, for one reader and one writer. The link owns the socket.

    Attributes:
        wrote: whether a byte may have been sent since the attribute was last set to False.
        stalled_since: when a write began to wait for the other side to read; infinite while no write waits.
        seen: number of received bytes that `PlainLink.peek` has returned and that are still unread.
    """

    def __init__(self, sock: socket.socket | trio.socket.SocketType) -> None:
        self.wrote = False
        self.stalled_since = math.inf
        self.seen = 0
        self._closes = sock.close
        self._fd = sock.fileno()
        self._poll = poll()
        self._poll.register(self._fd, POLLIN | _GONE)

    def is_quiet(self) -> bool:
        """Return whether nothing has arrived: no byte, no TLS record, no end or failure of the connection."""
        return self._fd != -1 and not self._poll.poll(0)

    def has_left(self) -> bool:
        """Return whether the other side has closed its half of the connection, as far as the kernel knows."""
        if self._fd == -1:
            return True
        events = self._poll.poll(0)
        return bool(events) and events[0][1] & ~POLLIN != 0

    def close(self) -> None:
        """Close at once. A second call does nothing."""
        if self._fd != -1:
            trio.lowlevel.notify_closing(self._fd)
            self._fd = -1
            self._closes()


@final
class PlainLink(_SocketLink):
    """A link without TLS."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._sock = sock
        self._sock.setblocking(False)

    async def receive(self) -> bytes:
        """Return the next bytes; empty after the other side has closed its half of the connection.

        Raises:
            trio.BrokenResourceError: the connection failed.
            trio.ClosedResourceError: the connection was closed on this side.
        """
        while True:
            if self._fd == -1:
                raise trio.ClosedResourceError(_CLOSED)
            await wait_readable(self._fd)
            try:
                return self._sock.recv(_READ_BYTES)
            except (BlockingIOError, InterruptedError):
                continue
            except OSError as error:
                raise _broken(error) from error

    async def send(self, data: bytes) -> None:
        """Write all bytes of `data`. Returns without a checkpoint if the kernel accepts the bytes at once.

        Raises: as `receive`.

        Cancellation: *ambiguous*: a part of the data may have been sent.
        """
        try:
            sent = self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            raise _broken(error) from error
        self.wrote = self.wrote or sent > 0
        if sent != len(data):
            await self._send_rest(memoryview(data)[sent:])

    async def _send_rest(self, rest: memoryview) -> None:
        while rest:
            self.stalled_since = trio.current_time()
            try:
                await wait_writable(self._fd)
            finally:
                self.stalled_since = math.inf
            try:
                sent = self._sock.send(rest)
            except (BlockingIOError, InterruptedError):
                continue
            except OSError as error:
                raise _broken(error) from error
            self.wrote = True
            rest = rest[sent:]

    async def send_eof(self) -> None:
        """Close the sending half; receiving continues."""
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise _broken(error) from error

    def peek(self, most: int) -> bytes:
        """Return the first received bytes without removing them; empty at the end of the connection.

        Raises:
            OSError: the connection failed, or no byte has arrived.
        """
        return self._sock.recv(most, socket.MSG_PEEK)

    def is_quiet(self) -> bool:
        """Return whether nothing has arrived except the `seen` bytes that `peek` has returned."""
        if self._fd == -1 or not self.seen:
            return self._fd != -1 and not self._poll.poll(0)
        try:
            return len(self.peek(self.seen + 1)) == self.seen
        except OSError:
            return False


@final
class TlsLink(_SocketLink):
    """A link through TLS; the first read or write completes the handshake."""

    def __init__(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        super().__init__(stream.transport_stream.socket)
        self._stream = stream

    async def receive(self) -> bytes:
        return bytes(await self._stream.receive_some(_READ_BYTES))

    async def send(self, data: bytes) -> None:
        # TLS may send these bytes with a later write, so `wrote` is True from now on.
        self.wrote = True
        for start in range(0, len(data), _READ_BYTES):
            self.stalled_since = trio.current_time()
            try:
                await self._stream.send_all(data[start : start + _READ_BYTES])
            finally:
                self.stalled_since = math.inf

    async def send_eof(self) -> None:
        """Close nothing, because some peers can't handle a half-closed TLS connection."""
        await trio.lowlevel.checkpoint_if_cancelled()


ByteLink: TypeAlias = PlainLink | TlsLink
"""A connection's bytes, plain or through TLS."""


def detached(made: trio.socket.SocketType) -> socket.socket:
    """Detach the plain socket from a Trio socket, which can't be used afterwards."""
    family, kind, proto = made.family, made.type, made.proto
    return socket.socket(family, kind, proto, fileno=made.detach())


def _broken(error: OSError) -> trio.BrokenResourceError | trio.ClosedResourceError:
    if error.errno == errno.EBADF:
        return trio.ClosedResourceError(_CLOSED)
    return trio.BrokenResourceError(error.strerror or type(error).__name__)
