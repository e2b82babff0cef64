"""A link between two processes: what becomes of it when the other side stands still, or is gone."""

from __future__ import annotations

import socket

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from triobot.nodes.cluster import HELD_SECONDS
from triobot.nodes.links import STALL_SECONDS, VERSION, Kind, NodeLink, StrangerError
from triobot.nodes.peers import keep_alive


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
