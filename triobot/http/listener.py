"""Accepts and limits connections, closes slow connections, and stops without refusing a connection.

A full listener makes room: it closes the connection that has waited longest for its sender. Such a connection
waits for a request, for the rest of a request, or for its sender to read an answer. A connection with a
request in progress is never closed to make room. So a sender with many unused connections doesn't block other
senders.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import math
import select
import socket
import ssl
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, cast, final

import attrs
import trio

from ..base.binding import Tls
from ..base.limits import Networks, ServingLimits
from .links import POLLIN, ByteLink, PlainLink, Poll, TlsLink, detached, poll
from .request import KnownHeads
from .server_connection import Handler, OnAnswer, ServerConnection

_log: Final = logging.getLogger("triobot.http")

# Number of connections that are accepted in a row before other tasks run.
_AT_ONCE: Final = 32
_BEHIND: Final = 8
# Number of expired connections that are closed in a row, and the pause in seconds after them.
_TOGETHER: Final = 4
_AT_LEISURE: Final = 0.01
# Seconds until a full listener accepts again, if none of its connections can be closed.
_PAUSE: Final = 0.02
# When descriptors run out: the number of descriptors that the listener leaves to the rest of the process, and
# the seconds until the listener uses more descriptors again.
_LEFT_FREE: Final = 8
_SCARCE_FOR: Final = 60.0
_BACK_OFF: Final = 0.1
_LOGGED_EVERY: Final = 60.0

_SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_NO_LISTENER: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK})


async def serve_listeners(
    handler: Handler,
    listeners: Sequence[trio.SocketListener],
    *,
    shutdown: trio.Event,
    limits: ServingLimits,
    tls: Tls | None = None,
    on_answer: OnAnswer | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve HTTP/1.1 until `shutdown` is set, then answer the requests in progress, and return.

    When `shutdown` is set, the listeners are closed. Within `ServingLimits.settle_seconds`, open connections
    may still send a request; the answer to this request has ``connection: close``. Requests in progress must
    be answered within `ServingLimits.grace_seconds`. With an inherited socket no connection is refused:
    connections that this process doesn't accept wait for the next process.

    Args:
        handler: called for each request, in the task of its connection.
        listeners: listening sockets; closed at the end.
        shutdown: set by the caller to stop.
        limits: limits of connections and time; fewer connections are accepted if the process's limit of open
            files is too low.
        tls: the server's TLS context, or a function that returns the context of a new connection; None for no
            TLS.
        on_answer: called after each answer.

    Cancellation: *forceful*: listeners and connections are closed at once; requests in progress get no
    answer.
    """
    server = _Server(handler, within_descriptors(limits, _descriptors()), tls, on_answer)
    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:
            for listener in listeners:
                accepting.start_soon(server.accept, detached(listener.socket), connections)
            accepting.start_soon(server.close_the_slow)
            connections.start_soon(server.look_at_the_silent, connections)
            # The sockets listen already, so a new connection waits until the tasks above run.
            task_status.started()
            await shutdown.wait()
            server.stopping = True
            accepting.cancel_scope.cancel()
        connections.cancel_scope.deadline = trio.current_time() + limits.settle_seconds + limits.grace_seconds
        await server.settle()
        connections.cancel_scope.cancel()


