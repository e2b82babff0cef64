"""A link between two processes: when the other side stands still, is gone, or is nobody of ours."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from triobot.nodes.cluster import HELD_SECONDS
from triobot.nodes.doors import Doors
from triobot.nodes.inbox import NodeInbox
from triobot.nodes.links import STALL_SECONDS, VERSION, Kind, NodeLink, StrangerError, open_link
from triobot.nodes.peers import MOST_UNPROVED, Peer, PeerDoor, keep_alive

KEY = b"k" * 32


async def test_a_link_whose_other_side_takes_nothing_is_broken_before_events_are_given_up(
    autojump_clock: MockClock,
) -> None:
    stream, _ = trio.testing.lockstep_stream_pair()
    link = NodeLink(stream)
    link.send(Kind.EVENT, 1, b"said")
    with pytest.raises(trio.BrokenResourceError):
        await link.keep_sending()
    assert trio.current_time() == STALL_SECONDS < HELD_SECONDS


async def test_a_link_whose_other_side_is_slow_lives(autojump_clock: MockClock) -> None:
    stream, other = trio.testing.lockstep_stream_pair()
    link, content = NodeLink(stream), bytes(200 * 1024)
    link.send(Kind.EVENT, 1, content)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.keep_sending)
        received = 0
        while received < len(content):
            await trio.sleep(STALL_SECONDS / 3)
            received += len(await other.receive_some(50_000))
        nursery.cancel_scope.cancel()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system can't be told so")
async def test_the_system_gives_up_what_another_machine_does_not_acknowledge() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, await trio.testing.open_stream_to_socket_listener(listener) as stream:
        keep_alive(stream)
        after = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert after == STALL_SECONDS * 1000


async def test_a_process_that_ends_while_it_greets_is_no_stranger() -> None:
    for said in (b"", VERSION + bytes(32)):
        stream, other = trio.testing.memory_stream_pair()
        await other.send_all(said)
        await other.send_eof()
        with pytest.raises(trio.BrokenResourceError):
            await NodeLink(stream).greet(b"key", first=True)


async def test_a_process_of_another_version_is_a_stranger() -> None:
    stream, other = trio.testing.memory_stream_pair()
    await other.send_all(b"triobot-node/0\n" + bytes(32))
    with pytest.raises(StrangerError, match="another version"):
        await NodeLink(stream).greet(b"key", first=True)


# --- doors


@asynccontextmanager
async def open_door() -> AsyncGenerator[trio.SocketListener]:
    """The door of a process that has no shards."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        door = PeerDoor(NodeInbox(Doors(4, {}), {}), {}, KEY)
        await nursery.start(door.answer, listeners)
        yield listeners[0]
        nursery.cancel_scope.cancel()


async def test_strangers_keep_few_connections_open(mock_clock: MockClock) -> None:
    async with open_door() as door:
        strangers = [await trio.testing.open_stream_to_socket_listener(door) for _ in range(MOST_UNPROVED)]
        for stranger in strangers:
            assert (await stranger.receive_some(1)) == VERSION[:1]
        async with await trio.testing.open_stream_to_socket_listener(door) as one_more:
            assert await one_more.receive_some(1) == b""
        for stranger in strangers:
            await stranger.aclose()
        proved = False
        while not proved:  # the door hears of it a moment later
            stream = await trio.testing.open_stream_to_socket_listener(door)
            with suppress(trio.BrokenResourceError):
                async with open_link(stream, KEY, first=True):
                    proved = True


async def test_a_flood_of_strangers_does_not_fill_the_log(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def is_sent_away() -> None:
        async with await trio.testing.open_stream_to_socket_listener(door) as stranger:
            await stranger.send_all(VERSION + bytes(32) + bytes(32))
            while await stranger.receive_some(4096):
                pass

    async with open_door() as door:
        for _ in range(5):
            await is_sent_away()
        assert caplog.text.count("was sent away") == 1
        mock_clock.jump(60)
        await is_sent_away()
        assert "and 4 more since the last such line" in caplog.text


async def test_a_frame_that_makes_no_sense_ends_its_link_and_nothing_else(mock_clock: MockClock) -> None:
    async with open_door() as door:
        for content in (b"", b"\x00nonsense", b"\x00\xff\xff"):
            stream = await trio.testing.open_stream_to_socket_listener(door)
            async with open_link(stream, KEY, first=True) as link, trio.open_nursery() as nursery:
                nursery.start_soon(link.keep_sending)
                link.send(Kind.ANSWERED, 0, content)
                assert await link.receive() is None
                nursery.cancel_scope.cancel()


async def test_a_node_that_lives_and_cannot_be_reached_is_told_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def refused() -> trio.SocketStream:
        await trio.sleep(0)
        raise ConnectionRefusedError(111, "Connection refused")

    with trio.move_on_after(4):
        await Peer("10.0.0.12:7300", refused, KEY, told_after=5).keep_connected()
    with trio.move_on_after(60):
        await Peer("node-2.sock", refused, KEY).keep_connected()
    assert caplog.text == ""
    with trio.move_on_after(60):
        await Peer("10.0.0.12:7300", refused, KEY, told_after=5).keep_connected()
    assert (
        caplog.text.count(
            "10.0.0.12:7300 lives, and this one can't reach it ([Errno 111] Connection refused)"
        )
        == 1
    )
