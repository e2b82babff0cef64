"""A request of httpx's on its way out, in one write or piece by piece."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, cast

import httpx
import trio

from .client_connection import ClientConnection
from .outgoing import LAST_CHUNK, Framing, encode_chunk

_CLOSING_SECONDS: Final = 2
_TOO_LONG: Final = "the body is longer than its headers say"
_TOO_SHORT: Final = "the body is shorter than its headers say"


async def body_of(request: httpx.Request, framing: Framing) -> bytes | None:
    """A request's body, if it is in memory or must be empty; else None.

    Raises:
        httpx.LocalProtocolError: it is not as long as the headers say, or can't be read here.
    """
    try:
        whole = request.content
    except httpx.RequestNotRead:
        if not isinstance(request.stream, httpx.AsyncByteStream):
            raise httpx.LocalProtocolError("an asynchronous transport needs an asynchronous body") from None
        if framing.length != 0:
            return None
        # With its head the request would be complete, whatever still came.
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
    """Write a request; `whole` is its body if it is in memory.

    Raises:
        NothingSentError: not a byte of it has left, and its body was not touched.
        httpx.LocalProtocolError: its body is not as long as its headers say; it has not left to its end.
        httpx.ReadError, httpx.RemoteProtocolError: as it waited for the other side's word on the body.
    """
    if whole is not None and framing.length is not None and not framing.expects:
        await connection.send(head + whole)
        return
    await connection.send(head)
    if framing.expects and not await connection.wait_continue():
        # It has answered without the body, which is never sent then: nothing else can follow on this one.
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
                # With this one the request is complete, and may take effect: so it must be the last.
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
    # A generator that was left in its middle would otherwise be finished by the garbage collector. Shielded,
    # because it must be finished in a cancelled task too; with a deadline, because it is somebody else's.
    finish = cast("Callable[[], Awaitable[None]] | None", getattr(pieces, "aclose", None))
    if finish is not None:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSING_SECONDS):
            await finish()