@final
class _Server:
    """All connections of one call of `serve_listeners`."""

    def __init__(
        self,
        handler: Handler,
        limits: ServingLimits,
        tls: Tls | None,
        on_answer: OnAnswer | None,
    ) -> None:
        self.stopping = False
        self._handler = handler
        self._limits = limits
        self._tls = tls
        self._on_answer = on_answer
        self._most = limits.connections
        self._scarce_until = -math.inf
        self._shared = lru_cache(1024)(Networks(limits.shared_addresses).hold)
        self._open: set[ServerConnection] = set()
        self._counts: Counter[str] = Counter()
        # The waiting connections of each sender at the last scan, with the longest wait at the end. Only a
        # sender that has reached its limit has a list. The list under None has the waiting connections of all
        # senders. The next scan fills an empty list.
        self._waiting: dict[str | None, list[tuple[float, ServerConnection]]] = {}
        # Limits how many pipelined requests, of all connections together, start before other tasks run.
        self._turnstile = trio.CapacityLimiter(_BEHIND)
        self._known: KnownHeads = {}
        # Connections that have not sent a whole head, by descriptor. If the system has epoll, such a
        # connection has no task.
        self._silent: dict[int, ServerConnection] = {}
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._tasks = 0
        self._none_left = trio.Event()
        self._logged: dict[str, float] = {}

    # --- accepting

    async def accept(self, listener: socket.socket, connections: trio.Nursery) -> None:
        """Accept connections on this socket until cancelled; then close the socket."""
        with listener:
            listener.setblocking(False)
            come = poll()
            come.register(listener.fileno(), POLLIN)
            while True:
                await trio.lowlevel.wait_readable(listener)
                if pause := self._take_some(listener, come, connections):
                    await trio.sleep(pause)

    def _take_some(self, listener: socket.socket, come: Poll, connections: trio.Nursery) -> float:
        """Accept a batch of waiting connections; return the pause in seconds before the next batch."""
        for _ in range(_AT_ONCE):
            if self._is_full():
                if not come.poll(0):
                    break
                if not self._make_room():
                    # All connections have a request in progress: new connections wait in the kernel's queue.
                    return _PAUSE
            try:
                made, address = listener.accept()
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno in _NO_LISTENER:
                    raise
                if error.errno in _SCARCE:
                    self._leave_free(error)
                    return _BACK_OFF
                # Any other error concerns only one connection: its sender may have disconnected already, for
                # example.
            else:
                self._admit(made, _host(address), connections)
        return 0.0

    def _is_full(self) -> bool:
        if self._most < self._limits.connections and trio.current_time() >= self._scarce_until:
            self._most = self._limits.connections
        if len(self._open) < self._most:
            return False
        self._tell("full", "all %d connections are taken; those that wait for longest give way", self._most)
        return True

    def _make_room(self, sender: str | None = None) -> bool:
        """Close the connection that has waited longest, of all senders or of `sender`. Return whether a
        connection was closed.
        """
        waiting = self._waiting.setdefault(sender, [])
        for anew in (False, True):
            if anew:
                waiting += self._kept_waiting(sender)
            while waiting:
                since, connection = waiting.pop()
                if connection in self._open and connection.give_way(since):
                    self._close(connection)
                    self._forget(connection)
                    return True
        return False

    def _kept_waiting(self, sender: str | None) -> list[tuple[float, ServerConnection]]:
        now = trio.current_time()
        found = [
            (since, connection)
            for connection in self._open
            if (sender is None or connection.sender == sender)
            and (since := connection.kept_waiting_since) <= now
        ]
        found.sort(key=lambda pair: -pair[0])
        return found

    def _admit(self, made: socket.socket, host: str | None, connections: trio.Nursery) -> None:
        sender = "" if host is None else counted_as(host)
        most = self._limits.connections_per_address
        if (
            most is not None
            and self._counts[sender] >= most
            and not self._shared(host)
            and not self._make_room(sender)
        ):
            made.close()
            return
        try:
            connection = ServerConnection(
                self._link(made),
                self._handler,
                self._limits,
                sender=sender,
                stopping=lambda: self.stopping,
                turnstile=self._turnstile,
                on_answer=self._on_answer,
                known=self._known,
            )
        except BaseException:
            made.close()
            raise
        self._open.add(connection)
        self._counts[sender] += 1
        self._tasks += 1
        if self._epoll is None or connection.look():
            connections.start_soon(connection.run, self._ended)
        else:
            connection.descriptor = made.fileno()
            self._silent[connection.descriptor] = connection
            self._epoll.register(connection.descriptor, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)

    async def look_at_the_silent(self, connections: trio.Nursery) -> None:
        """Start the tasks of connections that have sent a whole head or have ended, until cancelled.

        A connection that sends nothing, or a byte now and then, needs neither a task nor a parser.
        """
        if self._epoll is None:
            return
        with self._epoll:
            try:
                while True:
                    await trio.lowlevel.wait_readable(self._epoll.fileno())
                    for descriptor, events in self._epoll.poll(0, _AT_ONCE):
                        connection = self._silent.get(descriptor)
                        if connection and (connection.look() or events & ~select.EPOLLIN):
                            self._epoll.unregister(descriptor)
                            self._speaks(connection)
                            connections.start_soon(connection.run, self._ended)
            finally:
                for connection in list(self._silent.values()):
                    self._close(connection)

    def _speaks(self, connection: ServerConnection) -> bool:
        """Remove a connection from the list of connections without a task; return whether the
        connection was in this list.
        """
        descriptor, connection.descriptor = connection.descriptor, None
        return descriptor is not None and self._silent.pop(descriptor, None) is connection

    def _close(self, connection: ServerConnection) -> None:
        """Close a connection.

        If the connection has a task, the task then ends by itself.
        """
        connection.close()
        if self._speaks(connection):
            connection.drop()
            self._ended(connection, None)

    def _link(self, made: socket.socket) -> ByteLink:
        if self._limits.send_bytes is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._limits.send_bytes)
        if made.family in (socket.AF_INET, socket.AF_INET6):
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return PlainLink(made)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(made))
        tls = self._tls if isinstance(self._tls, ssl.SSLContext) else self._tls()
        return TlsLink(trio.SSLStream(stream, tls, server_side=True, https_compatible=True))

    def _ended(self, connection: ServerConnection, failure: Exception | None) -> None:
        """Remove a finished connection, and log its failure."""
        if failure is not None:
            # Senders are untrusted: their errors must not affect other requests, or flood the log.
            self._tell(type(failure).__name__, "a connection ended with %s", type(failure).__name__)
            _log.debug("a connection failed", exc_info=failure)
        self._forget(connection)
        self._tasks -= 1
        if not self._tasks:
            self._none_left.set()

    def _forget(self, connection: ServerConnection) -> None:
        if connection not in self._open:
            return
        self._open.remove(connection)
        self._counts[connection.sender] -= 1
        if not self._counts[connection.sender]:
            del self._counts[connection.sender]
            self._waiting.pop(connection.sender, None)

    def _leave_free(self, error: OSError) -> None:
        """Accept fewer connections for a minute, so that the rest of the process gets descriptors."""
        many = len(self._open)
        self._tell("scarce", "no more connections than %d can be taken now: %s", many, error.strerror)
        self._most = max(1, min(self._most, len(self._open) - _LEFT_FREE))
        self._scarce_until = trio.current_time() + _SCARCE_FOR
        while len(self._open) > self._most and self._make_room():
            pass

    def _tell(self, what: str, text: str, *arguments: object) -> None:
        now = trio.current_time()
        if now - self._logged.get(what, -math.inf) >= _LOGGED_EVERY:
            self._logged[what] = now
            _log.warning(text, *arguments)

    # --- watching

    async def close_the_slow(self) -> None:
        """Close connections that wait too long for their senders, until cancelled.

        One task checks all connections, instead of a timer for each connection.
        """
        while True:
            await trio.sleep(self._limits.idle_seconds / 4)
            await self._close_waiting(_AT_LEISURE)

    async def settle(self) -> None:
        """Keep open connections for `settle_seconds`; then close idle and slow connections until all
        connections are closed.
        """
        if self._tasks:
            self._none_left = trio.Event()
            with trio.move_on_after(self._limits.settle_seconds):
                await self._none_left.wait()
        while self._tasks:
            lingered = trio.current_time() - self._limits.settle_seconds
            for connection in list(self._open):
                if connection.idle or connection.lingering_since < lingered:
                    self._close(connection)
            # A sender may still complete a partly received head within the usual time.
            with trio.move_on_after(self._limits.idle_seconds / 4):
                await self._none_left.wait()
            await self._close_waiting()

    async def _close_waiting(self, pause: float = 0.0) -> None:
        now = trio.current_time()
        self._waiting.clear()
        closed = 0
        for connection in list(self._open):
            if (
                connection.waiting_since < now - self._limits.idle_seconds
                or connection.stalled_since < now - self._limits.send_seconds
                or connection.starved_since < now - self._limits.body_seconds
            ):
                self._close(connection)
                closed += 1
                if closed % _TOGETHER == 0:
                    # Thousands of connections may expire together, and their senders may reconnect at once.
                    # The pause lets other tasks run. An expired connection does no harm during the pause, as
                    # long as the listener has room.
                    await trio.sleep(pause)


def _descriptors() -> int | None:
    """Return how many files this process may open; None: no limit."""
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def within_descriptors(limits: ServingLimits, descriptors: int | None) -> ServingLimits:
    """Return the limits, with no more connections than the process's file descriptors allow.

    At least half of the descriptors are reserved for connections.

    Args:
        descriptors: the process's limit of open files; None for no limit.
    """
    if descriptors is None:
        return limits
    most = max(descriptors - limits.spare_descriptors, descriptors // 2, 1)
    if limits.connections <= most:
        return limits
    _log.warning(
        "at most %d connections are taken at once, not %d, since this process may open %d files, and %d of"
        " them are for other things: allow it more (`ulimit -n`; LimitNOFILE= in systemd), or set fewer",
        most,
        limits.connections,
        descriptors,
        descriptors - most,
    )
    return attrs.evolve(limits, connections=most)


@lru_cache(4096)
def counted_as(host: str) -> str:
    """Return the key under which a host's connections are counted: the host, or its /64 network in IPv6."""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))


def _host(address: object) -> str | None:
    # The address of a Unix socket has no host.
    return cast("tuple[str, int]", address)[0] if isinstance(address, tuple) else None
