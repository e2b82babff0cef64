"""The other processes that have shards of the same store: asked over one kept connection each.

Each process listens at a door, a TCP port, and connects to all others. 256 requests at most are under way to
one of them: further events are refused, and what conversations ask waits for its turn.
"""

from __future__ import annotations

import logging
import math
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias, assert_never, cast, final

import trio

from ..clock import steady_time
from ..errors import StoreError, StoreFullError, TriobotError
from ..seams import Held
from ..values import decode_value, encode_value
from ..webhook.inbox import EventStored, NoRoom, Outcome, Unreached, Unread, Unstorable, Unwritable
from .frames import Frame, OpenPart
from .inbox import NodeInbox
from .links import STALL_SECONDS, Kind, NodeLink, StrangerError, open_link
from .owners import NoOwnerError, Owner
from .tls import DoorTls

_log: Final = logging.getLogger("triobot.nodes")
Connect: TypeAlias = Callable[[], Awaitable[trio.abc.Stream]]
"""Connects to another process's door; StrangerError: that is none of the nodes'."""
# A machine that is gone without a word is found out after so many seconds, where the system can do that.
_KEEPALIVE: Final[Mapping[str, int]] = {
    "TCP_KEEPIDLE": 5,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    # Else what was sent is sent again and again for a quarter of an hour, and the first answer to that may
    # come two minutes after the network is back.
    "TCP_USER_TIMEOUT": int(STALL_SECONDS * 1000),
}
UNDER_WAY: Final = 256
"""Requests that may be under way to one other process."""
MOST_UNPROVED: Final = 64
"""Connections to a door on which the key isn't proved yet; further ones are closed at once."""
_AGAIN_SECONDS: Final = 0.05
_TOLD_AGAIN_SECONDS: Final = 60.0
_EVENT: Final = struct.Struct(">BHQ")
_ASKED: Final = struct.Struct(">BQ")
_ALWAYS: Final = 2**64 - 1
"""The shard of an event, the length of its content type, and until when it may be taken, by that clock."""
# A byte for each thing that may become of an event; behind it is the delivery's key.
_OUTCOMES: Final[Mapping[bytes, Outcome]] = {
    b"u": Unread(),
    b"c": NoRoom(whole=False),
    b"w": NoRoom(whole=True),
    b"x": Unwritable(),
    b"r": Unreached(),
    b"s": Unstorable(),
}
_BYTES: Final = {outcome: byte for byte, outcome in _OUTCOMES.items()}


@final
class Peer:
    """Another process, as this one asks it.

    Args:
        door: where it listens, for the log.
        connect: connects to it.
        key: both sides prove it.
        told_after: if it can't be reached for so many seconds, the log says so: it is known to live.
    """

    def __init__(self, door: str, connect: Connect, key: bytes, *, told_after: float = math.inf) -> None:
        self._door = door
        self._connect = connect
        self._key = key
        self._link: NodeLink | None = None
        self._numbers = 0
        self._pending: dict[int, _Reply] = {}
        self._room = trio.Semaphore(UNDER_WAY)
        self._strange = False
        self._told_after = told_after
        self._gone_at: float | None = None

    @property
    def is_full(self) -> bool:
        """Return whether as many requests are under way as may be."""
        return self._room.value == 0

    @property
    def is_there(self) -> bool:
        """Return whether it can be asked now."""
        return self._link is not None

    async def keep_connected(self) -> None:
        """Connect, and connect again whenever the connection ends, until cancelled."""
        self._gone_at = trio.current_time()
        while True:
            try:
                stream = await self._connect()
                async with open_link(stream, self._key, first=True) as link:
                    await self._live(link)
            except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
                self._look_how_long(error)  # it isn't there yet, or not any more
            except StrangerError as error:
                if not self._strange:
                    _log.error("the process at %s is not asked: %s", self._door, error)
                self._strange = True
            await trio.sleep(_AGAIN_SECONDS)

    def _look_how_long(self, error: Exception) -> None:
        if self._gone_at is None or trio.current_time() < self._gone_at + self._told_after:
            return
        self._gone_at = None
        _log.warning(
            "the process at %s lives, and this one can't reach it (%s): events of its chats that come here"
            " get 503; look at that address, and at the network and the firewalls between",
            self._door,
            str(error) or "it doesn't answer",
        )

    async def _live(self, link: NodeLink) -> None:
        self._link, self._strange = link, False
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_broken, link.keep_sending, nursery.cancel_scope)
                nursery.start_soon(_until_broken, partial(self._hear, link), nursery.cancel_scope)
        finally:
            self._link, self._gone_at = None, trio.current_time()
            for reply in self._pending.values():
                reply.came.set()  # without an answer: nobody knows what became of it
            self._pending.clear()

    async def _hear(self, link: NodeLink) -> None:
        while (frame := await link.receive()) is not None:
            kind, number, content = frame
            if (reply := self._pending.pop(number, None)) is not None:
                reply.kind, reply.content = kind, content
                reply.came.set()

    async def request(self, kind: Kind, content: bytes | Callable[[NodeLink], bytes]) -> bytes:
        """Ask, and return the answer.

        Args:
            content: of the frame, or what writes it for the link that it goes over.

        Raises:
            NoOwnerError: it isn't there, or doesn't have the shard, or has gone without an answer.
            StoreError: it could not be done there.

        Cancellation: *ambiguous*: it may be done.
        """
        async with self._room:
            if (link := self._link) is None:
                raise NoOwnerError
            self._numbers += 1
            number, reply = self._numbers, _Reply()
            self._pending[number] = reply
            try:
                link.send(kind, number, content if isinstance(content, bytes) else content(link))
                await reply.came.wait()
            finally:
                self._pending.pop(number, None)
        match reply.kind:
            case Kind.DONE:
                return reply.content
            case Kind.FAILED:
                full, _, text = reply.content.decode().partition("\n")
                raise StoreFullError(text) if full == "full" else StoreError(text)
            case _:
                raise NoOwnerError

    def tell(self, kind: Kind, content: bytes) -> None:
        """Say something that has no answer, if it is there; never waits."""
        if self._link is not None:
            self._link.send(kind, 0, content)


