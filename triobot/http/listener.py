"""Accept connections, bound them, watch over those that wait, and stop without refusing anybody."""

from __future__ import annotations

import logging
import ssl
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final, cast, final

import trio

from .limits import ServingLimits
from .links import Link, PlainLink, TlsLink
from .server_connection import Noted, ServerConnection
from .talk import Handler

_log: Final = logging.getLogger("triobot.http")


async def serve_listeners(
    handler: Handler,
    listeners: Sequence[trio.SocketListener],
    *,
    shutdown: trio.Event,
    limits: ServingLimits,
    tls: ssl.SSLContext | None = None,
    noted: Noted | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve HTTP/1.1 until told to stop, then answer what is in hand, and return.

    Requests are taken until `shutdown` is set. Then the listeners are closed; connections that are open may
    bring a request for `ServingLimits.settle_seconds` more, each answered with ``connection: close``; and
    requests in hand have `ServingLimits.grace_seconds` to be answered. With an inherited socket nobody is
    refused: connections that were not accepted here wait for the next process.

    Args:
        handler: called for each request, in the task of its connection.
        listeners: closed at the end.
        shutdown: set it to stop.
        limits: of connections and time.
        tls: the server's certificate; None: plain.
        noted: told of each answer.

    Cancellation: *forceful*: closes listeners and connections at once; requests in hand get no answer.
    """
    server = _Server(handler, limits, tls, noted)
    gates = [_Gate(listener, server.room) for listener in listeners]
    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:
            accepting.start_soon(
                partial(trio.serve_listeners, server.talk, gates, handler_nursery=connections)
            )
            accepting.start_soon(server.close_the_slow)
            # The sockets listen already: whoever connects now waits for the task above to run.
            task_status.started()
            await shutdown.wait()
            server.stopping = True
            accepting.cancel_scope.cancel()
        connections.cancel_scope.deadline = trio.current_time() + limits.settle_seconds + limits.grace_seconds
        await server.settle()


@final
class _Server:
    """The connections of one listening process."""

    def __init__(
        self, handler: Handler, limits: ServingLimits, tls: ssl.SSLContext | None, noted: Noted | None
    ) -> None:
        self.room: Final = trio.Semaphore(limits.connections, max_value=limits.connections)
        self.stopping = False
        self._handler = handler
        self._limits = limits
        self._tls = tls
        self._noted = noted
        self._peers: Counter[str] = Counter()
        self._open: set[ServerConnection] = set()
        self._busy = 0
        self._none_open = trio.Event()

    async def talk(self, stream: trio.SocketStream) -> None:
        """Serve one connection to its end. Its failures are its own."""
        peer = _peer(stream)
        name = "" if peer is None else peer[0]
        most = self._limits.connections_per_address
        self._busy += 1
        self._peers[name] += 1
        try:
            if most is None or self._peers[name] <= most:
                await self._serve(stream, peer)
        except Exception as error:
            # Strangers decide what comes in here; the others' requests must not pay for it.
            _log.warning("a connection ended with %s", type(error).__name__)
            _log.debug("a connection failed", exc_info=error)
        finally:
            stream.socket.close()
            self._peers[name] -= 1
            if not self._peers[name]:
                del self._peers[name]
            self._busy -= 1
            if not self._busy:
                self._none_open.set()
            self.room.release()

    async def _serve(self, stream: trio.SocketStream, peer: tuple[str, int] | None) -> None:
        server = _named(stream.socket.getsockname())
        link = await self._link(stream)
        if link is None:
            return
        connection = ServerConnection(
            link,
            self._handler,
            self._limits,
            peer=peer,
            server=server,
            secured=self._tls is not None,
            stopping=lambda: self.stopping,
            noted=self._noted,
        )
        self._open.add(connection)
        try:
            await connection.run()
        finally:
            self._open.discard(connection)

    async def _link(self, stream: trio.SocketStream) -> Link | None:
        if self._tls is None:
            return PlainLink(stream)
        secured = trio.SSLStream(stream, self._tls, server_side=True, https_compatible=True)
        with trio.move_on_after(self._limits.idle_seconds):
            try:
                await secured.do_handshake()
            except trio.BrokenResourceError:
                return None
            return TlsLink(secured)
        return None

    async def close_the_slow(self) -> None:
        """Close connections that have waited for too long; one task for all, instead of a timer each."""
        while True:
            await trio.sleep(self._limits.idle_seconds / 4)
            self._close_waiting()

    async def settle(self) -> None:
        """Give open connections a last moment, then close those that wait for nothing."""
        if self._busy:
            self._none_open = trio.Event()
            with trio.move_on_after(self._limits.settle_seconds):
                await self._none_open.wait()
        while self._busy:
            for connection in list(self._open):
                if connection.idle:
                    connection.close()
            # Heads that have begun may still be completed, as long as they could before.
            with trio.move_on_after(self._limits.idle_seconds / 4):
                await self._none_open.wait()
            self._close_waiting()

    def _close_waiting(self) -> None:
        now = trio.current_time()
        for connection in list(self._open):
            if (
                connection.waiting_since < now - self._limits.idle_seconds
                or connection.stalled_since < now - self._limits.send_seconds
                or connection.starved_since < now - self._limits.body_seconds
            ):
                connection.close()


@final
class _Gate(trio.abc.Listener[trio.SocketStream]):
    """A listener that accepts nobody while there is no room; they wait in the kernel's queue."""

    def __init__(self, listener: trio.SocketListener, room: trio.Semaphore) -> None:
        self._listener = listener
        self._room = room

    async def accept(self) -> trio.SocketStream:
        await self._room.acquire()
        try:
            return await self._listener.accept()
        except BaseException:
            self._room.release()
            raise

    async def aclose(self) -> None:
        await self._listener.aclose()


def _peer(stream: trio.SocketStream) -> tuple[str, int] | None:
    try:
        return _named(stream.socket.getpeername())
    except OSError:  # it has gone already
        return None


def _named(address: object) -> tuple[str, int] | None:
    # A path has no host and port; its sender has no name at all.
    if not isinstance(address, tuple):
        return None
    host, port = cast("tuple[str, int]", address[:2])
    return (host, port)
