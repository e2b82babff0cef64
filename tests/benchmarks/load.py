"""The other side of a system under test: the platform, and the users who post events; one thread, one epoll.

It is written close to the system calls so that it isn't the bottleneck: an echo costs it a small part of what
it costs any system here, and each table shows its share of a core. What a system is told and answers is the
same for all of them but for the dialect of their platform.
"""

from __future__ import annotations

import json
import re
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import attrs

SECRET: Final = "benchmark-secret-0123456789abcdef"
TOKEN: Final = "123456:benchmark-token"

Dialect = Callable[[int, int], bytes]
"""The request that brings a chat's message of a number."""

_CHAT: Final = re.compile(rb'chat_id(?:"\r\n(?:[^\r\n]+\r\n)*\r\n|"?\s*[:=]\s*"?)(-?[0-9]+)')
_PATIENCE: Final = 120.0


def gap_event(chat: int, number: int) -> bytes:
    """A form body, as the platform posts it."""
    body = (
        b"chat_id=%d&type=text&data=hello+%d&from=%%7B%%22id%%22%%3A+%d%%2C+%%22name%%22%%3A+%%22Somebody"
        b"%%22%%2C+%%22user%%22%%3A+%%22somebody%%22%%7D" % (chat, number, chat + 1_000_000)
    )
    return _post(b"application/x-www-form-urlencoded", body)


def telegram_event(chat: int, number: int) -> bytes:
    """The same event as Telegram posts it."""
    return _post(
        b"application/json",
        b'{"update_id":%d,"message":{"message_id":%d,"date":1,"chat":{"id":%d,"type":"private","first_name":'
        b'"Somebody"},"from":{"id":%d,"is_bot":false,"first_name":"Somebody"},"text":"hello %d"}}'
        % (chat * 1_000_000 + number, number, chat, chat, number),
    )


def _post(kind: bytes, body: bytes) -> bytes:
    return b"POST /%s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (
        SECRET.encode(),
        kind,
        len(body),
        body,
    )


@attrs.define
class Run:
    """What was seen in one run.

    Attributes:
        done: events that were answered, and echoed where an echo was waited for.
        seconds: from the first event to the last answer.
        load: this process's share of a core.
        acks: seconds from an event to its 200, each.
        echoes: seconds from an event to its echo at the platform, each.
    """

    done: int = 0
    seconds: float = 0.0
    load: float = 0.0
    acks: list[float] = attrs.field(factory=list)
    echoes: list[float] = attrs.field(factory=list)


class _Line:
    """One connection, and what it does with each message."""

    def __init__(self, made: socket.socket, took: Callable[[bytes, bytes], None]) -> None:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = made
        self.took = took
        self.closed = False
        self._buffer = b""

    def send(self, data: bytes) -> None:
        if self.socket.send(data) != len(data):
            raise RuntimeError("a socket took a part of a small message: the other side does not read")

    def readable(self) -> None:
        try:
            data = self.socket.recv(262_144)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self.closed = True
            return
        self._buffer += data
        while self._buffer:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            lower = self._buffer[:end].lower()
            length = lower.find(b"content-length:")
            if length >= 0:
                last = end + 4 + int(lower[length + 15 :].split(b"\r\n", 1)[0])
            elif b"transfer-encoding: chunked" in lower:
                last = self._buffer.find(b"0\r\n\r\n", end + 4)
                last = len(self._buffer) + 1 if last < 0 else last + 5
            else:
                last = end + 4
            if len(self._buffer) < last:
                return
            head, body = self._buffer[:end], self._buffer[end + 4 : last]
            self._buffer = self._buffer[last:]
            self.took(head, body)


class _User:
    """One connection that posts events, one at a time."""

    def __init__(self, load: Load, port: int) -> None:
        self._load = load
        self._line = load.connect(port, self._answered)
        self.chat = 0
        self.sent_at = 0.0
        self.acked = self.echoed = True
        self.ready: Callable[[_User], None] = lambda user: None

    def post(self, event: bytes, chat: int, *, echo: bool, at: float | None = None) -> None:
        self.chat, self.acked, self.echoed = chat, False, not echo
        if echo:
            self._load.waiting[chat] = self
        self.sent_at = time.perf_counter() if at is None else at
        self._line.send(event)

    def _answered(self, head: bytes, body: bytes) -> None:
        if b" 200" not in head[:13]:
            raise RuntimeError(f"an event was answered {head.splitlines()[0]!r}")
        self._load.run.acks.append(time.perf_counter() - self.sent_at)
        self.acked = True
        self._settle()

    def echo(self) -> None:
        self._load.run.echoes.append(time.perf_counter() - self.sent_at)
        self.echoed = True
        self._settle()

    def _settle(self) -> None:
        if self.acked and self.echoed:
            self._load.run.done += 1
            self.ready(self)

    def close(self) -> None:
        self._load.drop(self._line)


