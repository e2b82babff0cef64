"""A kept connection between two processes: both sides prove the store's key, then frames go both ways.

A frame is its length, a byte that says of what kind it is, the number of the request that it belongs to, what
the sender's clock was, and its content. What is sent while an earlier write is under way goes out with the
next one, all at once.

By the clocks a request can say until when it is worth doing (`NodeLink.there`): where a network was cut, or a
process stood still, it may come long after whoever asked has given up.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import IntEnum
from typing import Final, final

import trio

from ..clock import steady_time

VERSION: Final = b"triobot-node/3\n"
MOST_BYTES: Final = 32 * 1024 * 1024
"""Of one frame: the longest that the webhook takes, and what a chat may keep, are well below."""
_HEAD: Final = struct.Struct(">IBQQ")
_CLOCK: Final = struct.Struct(">Q")
_NONCE: Final = 32
_PROOF: Final = 32
_HANDSHAKE_SECONDS: Final = 2.0
STALL_SECONDS: Final = 4.0
"""How long the other side may take nothing before the connection counts as broken.

It is less than an event is held for where shards move between machines: what its sender has given up by then
must not come later, when the other side may have had it from elsewhere.
"""
_PIECE: Final = 256 * 1024
_AT_ONCE: Final = 64 * 1024


class Kind(IntEnum):
    """What a frame is."""

    EVENT = 1
    """An event for a shard of the other side; it is answered."""

    ANSWERED = 2
    """The 200 of a delivery was fully written; it is not answered."""

    ASK = 3
    """A question of `frames`; it is answered."""

    DONE = 4
    """The answer."""

    NO_OWNER = 5
    """The other side doesn't have that shard, or it can't answer now."""

    FAILED = 6
    """It could not be done, for the reason that is said."""


@final
class StrangerError(Exception):
    """The other side has another key, or speaks another version."""


@final
class NodeLink:
    """A connection that both sides have proved themselves on. Made by `open_link`."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._coming = bytearray()
        self._going = bytearray()
        self._some = trio.Event()
        # What is to be added to our clock: then it is the other side's, or before that.
        self._ahead = 0

    def there(self, seconds: float) -> int:
        """Return what the other side's clock will be so many seconds from now, or a little earlier.

        Earlier by as long as the last frame from there was on its way, and by what the clocks have drifted
        since: never later, but for that.
        """
        return max(0, steady_time() + self._ahead + int(seconds * 1000))

    def send(self, kind: Kind, number: int, content: bytes) -> None:
        """Send a frame soon, behind those before it; never waits.

        How much waits is bounded by whoever counts the requests, and by `STALL_SECONDS`: what is cancelled
        isn't taken back.
        """
        self._going += _HEAD.pack(len(content), kind, number, steady_time())
        self._going += content
        self._some.set()

    async def keep_sending(self) -> None:
        """Send, until cancelled or the connection breaks.

        Raises:
            trio.BrokenResourceError: it is broken, or the other side takes nothing any more.
        """
        while True:
            await self._some.wait()
            self._some = trio.Event()
            going, self._going = memoryview(self._going), bytearray()
            for at in range(0, len(going), _AT_ONCE):
                with trio.move_on_after(STALL_SECONDS) as patience:
                    await self._stream.send_all(going[at : at + _AT_ONCE])
                if patience.cancelled_caught:
                    raise trio.BrokenResourceError("the other side takes nothing")

    async def receive(self) -> tuple[Kind, int, bytes] | None:
        """Return the next frame; None at the end of the connection.

        Raises:
            trio.BrokenResourceError: it is broken.
            StrangerError: this is no frame.
        """
        head = await self._take(_HEAD.size)
        if head is None:
            return None
        length, kind, number, clock = _HEAD.unpack(head)
        if length > MOST_BYTES or kind not in Kind.__members__.values():
            raise StrangerError("what came is no frame")
        self._ahead = clock - steady_time()
        content = await self._take(length)
        return None if content is None else (Kind(kind), number, content)

    async def _take(self, size: int) -> bytes | None:
        while len(self._coming) < size:
            piece = await self._stream.receive_some(_PIECE)
            if not piece:
                return None
            self._coming += piece
        taken = bytes(self._coming[:size])
        del self._coming[:size]
        return taken

    async def _take_greeting(self, size: int) -> bytes:
        if (said := await self._take(size)) is None:
            raise trio.BrokenResourceError("the other side ended before it had proved anything")
        return said

    async def greet(self, key: bytes, *, first: bool) -> None:
        """Prove the key to the other side, and have it prove its own.

        Args:
            first: whoever has connected speaks first.

        Raises:
            StrangerError: it doesn't.
            trio.BrokenResourceError: the connection broke.
            trio.TooSlowError: it says nothing.
        """
        with trio.fail_after(_HANDSHAKE_SECONDS):
            own = secrets.token_bytes(_NONCE)
            await self._stream.send_all(VERSION + own)
            said = await self._take_greeting(len(VERSION) + _NONCE)
            if not said.startswith(VERSION):
                raise StrangerError(
                    "the process at the other end is of another version, or one of both encrypts its door and"
                    " the other doesn't; start all of them alike"
                )
            other = said[len(VERSION) :]
            nonces = own + other if first else other + own
            # What proves one side is worth nothing in the mouth of the other.
            mine, theirs = (b"first", b"second") if first else (b"second", b"first")
            await self._stream.send_all(_proof(key, mine, nonces) + _CLOCK.pack(steady_time()))
            proof = await self._take_greeting(_PROOF)
            if not hmac.compare_digest(proof, _proof(key, theirs, nonces)):
                raise StrangerError("the process at the other end doesn't have this store's key")
            (clock,) = _CLOCK.unpack(await self._take_greeting(_CLOCK.size))
            self._ahead = clock - steady_time()


def _proof(key: bytes, side: bytes, nonces: bytes) -> bytes:
    return hmac.digest(key, VERSION + side + nonces, "sha256")


@asynccontextmanager
async def open_link(stream: trio.abc.Stream, key: bytes, *, first: bool) -> AsyncGenerator[NodeLink]:
    """Make a link of a connection, for as long as the block runs; then close it.

    Raises: as `NodeLink.greet`.
    """
    async with stream:
        link = NodeLink(stream)
        await link.greet(key, first=first)
        yield link
