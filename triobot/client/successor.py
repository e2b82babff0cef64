"""Adapter for httpx2's transports in a client that uses httpx's requests.

httpx2 is httpx's successor, under another name and with its own request, response and error classes. Both
pass the same data: a method, an address, headers, a stream.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Final, Protocol, TypeAlias, final

import httpx

from ..errors import ConfigError


class SuccessorTransport(Protocol):
    """An asynchronous transport of httpx2."""

    async def handle_async_request(self, request: Any) -> Any:
        """Send an httpx2 request, and return the head of its answer."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


AnyTransport: TypeAlias = httpx.AsyncBaseTransport | SuccessorTransport
"""A transport of httpx or of httpx2."""

_NAME: Final = "httpx2"


def adapted(transport: AnyTransport) -> httpx.AsyncBaseTransport:
    """Return an httpx transport: `transport` itself, or an adapter for a transport of httpx2.

    Raises:
        ConfigError: `transport` belongs to neither library.
    """
    if isinstance(transport, httpx.AsyncBaseTransport):
        return transport
    if any(cls.__module__.partition(".")[0] == _NAME for cls in type(transport).__mro__):
        return AdaptedTransport(transport)
    raise ConfigError(
        f"a transport is an httpx.AsyncBaseTransport, or httpx2's, not a {type(transport).__name__}"
    )


@final
class AdaptedTransport(httpx.AsyncBaseTransport):
    """A transport of httpx2 with the interface of httpx.

    Attributes:
        reports: whether the transport reports each step of a request, as httpx's own transport does.
    """

    def __init__(self, transport: SuccessorTransport) -> None:
        self._inner = transport
        # Loaded already, since its transport exists.
        self._own: Any = sys.modules[_NAME]
        self.reports = isinstance(transport, self._own.AsyncHTTPTransport)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and return the head of its answer."""
        asked = self._own.Request(
            request.method,
            str(request.url),
            headers=request.headers.raw,
            stream=_body_class(self._own)(request.stream),
            extensions=request.extensions,
        )
        async with self._translated():
            answer = await self._inner.handle_async_request(asked)
        return httpx.Response(
            answer.status_code,
            headers=answer.headers.raw,
            stream=_Answer(self, answer.stream),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()

    @asynccontextmanager
    async def _translated(self) -> AsyncGenerator[None]:
        """Replace an httpx2 error by httpx's error of the same name."""
        try:
            yield
        except self._own.TransportError as error:
            named = getattr(httpx, type(error).__name__, httpx.TransportError)
            raise named(str(error)) from error

    async def pieces(self, stream: Any) -> AsyncIterator[bytes]:
        """Yield an answer's body."""
        async with self._translated():
            async for piece in stream:
                yield piece


class _Answer(httpx.AsyncByteStream):
    def __init__(self, transport: AdaptedTransport, stream: Any) -> None:
        self._transport = transport
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._transport.pieces(self._stream)

    async def aclose(self) -> None:
        await self._stream.aclose()


@cache
def _body_class(own: Any) -> Any:
    """Return a subclass of httpx2's stream class for request bodies."""

    class Body(own.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: httpx.AsyncByteStream) -> None:
            self._stream = stream

        def __aiter__(self) -> AsyncIterator[bytes]:
            return aiter(self._stream)

    return Body
