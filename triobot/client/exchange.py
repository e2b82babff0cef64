"""One request through one transport: under a deadline, with a bounded answer, and failures as ours.

Requests go to the transport itself and not through `httpx.AsyncClient`: no redirects, no cookies, no
environment, no second opinion on the headers.

What a failure means is a question of how far the request got (`Delivery`): if not a byte of it may have left
this machine, repeating is safe; if one may have, the platform may have acted. In doubt it may have.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, final

import attrs
import httpx
import trio

from ..base.authors import contained_in_task
from ..errors import DeliveryUnknownError, NotDeliveredError
from ..seams.own_http import connections_of
from ..wire.decode import is_taken
from .successor import AdaptedTransport

LARGEST_ANSWER: Final = 1024 * 1024

# What transports raise when the other side or the way to it fails; a bug in one is not among these.
FAILURES: Final = (httpx.TransportError, OSError, trio.BrokenResourceError, trio.ClosedResourceError)

# Long enough to say goodbye to a socket; nothing is waited for from the other side.
_CLOSING_SECONDS: Final = 2


_SECONDS: Final = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)
_LONGEST_REST: Final = 3600.0

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

    def failed(self, operation: str, error: Exception) -> NotDeliveredError | DeliveryUnknownError:
        """Return what an error of the transport means for the operation, as an error of ours."""
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return NotDeliveredError(operation, f"could not connect: {cause_of(error)}")
        if isinstance(error, _BEFORE):
            return NotDeliveredError(operation, f"could not be sent ({type(error).__name__})")
        return self._verdict(operation, f"the connection failed ({type(error).__name__})")

    def stalled(self, operation: str, patience: float) -> NotDeliveredError | DeliveryUnknownError:
        """Return what running out of patience means for the operation, as an error of ours."""
        return self._verdict(operation, f"no answer within {patience:g} seconds")

    def _verdict(self, operation: str, what: str) -> NotDeliveredError | DeliveryUnknownError:
        if self.may_have_left:
            return DeliveryUnknownError(operation, f"{what}; it may have taken effect")
        return NotDeliveredError(operation, f"{what}; nothing was sent")


def cause_of(error: BaseException) -> str:
    """Return why a connection was not made, in the words of the resolver, the socket or TLS.

    Those know nothing of the request. The libraries between wrap their error, some without its text: then
    the text of a cause is returned.
    """
    within: BaseException | None = error
    while within is not None:
        if text := str(within):
            return text[:200]
        within = within.__cause__
    return type(error).__name__


@final
@attrs.define
class Answer:
    """A status and its body.

    Attributes:
        too_large: there was more of the body than is read, and it is empty.
        broken: why the body is empty, if the connection failed or stood still behind a 200's head.
        retry_after: see `retry_after_of`.
    """

    status: int
    body: bytes = attrs.field(repr=False)
    retry_after: float | None = None
    too_large: bool = False
    broken: NotDeliveredError | DeliveryUnknownError | None = None


def retry_after_of(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """Return for how many seconds the platform asks not to be asked again; None if it names no such time.

    `Retry-After` is a number of seconds, or a date; a date is measured from the answer's own, since the two
    machines' clocks may differ. An hour is the most that is believed.

    Platform: RFC 9110, section 10.2.3.
    """
    told: dict[bytes, str] = {}
    for name, value in headers:
        told.setdefault(name.lower(), value.decode("latin-1").strip())
    said = told.get(b"retry-after", "")
    if _SECONDS.fullmatch(said):
        seconds = float(said)
    else:
        until = _date(said)
        if until is None:
            return None
        seconds = (until - (_date(told.get(b"date", "")) or datetime.now(UTC))).total_seconds()
    return min(seconds, _LONGEST_REST) if seconds > 0 else None


def _date(said: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(said)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


@final
class _TooLargeError(Exception):
    """An answer's body is longer than is read."""


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
    own = connections_of(transport) is not None
    told = (
        own
        or isinstance(transport, httpx.AsyncHTTPTransport)
        or (isinstance(transport, AdaptedTransport) and transport.reports)
    )
    delivery = Delivery(may_have_left=not told, before=before)
    head: httpx.Response | None = None
    patience.renew()
    try:
        with patience.scope:
            head = await send(transport, request, delivery)
            return Answer(head.status_code, await _body(head), retry_after_of(head.headers.raw))
    except FAILURES as error:
        return broken_off(operation, head.status_code if head else 0, delivery, patience.seconds, error)
    except _TooLargeError:
        assert head is not None
        return Answer(head.status_code, b"", too_large=True)
    except Exception:
        raise
    except BaseException as error:
        raise contained_in_task(error) from error  # a transport is somebody else's code
    return broken_off(operation, head.status_code if head else 0, delivery, patience.seconds, None)


def broken_off(
    operation: str, status: int, delivery: Delivery, seconds: float, error: Exception | None
) -> Answer:
    """Say what is known of a request that has failed, or stood still if there is no error.

    The status, 0 if none came, is the platform's word: losing the text behind it takes nothing of that back.
    """
    failure = delivery.stalled(operation, seconds) if error is None else delivery.failed(operation, error)
    failure.__cause__ = error
    if not status:
        raise failure
    return Answer(status, b"", broken=failure if is_taken(status) else None)


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


async def _body(response: httpx.Response) -> bytes:
    body = bytearray()
    async with reading(response) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > LARGEST_ANSWER:
                raise _TooLargeError
    return bytes(body)


def check_certain(operation: str, certain: Callable[[], float] | None) -> None:
    """Refuse what must not leave any more; to be called right before it does."""
    if certain is not None and not certain():
        raise NotDeliveredError(operation, "the process may have lost its store meanwhile; nothing was sent")
