"""One connection of a client: sends a request, reads its response, and tells whether another may follow.

A failed write is no error yet: a server may refuse a long body early, answer and close, and that answer
counts.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, final

import httpx
import trio

from .links import ByteLink
from .malformed import MalformedError
from .pool import Origin
from .response import ResponseReader

# curl waits so long for a 100 before it sends the body anyway, since old servers never say it.
_CONTINUE_SECONDS: Final = 1.0


class NothingSentError(Exception):
    """The connection had ended before a byte was written: another one may be used instead."""


@contextmanager
def within(seconds: float | None, error: type[httpx.TimeoutException]) -> Generator[None]:
    """Raise `error` if the block takes longer than `seconds`; no bound if None."""
    if seconds is None:
        yield
        return
    with trio.move_on_after(seconds) as limit:
        yield
    if limit.cancelled_caught:
        raise error(f"nothing happened for {seconds:g} seconds")


@final
class ClientConnection:
    """A connection with at most one request on it.

    Attributes:
        origin: where it leads.
        reader: of the response.
        broken: a write failed; only an answer that came before it counts any more.
    """

    def __init__(self, origin: Origin, link: ByteLink) -> None:
        self.origin: Final = origin
        self.reader: Final = ResponseReader()
        self.broken = False
        self._link = link

    @property
    def usable(self) -> bool:
        """Return whether the idle connection may be used: no byte, end or failure has arrived on it."""
        return self._link.is_quiet()

    @property
    def reusable(self) -> bool:
        """Return whether another request may follow: both messages are complete, and both sides want it."""
        return self.reader.reusable and not self.broken

    def begin(self, method: bytes) -> None:
        """Prepare for a request; call before each one."""
        self._link.wrote = False
        self.reader.begin(without_body=method == b"HEAD")

    async def send(self, data: bytes) -> None:
        """Write a part of the request.

        Raises:
            NothingSentError: not a byte of the request has left.
        """
        try:
            await self._link.send(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            if not self._link.wrote:
                raise NothingSentError from error
            self.broken = True

    async def wait_continue(self) -> bool:
        """Wait a second at most for a 100; return whether to send the body: not if an answer came instead.

        Raises: as `receive`.
        """
        with trio.move_on_after(_CONTINUE_SECONDS):
            while not (self.reader.continued or self.reader.head_done):
                await self.receive()
        return not self.reader.head_done

    async def receive(self) -> None:
        """Read the next bytes of the response.

        Raises:
            httpx.ReadError: the connection failed.
            httpx.RemoteProtocolError: what came is no response, or ended in its middle.
        """
        try:
            data = await self._link.receive()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            if self.broken:
                raise httpx.WriteError("the connection failed while the request was being written") from error
            raise httpx.ReadError(str(error)) from error
        try:
            if data:
                self.reader.feed(data)
            else:
                self.reader.feed_eof()
        except MalformedError as error:
            raise httpx.RemoteProtocolError(str(error)) from error

    def close(self) -> None:
        """Close it at once."""
        self._link.close()
        self.reader.close()