class Load:
    """The platform and its users. `url` is the platform's address."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._lines: dict[int, _Line] = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._listener.setblocking(False)
        self._epoll.register(self._listener, select.EPOLLIN)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.waiting: dict[int, _User] = {}
        self.run = Run()
        self._sent = 0

    # --- sockets

    def connect(self, port: int, took: Callable[[bytes, bytes], None]) -> _Line:
        """A connection to this machine."""
        return self._add(socket.create_connection(("127.0.0.1", port)), took)

    def _add(self, made: socket.socket, took: Callable[[bytes, bytes], None]) -> _Line:
        line = self._lines[made.fileno()] = _Line(made, took)
        self._epoll.register(made, select.EPOLLIN)
        return line

    def drop(self, line: _Line) -> None:
        """Close a connection."""
        del self._lines[line.socket.fileno()]
        self._epoll.unregister(line.socket)
        line.socket.close()

    def turn(self, seconds: float) -> bool:
        """Deal with what has come, or wait for something to come; return whether something came."""
        came = self._epoll.poll(seconds)
        for number, _ in came:
            if number == self._listener.fileno():
                self._accept()
            elif (line := self._lines.get(number)) is not None:
                line.readable()
                if line.closed:
                    self.drop(line)
        return bool(came)

    def _accept(self) -> None:
        while True:
            try:
                made, _ = self._listener.accept()
            except BlockingIOError:
                return

            def perform(head: bytes, body: bytes, made: socket.socket = made) -> None:
                made.send(self._performed(head, body))

            self._add(made, perform)

    def close(self) -> None:
        """Close every connection, and the platform."""
        for line in list(self._lines.values()):
            self.drop(line)
        self._listener.close()
        self._epoll.close()

    def until(self, condition: Callable[[], bool], seconds: float = _PATIENCE) -> None:
        """Go on until a condition holds.

        Raises:
            TimeoutError: it did not within this time.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            self.turn(0.05)
            if time.monotonic() > deadline:
                raise TimeoutError("a system under test did not get on")

    # --- the platform

    def _performed(self, head: bytes, body: bytes) -> bytes:
        self._sent += 1
        found = _CHAT.search(body)
        if found is None:
            return _respond(b'{"ok":true,"result":%s}' % _about(head))
        chat = int(found[1])
        if b"/bot" in head[: head.find(b"\r\n")]:
            told = (
                b'{"ok":true,"result":{"message_id":%d,"date":1,"chat":{"id":%d,"type":"private"},"text":"x"}}'
                % (self._sent, chat)
            )
        else:
            told = b'{"id":%d}' % self._sent
        user = self.waiting.pop(chat, None)
        if user is not None:
            user.echo()
        return _respond(told)

    # --- the users

    def converse(
        self,
        ports: Sequence[int],
        event: Dialect,
        *,
        connections: int,
        each: int,
        first: int,
        echo: bool = True,
        chats: int = 1000,
    ) -> Run:
        """A closed loop: each connection posts an event, waits for its 200 and its echo, and goes on.

        Args:
            ports: connections lead to them in turns.
            connections: each has four chats, which take turns.
            each: events of a chat.
            first: the number of the first one.
            echo: wait for echoes.
            chats: the number of the first one.
        """
        began, used = time.perf_counter(), time.process_time()
        users, whole = self.begin(
            ports, event, connections=connections, each=each, first=first, echo=echo, chats=chats
        )
        self.until(lambda: self.run.done >= whole)
        self._note(began, used)
        for user in users:
            user.close()
        return self.run

    def begin(
        self,
        ports: Sequence[int],
        event: Dialect,
        *,
        connections: int,
        each: int,
        first: int,
        echo: bool = True,
        chats: int = 1000,
    ) -> tuple[Sequence[_User], int]:
        """Begin what `converse` does; return the connections, and how many events will have been done."""
        self.run = Run()
        left: dict[int, Iterator[tuple[int, bytes]]] = {}
        users = [_User(self, ports[index % len(ports)]) for index in range(connections)]
        for index, user in enumerate(users):
            own = range(chats + index * 4, chats + index * 4 + 4)
            events = [(c, event(c, n)) for n in range(first, first + each) for c in own]
            left[id(user)] = iter(events)
            user.ready = lambda user: _next(user, left[id(user)], echo=echo)
        for user in users:
            user.ready(user)
        return users, connections * 4 * each

    def pour(
        self, port: int, event: Dialect, *, rate: int, seconds: float, first: int, chats: int = 256
    ) -> Run:
        """An open loop: events come at a rate, whatever becomes of those before.

        What an event waits for a free connection counts, too: 64 of them.
        """
        self.run = Run()
        free: deque[_User] = deque(_User(self, port) for _ in range(64))
        users = list(free)
        for user in users:
            user.ready = free.append
        whole = round(rate * seconds)
        events = [(1000 + n % chats, event(1000 + n % chats, first + n // chats)) for n in range(whole)]
        began, used, sent = time.perf_counter(), time.process_time(), 0
        while sent < whole:
            due = began + sent / rate
            wait = due - time.perf_counter()
            if wait > 0 or not free:
                self.turn(max(wait, 0.0) if free else 0.05)
                if time.perf_counter() - began > seconds + _PATIENCE:
                    raise TimeoutError("a system under test did not get on")
            else:
                chat, body = events[sent]
                free.popleft().post(body, chat, echo=False, at=due)
                sent += 1
        self.until(lambda: self.run.done >= whole)
        self._note(began, used)
        for user in users:
            user.close()
        # Echoes are still on their way: they belong to this run, not to the next.
        seen = -1
        while seen != self._sent:
            seen, pause = self._sent, time.monotonic() + 0.2
            while time.monotonic() < pause:
                self.turn(0.05)
        return self.run

    def _note(self, began: float, used: float) -> None:
        self.run.seconds = time.perf_counter() - began
        self.run.load = (time.process_time() - used) / self.run.seconds


def _next(user: _User, left: Iterator[tuple[int, bytes]], *, echo: bool) -> None:
    following = next(left, None)
    if following is not None:
        user.post(following[1], following[0], echo=echo)


def _about(head: bytes) -> bytes:
    """What a framework asks of its platform when it starts."""
    if b"getme" in head[: head.find(b"\r\n")].lower():
        me = {"id": 123456, "is_bot": True, "first_name": "Bot", "username": "benchmark_bot"}
        return json.dumps(me).encode()
    return b"true"


def _respond(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )
