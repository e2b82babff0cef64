"""What one process asks another over a connection that is late."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from tests.bot.rig import FORM
from triobot.nodes import links, peers
from triobot.nodes.doors import Doors
from triobot.nodes.frames import PutKept, ReadBroadcast
from triobot.nodes.inbox import NodeInbox
from triobot.nodes.owners import NoOwnerError, Owner
from triobot.nodes.peers import Peer, PeerDoor, Peers
from triobot.webhook.inbox import EventStored, Inbox
from triobot.wire.ids import ChatId

KEY = b"k" * 32
SHARD, NODE = 0, 7


@attrs.define
class Here:
    """An inbox that takes everything."""

    taken: list[bytes] = attrs.Factory(list[bytes])

    async def accept(self, content_type: str, body: bytes, event: object = None) -> EventStored:
        await trio.lowlevel.checkpoint()
        self.taken.append(body)
        return EventStored(False, None)


@attrs.define
class Late:
    """A connection on which what was sent waits while it is cut."""

    here: Here
    peers: Peers
    owners: dict[int, Owner]
    sent: int = 0
    _cut: trio.Event | None = None

    def cut(self) -> None:
        self._cut = trio.Event()

    def mend(self) -> None:
        assert self._cut is not None
        self._cut.set()

    async def wait(self) -> None:
        if self._cut is not None:
            await self._cut.wait()


@pytest.fixture
def one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides' clocks go as virtual time does."""
    for module in (links, peers):
        monkeypatch.setattr(module, "steady_time", lambda: int(trio.current_time() * 1000))


@asynccontextmanager
async def connected() -> AsyncGenerator[Late]:
    left, right = trio.testing.memory_stream_pair()
    here, owners = Here(), dict[int, Owner]()
    door = PeerDoor(NodeInbox(Doors(1, {}), {SHARD: cast("Inbox", here)}), owners, KEY)

    async def connect() -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return left

    asking = Peers(lambda shard: NODE)
    asking.all[NODE] = Peer("a test's", connect, KEY)
    late = Late(here, asking, owners)
    pumped = left.send_stream.send_all_hook
    assert pumped is not None

    async def pump() -> None:
        late.sent += 1
        await late.wait()
        await cast("Any", pumped)()

    left.send_stream.send_all_hook = pump
    async with trio.open_nursery() as nursery:
        nursery.start_soon(door._answer_all, right)
        nursery.start_soon(asking.keep_connected)
        while not asking.all[NODE].is_there:
            await trio.sleep(0.01)
        late.sent = 0
        yield late
        nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("one_clock")
async def test_an_event_that_comes_after_it_was_given_up_is_not_taken(autojump_clock: MockClock) -> None:
    """It has been repeated elsewhere, and answered: taken once more it would count as said twice."""
    async with connected() as late:
        late.cut()
        until = trio.current_time() + 3
        with trio.move_on_at(until) as scope:
            await late.peers.hand_on(SHARD, FORM, b"late", until)
        assert scope.cancelled_caught
        await trio.sleep(0.5)  # the connection lasts for longer
        late.mend()
        assert await late.peers.hand_on(SHARD, FORM, b"next", trio.current_time() + 5) == EventStored(
            False, None
        )
        assert late.here.taken == [b"next"]


@pytest.mark.usefixtures("one_clock")
async def test_an_event_that_is_late_and_still_wanted_is_taken(autojump_clock: MockClock) -> None:
    async with connected() as late:
        late.cut()
        outcomes: list[object] = []

        async def hand_on() -> None:
            outcomes.append(await late.peers.hand_on(SHARD, FORM, b"late", trio.current_time() + 3))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(hand_on)
            await trio.sleep(2.9)
            late.mend()
        assert outcomes == [EventStored(False, None)]
        assert late.here.taken == [b"late"]


async def test_nothing_is_sent_for_a_shard_that_was_lost_while_there_was_no_room(
    autojump_clock: MockClock,
) -> None:
    async with connected() as late:
        with pytest.raises(NoOwnerError):
            await late.peers.ask(SHARD, ReadBroadcast("news"), lambda: 0.0)
        with pytest.raises(NoOwnerError):  # the door's: it has no such shard
            await late.peers.ask(SHARD, ReadBroadcast("news"), lambda: 3.0)
        assert late.sent == 1


@attrs.define
class Asked:
    """A shard whose work has begun, or not; it notes what it is asked, and does nothing."""

    frames: list[object] = attrs.Factory(list[object])
    works: trio.Event = attrs.Factory(trio.Event)

    async def answer(self, frame: object, wanted: Callable[[], bool]) -> None:
        await self.works.wait()
        if not wanted():
            raise NoOwnerError
        self.frames.append(frame)


@pytest.mark.usefixtures("one_clock")
@pytest.mark.parametrize("works", [True, False], ids=["on its way", "before the work begins"])
async def test_what_a_shard_asks_is_not_done_after_its_lease(autojump_clock: MockClock, works: bool) -> None:
    """Another process may have asked it since, and had it settled: it would be done twice."""
    async with connected() as late:
        shard = Asked()
        late.owners[SHARD] = cast("Owner", shard)
        put = PutKept(ChatId(7), "colour", "blue", "once")
        refused: list[object] = []

        async def ask(seconds: float) -> None:
            try:
                await late.peers.ask(SHARD, put, lambda: seconds)
            except NoOwnerError as error:
                refused.append(error)

        async with trio.open_nursery() as nursery:
            if works:
                shard.works.set()
                late.cut()
            nursery.start_soon(ask, 1.5)
            nursery.start_soon(ask, 0.5)
            await trio.sleep(1)
            shard.works.set()
            if works:
                late.mend()
        assert (len(refused), shard.frames) == (1, [put])
        # What hangs on no lease is done however late it comes.
        await late.peers.ask(SHARD, put)
        assert shard.frames == [put, put]


async def test_a_shard_does_nothing_that_is_not_wanted_once_its_work_has_begun() -> None:
    async with trio.open_nursery() as nursery:
        owner = Owner(cast("Any", None), nursery)
        wanted = iter([True, False])
        refused: list[bool] = []

        async def ask() -> None:
            with pytest.raises(NoOwnerError):
                await owner.answer(ReadBroadcast("news"), lambda: next(wanted))
            refused.append(True)

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert next(wanted) is True
        owner.begin(cast("Any", None))
        await trio.testing.wait_all_tasks_blocked()
        assert refused == [True]
