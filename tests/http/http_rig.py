"""What the tests of HTTP share: a server that says what it is told to, and certificates."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress

import attrs
import trio
import trustme

from triobot.http.connections import ClientConnection, Connections, Origin

MESSAGE = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


@attrs.define
class Peer:
    """One connection, seen from the server."""

    stream: Stream
    number: int
    buffer: bytes = b""

    async def read_request(self) -> bytes | None:
        """A request with its body, as it came; None at the end of the connection."""
        while b"\r\n\r\n" not in self.buffer:
            if not await self._more():
                return None
        head, _, rest = self.buffer.partition(b"\r\n\r\n")
        lower = head.lower()
        if b"transfer-encoding: chunked" in lower:
            while b"0\r\n\r\n" not in rest:
                if not await self._more():
                    return None
                rest = self.buffer.partition(b"\r\n\r\n")[2]
            end = rest.index(b"0\r\n\r\n") + 5
        else:
            end = (
                int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
                if b"content-length:" in lower
                else 0
            )
            while len(rest) < end:
                if not await self._more():
                    return None
                rest = self.buffer.partition(b"\r\n\r\n")[2]
        whole = head + b"\r\n\r\n" + rest[:end]
        self.buffer = self.buffer[len(whole) :]
        return whole

    async def _more(self) -> bool:
        data = bytes(await self.stream.receive_some(65536))
        self.buffer += data
        return bool(data)


@attrs.define
class Answering:
    """A server on loopback.

    Attributes:
        requests: all that came, whole.
        peers: connections so far, open or not.
        open: how many are open.
        pool: our connections to it.
    """

    port: int
    scheme: str = "http"
    requests: list[bytes] = attrs.Factory(list[bytes])
    peers: int = 0
    open: int = 0
    pool: Connections = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        host = "127.0.0.1" if self.scheme == "http" else "localhost"
        self.pool = Connections(Origin(self.scheme, host, self.port))

    @property
    def url(self) -> str:
        # A name where a certificate must have one; its look-up takes a thread, which a virtual clock outruns.
        return f"http://127.0.0.1:{self.port}" if self.scheme == "http" else f"https://localhost:{self.port}"


async def answered(server: Answering, connection: ClientConnection, most: int = 10) -> bytes:
    """Send what was posted on a connection, and return the answer's body, as `posted` does it."""
    try:
        body = await connection.answer(most)
    except BaseException:
        connection.close()
        raise
    server.pool.settle(connection)
    return body


async def post(server: Answering, message: bytes = MESSAGE) -> ClientConnection:
    """Take a connection for a request; `answered` sends it."""
    connection = server.pool.idle() or await server.pool.open()
    connection.post(message)
    return connection


async def ask(server: Answering) -> bytes:
    return await answered(server, await post(server))


@asynccontextmanager
async def answering(
    answer: bytes | Callable[[Peer, bytes], Awaitable[None]] = OK, *, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Answering]:
    """Answer every request with these bytes; empty ones close the connection."""
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    server = Answering(listener.socket.getsockname()[1], "http" if tls is None else "https")

    async def handle(plain: trio.SocketStream) -> None:
        stream: Stream = plain if tls is None else trio.SSLStream(plain, tls, server_side=True)
        peer = Peer(stream, server.peers)
        server.peers += 1
        server.open += 1
        try:
            with suppress(trio.BrokenResourceError):
                while (request := await peer.read_request()) is not None:
                    server.requests.append(request)
                    if callable(answer):
                        await answer(peer, request)
                    elif answer:
                        await stream.send_all(answer)
                    else:
                        break
                plain.socket.close()
        finally:
            server.open -= 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, handle, [listener])
        with closing(server.pool):
            yield server
        nursery.cancel_scope.cancel()


@attrs.frozen
class Certificates:
    """A server's and what a client needs to believe it."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    authority: trustme.CA


def make_certificates(*names: str) -> Certificates:
    """A certificate for these names, of an authority of its own."""
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return Certificates(server, client, authority)
