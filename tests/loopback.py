"""A small platform and its users, on real sockets of loopback, for process tests and benchmarks of a bot.

`Line` implements the necessary part of HTTP/1.1 on one connection. `Platform` stores and answers every
operation. A test can make the platform hold a chat's answers, refuse the token, or answer nothing. `Users`
post events to a webhook. This module uses no code of triobot, so it can't repeat an error of triobot.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qs, urlencode

import attrs
import trio

PATIENCE: Final = 300.0
"""Seconds after which a test takes something for hung. It bounds no speed: a busy machine takes its time."""


def free_port() -> int:
    """A port that nobody listens at, and that no connection from here is given: those are higher."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.bind(("127.0.0.1", port))
            return port


class Line:
    """Just enough HTTP/1.1 on one connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._buffer = b""

    async def message(self) -> tuple[bytes, bytes]:
        """The head and the body of the next message; empty when the other side has closed."""
        head = await self._until(b"\r\n\r\n")
        lower = head.lower()
        if b"transfer-encoding: chunked" in lower:
            return head, await self._until(b"0\r\n\r\n")
        length = 0
        if b"content-length:" in lower:
            length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
        while len(self._buffer) < length:
            data = await self.stream.receive_some(65536)
            if not data:
                return b"", b""
            self._buffer += data
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return head, body

    async def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            data = await self.stream.receive_some(65536)
            if not data:
                return b""
            self._buffer += data
        part, self._buffer = self._buffer.split(mark, 1)
        return part

    async def answer(self, status: bytes, body: bytes) -> None:
        """Send a JSON answer."""
        await self.stream.send_all(
            b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (status, len(body), body)
        )


@attrs.define
class Bill:
    """What somebody is asked to pay.

    Attributes:
        message_id: of the message that asks for it, the newest of them.
        paid: so it can be verified.
        verified: it was.
    """

    amount: int
    message_id: int
    paid: bool = False
    verified: bool = False


@attrs.define
class Platform:
    """Takes every operation and remembers the texts sent, in order, per chat.

    Attributes:
        texts: what reached each chat.
        bills: what each chat was asked to pay, by number, in order.
        buttons: each chat's newest ones: by label, what a press of it carries, and the message's id.
        held: chats whose operations are not answered before `release`.
        status: what every operation is answered with.
        dead: connections are closed without an answer.
        fault: says for an operation of a chat which status it is answered with; None leaves it to `status`.
            Instead of a status: ``slow`` is an answer after two seconds, ``taken`` an end of the connection
            behind what was done, and empty one before it.
        echo: every answer repeats the request, token and all, and leads elsewhere.
    """

    texts: dict[int, list[str]] = attrs.Factory(lambda: defaultdict[int, list[str]](list))
    buttons: dict[int, dict[str, tuple[str, int]]] = attrs.Factory(dict[int, dict[str, tuple[str, int]]])
    bills: dict[int, dict[str, Bill]] = attrs.Factory(lambda: defaultdict[int, dict[str, Bill]](dict))
    held: set[int] = attrs.Factory(lambda: set[int]())
    status: bytes = b"200 OK"
    dead: bool = False
    fault: Callable[[int], bytes | None] = lambda chat: None
    echo: bool = False
    url: str = ""
    _count: int = 0
    _arrived: trio.lowlevel.ParkingLot = attrs.Factory(trio.lowlevel.ParkingLot)
    _waiting: trio.lowlevel.ParkingLot = attrs.Factory(trio.lowlevel.ParkingLot)

    @property
    def total(self) -> int:
        """How many texts were sent."""
        return sum(len(texts) for texts in self.texts.values())

    async def wait_until(self, condition: object, *, within: float = PATIENCE) -> None:
        """Wait until ``condition()`` is true."""
        assert callable(condition)
        with trio.fail_after(within):
            while not condition():
                await self._arrived.park()

    async def wait_held(self, *, within: float = PATIENCE) -> None:
        """Wait until an operation of a held chat has come."""
        with trio.fail_after(within):
            while not self._waiting.statistics().tasks_waiting:
                await self._arrived.park()
                await trio.lowlevel.checkpoint()  # it parks next

    def release(self) -> None:
        """Hold no chat any more: what waits is answered now."""
        self.held = set()
        self._waiting.unpark_all()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one connection for as long as it lives."""
        line = Line(stream)
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with stream:
                while True:
                    head, body = await line.message()
                    if not head or self.dead:
                        return
                    await self._perform(line, head, body)

    async def _perform(self, line: Line, head: bytes, body: bytes) -> None:
        fields = parse_qs(body.decode())
        chat = int(fields.get("chat_id", ["0"])[0])
        while chat in self.held:
            self._arrived.unpark_all()
            await self._waiting.park()
        match self.fault(chat):
            case None:
                pass
            case b"slow":
                await trio.sleep(2)
            case b"taken":
                self._take(chat, head, fields)
                await line.stream.aclose()
                return
            case b"":
                await line.stream.aclose()
                return
            case status:
                await line.answer(status, b'{"error": "told to"}')
                return
        self._take(chat, head, fields)
        result: dict[str, object] = {"id": self._count}
        if not self.status.startswith(b"200"):
            result = {"error": "told to"}
        elif b"/payment/" in (path := head.split(b"\r\n")[0]):
            # An unknown payment is answered like an unpaid payment.
            bill = self.bills[chat].get(fields["ref_id"][0], Bill(0, 0))
            bill.verified |= bill.paid and b"/payment/verify" in path
            result = {"amount": bill.amount, "status": "verified" if bill.verified else "error"}
        if self.echo:
            told = f"{head.decode()} {body.decode()} {parse_qs(body.decode())}"
            result = {"error": told, "data": told, "trace_id": told}
            status = self.status + b"\r\nLocation: /elsewhere?" + body
            await line.answer(status, json.dumps(result).encode())
        else:
            await line.answer(self.status, json.dumps(result).encode())
        self._arrived.unpark_all()

    def _take(self, chat: int, head: bytes, fields: dict[str, list[str]]) -> None:
        self._count += 1
        if self.status.startswith(b"200") and b"/sendMessage" in head.split(b"\r\n")[0]:
            self.texts[chat].append(fields["data"][0])
            for row in json.loads(fields.get("inline_keyboard", ["[]"])[0]):
                newest = {
                    button["text"]: (button["cb_data"], self._count) for button in row if "cb_data" in button
                }
                self.buttons[chat] = newest
                for button in row:
                    if "ref_id" in button:
                        bill = Bill(button["amount"], self._count)
                        self.bills[chat].setdefault(str(button["ref_id"]), bill).message_id = self._count
        self._arrived.unpark_all()


