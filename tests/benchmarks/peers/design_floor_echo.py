"""The floor of the design: a durable echo with nearly all that triobot's echo promises, and no layers.

A checked secret, limits, form and sender read and checked, a key against repetitions, a routing table; one
transaction with an fsync for what has gathered, before the 200; a task and a cancel scope for each
conversation, numbered operations with fingerprints; one request at a time for each chat, a pace, a pool; the
end of a row, and the acknowledgement of its 200, in the next transaction. It is no product: nothing is
replayed, nothing survives a failing disk, there is one kind of content.

What triobot takes above this is what layers cost, and not durability, Trio or SQLite.
"""

import hashlib
import hmac
import json
import os
import queue
import secrets
import select
import socket
import sqlite3
import sys
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from urllib.parse import parse_qsl, quote_plus, urlsplit

import httptools
import trio

port, platform, secret, token, store = sys.argv[1:]
PATH = f"/{secret}".encode()
ADDRESS = urlsplit(platform)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Type: text/plain\r\n\r\n"
HEAD = (
    f"POST /sendMessage HTTP/1.1\r\nHost: {ADDRESS.netloc}\r\ntoken: {token}\r\n"
    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: "
).encode()
LONGEST_BODY, LONGEST_TEXT, LONGEST_NAME = 65_536, 4_096, 256
MOST_WAITING = 64 << 20  # bytes
REMEMBERED = 20_000  # keys
RATE, BURST = 100_000.0, 100.0  # requests a second; at once
IDLE, ANSWERED = 60.0, 30.0  # seconds

counts: Counter[str] = Counter()
now = time.monotonic


# --- the event


class Event:
    __slots__ = ("begun", "body", "chat", "key", "route", "sender", "seq", "task", "text")


def read_event(body: bytes) -> Event:
    """Read and check an event.

    Raises:
        ValueError: it is none.
        KeyError: a field is missing.
    """
    pairs = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=True)
    fields = dict(pairs)
    sender = json.loads(fields["from"])
    name, user = sender["name"], sender.get("user")
    if len(fields) != len(pairs) or not 0 < len(fields["data"]) <= LONGEST_TEXT:
        raise ValueError("a field twice, or a text that is too long")
    if type(sender["id"]) is not int or type(name) is not str or len(name) > LONGEST_NAME:
        raise ValueError("no sender")
    if user is not None and type(user) is not str:
        raise ValueError("no name of a user")
    event = Event()
    event.chat, event.text, event.sender, event.body = (
        int(fields["chat_id"]),
        fields["data"],
        sender["id"],
        body,
    )
    told = f"{event.chat}\0{fields['type']}\0{event.text}\0{event.sender}"
    event.key = hashlib.blake2b(told.encode(), digest_size=16).digest()
    return event


ROUTES: list[tuple[str, str, Callable[[Event], bool]]] = [
    ("cancel", "interrupt", lambda event: event.text == "/cancel"),
    ("start", "conversation", lambda event: event.text.startswith("/start")),
    ("echo", "conversation", lambda event: True),
]


# --- the store


