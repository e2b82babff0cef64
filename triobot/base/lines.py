"""Lines of a stream, such as a pipe from another process."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import trio


async def lines_of(
    stream: trio.abc.ReceiveStream | AsyncGenerator[bytes], longest: int
) -> AsyncGenerator[bytes]:
    """Yield each line of `stream` with its line end.

    An unfinished last line is yielded without a line end. A line over `longest` bytes is yielded in pieces;
    only the last piece has the line end.
    """
    rest = bytearray()
    async for chunk in stream:
        rest += chunk
        while (end := rest.find(b"\n") + 1) or len(rest) > longest:
            end = end or len(rest)
            yield bytes(rest[:end])
            del rest[:end]
    if rest:
        yield bytes(rest)
