"""A request of httpx's on its way out, in one write or piece by piece."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, cast

import httpx
import trio

from .client_connection import ClientConnection
from .outgoing import LAST_CHUNK, Framing, encode_chunk

_CLOSING_SECONDS: Final = 2


async def send_request(
    connection: ClientConnection, head: bytes, whole: bytes | None, framing: Framing, request: httpx.Request
) -> None:
    """Write a request; `whole` is its body if it is in memory.

    Raises:
        NothingSentError: not a byte of it has left, and its body was not touched.
        httpx.LocalProtocolError: its body is not as long as its headers say.
        httpx.ReadError, httpx.RemoteProtocolError: as it waited for the other side's word on the body.
    """
    if whole is not None and framing.length == len(whole) and not framing.expects:
        await connection.send(head + whole)
        return
    await connection.send(head)
    if framing.expects and not await connection.wait_continue():
        # It has answered without the body, which is never sent then: nothing else can follow on this one.
        connection.broken = True
        return
    if not isinstance(request.stream, httpx.AsyncByteStream):
        raise httpx.LocalProtocolError("an asynchronous transport needs an asynchronous body")
    pieces = aiter(request.stream)
    sent = 0
    try:
        async for piece in pieces:
            sent += len(piece)
            if framing.length is not None and sent > framing.length:
                raise httpx.LocalProtocolError("the body is longer than its headers say")
            await connection.send(piece if framing.length is not None else encode_chunk(piece))
            if connection.broken:
                return
    finally:
        await _close_pieces(pieces)
    if framing.length is None:
        await connection.send(LAST_CHUNK)
    elif sent < framing.length:
        raise httpx.LocalProtocolError("the body is shorter than its headers say")


async def _close_pieces(pieces: AsyncIterator[bytes]) -> None:
    # A generator that was left in its middle would otherwise be finished by the garbage collector. Shielded,
    # because it must be finished in a cancelled task too; with a deadline, because it is somebody else's.
    finish = cast("Callable[[], Awaitable[None]] | None", getattr(pieces, "aclose", None))
    if finish is not None:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSING_SECONDS):
            await finish()
