"""`TrioTransport`: HTTP/1.1 for httpx on Trio. The only module of this package that uses httpx.

httpx's own transport iterates over all connections of its pool twice for each request. With fifty connections
these iterations are most of a request's cost. In this module a request costs the same for any number of
connections.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, cast, final

import httpx
import trio

from ..base.frozen import guarded
from .connections import ClientConnection, Connections, NoConnectionError, NothingSentError, Origin
from .links import LOST
from .outgoing import LAST_CHUNK, UnsendableError, encode_chunk, encode_head
from .request import MalformedError

_CLOSING_SECONDS: Final = 2
_TOO_LONG: Final = "the body is longer than its headers say"
_TOO_SHORT: Final = "the body is shorter than its headers say"
_PORTS: Final = {"http": 80, "https": 443}


@final
@guarded
class Framing:
    """How a request's body is delimited.

    Attributes:
        length: the body's bytes; None if the body is sent in chunks.
        expects: whether the body waits for a 100 from the other side.
    """

    length: int | None
    expects: bool


def framing_of(headers: Sequence[tuple[bytes, bytes]]) -> Framing:
    """Return how the headers delimit the body. Without a length and an encoding, there is no body.

    Raises:
        UnsendableError: the headers contain two lengths, or an invalid length.
    """
    lengths: set[bytes] = set()
    chunked = expects = False
    for name, value in headers:
        match name.lower():
            case b"content-length":
                lengths.add(value)
            case b"transfer-encoding":
                chunked = True
                if value.lower() != b"chunked":
                    raise UnsendableError("the only transfer encoding is chunked")
            case b"expect":
                expects = value.lower() == b"100-continue"
            case _:
                pass
    if len(lengths) + chunked > 1:
        raise UnsendableError("the length of the body is told in two ways")
    if chunked:
        return Framing(None, expects)
    length = lengths.pop() if lengths else b"0"
    if not length.isdigit() or len(length) > 18:
        raise UnsendableError("the length of the body is no number")
    return Framing(int(length), expects)


@contextmanager
def within(seconds: float | None, error: type[httpx.TimeoutException]) -> Generator[None]:
    """Raise `error` if the block takes longer than `seconds`; None: no limit."""
    with trio.move_on_after(math.inf if seconds is None else seconds) as limit:
        yield
    if limit.cancelled_caught:
        raise error(f"nothing happened for {seconds} seconds")


@contextmanager
def _receiving(connection: ClientConnection, seconds: float | None = None) -> Generator[None]:
    """Raise httpx's error if the response fails, or doesn't arrive within `seconds`."""
    try:
        with within(seconds, httpx.ReadTimeout):
            yield
    except LOST as error:
        raise (httpx.WriteError if connection.broken else httpx.ReadError)(str(error)) from error
    except MalformedError as error:
        raise httpx.RemoteProtocolError(str(error)) from error


async def body_of(request: httpx.Request, framing: Framing) -> bytes | None:
    """Return a request's body if it is in memory or must be empty; otherwise None.

    Raises:
        httpx.LocalProtocolError: the body's length differs from the headers' length, or the body's stream is
            not asynchronous.
    """
    try:
        whole = request.content
    except httpx.RequestNotRead:
        if not isinstance(request.stream, httpx.AsyncByteStream):
            raise httpx.LocalProtocolError("an asynchronous transport needs an asynchronous body") from None
        if framing.length != 0:
            return None
        # The headers announce no body, so the head completes the request: a body would be an error.
        whole = await _nothing(aiter(request.stream))
    if framing.length is not None and framing.length != len(whole):
        raise httpx.LocalProtocolError(_TOO_LONG if len(whole) > framing.length else _TOO_SHORT)
    return whole


async def _nothing(pieces: AsyncIterator[bytes]) -> bytes:
    try:
        async for piece in pieces:
            if piece:
                return piece
    finally:
        await _close_pieces(pieces)
    return b""


async def send_request(
    connection: ClientConnection, head: bytes, whole: bytes | None, framing: Framing, request: httpx.Request
) -> None:
    """Write a request; `whole` is its body if the body is in memory.

    Raises:
        NothingSentError: no byte of the request was sent, and its body was not read.
        httpx.LocalProtocolError: the body's length differs from the headers' length; the request was not sent
            completely.
        httpx.ReadError, httpx.RemoteProtocolError: the connection failed during the wait for a 100 before the
            body.
    """
    if whole is not None and framing.length is not None and not framing.expects:
        await connection.send(head + whole)
        return
    await connection.send(head)
    if framing.expects:
        with _receiving(connection):
            answered = not await connection.wait_continue()
        if answered:
            # The answer came instead of the 100, so the body is never sent. No other request can follow on
            # this connection.
            connection.broken = True
            return
    assert isinstance(request.stream, httpx.AsyncByteStream)
    pieces = aiter(request.stream)
    sent = 0
    last = b""
    try:
        async for piece in pieces:
            sent += len(piece)
            if framing.length is None:
                await connection.send(encode_chunk(piece))
            elif sent > framing.length:
                raise httpx.LocalProtocolError(_TOO_LONG)
            elif sent < framing.length:
                await connection.send(piece)
            else:
                # This piece completes the request, and a complete request may take effect. So the piece is
                # sent at the end, after the check that no further piece follows.
                last = last or piece
            if connection.broken:
                return
    finally:
        await _close_pieces(pieces)
    if framing.length is None:
        await connection.send(LAST_CHUNK)
    elif sent < framing.length:
        raise httpx.LocalProtocolError(_TOO_SHORT)
    elif last:
        await connection.send(last)


async def _close_pieces(pieces: AsyncIterator[bytes]) -> None:
    # Finish a half-read generator here, not in the garbage collector. The shield lets a cancelled task finish
    # the generator too. There is a deadline, because the generator is the caller's code.
    finish = cast("Callable[[], Awaitable[None]] | None", getattr(pieces, "aclose", None))
    if finish is not None:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSING_SECONDS):
            await finish()


@final
class TrioTransport(httpx.AsyncBaseTransport):
    """An httpx transport for HTTP/1.1 on Trio, with a pool of connections.

    An idle connection is used again unless the other side has closed it. If the other side closes the
    connection before a byte of the request is written, another connection is used. A request is never
    repeated in any other case. Requests beyond the number of connections wait in line, in order. httpx's
    timeouts apply. The function in httpx's ``trace`` extension is called for one step,
    ``http11.send_request_headers.started``.

    Proxies are not supported, neither as an argument nor from the environment; use `httpx.AsyncHTTPTransport`
    for a proxy. HTTP/2 is not supported either. The transport must be used on Trio.

    Attributes:
        connections: the pool, for small encoded requests: see `ClientConnection.answer`.

    Args:
        ssl_context: TLS context; None: verifies host names, and certificates by the list that httpx uses.
        connections: largest number of connections to all hosts together; or another transport's pool. Both
            transports then share the pool unchanged.
        idle: largest number of idle connections; None: no limit.
        idle_seconds: seconds after which an idle connection is no longer used.
        uds: path of a Unix socket for all requests, whatever host they name.

    Raises:
        httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.LocalProtocolError,
        httpx.UnsupportedProtocol: no byte of the request was sent; a request whose body has the wrong length
            is never sent completely.
        httpx.WriteError, httpx.WriteTimeout, httpx.ReadError, httpx.ReadTimeout, httpx.RemoteProtocolError:
            the request may have taken effect.

    Cancellation: *ambiguous* once the request is being written; the connection is closed and its slot freed.

    Examples:
        async with httpx.AsyncClient(transport=TrioTransport()) as client:
            answer = await client.get("https://example.org/")
    """

    def __init__(
        self,
        *,
        ssl_context: ssl.SSLContext | None = None,
        connections: int | Connections = 100,
        idle: int | None = None,
        idle_seconds: float = 4.0,
        uds: str | None = None,
    ) -> None:
        if isinstance(connections, Connections):
            self.connections = connections
            return
        if connections < 1:
            raise ValueError("a transport needs at least one connection")
        self.connections = Connections(
            most=connections, most_idle=idle, keep_seconds=idle_seconds, context=ssl_context, uds=uds
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.AsyncBaseTransport`."""
        head, origin, framing = _prepare(request)
        timeouts = cast("Mapping[str, float | None]", request.extensions.get("timeout", {}))
        trace = request.extensions.get("trace")
        whole = await body_of(request, framing)
        while True:
            try:
                connection, fresh = await self.connections.get(
                    origin,
                    line=within(timeouts.get("pool"), httpx.PoolTimeout),
                    dialing=within(timeouts.get("connect"), httpx.ConnectTimeout),
                )
            except NoConnectionError as error:
                raise httpx.ConnectError(str(error)) from error.__cause__
            try:
                connection.begin(request.method.encode("ascii"))
                if trace is not None:
                    await trace("http11.send_request_headers.started", {"request": request})
                with within(timeouts.get("write"), httpx.WriteTimeout):
                    await send_request(connection, head, whole, framing, request)
                while not connection.reader.head_done:
                    with _receiving(connection, timeouts.get("read")):
                        await connection.receive()
            except NothingSentError as error:
                self.connections.discard(connection)
                if fresh:
                    raise httpx.ConnectError(f"it ended at once: {error.__cause__}") from error.__cause__
            except BaseException:
                self.connections.discard(connection)
                raise
            else:
                break
        reader = connection.reader
        body = ResponseBody(connection, self.connections.settle, timeouts.get("read"))
        extensions = {"http_version": b"HTTP/" + reader.version.encode(), "reason_phrase": reader.reason}
        return httpx.Response(reader.status, headers=reader.headers, stream=body, extensions=extensions)

    async def aclose(self) -> None:
        """Close idle connections at once, and each other connection after its request.

        Cancellation: *forceful*.
        """
        self.connections.close()
        await trio.lowlevel.checkpoint()


