"""A full listener makes room: who keeps it waiting for longest gives way, and never a request in hand."""

from __future__ import annotations

import errno
import logging
import resource
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest
import trio

from tests.loopback import PATIENCE
from triobot.base.binding import TcpBind, allow_descriptors, open_listeners
from triobot.base.limits import ServingLimits
from triobot.http import server_connection as connections
from triobot.http.listener import counted_as, serve_listeners, within_descriptors
from triobot.http.server_connection import Talk

pytestmark = pytest.mark.virtual_time

GET = b"GET /%s HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
TWO = ServingLimits(connections=2)


@attrs.define
class Server:
    """A listener whose handler reads the body and, at ``/held``, waits to be let go."""

    connect: Callable[[], Awaitable[trio.SocketStream]]
    held: int = 0
    let_go: trio.Event = attrs.Factory(trio.Event)
    long: bytes = b""

    async def handle(self, talk: Talk) -> None:
        body = b""
        while piece := await talk.read():
            body += piece
        if talk.request.target == b"/held":
            self.held += 1
            await self.let_go.wait()
        await talk.answer(200, [], self.long or body)

    async def say(self, data: bytes) -> trio.SocketStream:
        """Open a connection, and write to it."""
        stream = await self.connect()
        await stream.send_all(data)
        return stream


@asynccontextmanager
async def listening(limits: ServingLimits = TWO) -> AsyncGenerator[Server]:
    """A listener on a free port."""
    (listener,) = await open_listeners([TcpBind("127.0.0.1", 0)], backlog=10)
    server = Server(partial(trio.open_tcp_stream, "127.0.0.1", listener.socket.getsockname()[1]))
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            run = partial(serve_listeners, server.handle, [listener], shutdown=trio.Event(), limits=limits)
            nursery.start_soon(run)
            yield server
            nursery.cancel_scope.cancel()


async def answered(stream: trio.SocketStream) -> bool:
    """Whether an answer comes, rather than the end of the connection."""
    try:
        return (await stream.receive_some()).startswith(b"HTTP/1.1 200")
    except trio.BrokenResourceError:
        return False


@pytest.mark.parametrize(
    "begun", [b"", GET % b"", GET[:9], POST, POST + b"abc"], ids=["silent", "kept", "head", "body", "rest"]
)
async def test_who_waits_for_longest_gives_way(begun: bytes) -> None:
    """Before a request, between two, in a head that doesn't end, and in a body."""
    async with listening() as server:
        first = await server.say(begun)
        if begun == GET % b"":
            assert await answered(first)
        await trio.sleep(0.01)
        second = await server.say(GET % b"")
        assert await answered(second)

        third = await server.say(GET % b"")

        assert await answered(third)
        assert not await answered(first)
        await second.send_all(GET % b"")
        assert await answered(second)
        for stream in (first, second, third):
            await stream.aclose()


async def test_a_request_in_hand_keeps_its_place() -> None:
    """However long it takes; whoever comes then waits for the first that is answered."""
    async with listening() as server:
        held = [await server.say(GET % b"held") for _ in range(2)]
        while server.held < 2:
            await trio.sleep(0.01)
        late = await server.say(GET % b"")
        with trio.move_on_after(0.1) as patience:
            await answered(late)
        assert patience.cancelled_caught

        server.let_go.set()

        assert [await answered(stream) for stream in (*held, late)] == [True] * 3
        for stream in (*held, late):
            await stream.aclose()


