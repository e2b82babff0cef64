"""One connection of a listener: serves request after request until either side ends it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias, final

import attrs
import trio

from ..errors import ConfigError
from .links import ByteLink
from .request import Incoming, KnownHeads, MalformedError, RequestReader
from .talk import Handler, SenderLeftError, Talk

_log: Final = logging.getLogger("triobot.http")

# A sender that reads its answers has made room by then.
PRIVATE: Final = (
    *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
    *("::1", "fc00::/7", "fe80::/10", "unix"),
)
"""The addresses of this machine and of private networks."""

_MOMENT: Final = 1.0
_TEXT: Final = ((b"content-type", b"text/plain; charset=utf-8"),)

Noted: TypeAlias = Callable[[str, bytes, int, float], None]
"""Called after each answer: method, target, status (0: none was written), seconds; must not raise."""


@final
@attrs.frozen(kw_only=True)
class ServingLimits:
    """How many connections a listener takes, and how long it waits for them.

    Attributes:
        header_bytes: the longest request line with its headers, about. Longer: 431.
        idle_seconds: how long a connection may wait for a request, and a begun head for its end; up to a
            quarter more. Then it is closed without an answer.
        body_seconds: how long a reader of a body may wait for its next bytes; up to a quarter of
            `idle_seconds` more. Then the connection is closed.
        send_seconds: how long a write may wait for a sender that doesn't read its answers; up to a quarter of
            `idle_seconds` more. Then the connection is closed.
        send_bytes: about how many bytes of answers the kernel holds for a sender that doesn't read them;
            None: as many as it thinks right for long answers, some megabytes.
        linger_seconds: how long what is still sent is read and thrown away after an answer to a request
            that has not come to its end, so that the answer reaches a sender that reads only after it has
            written.
        connections: how many are open at once; never more than the process may have, less what it needs for
            other things. One more: the connection whose sender has kept us waiting for longest is closed;
            where all have a request in hand, the new one waits in the kernel's queue.
        connections_per_address: the same for one IPv4 address or one IPv6 network of 64 bits, or None. One
            more: as above, among that sender's; where all have a request in hand, the new one is closed.
        shared_addresses: addresses and networks that many senders share, such as a proxy's: what comes from
            these, or through a path, is not bounded as one sender's.
        spare_descriptors: files that the process is to open besides connections: its store, its own requests.
        settle_seconds: at a stop, how long connections that are open may still bring a request.
        grace_seconds: at a stop, how long requests that are in hand may take to be answered.

    Raises:
        ConfigError: one of them is not above zero.
    """

    header_bytes: int = 16 * 1024
    idle_seconds: float = 5.0
    # nginx: client_body_timeout 60 s, and as there between two reads. Applications may want less.
    body_seconds: float = 60.0
    # nginx: send_timeout 60 s; our answers are short, a place is dear.
    send_seconds: float = 30.0
    send_bytes: int | None = None
    # nginx: lingering_timeout 5 s. A sender that is cut off sooner only comes back sooner.
    linger_seconds: float = 5.0
    # Enough to bear with thousands that say nothing until their time is over, at some 10 kB each.
    connections: int = 4096
    connections_per_address: int | None = 128
    # This machine's own, and those of private networks, where proxies are.
    shared_addresses: tuple[str, ...] = PRIVATE
    spare_descriptors: int = 128
    settle_seconds: float = 0.25
    grace_seconds: float = 10.0

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self, recurse=False).items():
            if isinstance(value, int | float) and not value > 0:
                raise ConfigError(f"the listener's {name} must be above zero")


@final
class ServerConnection:
    """Serves one connection.

    Attributes:
        sender: the name under which it is counted.
        waiting_since: when it began to wait for a request or for the end of a head; infinite while a
            request is in hand.
        lingering_since: when it began to throw away what follows its last answer; infinite before.
    """

    def __init__(
        self,
        link: ByteLink,
        handler: Handler,
        limits: ServingLimits,
        *,
        sender: str,
        peer: tuple[str, int] | None,
        server: tuple[str, int] | None,
        secured: bool,
        stopping: Callable[[], bool],
        turnstile: trio.CapacityLimiter,
        noted: Noted | None,
        known: KnownHeads,
    ) -> None:
        self.sender = sender
        # What `trio.current_time` asks, which looks for the loop and its clock each time.
        self._time = trio.lowlevel.current_clock().current_time
        self._turnstile = turnstile
        self.waiting_since = self._time()
        self.lingering_since = math.inf
        self._queued_since = math.inf
        self._queued: trio.CancelScope | None = None
        self._gave_way = False
        self._link = link
        self._handler = handler
        self._limits = limits
        self._noted = noted
        self._in_hand: Talk | None = None
        self._reader = RequestReader(head_bytes=limits.header_bytes, known=known)
        self._talk = partial(
            Talk,
            link=link,
            reader=self._reader,
            peer=peer,
            server=server,
            secured=secured,
            stopping=stopping,
        )

    @property
    def idle(self) -> bool:
        """Return whether it waits for a request of which no byte has come."""
        return self.waiting_since < math.inf and not self._reader.begun

    @property
    def stalled_since(self) -> float:
        """Return when a write began to wait for the sender to read; infinite while none does."""
        return self._link.stalled_since

    @property
    def starved_since(self) -> float:
        """Return when a read began to wait for the next bytes of a body; infinite while none does."""
        return math.inf if self._in_hand is None else self._in_hand.starved_since

    @property
    def kept_waiting_since(self) -> float:
        """Return since when only the sender holds this connection up; infinite while a handler works on it.

        It may wait for a request, the rest of a head or the next bytes of a body; for the end of what is
        thrown away behind an answer; or, after a moment, for room to write an answer that the sender doesn't
        read. A request that came behind another and has not begun counts as well.
        """
        return min(
            self.waiting_since,
            self.starved_since,
            self.lingering_since,
            self.stalled_since + _MOMENT,
            self._queued_since,
        )

    def give_way(self, since: float) -> bool:
        """Close it if `kept_waiting_since` is still this instant and nothing has arrived meanwhile.

        Returns:
            Whether it was closed.
        """
        if self.kept_waiting_since != since:
            return False
        # Bytes that the kernel has and no task has read yet may be a proper request.
        if min(self.waiting_since, self.starved_since) == since and not self._link.is_quiet():
            return False
        self._gave_way = True
        self._link.close()
        if self._queued is not None:
            self._queued.cancel()
        return True

    def close(self) -> None:
        """Close it at once; a request that is in hand gets no answer."""
        self._link.close()

    async def run(self) -> None:
        """Serve it to its end.

        Cancellation: *forceful*: it is closed, and a request in hand gets no answer.
        """
        try:
            while (request := await self._next()) is not None and await self._serve(request):
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError, SenderLeftError):
            # The sender has gone, or the connection was closed here: no answer can be written.
            pass
        finally:
            self._link.close()
            self._reader.close()

    async def _next(self) -> Incoming | None:
        reader = self._reader
        begun = False
        try:
            request = reader.next()
            if request is not None:
                self.waiting_since = math.inf
                # It came with the one before it, and thousands may have come with that: these take turns.
                self._queued_since = trio.current_time()
                with trio.CancelScope() as self._queued:
                    async with self._turnstile:
                        await trio.lowlevel.checkpoint()
                self._queued_since = math.inf
                if self._gave_way:
                    return None
            while request is None:
                if self.waiting_since == math.inf or reader.begun > begun:
                    # Counted anew from its first byte on, so that a request in the last moment is heard out.
                    begun = reader.begun
                    self.waiting_since = trio.current_time()
                data = await self._link.receive()
                if not data:
                    return None
                request = reader.read(data)
        except MalformedError as error:
            await self._refuse(error)
            return None
        self.waiting_since = math.inf
        return request

    async def _serve(self, request: Incoming) -> bool:
        talk = self._in_hand = self._talk(request)
        began = self._time()
        try:
            try:
                await self._handler(talk)
            except SenderLeftError:
                if talk.broken is None:
                    raise
            if talk.broken is not None and not talk.status:
                await talk.answer(talk.broken.status, _TEXT, f"{talk.broken.rule}\n".encode(), close=True)
        except (trio.BrokenResourceError, trio.ClosedResourceError, SenderLeftError):
            talk.closing = True
            raise
        except Exception as error:
            # The application's mistake; its text may hold anything.
            _log.error("a request failed with %s", type(error).__name__)
            _log.debug("a request failed", exc_info=error)
            if not talk.status:
                await talk.answer(500, _TEXT, b"failed\n", close=True)
        finally:
            self._in_hand = None
            ended = self._time()
            if self._noted is not None:
                status = talk.status if talk.finished else 0
                self._noted(request.method, request.target, status, ended - began)
        if not talk.finished:
            return False
        if talk.closing:
            await self._linger(complete=request.complete)
            return False
        self.waiting_since = ended
        return True

    async def _refuse(self, error: MalformedError) -> None:
        """Answer bytes that are no request with the error's status, then close."""
        self.waiting_since = math.inf
        request = Incoming("?", b"*", "1.1", [], length=None, expects=False, keep_alive=False, upgrade=False)
        if self._noted is not None:
            self._noted("?", b"*", error.status, 0.0)
        await self._talk(request).answer(error.status, _TEXT, f"{error.rule}\n".encode(), close=True)
        await self._linger(complete=False)

    async def _linger(self, *, complete: bool) -> None:
        # Closing before the sender has written all would reset the connection and take the answer with it.
        if complete and self._link.is_quiet():
            return
        self.lingering_since = trio.current_time()
        with trio.move_on_after(self._limits.linger_seconds):
            await self._link.send_eof()
            while await self._link.receive():
                pass
