"""The connections of one transport: handed out, waited for, opened, and taken back."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import Final, cast, final

import httpx
import outcome
import trio

from .client_connection import ClientConnection, within
from .dialing import Report, default_context, dial
from .pool import Origin, Pool, Waiter

_CLOSED: Final = "this transport was closed"


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
