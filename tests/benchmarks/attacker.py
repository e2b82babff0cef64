"""An attacker in a process of its own: ``python -m tests.benchmarks.attacker KIND MANY PORT SECRET``.

It holds so many connections to a port of this machine, and opens another one at once for each that is closed
on it. What it does with them is its kind:

    silent   says nothing
    heads    begins a request's head, and goes on with it by a byte every two seconds
    bodies   begins a request's body, which has the right secret, and goes on with it in the same way
    strange  the same with a wrong secret, and stays when it has been refused
    busy     asks whether the process lives every 3.5 seconds, over and over
    unread   asks the same as fast as it is taken, and reads no answer
"""

from __future__ import annotations

import contextlib
import errno
import resource
import select
import socket
import sys
import time
from collections import deque
from typing import Final

KINDS: Final = ("silent", "heads", "bodies", "strange", "busy", "unread")

_HEALTH: Final = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
_OPENINGS: Final = {
    "silent": b"",
    "heads": b"POST /x HTTP/1.1\r\nHost: x\r\nX-Slow: ",
    "bodies": b"POST /%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 1000\r\n\r\nchat_id=",
    "strange": b"POST /wrong HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nchat_id=",
    "busy": _HEALTH,
    "unread": _HEALTH * 64,
}
_MORE: Final = {"heads": (2.0, b"x"), "bodies": (2.0, b"x"), "strange": (2.0, b"x"), "busy": (3.5, _HEALTH)}


class Attacker:
    """Its connections, by descriptor, each with when it goes on."""

    def __init__(self, kind: str, port: int, secret: bytes) -> None:
        self._kind = kind
        self._port = port
        opening = _OPENINGS[kind]
        self._opening = opening % secret if kind == "bodies" else opening
        self._epoll = select.epoll()
        self._open: dict[int, socket.socket] = {}
        self._due = deque[tuple[float, socket.socket]]()

    def open(self) -> None:
        made = socket.socket()
        made.setblocking(False)
        if self._kind == "unread":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with contextlib.suppress(BlockingIOError):
            made.connect(("127.0.0.1", self._port))
        self._open[made.fileno()] = made
        self._epoll.register(made, select.EPOLLOUT)

    def run(self, many: int) -> None:
        for number in range(many):
            self.open()
            if number % 50 == 49:
                self._turn(0)
        while True:
            self._turn(0.1)
            self._go_on()

    def _turn(self, seconds: float) -> None:
        for number, events in self._epoll.poll(seconds):
            made = self._open[number]
            try:
                if events & (select.EPOLLHUP | select.EPOLLERR):
                    raise ConnectionError
                if events & select.EPOLLOUT:
                    self._write(made)
                if events & select.EPOLLIN and not made.recv(65536):
                    if self._kind != "strange":
                        raise ConnectionError
                    self._epoll.modify(made, 0)
            except BlockingIOError:
                pass
            except OSError as error:
                if error.errno == errno.EMFILE:
                    raise
                self._reopen(made)

    def _write(self, made: socket.socket) -> None:
        if self._opening:
            made.send(self._opening)
        if self._kind == "unread":
            return
        self._epoll.modify(made, select.EPOLLIN)
        if self._kind in _MORE:
            self._due.append((time.monotonic() + _MORE[self._kind][0], made))

    def _reopen(self, made: socket.socket) -> None:
        del self._open[made.fileno()]
        self._epoll.unregister(made)
        made.close()
        self.open()

    def _go_on(self) -> None:
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            _, made = self._due.popleft()
            if made.fileno() == -1:
                continue
            pause, data = _MORE[self._kind]
            try:
                made.send(data)
            except OSError:
                continue  # its end is seen above
            self._due.append((now + pause, made))


def main() -> None:
    """Attack until killed."""
    kind, many, port, secret = sys.argv[1:]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    Attacker(kind, int(port), secret.encode()).run(int(many))


if __name__ == "__main__":
    main()