def _prepare(request: httpx.Request) -> tuple[bytes, Origin, Framing]:
    url = request.url
    port = _PORTS.get(url.scheme)
    if port is None or not url.host:
        raise httpx.UnsupportedProtocol(f"only http and https, and a host, not {url.scheme or 'no scheme'}")
    headers = request.headers.raw
    try:
        head = encode_head(request.method.encode("ascii"), url.raw_path, headers, host=url.netloc)
        framing = framing_of(headers)
    except (UnsendableError, UnicodeEncodeError) as error:
        raise httpx.LocalProtocolError(str(error)) from error
    name = cast("str | None", request.extensions.get("sni_hostname"))
    return head, Origin(url.scheme, url.raw_host.decode("ascii"), url.port or port, name), framing


@final
class ResponseBody(httpx.AsyncByteStream):
    """Iterator over a response's body; the connection is free at the end, or when closed.

    The class is an iterator, not a generator: a half-read iterator leaves nothing to the garbage collector.
    """

    def __init__(
        self,
        connection: ClientConnection,
        settle: Callable[[ClientConnection], None],
        read_seconds: float | None,
    ) -> None:
        self._connection: ClientConnection | None = connection
        self._settle = settle
        self._read_seconds = read_seconds

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        connection = self._connection
        if connection is None:
            raise StopAsyncIteration
        reader = connection.reader
        try:
            while not reader.pieces and not reader.done:
                with _receiving(connection, self._read_seconds):
                    await connection.receive()
        except BaseException:
            self._end()
            raise
        if not reader.pieces:
            self._end()
            raise StopAsyncIteration
        piece = b"".join(reader.pieces)
        reader.pieces.clear()
        return piece

    async def aclose(self) -> None:
        """Free the connection; close it if the body was not read to its end."""
        self._end()
        await trio.lowlevel.checkpoint()

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._settle(connection)