@asynccontextmanager
async def open_platform() -> AsyncGenerator[Platform]:
    """A platform on a free port of loopback."""
    platform = Platform()
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        platform.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.start_soon(trio.serve_listeners, platform.serve, listeners)
        yield platform
        nursery.cancel_scope.cancel()


def text_event(chat: int, text: str) -> bytes:
    """A text message as the platform posts it."""
    return _event(chat, "text", text)


def contact_event(chat: int, phone: str) -> bytes:
    """A shared phone number as the platform posts it."""
    return _event(chat, "contact", json.dumps({"phone": phone, "name": "Somebody"}))


def press_event(chat: int, button: tuple[str, int], callback_id: str) -> bytes:
    """A press of a button as the platform posts it."""
    data, message_id = button
    pressed = {"data": data, "message_id": message_id, "callback_id": callback_id}
    return _event(chat, "triggerButton", json.dumps(pressed))


def pay_event(chat: int, ref_id: str, message_id: int) -> bytes:
    """The word that something was paid, as the platform posts it."""
    told = {"ref_id": ref_id, "message_id": message_id, "status": "success"}
    return _event(chat, "payCallback", json.dumps(told))


def _event(chat: int, kind: str, data: str) -> bytes:
    sender = json.dumps({"id": chat + 1_000_000, "name": "Somebody", "user": "somebody"})
    return urlencode({"chat_id": chat, "type": kind, "data": data, "from": sender}).encode()


@attrs.define
class Users:
    """Posts events to a webhook.

    Attributes:
        port, path: where the webhook is.
        accepted: what was answered 200, per chat, in order: the promise that a bot has given.
    """

    port: int
    path: str
    accepted: dict[int, list[str]] = attrs.Factory(lambda: defaultdict[int, list[str]](list))

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Line]:
        """A connection to the webhook."""
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            yield Line(stream)

    async def say(self, line: Line, chat: int, text: str, *, close: bool = False) -> int:
        """Post a text message and return the status; 0 when the connection ended before an answer."""
        status = await self.post(line, text_event(chat, text), close=close)
        if status == 200:
            self.accepted[chat].append(text)
        return status

    async def calls(self, chat: int, text: str) -> int:
        """Connect and say this at once; return the status, 0 when the connection ended before an answer.

        Between `connect` and `say` a busy machine may leave a moment, in which the other side sees a
        connection that says nothing.
        """
        request = self._request(text_event(chat, text))

        def dial() -> socket.socket:
            dialed = socket.create_connection(("127.0.0.1", self.port))
            dialed.sendall(request)
            return dialed

        dialed = await trio.to_thread.run_sync(dial)
        async with trio.SocketStream(trio.socket.from_stdlib_socket(dialed)) as stream:
            status = await self._status(Line(stream))
        if status == 200:
            self.accepted[chat].append(text)
        return status

    async def post(self, line: Line, body: bytes, *, close: bool = False) -> int:
        """Post an event and return the status; 0 when the connection ended before an answer."""
        try:
            await line.stream.send_all(self._request(body, close=close))
        except trio.BrokenResourceError:
            return 0
        return await self._status(line)

    def _request(self, body: bytes, *, close: bool = False) -> bytes:
        connection = b"Connection: close\r\n" if close else b""
        return (
            b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s"
            b"Content-Type: application/x-www-form-urlencoded\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (self.path.encode(), connection, len(body), body)
        )

    async def _status(self, line: Line) -> int:
        try:
            head, _ = await line.message()
        except trio.BrokenResourceError:
            # The bot closed the connection before it read the request, so the kernel sent a reset.
            return 0
        return int(head.split(b" ")[1]) if head else 0
