"""The ways between the machines, and to the database: slow now and then, cut, and lossy.

What is on its way belongs to no machine: it arrives although whoever sent it stands still.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Final, TypeVar

import attrs
import outcome
import trio
import trio.testing

from tests.nodes.simulation.machines import Machine, outside, this_machine
from triobot.nodes.links import STALL_SECONDS

R = TypeVar("R")

_NOTICED_SECONDS: Final = 2.0
"""After so long the kernel finds out that nobody answers; see the sessions' `tcp_user_timeout`."""
_CONNECT_SECONDS: Final = 2.0
_KEPT_ALIVE_SECONDS: Final = 20.0


class LostError(Exception):
    """There was no answer: it was done, or not."""


@attrs.define(eq=False)
class Link:
    """The way between two.

    Attributes:
        up: what is sent arrives.
        slow: seconds that it may take besides.
        loses: the chance that a connection breaks under one question.
        well_since: when it began to be neither cut nor slow.
    """

    _chance: random.Random
    up: bool = True
    slow: float = 0.0
    loses: float = 0.0
    well_since: float = 0.0
    _news: trio.Event = attrs.Factory(trio.Event)

    def delay(self) -> float:
        """Return how long something is on its way."""
        return self._chance.uniform(0.0002, 0.003) + self.slow * self._chance.random() ** 2

    def breaks(self) -> bool:
        """Return whether what is asked now, or answered, doesn't arrive."""
        return not self.up or (self.loses > 0 and self._chance.random() < self.loses)

    def cut(self) -> None:
        """Let nothing through."""
        self.up, self.well_since = False, math.inf

    def mend(self) -> None:
        """Let all through, and at once."""
        self.up, self.slow, self.loses = True, 0.0, 0.0
        self.well_since = trio.current_time()
        news, self._news = self._news, trio.Event()
        news.set()

    async def wait_up(self) -> None:
        """Wait until something gets through."""
        while not self.up:
            await self._news.wait()


@attrs.define(eq=False)
class _Reply:
    came: trio.Event = attrs.Factory(trio.Event)
    what: outcome.Outcome[object] | None = None


async def ask(nursery: trio.Nursery, link: Link, chance: random.Random, effect: Callable[[], R]) -> R:
    """Have this done at the other end, and return what comes back, or raise what is raised there.

    Raises:
        LostError: the connection broke on the way there, so that nothing was done, or on the way back.

    Cancellation: *ambiguous*: it may be done.
    """
    reply = _Reply()
    outside(nursery, _carry, link, chance, effect, reply)
    await reply.came.wait()
    if reply.what is None:
        raise LostError
    return reply.what.unwrap()  # type: ignore[return-value]


async def _carry(link: Link, chance: random.Random, effect: Callable[[], object], reply: _Reply) -> None:
    try:
        if not link.up and chance.random() < 0.5:
            # The kernel sends it again and again, until it gives up.
            with trio.move_on_after(_NOTICED_SECONDS):
                await link.wait_up()
        lost = link.breaks()
        await trio.sleep(link.delay())
        if not lost and link.up:
            done = outcome.capture(effect)
            lost = link.breaks()
            await trio.sleep(link.delay())
            if not lost and link.up:
                reply.what = done
                return
        await trio.sleep(chance.choice((0.0, chance.uniform(0, _NOTICED_SECONDS))))
    finally:
        reply.came.set()


# --- connections between nodes


@attrs.define(eq=False)
class _Way:
    """One direction of a connection: bytes in order, none of them lost while it lasts."""

    _link: Link
    broken: Callable[[], None]
    into: trio.testing.MemoryReceiveStream = attrs.Factory(trio.testing.MemoryReceiveStream)
    _going: list[bytes] = attrs.Factory(list[bytes])
    _some: trio.Event = attrs.Factory(trio.Event)

    def send(self, data: bytes) -> None:
        self._going.append(data)
        self._some.set()

    async def carry(self) -> None:
        while True:
            await self._some.wait()
            self._some = trio.Event()
            await trio.sleep(self._link.delay())
            with trio.move_on_after(STALL_SECONDS) as patience:
                await self._link.wait_up()
            if patience.cancelled_caught:
                self.broken()
                return
            going, self._going = b"".join(self._going), []
            if going:
                self.into.put_data(going)


@attrs.define(eq=False)
class Connection:
    """A connection between two machines: it breaks when one of them dies, or is cut off for too long."""

    ends: tuple[Machine, Machine]
    link: Link
    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)
    broken: bool = False
    ways: list[_Way] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.ways = [_Way(self.link, self.break_off), _Way(self.link, self.break_off)]

    async def live(self) -> None:
        """Carry what is sent, until it breaks."""
        with self.scope:
            async with trio.open_nursery() as nursery:
                for way in self.ways:
                    nursery.start_soon(way.carry)
                while True:
                    await trio.sleep(1.0)
                    with trio.move_on_after(_KEPT_ALIVE_SECONDS) as patience:
                        await self.link.wait_up()
                    if patience.cancelled_caught:
                        break
                nursery.cancel_scope.cancel()
        self.break_off()

    def break_off(self) -> None:
        """Let both ends find that it is broken."""
        if not self.broken:
            self.broken = True
            self.scope.cancel()
            for way in self.ways:
                way.into.close()


class End(trio.abc.Stream):
    """One end of it."""

    def __init__(self, connection: Connection, end: int) -> None:
        self._connection = connection
        self._out, self._in = connection.ways[end], connection.ways[1 - end]

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        if self._connection.broken:
            raise trio.BrokenResourceError
        self._out.send(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        try:
            return bytes(await self._in.into.receive_some(max_bytes))
        except trio.ClosedResourceError:
            raise trio.BrokenResourceError from None

    async def aclose(self) -> None:
        self._connection.break_off()
        await trio.lowlevel.checkpoint()


class DoorListener(trio.abc.Listener[End]):
    """A node's door."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.arrive, self._arrived = trio.open_memory_channel[End](math.inf)
        self.open = True

    async def accept(self) -> End:
        return await self._arrived.receive()

    async def aclose(self) -> None:
        self.open = False
        self._arrived.close()
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class Network:
    """All ways between the machines."""

    _nursery: trio.Nursery
    _chance: random.Random
    doors: dict[str, DoorListener] = attrs.Factory(dict[str, DoorListener])
    links: dict[frozenset[str], Link] = attrs.Factory(dict[frozenset[str], Link])
    connections: list[Connection] = attrs.Factory(list[Connection])

    def link(self, one: str, other: str) -> Link:
        """Return the way between two machines."""
        names = frozenset((one, other))
        if names not in self.links:
            self.links[names] = Link(self._chance)
        return self.links[names]

    async def connect(self, door: str) -> trio.abc.Stream:
        """Connect the machine that runs this to a door."""
        here, name = this_machine(), door.partition(":")[0]
        link = self.link(here.name, name)
        await trio.sleep(link.delay())
        if not link.up:
            await trio.sleep(_CONNECT_SECONDS)
            raise OSError(door)
        listener = self.doors.get(name)
        if listener is None or not listener.open or listener.machine.dead:
            raise OSError(door)
        connection = Connection((here, listener.machine), link)
        self.connections.append(connection)
        outside(self._nursery, connection.live)
        # The kernel takes it, whether the process runs or not.
        listener.arrive.send_nowait(End(connection, 1))
        return End(connection, 0)

    def died(self, machine: Machine) -> None:
        """Break all its connections."""
        for connection in self.connections:
            if machine in connection.ends:
                connection.break_off()