async def test_who_reads_no_answer_gives_way_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds its place only until somebody else wants it."""
    monkeypatch.setattr(connections, "_MOMENT", 0.05)
    async with listening(ServingLimits(connections=1)) as server:
        server.long = bytes(20_000_000)
        deaf = await server.say(GET % b"")
        await trio.sleep(0.2)
        server.long = b""

        heard = await server.say(GET % b"")

        assert await answered(heard)
        for stream in (deaf, heard):
            await stream.aclose()


async def test_who_is_told_to_go_gives_way() -> None:
    """A connection that lingers behind a refusal does so only while there is room."""

    async def refuse(talk: Talk) -> None:
        await talk.answer(404, [], b"", close=True)

    (listener,) = await open_listeners([TcpBind("127.0.0.1", 0)], backlog=10)
    connect = partial(trio.open_tcp_stream, "127.0.0.1", listener.socket.getsockname()[1])
    limits = ServingLimits(connections=1, linger_seconds=60)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            serve = partial(serve_listeners, refuse, [listener], shutdown=trio.Event(), limits=limits)
            nursery.start_soon(serve)
            refused = list[trio.SocketStream]()
            for _ in range(3):
                refused.append(await connect())
                await refused[-1].send_all(POST)
                assert b"404" in await refused[-1].receive_some()
            for stream in refused:
                await stream.aclose()
            nursery.cancel_scope.cancel()


async def test_many_that_say_nothing_hold_up_nobody() -> None:
    """Each of a hundred requests is answered among five hundred silent connections on ten places."""
    async with listening(ServingLimits(connections=10)) as server:
        silent = list[trio.SocketStream]()
        for number in range(100):
            silent += [await server.connect() for _ in range(5)]
            stream = await server.say(GET % str(number).encode())
            assert await answered(stream)
            await stream.aclose()
        for stream in silent:
            await stream.aclose()


async def test_pipelined_requests_take_turns() -> None:
    """A thousand in one write don't hold up the one that comes after them."""
    async with listening(ServingLimits()) as server:
        order = list[str]()

        async def count(stream: trio.SocketStream, many: int, name: str) -> None:
            seen = b""
            while seen.count(b"HTTP/1.1 200") < many:
                seen += await stream.receive_some()
            order.append(name)

        greedy = await server.say(GET % b"" * 1_000)
        modest = await server.say(GET % b"")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count, greedy, 1_000, "greedy")
            nursery.start_soon(count, modest, 1, "modest")
        assert order == ["modest", "greedy"]
        for stream in (greedy, modest):
            await stream.aclose()


async def test_descriptors_that_run_out_are_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who waits longest gives way then, too; accepting backs off, and the log gets a line a minute."""
    tries = 0
    really = socket.socket.accept

    def scarce(self: socket.socket) -> tuple[socket.socket, object]:
        nonlocal tries
        tries += 1
        if 2 <= tries <= 4:
            raise OSError(errno.EMFILE, "Too many open files")
        return really(self)

    monkeypatch.setattr(socket.socket, "accept", scarce)
    async with listening(ServingLimits()) as server:
        first = await server.say(GET % b"")
        assert await answered(first)
        second = await server.say(GET % b"")
        assert await answered(second)
        for stream in (first, second):
            await stream.aclose()

    assert tries >= 5
    assert caplog.text.count("Too many open files") == 1


async def test_a_connection_that_left_while_it_waited_is_nobody_s_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next one is accepted."""
    tries = 0
    really = socket.socket.accept

    def gone(self: socket.socket) -> tuple[socket.socket, object]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ConnectionAbortedError(errno.ECONNABORTED, "gone")
        return really(self)

    monkeypatch.setattr(socket.socket, "accept", gone)
    async with listening() as server:
        stream = await server.say(GET % b"")
        assert await answered(stream)
        await stream.aclose()


@pytest.mark.parametrize(
    ("descriptors", "connections"), [(20_000, 4096), (4_224, 4096), (1_024, 896), (200, 100), (1, 1)]
)
def test_no_more_connections_than_a_process_may_have(
    descriptors: int, connections: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest of the process needs files, too; who has fewer connections than were asked for is told."""
    caplog.set_level(logging.WARNING)

    limits = within_descriptors(ServingLimits(connections=4096, spare_descriptors=128), descriptors)

    assert limits.connections == connections
    assert bool(caplog.text) is (connections < 4096)


@pytest.mark.parametrize(
    ("soft", "hard", "set_to"),
    [(1_024, 4_096, 3_000), (1_024, 2_000, 2_000), (1_024, -1, 3_000), (5_000, 5_000, None), (-1, -1, None)],
)
def test_a_process_asks_for_the_files_it_needs(
    soft: int, hard: int, set_to: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more than the system allows, and never fewer than it had."""
    was_set: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: was_set.append(limits))

    allow_descriptors(3_000)

    assert was_set == ([] if set_to is None else [(set_to, hard)])


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
    ],
)
def test_a_network_is_one_sender_where_anybody_has_one(host: str, counted: str) -> None:
    assert counted_as(host) == counted
