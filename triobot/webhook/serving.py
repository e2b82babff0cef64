"""Serve the webhook with hypercorn's HTTP on Trio, from listeners and a nursery of our own.

Hypercorn speaks HTTP here, one connection at a time; accepting and stopping are ours. Its own serving
function closes, at the moment it is told to stop, connections that it has accepted and whose request is
still on the way; it bounds neither their number nor an address's share; and it ends, with everybody's
requests, when one connection's handler fails, which strangers can bring about (an ``HTTP2-Settings`` header
that is no base64 is enough for 0.18).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import final

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, ConnectionState

from .access import ACCESS, SERVER, HidingLogger
from .binding import Bind, address_of, open_listeners
from .limits import Limits


async def serve(
    app: ASGIFramework,
    binds: Sequence[Bind],
    *,
    shutdown: trio.Event,
    limits: Limits | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an ASGI application until told to stop, then answer what is in hand, and return.

    Requests are taken until `shutdown` is set. Then the listeners are closed; connections that are open
    may bring a request for `Limits.settle_seconds` more, each answered with ``Connection: close``; and
    requests in hand have `Limits.grace_seconds` to be answered. With an inherited socket nobody is refused:
    connections that were not accepted here wait for the next process.

    The application's lifespan is not run: whoever calls this has a nursery, and owns the life around it.

    Args:
        app: such as `build_app` makes.
        binds: where to listen; on all of them or on none.
        shutdown: set it to stop.
        limits: of connections and time; the defaults if None.
        task_status: is given the addresses, with the ports that the system chose.

    Raises:
        ConfigError: an address can't be listened on; nothing was started.

    Cancellation: *forceful*: closes listeners and connections at once; requests in hand get no answer,
    and their events may or may not have been stored.
    """
    limits = limits or Limits()
    server = _Server(app, limits)
    listeners = await open_listeners(binds, backlog=limits.backlog)
    gated = [_Gate(listener, server.room) for listener in listeners]
    addresses = [address_of(listener) for listener in listeners]
    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:
            accepting.start_soon(
                partial(trio.serve_listeners, server.talk, gated, handler_nursery=connections)
            )
            # The sockets listen already: whoever connects now waits for the task above to run.
            task_status.started(addresses)
            await shutdown.wait()
            accepting.cancel_scope.cancel()
        connections.cancel_scope.deadline = trio.current_time() + limits.settle_seconds + limits.grace_seconds
        await server.settle()


@final
class _Server:
    """The connections of one listening process."""

    def __init__(self, app: ASGIFramework, limits: Limits) -> None:
        self.room = trio.Semaphore(limits.connections, max_value=limits.connections)
        self._limits = limits
        self._config = _configure(limits)
        self._context = WorkerContext(None)
        self._app = ASGIWrapper(app)
        self._peers: Counter[str] = Counter()
        self._open = 0
        self._none_open = trio.Event()

    async def talk(self, stream: trio.SocketStream) -> None:
        """Serve one connection to its end. Its failures are its own."""
        peer = _peer(stream)
        most = self._limits.connections_per_address
        self._open += 1
        self._peers[peer] += 1
        try:
            if most is None or self._peers[peer] <= most:
                await _Connection(
                    self._app,
                    self._config,
                    self._context,
                    ConnectionState({}),
                    stream,  # type: ignore[arg-type]  # annotated as TLS only, tells the two apart itself
                )
        except* Exception as group:
            # Strangers decide what comes in here; the others' requests must not pay for it.
            kinds = sorted({type(error).__name__ for error in _leaves(group)})
            SERVER.warning("a connection ended with %s", ", ".join(kinds))
        finally:
            self._peers[peer] -= 1
            if not self._peers[peer]:
                del self._peers[peer]
            self._open -= 1
            if not self._open:
                self._none_open.set()
            self.room.release()

    async def settle(self) -> None:
        """Give open connections a last moment, then close those that wait for nothing."""
        # Hypercorn looks at this before each answer: from now on it says that the connection ends.
        self._config.keep_alive_max_requests = 0
        if self._open:
            self._none_open = trio.Event()
            with trio.move_on_after(self._limits.settle_seconds):
                await self._none_open.wait()
        await self._context.terminated.set()


@final
class _Connection(TCPServer):
    """Hypercorn's connection, which ends with its peer and not with the idle timer that was running."""

    async def _read_data(self) -> None:
        await super()._read_data()
        await self.idle_task.stop()


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


def _configure(limits: Limits) -> Config:
    config = Config()
    config.logger_class = HidingLogger
    config.accesslog, config.errorlog = ACCESS, SERVER
    config.include_server_header = False
    config.h11_max_incomplete_size = limits.header_bytes
    config.h2_max_header_list_size = limits.header_bytes
    # Streams of one connection are read side by side, and the platform needs few.
    config.h2_max_concurrent_streams = 16
    config.keep_alive_timeout = limits.idle_seconds
    return config


def _peer(stream: trio.SocketStream) -> str:
    try:
        return str(stream.socket.getpeername()[0])
    except (OSError, IndexError):  # it has gone already, or it came through a path and has no name
        return ""


def _leaves(group: BaseExceptionGroup[Exception]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return found
