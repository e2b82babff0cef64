"""One request through one transport of httpx: under a deadline, with a bounded answer, and failures as ours.

Requests go to the transport itself and not through `httpx.AsyncClient`: no redirects, no cookies, no
environment, no second opinion on the headers.

What a failure means is a question of how far the request got (`Delivery`): if not a byte of it may have left
this machine, repeating is safe; if one may have, the platform may have acted. In doubt it may have.
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
from ..seams.own_http import connections_of
from .successor import AdaptedTransport
from .terms import (
    LARGEST_ANSWER,
    Answer,
    Failure,
    broken_off,
    cut_off,
    not_connected,
    retry_after_of,
    stalled,
)

# What transports raise when the other side or the way to it fails; a bug in one is not among these.
FAILURES: Final = (httpx.TransportError, OSError, trio.BrokenResourceError, trio.ClosedResourceError)

# Long enough to say goodbye to a socket; nothing is waited for from the other side.
_CLOSING_SECONDS: Final = 2

# Raised while there is no connection to the platform yet, or for a request that can't be written at all.
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
class Delivery:
    """One request's way, as far as its transport reports it.

    Attributes:
        may_have_left: a byte of the request may have left. From the start for a transport that reports
            nothing; else from when the request's headers are about to be written.
        fresh: a connection has just been made and has not been given its request yet.
        before: called right before the request leaves; what it raises keeps that here.
    """

    may_have_left: bool
    fresh: bool = False
    before: Callable[[], None] | None = None

    def step(self, event: str, *, tunnel: bool) -> None:
        """Take note of a step that the transport reports, such as ``connection.connect_tcp.started``.

        `tunnel`: the step concerns the request that opens a way through a proxy, not ours.
        """
        part, _, rest = event.partition(".")
        self.fresh = rest.endswith(".complete") and not part.startswith("http")
        if rest == "send_request_headers.started" and not tunnel:
            if self.before is not None:
                self.before()
            self.may_have_left = True

    def failed(self, operation: str, error: Exception) -> Failure:
        """Return what an error of the transport means for the operation, as an error of ours."""
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return not_connected(operation, error)
        if isinstance(error, _BEFORE):
            return NotDeliveredError(operation, f"could not be sent ({type(error).__name__})")
        return cut_off(operation, error, may_have_left=self.may_have_left)


@final
class WholeBody(httpx.AsyncByteStream):
    """A request's body that is in memory.

    httpx's own is a generator, and a request that breaks off would leave it to the garbage collector.
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
    """How long nothing may happen: a scope whose deadline moves on with each progress.

    httpx's own timeouts are not used: they are the business of its socket transport, and don't fire in
    others.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.scope = trio.CancelScope()

    def renew(self, most: float = math.inf) -> None:
        """Move the deadline to `seconds` from now, but not behind `most`: something happened."""
        self.scope.deadline = min(trio.current_time() + self.seconds, most)

    def pause(self) -> None:
        """Wait without end until the next `renew`: our own disk is not what patience is about.

        A clock that jumps ahead whenever all tasks wait doesn't see that a thread is at work.
        """
        self.scope.deadline = math.inf


async def exchange(
    transport: httpx.AsyncBaseTransport,
    request: httpx.Request,
    *,
    operation: str,
    patience: Patience,
    before: Callable[[], None] | None = None,
) -> Answer:
    """Send a request once and read its answer, within `patience` from now.

    Args:
        before: called right before it leaves, if the transport reports its steps; what it raises keeps the
            request here, and is raised.

    Raises:
        NotDeliveredError: not a byte of it left.
        DeliveryUnknownError: it may have taken effect: no answer's head came.

    Cancellation: *ambiguous* once the request is being written. The connection is closed, and its place in
    the pool is free again.
    """
    # These report each step; what another one does is unknown until it says.
    told = connections_of(transport) is not None or isinstance(transport, httpx.AsyncHTTPTransport)
    if isinstance(transport, AdaptedTransport):
        told = transport.reports
    delivery = Delivery(may_have_left=not told, before=before)
    head: httpx.Response | None = None
    patience.renew()
    try:
        with patience.scope:
            head = await send(transport, request, delivery)
            body = await _body(head)
            retry_after = retry_after_of(head.headers.raw)
            return Answer(head.status_code, body or b"", retry_after, too_large=body is None)
    except FAILURES as error:
        return broken_off(head.status_code if head else 0, delivery.failed(operation, error), error)
    except Exception:
        raise
    except BaseException as error:
        raise contained_in_task(error) from error  # a transport is somebody else's code
    failure = stalled(operation, patience.seconds, may_have_left=delivery.may_have_left)
    return broken_off(head.status_code if head else 0, failure)


async def send(
    transport: httpx.AsyncBaseTransport, request: httpx.Request, delivery: Delivery
) -> httpx.Response:
    """Send a request and wait for the head of its answer, keeping `delivery` up to date."""
    handover = trio.CancelScope()
    with handover:

        async def trace(event: str, details: Mapping[str, object]) -> None:
            inner = details.get("request")
            delivery.step(event, tunnel=getattr(inner, "method", None) == b"CONNECT")
            # httpcore loses the pool's place of a connection that was made but never got its request, when
            # the cancellation comes just between the two; nothing waits there, so it may come after.
            handover.shield = delivery.fresh

        request.extensions["trace"] = trace
        response = await transport.handle_async_request(request)
        delivery.may_have_left = True
        return response
    raise AssertionError("nobody cancels this scope")


@asynccontextmanager
async def reading(response: httpx.Response) -> AsyncGenerator[AsyncIterator[bytes], None]:
    """Hand out the pieces of a body; its connection is given back or closed however the block ends.

    The transports' streams are generators within generators. Left half read, the inner ones would be
    finished by the garbage collector; a cancellation passes through all of them and finishes them now.
    """
    if not isinstance(response.stream, httpx.AsyncByteStream):
        raise TypeError("the transport's answer is not an asynchronous stream")
    pieces = aiter(response.stream)
    try:
        yield pieces
    finally:
        # Shielded, because a cancelled request must free its connection too, and with a deadline, because
        # a transport is somebody else's code.
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
                return None  # more than is read
    return bytes(body)