class Store:
    """One transaction for whatever has gathered; a caller's task is woken when its row is durable."""

    def __init__(self, file: str) -> None:
        self._sql = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        for statement in (
            "PRAGMA journal_mode = wal",
            "PRAGMA synchronous = full",
            "CREATE TABLE inbox (seq INTEGER PRIMARY KEY, chat INTEGER, at INTEGER, body BLOB, begun TEXT)",
            "CREATE INDEX inbox_chat ON inbox (chat, seq)",
            "CREATE TABLE deliveries (key BLOB PRIMARY KEY, at INTEGER, acknowledged INTEGER) WITHOUT ROWID",
        ):
            self._sql.execute(statement)
        self._seq = 0
        self._accepted: list[Event] = []
        self._ended: list[tuple[int, bytes]] = []
        self._writer: trio.lowlevel.Task | None = None
        self._jobs: queue.SimpleQueue[tuple[list[Event], list[tuple[int, bytes]]]] = queue.SimpleQueue()
        self._done = os.eventfd(0, os.EFD_NONBLOCK)
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            accepted, ended = self._jobs.get()
            at = int(time.time() * 1000)
            deliveries = [(event.key, at) for event in accepted]
            rows = [(event.seq, event.chat, at, event.body, event.begun) for event in accepted]
            sql = self._sql
            sql.execute("BEGIN IMMEDIATE")
            sql.executemany("INSERT OR IGNORE INTO deliveries VALUES (?, ?, NULL)", deliveries)
            sql.executemany("INSERT INTO inbox VALUES (?, ?, ?, ?, ?)", rows)
            sql.executemany(
                "UPDATE deliveries SET acknowledged = ? WHERE key = ? AND acknowledged IS NULL",
                [(at, key) for _, key in ended],
            )
            sql.executemany("DELETE FROM inbox WHERE seq = ?", [(seq,) for seq, _ in ended])
            sql.execute("COMMIT")
            os.eventfd_write(self._done, 1)

    async def accept(self, event: Event) -> None:
        self._seq += 1
        event.seq, event.task = self._seq, trio.lowlevel.current_task()
        self._accepted.append(event)
        self._wake()
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)

    def end(self, event: Event) -> None:
        self._ended.append((event.seq, event.key))
        self._wake()

    def _wake(self) -> None:
        if (writer := self._writer) is not None:
            self._writer = None
            trio.lowlevel.reschedule(writer)

    def _stop_waiting(self, _: object) -> trio.lowlevel.Abort:
        self._writer = None
        return trio.lowlevel.Abort.SUCCEEDED

    async def write(self, begin: Callable[[Event], None]) -> None:
        """Commit, for as long as it isn't cancelled."""
        while True:
            if not self._accepted and not self._ended:
                self._writer = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._stop_waiting)
            accepted, self._accepted = self._accepted, []
            ended, self._ended = self._ended, []
            self._jobs.put((accepted, ended))
            await trio.lowlevel.wait_readable(self._done)
            os.eventfd_read(self._done)
            for event in accepted:
                begin(event)
                trio.lowlevel.reschedule(event.task)


# --- HTTP in


class Line:
    """One message after the other on a connection."""

    __slots__ = ("_parser", "body", "complete", "deadline", "socket", "status", "url")

    def __init__(self, made: socket.socket, parser: type) -> None:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket, self.url, self.body, self.complete = made, b"", b"", False
        self._parser = parser(self)
        self.deadline = float("inf")

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.complete = True

    async def read(self, seconds: float) -> bytes | None:
        self.url, self.body, self.complete = b"", b"", False
        self.deadline = now() + seconds
        while not self.complete:
            await trio.lowlevel.wait_readable(self.socket)
            try:
                data = self.socket.recv(65_536)
            except BlockingIOError:
                continue
            if not data or len(self.body) > LONGEST_BODY:
                return None
            self._parser.feed_data(data)
        self.deadline = float("inf")
        return self.body

    def answered(self) -> int:
        return self._parser.get_status_code()

    def is_open(self, events: int) -> bool:
        """Tell whether the other side has neither closed nor said anything unasked."""
        poll = select.poll()
        poll.register(self.socket, events)
        return not poll.poll(0)


lines: set[Line] = set()


async def serve(made: socket.socket, store: Store, known: OrderedDict[bytes, float], chats: dict) -> None:
    line = Line(made, httptools.HttpRequestParser)
    lines.add(line)
    try:
        while (body := await line.read(IDLE)) is not None and hmac.compare_digest(line.url, PATH):
            event = read_event(body)
            if event.key in known:
                counts["equal"] += 1
            event.route, kind = next((name, kind) for name, kind, takes in ROUTES if takes(event))
            begun = [event.route, kind, 1, None, int(time.time() * 1000), secrets.token_hex(16), None, {}, 0]
            event.begun = json.dumps(begun) if event.chat not in chats else None
            counts["accepted"] += 1
            counts["bytes"] += len(body)
            if counts["bytes"] > MOST_WAITING:
                return
            known[event.key] = now()
            if len(known) > REMEMBERED:
                known.popitem(last=False)
            await store.accept(event)
            counts["answered"] += line.is_open(select.POLLRDHUP)
            if made.send(OK) != len(OK):
                return
            counts["bytes"] -= len(body)
    except (OSError, ValueError, KeyError, httptools.HttpParserError, trio.ClosedResourceError):
        counts["refused"] += 1
    finally:
        lines.discard(line)
        made.close()


