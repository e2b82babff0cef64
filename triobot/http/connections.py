"""Opens connections to the platform, assigns them to requests, and takes them back.

`Connections` manages idle connections, slots, and the line of waiting requests. A *slot* is the right to an
open or opening connection; there are `most` slots. A request without a slot waits in line. A connection that
becomes free goes to the first request in line. If that request needs another origin, the connection is
closed, and the request gets the slot. Each operation of `Connections` takes the same time for any number of
connections.

`ClientConnection` is one connection: it sends a request, reads the response, and determines whether another
request may follow. A failed write is no error yet: a server may refuse a long body early, answer and close,
and that answer counts.
"""

from __future__ import annotations

import ssl
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple, cast, final

import attrs
import outcome
import trio

from .links import LOST, ByteLink, PlainLink, TlsLink, detached
from .response import ResponseReader

_CLOSED: Final = "these connections were closed"


class NothingSentError(Exception):
    """The connection had ended before a byte was written: another connection may be used instead."""


class NoConnectionError(Exception):
    """No connection was made: nothing listens, or TLS failed. No byte of a request was sent."""


@final
class Origin(NamedTuple):
    """Destination of a connection; a connection serves requests to the same origin only.

    Attributes:
        scheme: ``http`` or ``https``.
        host, port: address to connect to; the certificate must have the host's name.
    """

    scheme: str
    host: str
    port: int


