"""A response's body on its way to whoever reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import final

import httpx
import trio

from .client_connection import ClientConnection, within


@final
class ResponseBody(httpx.AsyncByteStream):
    """The pieces of a response's body as they come; its connection is free at the end, or when closed.

    An iterator written out rather than a generator: one that is left half read holds nothing that the
    garbage collector would have to finish.
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
                with within(self._read_seconds, httpx.ReadTimeout):
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
