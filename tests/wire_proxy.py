"""A proxy before a PostgreSQL server: it counts round trips, and loses connections where a test wants it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

Side = socket.socket


class Proxy:
    """Hands bytes on between one client at a time and the server.

    Attributes:
        port: where it listens on 127.0.0.1.
        trips: how often the client said something after the server had answered.
        watch: asked about what the client sends and the server answers, with ``"client"`` or ``"server"``;
            returns whether to hand it on. If not, both connections are reset.
        refuses: whether new connections are reset at once.
    """

    def __init__(self, target: int) -> None:
        self.trips = 0
        self.watch: Callable[[str, bytes], bool] = lambda who, said: True
        self.change: Callable[[bytes], bytes] = lambda answer: answer
        self.refuses = False
        self._target = target
        self._answered = True
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
            server = socket.create_connection(("127.0.0.1", self._target))
            self._open += [client, server]
            for side, other, who in ((client, server, "client"), (server, client, "server")):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._hand_on, args=(side, other, who), daemon=True).start()

    def _hand_on(self, side: Side, other: Side, who: str) -> None:
        with suppress(OSError):
            while said := side.recv(65536):
                if who == "client" and self._answered:
                    self.trips += 1
                self._answered = who == "server"
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


@contextmanager
def proxying(target: int) -> Generator[Proxy]:
    """A proxy before the server at this port."""
    proxy = Proxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