@final
class ClientConnection:
    """A connection with at most one request at a time.

    Attributes:
        origin: the connection's destination.
        reader: parser of the response.
        broken: whether a write failed; an answer that came before the failure still counts.
        is_quiet: as `ByteLink.is_quiet`: an idle connection may be used only if it is quiet.
        may_have_left: whether a byte of the message passed to `post` may have left this machine.
    """

    def __init__(self, origin: Origin, link: ByteLink) -> None:
        self.origin: Final = origin
        self.reader: Final = ResponseReader()
        self.broken = False
        self.may_have_left = False
        self.is_quiet: Final = link.is_quiet
        self._link = link
        self._message: bytes | None = None

    def post(self, message: bytes) -> None:
        """Prepare to send an encoded request; the message isn't checked. `answer` sends it."""
        self._link.wrote = False
        self.reader.begin()
        self._message = message
        self.may_have_left = False

    async def answer(self, most: int) -> bytes:
        """Send the message passed to `post`, and return the response's body.

        Args:
            most: length of the longest body that is read completely. For a longer body, the result is only a
                beginning that is longer than `most`, and the connection can't be used again.

        Raises:
            NothingSentError: no byte of the request was sent.
            trio.BrokenResourceError: the connection failed, now or while the request was written.
            trio.ClosedResourceError: `cut` was called.
            MalformedError: the bytes are no response, or the response is incomplete.

        Cancellation: nothing is lost during the wait for the response: another task may call `answer` again.
        In the middle of the request, a cancellation ends the connection.
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
        """End the connection at once: the task that uses it gets an error, and must call `close`."""
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
        except OSError as error:  # no file descriptor is left for reading the certificates
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
@attrs.define(eq=False)
class Waiter:
    """A request in line.

    Attributes:
        wake: called once, with a connection, or with None if the request has a slot for a new connection.
    """

    origin: Origin
    wake: Callable[[ClientConnection | None], None]


@final
class Connections:
    """The connections of one client, in use and idle, with their slots and the line of requests.

    Attributes:
        taken: number of slots in use: connections that are open or being opened, including idle ones.

    Args:
        most: largest number of connections.
        keep_seconds: seconds after which an idle connection is no longer used. Common servers keep an idle
            connection for at least 5 s. A request sent while the server closes has an unknown outcome, so
            this side closes first.
    """

    def __init__(self, *, most: int, keep_seconds: float = 4.0) -> None:
        self._closed = False
        # Clock of the loop that opened the last connection; read only while a connection exists.
        self._time = trio.current_time
        self._most: Final = most
        self._keep_seconds: Final = keep_seconds
        self.taken = 0
        # No idle connection expires before this time.
        self._look_at = 0.0
        # All idle connections, the oldest first; and the same connections by origin, where the youngest is
        # used first.
        self._idle: OrderedDict[ClientConnection, float] = OrderedDict()
        self._by_origin: dict[Origin, OrderedDict[ClientConnection, None]] = {}
        self._line: OrderedDict[Waiter, None] = OrderedDict()

    def close(self) -> None:
        """Close idle connections now, and busy connections after their requests. No connection is assigned
        any more.
        """
        self._closed = True
        self.close_idle()

    def idle(self, origin: Origin) -> ClientConnection | None:
        """Take an idle connection that is quiet (no byte and no end has arrived); None if there is none."""
        while self._idle and (connection := self.take(origin, self._time())) is not None:
            if connection.is_quiet():
                return connection
            self.discard(connection)
        return None

    async def get(self, origin: Origin, *, fresh: bool = False) -> tuple[ClientConnection, bool]:
        """Return a connection, idle or newly opened, and whether it is new; with `fresh`, always a new
        connection.

        Raises:
            NoConnectionError: no connection could be opened.
            trio.ClosedResourceError: `close` was called.

        Cancellation: *atomic*.
        """
        if self._closed:
            raise trio.ClosedResourceError(_CLOSED)
        if not fresh and (connection := self.idle(origin)) is not None:
            return connection, False
        if not self.claim():
            handed = await self._wait_in_line(origin)
            if handed is not None and not fresh and handed.is_quiet() and not self._closed:
                return handed, False
            if handed is not None:
                handed.close()  # The slot stays with this request.
            if self._closed:
                self.free()
                raise trio.ClosedResourceError(_CLOSED)
        try:
            link = await dial(origin)
        except BaseException:
            self.free()
            raise
        self._time = trio.lowlevel.current_clock().current_time
        return ClientConnection(origin, link), True

    async def _wait_in_line(self, origin: Origin) -> ClientConnection | None:
        """Wait in line. Return a connection; None if the request has a slot for a new connection."""
        task = trio.lowlevel.current_task()

        def wake(connection: ClientConnection | None) -> None:
            trio.lowlevel.reschedule(task, outcome.Value(connection))

        waiter = Waiter(origin, wake)
        self.line_up(waiter)

        def abort(raise_cancel: Callable[[], object]) -> trio.lowlevel.Abort:
            self.leave(waiter)
            return trio.lowlevel.Abort.SUCCEEDED

        # A rescheduled task can't be cancelled before it runs, so a connection passed to it is never lost.
        return cast("ClientConnection | None", await trio.lowlevel.wait_task_rescheduled(abort))

    def settle(self, connection: ClientConnection) -> None:
        """Keep the connection of a finished request, or close the connection if it can't be used again.

        A connection can be used again if request and response are complete and both sides keep it open.
        """
        if connection.reader.reusable and not connection.broken and not self._closed:
            self.give_back(connection, self._time())
        else:
            self.discard(connection)

    def discard(self, connection: ClientConnection) -> None:
        """Close a connection in any state, and free its slot."""
        connection.close()
        self.free()

    # --- slots: these methods never wait, and never iterate over all connections

    def take(self, origin: Origin, now: float) -> ClientConnection | None:
        """Take the idle connection that was used last; None if no connection is idle."""
        if now >= self._look_at:
            self._close_expired(now)
        ours = self._by_origin.get(origin)
        if ours is None:
            return None
        connection, _ = ours.popitem()
        del self._idle[connection]
        if not ours:
            del self._by_origin[origin]
        return connection

    def claim(self) -> bool:
        """Take a slot for a new connection, closing an idle connection if necessary; False if no slot is
        free.
        """
        if self.taken < self._most:
            self.taken += 1
            return True
        if self._idle:
            self._forget_oldest().close()
            return True
        return False

    def line_up(self, waiter: Waiter) -> None:
        """Add a request to the end of the line."""
        self._line[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        """Remove a request from the line before its turn."""
        del self._line[waiter]

    def give_back(self, connection: ClientConnection, now: float) -> None:
        """Pass a reusable connection to the first request in line, or keep the connection idle."""
        if self._line:
            waiter, _ = self._line.popitem(last=False)
            if waiter.origin == connection.origin:
                waiter.wake(connection)
            else:
                connection.close()
                waiter.wake(None)
            return
        self._idle[connection] = now
        ours = self._by_origin.get(connection.origin)
        if ours is None:
            ours = self._by_origin[connection.origin] = OrderedDict()
        ours[connection] = None

    def free(self) -> None:
        """Free the slot of a connection that was closed or never opened; the first request in line gets the
        slot.
        """
        if self._line:
            waiter, _ = self._line.popitem(last=False)
            waiter.wake(None)
        else:
            self.taken -= 1

    def close_idle(self) -> None:
        while self._idle:
            self._forget_oldest().close()
            self.taken -= 1

    def _close_expired(self, now: float) -> None:
        while self._idle and now - next(iter(self._idle.values())) > self._keep_seconds:
            self._forget_oldest().close()
            self.taken -= 1
        self._look_at = next(iter(self._idle.values()), now) + self._keep_seconds

    def _forget_oldest(self) -> ClientConnection:
        connection, _ = self._idle.popitem(last=False)
        ours = self._by_origin[connection.origin]
        del ours[connection]
        if not ours:
            del self._by_origin[connection.origin]
        return connection
