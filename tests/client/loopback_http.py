"""An HTTP server on loopback that does what each test tells it to, right or wrong, byte by byte."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import attrs
import trio

OK = b'{"id": 7}'


@attrs.frozen
class Received:
    head: str
    body: bytes

    @property
    def path(self) -> str:
        return self.head.split(" ")[1]

    def header(self, name: str) -> str | None:
        for line in self.head.split("\r\n")[1:]:
            key, _, value = line.partition(": ")
            if key.lower() == name.lower():
                return value
        return None


@attrs.define
class Peer:
    """One connection, seen from the server."""

    stream: trio.SocketStream
    number: int
    received: list[Received]
    buffer: bytearray = attrs.field(factory=bytearray)

    async def read_head(self) -> str | None:
        while b"\r\n\r\n" not in self.buffer:
            piece = await self.stream.receive_some(65536)
            if not piece:
                return None
            self.buffer += piece
        head, _, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        self.buffer = bytearray(rest)
        return head.decode("latin-1")

    async def read_request(self) -> Received | None:
        head = await self.read_head()
        if head is None:
            return None
        length = int(Received(head, b"").header("content-length") or "0")
        while len(self.buffer) < length:
            piece = await self.stream.receive_some(65536)
            if not piece:
                return None
            self.buffer += piece
        request = Received(head, bytes(self.buffer[:length]))
        del self.buffer[:length]
        self.received.append(request)
        return request

    async def answer(self, body: bytes = OK, status: str = "200 OK", *headers: str) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
        await self.stream.send_all("\r\n".join(lines).encode() + body)


@attrs.define
class Server:
    port: int
    peers: list[Peer] = attrs.field(factory=list)
    received: list[Received] = attrs.field(factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


async def answer_all(peer: Peer) -> None:
    while await peer.read_request() is not None:
        await peer.answer()


@asynccontextmanager
async def serving(behave: Callable[[Peer], Awaitable[None]] = answer_all) -> AsyncGenerator[Server, None]:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    server = Server(listener.socket.getsockname()[1])

    async def handle(stream: trio.SocketStream) -> None:
        peer = Peer(stream, len(server.peers), server.received)
        server.peers.append(peer)
        with suppress(trio.BrokenResourceError):
            await behave(peer)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, handle, [listener])
        yield server
        nursery.cancel_scope.cancel()
