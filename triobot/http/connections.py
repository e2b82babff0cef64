"""Opens a transport's connections, assigns them to requests, and takes them back.

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

import functools
import ssl
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, NamedTuple, cast, final

import attrs
import outcome
import trio

from .links import LOST, ByteLink, PlainLink, TlsLink, detached
from .response import ResponseReader

# curl, too, waits a second for a 100, and then sends the body: old servers never send a 100.
_CONTINUE_SECONDS: Final = 1.0
_CLOSED: Final = "this transport was closed"
_UNLIMITED: Final = nullcontext()


class NothingSentError(Exception):
    """The connection had ended before a byte was written: another connection may be used instead."""


class NoConnectionError(Exception):
    """No connection was made: nothing listens, or TLS failed. No byte of a request was sent."""


@final
class Origin(NamedTuple):
    """Destination of a connection; a connection serves requests to the same origin only.

    Attributes:
        scheme: ``http`` or ``https``.
        host, port: address to connect to.
        name: host name that the certificate must have; None: `host`.
    """

    scheme: str
    host: str
    port: int
    name: str | None = None


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

    def begin(self, method: bytes) -> None:
        """Prepare for a request; call before each request."""
        self._link.wrote = False
        self.reader.begin(without_body=method == b"HEAD")

    async def send(self, data: bytes) -> None:
        """Write a part of the request.

        Raises:
            NothingSentError: no byte of the request was sent.
        """
        try:
            await self._link.send(data)
        except LOST as error:
            if not self._link.wrote:
                raise NothingSentError from error
            self.broken = True

    def post(self, message: bytes) -> None:
        """Prepare to send an encoded request; the message isn't checked. `answer` sends it."""
        self._link.wrote = False
        self.reader.begin(without_body=False)
        self._message = message
        self.may_have_left = False

    async def answer(self, most: int) -> bytes:
        """Send the message passed to `post`, and return the response's body.

        This shortcut for small messages costs half as much as httpx's request and response.

        Args:
            most: length of the longest body that is read completely. For a longer body, the result is only a
                beginning that is longer than `most`, and the connection can't be used again.

        Raises:
            NothingSentError: as `send`.
            trio.BrokenResourceError, trio.ClosedResourceError, MalformedError: as `receive`.

        Cancellation: nothing is lost during the wait for the response: another task may call `answer` again.
        In the middle of the request, a cancellation ends the connection.
        """
        reader = self.reader
        if self._message is not None:
            message, self._message = self._message, None
            self.may_have_left = True
            try:
                await self.send(message)
            except NothingSentError:
                self.may_have_left = False
                raise
            except BaseException:
                self.cut()
                raise
        while not reader.done and reader.size <= most:
            await self.receive()
        return reader.pieces[0] if len(reader.pieces) == 1 else b"".join(reader.pieces)

    async def wait_continue(self) -> bool:
        """Wait at most a second for a 100. Return whether to send the body; False if an answer came instead.

        Raises: as `receive`.
        """
        with trio.move_on_after(_CONTINUE_SECONDS):
            while not (self.reader.continued or self.reader.head_done):
                await self.receive()
        return not self.reader.head_done

    async def receive(self) -> None:
        """Read the next bytes of the response.

        Raises:
            trio.BrokenResourceError: the connection failed, now or while the request was written.
            trio.ClosedResourceError: `cut` was called.
            MalformedError: the bytes are no response, or the response is incomplete.
        """
        if data := await self._link.receive():
            self.reader.feed(data)
        else:
            self.reader.feed_eof()

    def cut(self) -> None:
        """End the connection at once: the task that uses it gets an error, and must call `close`."""
        self._link.close()

    def close(self) -> None:
        self._link.close()
        self.reader.close()


@functools.cache
def default_context() -> ssl.SSLContext:
    """Return a TLS context: certificates by Mozilla's list, checked host names, HTTP/1.1 offered."""
    import certifi  # imported for TLS connections only

    context = ssl.create_default_context(cafile=certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


async def dial(origin: Origin, context: Callable[[], ssl.SSLContext], uds: str | None = None) -> ByteLink:
    """Connect to an origin.

    Args:
        context: returns the TLS context; called only when needed, since reading certificates is slow.
        uds: path of a Unix socket to connect to instead.

    Raises:
        NoConnectionError: nothing listens there, or TLS failed.

    Cancellation: *atomic*: the connection is closed.
    """
    try:
        if uds is None:
            stream = await trio.open_tcp_stream(origin.host, origin.port)
        else:
            stream = await trio.open_unix_socket(uds)
    except (OSError, ValueError) as error:
        raise NoConnectionError(_reason(error)) from error
    try:
        if origin.scheme == "http":
            return PlainLink(detached(stream.socket))
        try:
            rules = context()
        except OSError as error:  # no file descriptor is left for reading the certificates
            raise NoConnectionError(_reason(error)) from error
        name = origin.name or origin.host
        secured = trio.SSLStream(stream, rules, server_hostname=name, https_compatible=True)
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
    """The connections of one transport, in use and idle, with their slots and the line of requests.

    Attributes:
        taken: number of slots in use: connections that are open or being opened, including idle ones.

    Args:
        most: largest number of connections.
        most_idle: largest number of idle connections; with more, the oldest idle connection is closed. None:
            no limit.
        keep_seconds: seconds after which an idle connection is no longer used. Common servers keep an idle
            connection for at least 5 s. A request sent while the server closes has an unknown outcome, so
            this side closes first.
        context: TLS context; None: `default_context`.
        uds: path of a Unix socket for all connections; None: connect to the origins.
    """

    def __init__(
        self,
        *,
        most: int,
        most_idle: int | None = None,
        keep_seconds: float = 4.0,
        context: ssl.SSLContext | None = None,
        uds: str | None = None,
    ) -> None:
        self._uds: Final = uds
        self._context: Final = default_context if context is None else lambda: context
        self._closed = False
        # Clock of the loop that opened the last connection; read only while a connection exists.
        self._time = trio.current_time
        self._most: Final = most
        self._most_idle: Final = most if most_idle is None else most_idle
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

    async def get(
        self,
        origin: Origin,
        *,
        fresh: bool = False,
        line: AbstractContextManager[None] = _UNLIMITED,
        dialing: AbstractContextManager[None] = _UNLIMITED,
    ) -> tuple[ClientConnection, bool]:
        """Return a connection, idle or newly opened, and whether it is new; with `fresh`, always a new
        connection.

        Args:
            line, dialing: time limits for the wait in line, and for opening a connection.

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
            with line:
                handed = await self._wait_in_line(origin)
            if handed is not None and not fresh and handed.is_quiet() and not self._closed:
                return handed, False
            if handed is not None:
                handed.close()  # The slot stays with this request.
            if self._closed:
                self.free()
                raise trio.ClosedResourceError(_CLOSED)
        try:
            with dialing:
                link = await dial(origin, self._context, self._uds)
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
        if len(self._idle) > self._most_idle:
            self._forget_oldest().close()
            self.taken -= 1

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