async def _until_broken(work: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError, StrangerError):
        await work()
    scope.cancel()


@final
class _Reply:
    """A request's answer, once it has come; without a kind if the connection has ended before."""

    __slots__ = ("came", "content", "kind")

    def __init__(self) -> None:
        self.came = trio.Event()
        self.kind: Kind | None = None
        self.content = b""


@final
class Peers:
    """All other processes with shards of the store.

    Args:
        node_of: returns which process has a shard; None: it isn't known, or none has.
        look: called when a process says that it doesn't have a shard that it should; never waits.

    Attributes:
        all: the processes, by number. They may come and go.
    """

    def __init__(self, node_of: Callable[[int], int | None], look: Callable[[], None] = lambda: None) -> None:
        self._node_of = node_of
        self._look = look
        self.all: Final[dict[int, Peer]] = {}

    def node_of(self, shard: int) -> int | None:
        """Return which process has a shard; None: none that is known."""
        return self._node_of(shard)

    def is_full(self, shard: int) -> bool:
        """Return whether no more events are taken for a shard's owner now."""
        node = self._node_of(shard)
        return node is not None and node in self.all and self.all[node].is_full

    async def ask(self, shard: int, frame: Frame, held: Held | None = None) -> object:
        """Have the owner of a shard do this, as long as the one that asks is `held`.

        What comes there later isn't done: another process may have asked it since, and had it settled.
        """
        asked = encode_value(frame).encode()

        def content(link: NodeLink) -> bytes:
            if held is None:
                return _ASKED.pack(shard, _ALWAYS) + asked
            if not (seconds := held()):
                raise NoOwnerError
            return _ASKED.pack(shard, link.there(seconds)) + asked

        return decode_value((await self._request(shard, Kind.ASK, content)).decode())

    async def hand_on(self, shard: int, content_type: str, body: bytes, until: float) -> Outcome:
        """Bring an event to the owner of its shard, and return what became of it there.

        Args:
            until: Trio's time at which the caller gives it up: if it comes there later it isn't taken, since
                it may have been repeated meanwhile, and answered.
        """
        head = content_type.encode()

        def content(link: NodeLink) -> bytes:
            last = link.there(until - trio.current_time())
            return _EVENT.pack(shard, len(head), last) + head + body

        answer = await self._request(shard, Kind.EVENT, content)
        if (outcome := _OUTCOMES.get(answer[:1])) is not None:
            return outcome
        return EventStored(answer[:1] == b"2", answer[1:].decode() or None)

    def answered(self, shard: int, key: str) -> None:
        """Tell a shard's owner that the 200 of a delivery was fully written."""
        with suppress(NoOwnerError):
            self._of(shard).tell(Kind.ANSWERED, bytes([shard]) + key.encode())

    async def _request(self, shard: int, kind: Kind, content: bytes | Callable[[NodeLink], bytes]) -> bytes:
        peer = self._of(shard)
        try:
            return await peer.request(kind, content)
        except NoOwnerError:
            if peer.is_there:
                self._look()
            raise

    def _of(self, shard: int) -> Peer:
        node = self._node_of(shard)
        if node is None or node not in self.all:
            raise NoOwnerError
        return self.all[node]

    async def keep_connected(self) -> None:
        """Keep a connection to each, until cancelled."""
        async with trio.open_nursery() as nursery:
            for peer in self.all.values():
                nursery.start_soon(peer.keep_connected)


