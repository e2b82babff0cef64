"""The connections of one transport: handed out, waited for, opened, and taken back."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias, cast, final

import httpx
import outcome
import trio

from .client_connection import ClientConnection, within
from .links import Link, PlainLink, TlsLink, detached
from .pool import Origin, Pool, Waiter

Report: TypeAlias = Callable[[str], Awaitable[None]]
"""Told of each step, such as ``connection.connect_tcp.started``, by httpx's own names for them."""

_CLOSED: Final = "this transport was closed"


@functools.cache
def default_context() -> ssl.SSLContext:
    """Certificates are verified by httpx's own list, names are checked, HTTP/1.1 is asked for."""
    context = httpx.create_ssl_context(trust_env=False)
    context.set_alpn_protocols(["http/1.1"])
    return context


async def dial(origin: Origin, context: Callable[[], ssl.SSLContext], report: Report | None) -> Link:
    """Connect to an origin.

    Args:
        context: asked for the rules of TLS when they are needed, since reading certificates takes a while.

    Raises:
        httpx.ConnectError: nobody listens there, or TLS was not agreed on. Nothing has been sent.

    Cancellation: *atomic*: the connection is closed.
    """
    if report is not None:
        await report("connection.connect_tcp.started")
    try:
        stream = await trio.open_tcp_stream(origin.host, origin.port)
    except (OSError, ValueError) as error:
        raise httpx.ConnectError(_reason(error)) from error
    try:
        if report is not None:
            await report("connection.connect_tcp.complete")
        if origin.scheme == "http":
            return PlainLink(detached(stream.socket))
        if report is not None:
            await report("connection.start_tls.started")
        try:
            rules = context()
        except OSError as error:  # no descriptor is left to read the certificates with
            raise httpx.ConnectError(_reason(error)) from error
        link = await _agree(stream, origin.name or origin.host, rules)
        if report is not None:
            await report("connection.start_tls.complete")
    except BaseException:
        stream.socket.close()
        raise
    return link


async def _agree(stream: trio.SocketStream, name: str, context: ssl.SSLContext) -> TlsLink:
    secured = trio.SSLStream(stream, context, server_hostname=name, https_compatible=True)
    try:
        await secured.do_handshake()
    except (trio.BrokenResourceError, ssl.SSLError, ValueError) as error:
        raise httpx.ConnectError(_reason(error.__cause__ or error)) from error
    return TlsLink(secured)


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


@final
class Connections:
    """Connections in use and idle, by the rules of `pool`."""

    def __init__(
        self, *, most: int, most_idle: int, keep_seconds: float, context: ssl.SSLContext | None
    ) -> None:
        self.pool: Final[Pool[ClientConnection]] = Pool(
            most=most, most_idle=most_idle, keep_seconds=keep_seconds
        )
        self._given_context = context
        self._closed = False

    def close(self) -> None:
        """Close idle connections now, and the others once they come back; hand out no more."""
        self._closed = True
        self.pool.close_idle()

    async def get(
        self, origin: Origin, timeouts: Mapping[str, float | None], report: Report | None
    ) -> tuple[ClientConnection, bool]:
        """A connection, and whether it is a new one.

        Raises:
            httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout: there is none to be had.
            trio.ClosedResourceError: all of this was closed.

        Cancellation: *atomic*.
        """
        if self._closed:
            raise trio.ClosedResourceError(_CLOSED)
        while (connection := self.pool.take(origin, trio.current_time())) is not None:
            if connection.usable:
                return connection, False
            self.discard(connection)
        if not self.pool.claim():
            with within(timeouts.get("pool"), httpx.PoolTimeout):
                handed = await self._wait_in_line(origin)
            if handed is not None and handed.usable and not self._closed:
                return handed, False
            if handed is not None:
                handed.close()  # Its place is still ours.
            if self._closed:
                self.pool.free()
                raise trio.ClosedResourceError(_CLOSED)
        try:
            with within(timeouts.get("connect"), httpx.ConnectTimeout):
                link = await dial(origin, self._context, report)
        except BaseException:
            self.pool.free()
            raise
        return ClientConnection(origin, link), True

    async def _wait_in_line(self, origin: Origin) -> ClientConnection | None:
        """Wait for a connection, or for a place to open one: None."""
        task = trio.lowlevel.current_task()

        def wake(connection: ClientConnection | None) -> None:
            trio.lowlevel.reschedule(task, outcome.Value(connection))

        waiter: Waiter[ClientConnection] = Waiter(origin, wake)
        self.pool.line_up(waiter)

        def abort(raise_cancel: Callable[[], object]) -> trio.lowlevel.Abort:
            self.pool.leave(waiter)
            return trio.lowlevel.Abort.SUCCEEDED

        # Whoever has been woken is not cancelled any more on the way: what was handed over is never lost.
        return cast("ClientConnection | None", await trio.lowlevel.wait_task_rescheduled(abort))

    def settle(self, connection: ClientConnection) -> None:
        """A request is over: keep its connection, or close it."""
        if connection.reusable and not self._closed:
            self.pool.give_back(connection, trio.current_time())
        else:
            self.discard(connection)

    def discard(self, connection: ClientConnection) -> None:
        """Close a connection, whatever was on it."""
        connection.close()
        self.pool.free()

    def _context(self) -> ssl.SSLContext:
        return default_context() if self._given_context is None else self._given_context
