"""The line between a process with shards and the one that has started it.

The process says when it listens and when its shards have come to rest; the parent says when to stop, to stop
at once, and when all others have come to rest, too: until then each may be asked by another's conversations.
A process that alone was told to end, by somebody else, waits for none: it is started again.
A line that ends means that the parent has died: the process stops as if it had been told to.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Callable
from typing import Final, final

import trio

READY: Final = b"ready\n"
AT_REST: Final = b"at rest\n"
STOP: Final = b"stop\n"
AT_ONCE: Final = b"at once\n"
CLOSE: Final = b"close\n"


@final
class ParentLine:
    """The line, at the end of the process that was started.

    Args:
        fd: an inherited socket.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._stream: trio.SocketStream | None = None
        self._at_rest = trio.Event()

    async def listen(self, stop: Callable[[], None], at_once: Callable[[], None]) -> None:
        """Do what the parent says, until cancelled."""
        inherited = socket.socket(fileno=self._fd)
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(inherited))
        async for line in lines_of(self._stream):
            if line == STOP:
                stop()
            elif line == AT_ONCE:
                at_once()
            elif line == CLOSE:
                self._at_rest.set()
        self._at_rest.set()
        stop()

    async def tell_ready(self) -> None:
        """Tell the parent that events are accepted."""
        await self._tell(READY)

    async def wait_all_at_rest(self) -> None:
        """Tell the parent that this process has come to rest, and wait until all have."""
        await self._tell(AT_REST)
        await self._at_rest.wait()

    async def _tell(self, line: bytes) -> None:
        if self._stream is not None:
            try:
                await self._stream.send_all(line)
            except trio.BrokenResourceError:
                self._at_rest.set()


async def lines_of(stream: trio.abc.ReceiveStream) -> AsyncGenerator[bytes]:
    """Yield what comes, line by line, until the other end is gone."""
    rest = b""
    while True:
        try:
            piece = await stream.receive_some(4096)
        except trio.BrokenResourceError:
            return
        if not piece:
            return
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line + b"\n"
