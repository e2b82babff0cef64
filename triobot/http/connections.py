"""Opens a transport's connections, hands them out to requests, and takes them back.

`Connections` keeps track of idle connections, taken places, and the requests in line for one. Its count costs
the same however many connections there are: nothing looks at all of them. A *place* is the right to have a
connection, open or being opened; there are `most` of them. A request that gets none waits in line. A
connection that becomes free goes to the first in line, or is closed for it if it leads elsewhere.

`ClientConnection` is one of them: it sends a request, reads its response, and tells whether another may
follow. A failed write is no error yet: a server may refuse a long body early, answer and close, and that
answer counts.
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

# curl waits so long for a 100 before it sends the body anyway, since old servers never say it.
_CONTINUE_SECONDS: Final = 1.0
_CLOSED: Final = "this transport was closed"
_UNLIMITED: Final = nullcontext()


class NothingSentError(Exception):
    """The connection had ended before a byte was written: another one may be used instead."""


class NoConnectionError(Exception):
    """There is no connection: nothing listens, or TLS was not agreed on. No byte of a request has left."""


@final
class Origin(NamedTuple):
    """Where a connection leads, and what it may be used for.

    Attributes:
        scheme: ``http`` or ``https``.
        host, port: what is connected to.
        name: what the certificate must be for, if not `host`.
    """

    scheme: str
    host: str
    port: int
    name: str | None = None


@final
class ClientConnection:
    """A connection with at most one request on it.

    Attributes:
        origin: where it leads.
        reader: of the response.
        broken: a write failed; only an answer that came before it counts any more.
        is_quiet: as `ByteLink.is_quiet`: an idle connection may be used if it is.
        may_have_left: a byte of what `post` was given may have left this machine.
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
        """Prepare for a request; call before each one."""
        self._link.wrote = False
        self.reader.begin(without_body=method == b"HEAD")

    async def send(self, data: bytes) -> None:
        """Write a part of the request.

        Raises:
            NothingSentError: not a byte of the request has left.
        """
        try:
            await self._link.send(data)
        except LOST as error:
            if not self._link.wrote:
                raise NothingSentError from error
            self.broken = True

    def post(self, message: bytes) -> None:
        """Prepare for a request that is written out already, of which nothing is checked: see `answer`."""
        self._link.wrote = False
        self.reader.begin(without_body=False)
        self._message = message
        self.may_have_left = False

    async def answer(self, most: int) -> bytes:
        """Send what `post` was given, and return the body of the response: the short way, for small ones.

        It costs half of what httpx's request and response do.

        Args:
            most: the longest body that is read. Of a longer one the beginning is returned, which is longer
                than this, and the connection can't be used again.

        Raises:
            NothingSentError: as `send`.
            trio.BrokenResourceError, trio.ClosedResourceError, MalformedError: as `receive`.

        Cancellation: nothing is lost while it waits for the response: another task may await this again. Cut
        in the middle of the request, it ends the connection.
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
        """Wait a second at most for a 100; return whether to send the body: not if an answer came instead.

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
            MalformedError: what came is no response, or ended in its middle.
        """
        if data := await self._link.receive():
            self.reader.feed(data)
        else:
            self.reader.feed_eof()

    def cut(self) -> None:
        """End it at once: the task that is on it gets an error, and is to close it."""
        self._link.close()

    def close(self) -> None:
        """Close it at once."""
        self._link.close()
        self.reader.close()


@functools.cache
def default_context() -> ssl.SSLContext:
    """Return a TLS context that verifies certificates by Mozilla's list, checks names, offers HTTP/1.1."""
    import certifi  # for connections that need it only

    context = ssl.create_default_context(cafile=certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


async def dial(origin: Origin, context: Callable[[], ssl.SSLContext], uds: str | None = None) -> ByteLink:
    """Connect to an origin.

    Args:
        context: called for the TLS context when it is needed, since reading certificates takes a while.
        uds: the path of a Unix socket that leads there.

    Raises:
        NoConnectionError: nothing listens there, or TLS was not agreed on.

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
        except OSError as error:  # no descriptor is left to read the certificates with
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
        wake: called once, with a connection, or with None for a place to open one.
    """

    origin: Origin
    wake: Callable[[ClientConnection | None], None]


@final
class Connections:
    """The connections of one transport, in use and idle, its places, and the requests in line for one.

    Attributes:
        taken: how many are open or being opened, the idle ones included.

    Args:
        most: connections at once.
        most_idle: how many of them may be idle, beyond which the oldest is closed; None: all.
        keep_seconds: after so long an idle one is not used again. Common servers wait for 5 s at least, and a
            request that meets the closing has an unknown outcome: so ours goes first.
        context: for TLS; None: `default_context`.
        uds: the path of a Unix socket that all of them go to; None: each goes to its origin.
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
        # Of the loop in which a connection was opened last: asked only while there is one.
        self._time = trio.current_time
        self._most: Final = most
        self._most_idle: Final = most if most_idle is None else most_idle
        self._keep_seconds: Final = keep_seconds
        self.taken = 0
        # Before this time none of the idle ones is too old.
        self._look_at = 0.0
        # All idle ones, the oldest first; and the same by origin, where the youngest is used first.
        self._idle: OrderedDict[ClientConnection, float] = OrderedDict()
        self._by_origin: dict[Origin, OrderedDict[ClientConnection, None]] = {}
        self._line: OrderedDict[Waiter, None] = OrderedDict()

    def close(self) -> None:
        """Close idle connections now, and the others once they come back; hand out no more."""
        self._closed = True
        self.close_idle()

    def idle(self, origin: Origin) -> ClientConnection | None:
        """Take an idle connection on which nothing has happened since; None if there is none."""
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
        """Return a connection, idle or newly opened, and whether it is new; with `fresh` a new one.

        Args:
            line, dialing: limit how long it waits in line, and for a new connection.

        Raises:
            NoConnectionError: none could be opened.
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
                handed.close()  # Its place is still ours.
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
        """Wait for a connection; return None for a place to open one."""
        task = trio.lowlevel.current_task()

        def wake(connection: ClientConnection | None) -> None:
            trio.lowlevel.reschedule(task, outcome.Value(connection))

        waiter = Waiter(origin, wake)
        self.line_up(waiter)

        def abort(raise_cancel: Callable[[], object]) -> trio.lowlevel.Abort:
            self.leave(waiter)
            return trio.lowlevel.Abort.SUCCEEDED

        # A task that has been rescheduled can't be cancelled before it runs: a connection that was handed
        # over is never lost.
        return cast("ClientConnection | None", await trio.lowlevel.wait_task_rescheduled(abort))

    def settle(self, connection: ClientConnection) -> None:
        """Keep the connection of a request that is over, or close it if it can't be used again.

        It can be if both messages are complete, and both sides want it.
        """
        if connection.reader.reusable and not connection.broken and not self._closed:
            self.give_back(connection, self._time())
        else:
            self.discard(connection)

    def discard(self, connection: ClientConnection) -> None:
        """Close a connection, whatever was on it."""
        connection.close()
        self.free()

    # --- the count: none of these waits, and none looks at all connections

    def take(self, origin: Origin, now: float) -> ClientConnection | None:
        """Take the idle connection that was used last; None if there is none."""
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
        """Take a place for a new connection, closing an idle one if need be; False if there is none."""
        if self.taken < self._most:
            self.taken += 1
            return True
        if self._idle:
            self._forget_oldest().close()
            return True
        return False

    def line_up(self, waiter: Waiter) -> None:
        """Add a request at the end of the line."""
        self._line[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        """Take a request out of the line before its turn."""
        del self._line[waiter]

    def give_back(self, connection: ClientConnection, now: float) -> None:
        """Give a connection that can be used again to the first in line, or keep it idle."""
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
        """Free the place of a connection that was closed or never opened; the first in line gets it."""
        if self._line:
            waiter, _ = self._line.popitem(last=False)
            waiter.wake(None)
        else:
            self.taken -= 1

    def close_idle(self) -> None:
        """Close every idle connection."""
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
