"""The other processes that have shards of the same store: asked over one kept connection each.

Each process listens at a socket beside the store, and connects to all others. 256 requests at most are under
way to one of them: further events are refused, and what conversations ask waits for its turn.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, assert_never, cast, final

import trio

from ..errors import StoreError, StoreFullError, TriobotError
from ..operator.calling import short_name
from ..operator.serving import bind_beside, is_ours
from ..shards import NodePlace
from ..values import decode_value, encode_value
from ..webhook.inbox import EventStored, NoRoom, Outcome, Unreached, Unread, Unstorable, Unwritable
from .frames import Frame, OpenPart
from .inbox import NodeInbox
from .links import Kind, NodeLink, StrangerError, open_link
from .owners import NoOwnerError, Owner

_log: Final = logging.getLogger("triobot.nodes")
UNDER_WAY: Final = 256
"""Requests that may be under way to one other process."""
_AGAIN_SECONDS: Final = 0.05
_LENGTHS: Final = struct.Struct(">BH")
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


def door_of(store: Path, node: int) -> Path:
    """Return the socket of a process with shards of the store that this file is the name of."""
    return store.resolve().with_name(f"{store.name}.node-{node}.sock")


@final
class Peer:
    """Another process, as this one asks it."""

    def __init__(self, path: Path, key: bytes) -> None:
        self._path = path
        self._key = key
        self._link: NodeLink | None = None
        self._numbers = 0
        self._pending: dict[int, _Reply] = {}
        self._room = trio.Semaphore(UNDER_WAY)
        self._strange = False

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
        while True:
            try:
                with short_name(self._path) as name:
                    stream = await trio.open_unix_socket(name)
                async with open_link(stream, self._key, first=True) as link:
                    await self._live(link)
            except (OSError, trio.BrokenResourceError, trio.TooSlowError):
                pass  # it isn't there yet, or not any more
            except StrangerError as error:
                if not self._strange:
                    _log.error("the process at %s is not asked: %s", self._path, error)
                self._strange = True
            await trio.sleep(_AGAIN_SECONDS)

    async def _live(self, link: NodeLink) -> None:
        self._link, self._strange = link, False
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_broken, link.keep_sending, nursery.cancel_scope)
                nursery.start_soon(_until_broken, partial(self._hear, link), nursery.cancel_scope)
        finally:
            self._link = None
            for reply in self._pending.values():
                reply.came.set()  # without an answer: nobody knows what became of it
            self._pending.clear()

    async def _hear(self, link: NodeLink) -> None:
        while (frame := await link.receive()) is not None:
            kind, number, content = frame
            if (reply := self._pending.pop(number, None)) is not None:
                reply.kind, reply.content = kind, content
                reply.came.set()

    async def request(self, kind: Kind, content: bytes) -> bytes:
        """Ask, and return the answer.

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
                link.send(kind, number, content)
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
    """All other processes with shards of the store."""

    def __init__(self, place: NodePlace, store: Path, key: bytes) -> None:
        self._place = place
        self.all: Final[dict[int, Peer]] = {
            node: Peer(door_of(store, node), key) for node in range(place.of) if node != place.number
        }

    def node_of(self, shard: int) -> int:
        """Return which process has a shard."""
        return self._place.node_of(shard)

    def is_full(self, shard: int) -> bool:
        """Return whether no more events are taken for a shard's owner now."""
        return self._of(shard).is_full

    async def ask(self, shard: int, frame: Frame) -> object:
        """Have the owner of a shard do this."""
        content = bytes([shard]) + encode_value(frame).encode()
        return decode_value((await self._of(shard).request(Kind.ASK, content)).decode())

    async def hand_on(self, shard: int, content_type: str, body: bytes) -> Outcome:
        """Bring an event to the owner of its shard, and return what became of it there."""
        head = content_type.encode()
        content = _LENGTHS.pack(shard, len(head)) + head + body
        answer = await self._of(shard).request(Kind.EVENT, content)
        if (outcome := _OUTCOMES.get(answer[:1])) is not None:
            return outcome
        return EventStored(answer[:1] == b"2", answer[1:].decode() or None)

    def answered(self, shard: int, key: str) -> None:
        """Tell a shard's owner that the 200 of a delivery was fully written."""
        self._of(shard).tell(Kind.ANSWERED, bytes([shard]) + key.encode())

    def _of(self, shard: int) -> Peer:
        return self.all[self._place.node_of(shard)]

    async def keep_connected(self) -> None:
        """Keep a connection to each, until cancelled."""
        async with trio.open_nursery() as nursery:
            for peer in self.all.values():
                nursery.start_soon(peer.keep_connected)


@final
class PeerDoor:
    """Answers the other processes: at a socket beside the store, which only this user's processes reach."""

    def __init__(self, inbox: NodeInbox, owners: Mapping[int, Owner], key: bytes) -> None:
        self._inbox = inbox
        self._owners = owners
        self._key = key

    async def serve(
        self, path: Path, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Answer until cancelled.

        Raises:
            OSError: the socket can't be made.
        """
        listener = trio.SocketListener(bind_beside(path))
        async with trio.open_nursery() as nursery:
            await nursery.start(trio.serve_listeners, self._answer_all, [listener])
            task_status.started()

    async def _answer_all(self, stream: trio.SocketStream) -> None:
        if not is_ours(cast("socket.socket", stream.socket)):
            return
        sessions: list[tuple[Owner, str]] = []
        try:
            async with open_link(stream, self._key, first=False) as link, trio.open_nursery() as nursery:
                nursery.start_soon(_until_broken, link.keep_sending, nursery.cancel_scope)
                reading = partial(self._read, link, nursery, sessions)
                nursery.start_soon(_until_broken, reading, nursery.cancel_scope)
        except StrangerError as error:
            _log.warning("a process was sent away that wanted to hand something on: %s", error)
        except (trio.BrokenResourceError, trio.TooSlowError):
            pass
        finally:
            with trio.move_on_after(1, shield=True):
                # Whoever was starting a broadcast is gone: else its captures would stand open for good.
                for owner, session in sessions:
                    await owner.give_up([session])

    async def _read(self, link: NodeLink, nursery: trio.Nursery, sessions: list[tuple[Owner, str]]) -> None:
        room = trio.Semaphore(UNDER_WAY)
        while (frame := await link.receive()) is not None:
            kind, number, content = frame
            if kind is Kind.ANSWERED:
                self._inbox.answered(EventStored(False, content[1:].decode()))
                continue
            # The other side counts as well; this is for one that doesn't.
            await room.acquire()
            nursery.start_soon(self._answer, link, kind, number, content, sessions, room)

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
        shard, length = _LENGTHS.unpack_from(content)
        body = content[_LENGTHS.size :]
        outcome = await self._inbox.take(shard, body[:length].decode(), body[length:])
        match outcome:
            case EventStored(repeated, key):
                return (b"2" if repeated else b"1") + (key or "").encode()
            case Unread() | NoRoom() | Unwritable() | Unreached() | Unstorable():
                return _BYTES[outcome]
            case _ as never:
                assert_never(never)

    async def _ask(self, content: bytes, sessions: list[tuple[Owner, str]]) -> bytes:
        owner = self._owners.get(content[0])
        if owner is None:
            raise NoOwnerError
        frame = cast("Frame", decode_value(content[1:].decode()))
        if isinstance(frame, OpenPart):
            sessions.append((owner, frame.session))
        return encode_value(await owner.answer(frame)).encode()
