"""A proxy for a PostgreSQL server: counts round trips, and cuts connections where a test asks for it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

Side = socket.socket

_ASKING = (b"S", b"H")
"""Sync and Flush, which follow statements that were sent one by one; none is sent as a plain query."""


class _Asks:
    """Counts, among the messages of one client, those behind which the server sends what it has answered.

    A Flush behind a Sync, or another Flush, counts with it.

    Who speaks after whom on the wire is no measure: a busy machine hands on an answer in pieces.
    """

    def __init__(self) -> None:
        self._unread = b""
        self._asked = True

    def count(self, said: bytes) -> int:
        """Take what comes next, and return how many there were in it."""
        self._unread += said
        found = 0
        while len(self._unread) >= 5:
            # Messages before the session's start have no type byte, and begin with the zero of their length.
            typed = bool(self._unread[0])
            end = typed + int.from_bytes(self._unread[typed : typed + 4], "big")
            if len(self._unread) < end:
                break
            asks = self._unread[:1] in _ASKING
            found += asks and not self._asked
            self._asked = asks
            self._unread = self._unread[end:]
        return found


class Proxy:
    """Hands bytes on between one client and the server.

    Attributes:
        port: where it listens on 127.0.0.1.
        trips: how often the client asked for the answers to what it had said, over its first connection:
            a lease is renewed over another one.
        watch: asked about what the client sends and the server answers, with ``"client"`` or ``"server"``;
            returns whether to hand it on. If not, both connections are reset.
        refuses: whether new connections are reset at once.
        target: the server's port; new connections go there.
    """

    def __init__(self, target: int) -> None:
        self.trips = 0
        self.watch: Callable[[str, bytes], bool] = lambda who, said: True
        self.change: Callable[[bytes], bytes] = lambda answer: answer
        self.refuses = False
        self.target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._open: list[Side] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # the server is down: act like the server
                client.close()
                continue
            self._open += [client, server]
            for side, other, who in ((client, server, "client"), (server, client, "server")):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._hand_on, args=(side, other, who), daemon=True).start()

    def _hand_on(self, side: Side, other: Side, who: str) -> None:
        asks, first = _Asks(), side is self._open[0]
        with suppress(OSError):
            while said := side.recv(65536):
                if first:
                    self.trips += asks.count(said)
                if not self.watch(who, said):
                    break
                other.sendall(self.change(said) if who == "server" else said)
        for one in (side, other):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """End all connections."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()
        for one in self._open:
            one.close()


class Cut:
    """Cuts the connection at a COMMIT: before the server has it, or before the client has its answer."""

    def __init__(self, proxy: Proxy, at: str) -> None:
        self.times = 0
        self._at = at
        self._proxy = proxy
        self._commits = False
        proxy.watch = self.watch

    def watch(self, who: str, said: bytes) -> bool:
        if who == "client" and b"COMMIT" in said:
            self._commits = True
        if self._commits and who == self._at:
            self._commits = False
            self._proxy.watch = lambda who, said: True
            self.times += 1
            return False
        return True


@contextmanager
def proxying(target: int) -> Generator[Proxy]:
    """A proxy before the server at this port."""
    proxy = Proxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
