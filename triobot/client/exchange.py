"""Sends one request through an httpx transport, with a deadline and a limit for the answer's size.

Failures are raised as triobot's errors. Requests are passed directly to the transport, not to
`httpx.AsyncClient`: no redirects, no cookies, no environment variables, no changed headers.

A failure's meaning depends on the progress of the request (`RequestProgress`). If no byte can have left this
computer, repeating is safe. If a byte may have left this computer, the platform may have acted. If the
progress is unknown, the request is treated as sent.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, final

import attrs
import httpx
import trio

from ..base.authors import contained_in_task
from ..errors import NotDeliveredError
from .terms import (
    LARGEST_ANSWER,
    Failure,
    Reply,
    broken_off,
    cut_off,
    not_connected,
    retry_after_of,
    stalled,
)

# Errors that transports raise for a failure of the connection or of the other side, not for bugs.
FAILURES: Final = (httpx.TransportError, OSError, trio.BrokenResourceError, trio.ClosedResourceError)

# Time limit for closing a socket; closing doesn't wait for the other side.
_CLOSING_SECONDS: Final = 2

# Errors raised before a connection exists, or for a request that can't be written.
_BEFORE: Final = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
)


@final
@attrs.define
class RequestProgress:
    """Progress of one request, as far as its transport reports it.

    Attributes:
        may_have_left: whether a byte of the request may have left this computer. Always True if the transport
            reports no steps; otherwise True once the transport is about to write the headers.
        fresh: whether a new connection was made for the request, and the request isn't sent yet.
        before: called right before the request is sent; an exception stops the request.
    """

    may_have_left: bool
    fresh: bool = False
    before: Callable[[], None] | None = None

    def step(self, event: str, *, tunnel: bool) -> None:
        """Update the progress by a step that the transport reports, such as
        ``connection.connect_tcp.started``.

        Args:
            tunnel: whether the step belongs to the request that asks a proxy for a tunnel, and not to the
                operation's request.
        """
        part, _, rest = event.partition(".")
        self.fresh = rest.endswith(".complete") and not part.startswith("http")
        if rest == "send_request_headers.started" and not tunnel:
            if self.before is not None:
                self.before()
            self.may_have_left = True

    def failed(self, operation: str, error: Exception) -> Failure:
        """Return triobot's error, whose class shows whether the operation may have taken effect."""
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return not_connected(operation, error)
        if isinstance(error, _BEFORE):
            return NotDeliveredError(operation, f"could not be sent ({type(error).__name__})")
        return cut_off(operation, error, may_have_left=self.may_have_left)


@final
class WholeBody(httpx.AsyncByteStream):
    """A request's body in memory.

    httpx's own body is a generator, which an interrupted request would leave to the garbage collector.
    """

    def __init__(self, data: bytes) -> None:
        self._rest = [data]
        self.length = len(data)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._rest:
            raise StopAsyncIteration
        return self._rest.pop()


@final
class Patience:
    """A limit on the time without progress. At each progress, the deadline of a cancel scope is moved.

    httpx's own timeouts aren't used, because only httpx's own transport obeys these timeouts.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.scope = trio.CancelScope()

    def renew(self, most: float = math.inf) -> None:
        """Move the deadline to `seconds` from now, but not beyond `most`; called at each progress."""
        self.scope.deadline = min(trio.current_time() + self.seconds, most)

    def pause(self) -> None:
        """Remove the deadline until the next `renew`: time for work on the local disk doesn't count.

        A test clock jumps ahead whenever all tasks wait; without the pause, this clock would reach the
        deadline while a thread works.
        """
        self.scope.deadline = math.inf


async def exchange(
    transport: httpx.AsyncBaseTransport,
    request: httpx.Request,
    *,
    operation: str,
    patience: Patience,
    before: Callable[[], None] | None = None,
) -> Reply:
    """Send a request once and read its answer; the time limit `patience` begins with this call.

    Args:
        before: called right before the request is sent, if the transport reports its steps; an exception
            stops the request, and is raised.

    Raises:
        NotDeliveredError: no byte of the request left this computer.
        DeliveryUnknownError: the request may have taken effect: no head of an answer came.

    Cancellation: *ambiguous* once the request is being written. The connection is closed, and its slot in the
    pool is free again.
    """
    # httpx's own transport reports each step; the steps of other transports are unknown.
    reports = isinstance(transport, httpx.AsyncHTTPTransport)
    progress = RequestProgress(may_have_left=not reports, before=before)
    head: httpx.Response | None = None
    patience.renew()
    try:
        with patience.scope:
            head = await send(transport, request, progress)
            body = await _body(head)
            retry_after = retry_after_of(head.headers.raw)
            return Reply(head.status_code, body or b"", retry_after, too_large=body is None)
    except FAILURES as error:
        return broken_off(head.status_code if head else 0, progress.failed(operation, error), error)
    except Exception:
        raise
    except BaseException as error:
        raise contained_in_task(error) from error  # a transport is foreign code
    failure = stalled(operation, patience.seconds, may_have_left=progress.may_have_left)
    return broken_off(head.status_code if head else 0, failure)


async def send(
    transport: httpx.AsyncBaseTransport, request: httpx.Request, progress: RequestProgress
) -> httpx.Response:
    """Send a request and wait for the head of its answer; meanwhile, update `progress`."""
    handover = trio.CancelScope()
    with handover:

        async def trace(event: str, details: Mapping[str, object]) -> None:
            inner = details.get("request")
            progress.step(event, tunnel=getattr(inner, "method", None) == b"CONNECT")
            # If a cancellation comes before a new connection gets its request, httpcore loses the slot of the
            # connection in the pool. No task waits at that point, so the shield only delays the cancellation.
            handover.shield = progress.fresh

        request.extensions["trace"] = trace
        response = await transport.handle_async_request(request)
        progress.may_have_left = True
        return response
    raise AssertionError("nobody cancels this scope")


@asynccontextmanager
async def reading(response: httpx.Response) -> AsyncGenerator[AsyncIterator[bytes], None]:
    """Open an answer's body as an iterator over the body's pieces.

    At the end of the block, the connection goes back to the pool or is closed.

    The transports' streams are nested generators. If a half-read stream is only closed, the inner generators
    are left to the garbage collector. So the stream is read once more in a cancelled scope: the cancellation
    passes through all nested generators and finishes the generators at once.
    """
    if not isinstance(response.stream, httpx.AsyncByteStream):
        raise TypeError("the transport's answer is not an asynchronous stream")
    pieces = aiter(response.stream)
    try:
        yield pieces
    finally:
        # Shielded, so that a cancelled request frees its connection. There is a deadline, because a transport
        # is foreign code, and may hang.
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSING_SECONDS):
            with trio.CancelScope() as ended:
                ended.cancel()
                with suppress(*FAILURES):
                    async for _ in pieces:
                        pass
            with suppress(*FAILURES):
                await response.aclose()


async def _body(response: httpx.Response) -> bytes | None:
    body = bytearray()
    async with reading(response) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > LARGEST_ANSWER:
                return None  # the body is longer than the limit
    return bytes(body)