# --- HTTP out


class Sender:
    """Keeps connections to the platform, and a pace."""

    def __init__(self) -> None:
        self._free: list[Line] = []
        self._left, self._at = BURST, now()

    async def _connected(self) -> Line:
        while self._free:
            line = self._free.pop()
            if line.is_open(select.POLLIN | select.POLLRDHUP):
                return line
            self._drop(line)
        made = socket.socket()
        made.setblocking(False)
        made.connect_ex((ADDRESS.hostname, ADDRESS.port))
        await trio.lowlevel.wait_writable(made)
        line = Line(made, httptools.HttpResponseParser)
        lines.add(line)
        return line

    def _drop(self, line: Line) -> None:
        lines.discard(line)
        line.socket.close()

    async def send(self, chat: int, text: str) -> int:
        at = now()
        self._left, self._at = min(BURST, self._left + (at - self._at) * RATE), at
        while self._left < 1:
            await trio.sleep(1 / RATE)
            self._left += 1
        self._left -= 1
        body = b"chat_id=%d&type=text&data=%b" % (chat, quote_plus(text).encode())
        line = await self._connected()
        line.socket.send(b"%b%d\r\n\r\n%b" % (HEAD, len(body), body))
        told = await line.read(ANSWERED)
        if told is None or line.answered() != 200:
            self._drop(line)
            raise ConnectionError("no 200")
        self._free.append(line)
        counts["sent"] += 1
        return json.loads(told)["id"]


async def close_the_slow() -> None:
    while True:
        await trio.sleep(1)
        late = [line for line in lines if line.deadline < now()]
        for line in late:
            trio.lowlevel.notify_closing(line.socket)
            line.socket.close()


# --- conversations


class Chat:
    """One conversation's handle: numbered operations, each with its fingerprint."""

    __slots__ = ("_lanes", "_outcomes", "_sender", "event", "scope")

    def __init__(self, event: Event, sender: Sender, lanes: dict) -> None:
        self.event, self._sender, self._lanes = event, sender, lanes
        self._outcomes: list[tuple[bytes, int]] = []

    async def send(self, text: str) -> int:
        if not 0 < len(text) <= LONGEST_TEXT:
            raise ValueError("a text has 1 to 4,096 characters")
        chat = self.event.chat
        fingerprint = hashlib.blake2b(f"send\0{chat}\0{text}".encode(), digest_size=8).digest()
        waiting = self._lanes.get(chat)
        if waiting is None:
            self._lanes[chat] = waiting = deque()
        else:
            waiting.append(trio.lowlevel.current_task())
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        try:
            number = await self._sender.send(chat, text)
        finally:
            if waiting:
                trio.lowlevel.reschedule(waiting.popleft())
            else:
                del self._lanes[chat]
        self._outcomes.append((fingerprint, number))
        return number


async def echo(chat: Chat) -> None:
    await chat.send(chat.event.text)


async def main() -> None:
    known: OrderedDict[bytes, float] = OrderedDict()
    chats: dict[int, deque[Event]] = {}
    lanes: dict[int, deque[trio.lowlevel.Task]] = {}
    sender, kept = Sender(), Store(store.removeprefix("sqlite:"))
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=4096)
    listener.setblocking(False)

    async def converse(event: Event) -> None:
        chat = Chat(event, sender, lanes)
        try:
            with trio.CancelScope() as chat.scope:
                await echo(chat)
            counts["ended"] += 1
        except (OSError, ValueError):
            counts["failed"] += 1
        finally:
            kept.end(event)
            if chats[event.chat]:
                nursery.start_soon(converse, chats[event.chat].popleft())
            else:
                del chats[event.chat]

    def begin(event: Event) -> None:
        if event.chat in chats:
            chats[event.chat].append(event)
        else:
            chats[event.chat] = deque()
            nursery.start_soon(converse, event)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.write, begin)
        nursery.start_soon(close_the_slow)
        while True:
            await trio.lowlevel.wait_readable(listener)
            nursery.start_soon(serve, listener.accept()[0], kept, known, chats)


trio.run(main)