def keep_alive(stream: trio.SocketStream) -> None:
    """Have the system find out when the other machine is gone."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            stream.setsockopt(socket.IPPROTO_TCP, option, value)


@final
class PeerDoor:
    """Answers the other processes.

    Args:
        tls: encrypts what goes over TCP; None: nothing does.
    """

    def __init__(
        self, inbox: NodeInbox, owners: Mapping[int, Owner], key: bytes, tls: DoorTls | None = None
    ) -> None:
        self._tls = tls
        self._inbox = inbox
        self._owners = owners
        self._key = key
        # Connections on which the key isn't proved yet.
        self._unproved = 0
        self._told_at, self._untold = -math.inf, 0

    async def answer(
        self,
        listeners: Sequence[trio.abc.Listener[trio.abc.Stream]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Answer until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(trio.serve_listeners, self._answer_all, listeners)
            task_status.started()

    async def _answer_all(self, stream: trio.abc.Stream) -> None:
        if isinstance(stream, trio.SocketStream):
            keep_alive(stream)
        if self._unproved >= MOST_UNPROVED:
            return
        # What has begun to be stored goes on when the connection ends: whoever repeats it is to find it.
        async with trio.open_nursery() as events:
            await self._answer_link(stream, events)

    async def _answer_link(self, stream: trio.abc.Stream, events: trio.Nursery) -> None:
        sessions: list[tuple[Owner, str]] = []
        try:
            async with stream:
                link = await self._greeted(stream)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_until_broken, link.keep_sending, nursery.cancel_scope)
                    reading = partial(self._read, link, nursery, events, sessions)
                    nursery.start_soon(_until_broken, reading, nursery.cancel_scope)
        except StrangerError as error:
            self._tell(error)
        except (trio.BrokenResourceError, trio.TooSlowError):
            pass
        finally:
            with trio.move_on_after(1, shield=True):
                # Whoever was starting a broadcast is gone: else its captures would stand open for good.
                for owner, session in sessions:
                    await owner.give_up([session])

    async def _greeted(self, stream: trio.abc.Stream) -> NodeLink:
        tls = self._tls
        self._unproved += 1
        try:
            link = NodeLink(stream if tls is None else await tls.secure(stream, first=False))
            await link.greet(self._key, first=False)
        finally:
            self._unproved -= 1
        return link

    def _tell(self, error: StrangerError) -> None:
        """Log that somebody was sent away, at most once a minute: a flood must not fill the log."""
        if trio.current_time() < self._told_at + _TOLD_AGAIN_SECONDS:
            self._untold += 1
            return
        more = f", and {self._untold} more since the last such line" if self._untold else ""
        self._told_at, self._untold = trio.current_time(), 0
        _log.warning("a process was sent away that wanted to hand something on%s: %s", more, error)

    async def _read(
        self,
        link: NodeLink,
        nursery: trio.Nursery,
        events: trio.Nursery,
        sessions: list[tuple[Owner, str]],
    ) -> None:
        room = trio.Semaphore(UNDER_WAY)
        while (frame := await link.receive()) is not None:
            kind, number, content = frame
            if kind is Kind.ANSWERED:
                try:
                    self._inbox.answered_there(content[1:].decode())
                except (ValueError, IndexError):
                    raise StrangerError("what came is no frame") from None
                continue
            # The other side counts as well; this is for one that doesn't.
            await room.acquire()
            answering = events if kind is Kind.EVENT else nursery
            answering.start_soon(self._answer, link, kind, number, content, sessions, room)

    async def _answer(
        self,
        link: NodeLink,
        kind: Kind,
        number: int,
        content: bytes,
        sessions: list[tuple[Owner, str]],
        room: trio.Semaphore,
    ) -> None:
        try:
            answer = await (self._take(content) if kind is Kind.EVENT else self._ask(content, sessions))
        except NoOwnerError:
            link.send(Kind.NO_OWNER, number, b"")
        except TriobotError as error:
            word = "full" if isinstance(error, StoreFullError) else "failed"
            link.send(Kind.FAILED, number, f"{word}\n{error}".encode())
        except Exception as error:
            # A mistake here must not take the other requests of this connection with it.
            _log.error("what another process asked for failed with %s", type(error).__name__, exc_info=error)
            link.send(Kind.FAILED, number, b"failed\nthe process that has the shard failed; see its log")
        else:
            link.send(Kind.DONE, number, answer)
        finally:
            room.release()

    async def _take(self, content: bytes) -> bytes:
        shard, length, last = _EVENT.unpack_from(content)
        if steady_time() >= last:
            raise NoOwnerError  # nobody waits for it any more
        body = content[_EVENT.size :]
        outcome = await self._inbox.take(shard, body[:length].decode(), body[length:])
        match outcome:
            case EventStored(repeated, key):
                return (b"2" if repeated else b"1") + (key or "").encode()
            case Unread() | NoRoom() | Unwritable() | Unreached() | Unstorable():
                return _BYTES[outcome]
            case _ as never:
                assert_never(never)

    async def _ask(self, content: bytes, sessions: list[tuple[Owner, str]]) -> bytes:
        shard, last = _ASKED.unpack_from(content)
        if (owner := self._owners.get(shard)) is None:
            raise NoOwnerError
        frame = cast("Frame", decode_value(content[_ASKED.size :].decode()))
        if isinstance(frame, OpenPart):
            sessions.append((owner, frame.session))
        return encode_value(await owner.answer(frame, lambda: steady_time() < last)).encode()
