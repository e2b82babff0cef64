"""Connections over real sockets: what becomes of one, and what is made of failures."""

from __future__ import annotations

import socket
from functools import partial

import pytest
import trio
from http_rig import MESSAGE, OK, Peer, answered, answering, ask, make_certificates, post

from tests.loopback import PATIENCE
from tests.steps import cancelled_at
from triobot.base import authorities
from triobot.http.connections import Connections, NoConnectionError, Origin, dial
from triobot.http.request import MalformedError


async def test_one_request_after_another_on_one_connection() -> None:
    async with answering() as server:
        for _ in range(3):
            connection = await post(server)
            assert not connection.may_have_left
            assert await answered(server, connection) == b"ok"
            assert (connection.may_have_left, connection.reader.status) == (True, 200)
        assert len(await answered(server, await post(server), most=1)) > 1

    assert server.requests == [MESSAGE] * 4
    assert server.peers == 1


async def test_another_task_goes_on_with_what_one_was_cancelled_over() -> None:
    """At any step, with an answer that comes byte by byte: it is sent once, and read whole."""

    async def answer(peer: Peer, _: bytes) -> None:
        for byte in OK:
            await peer.stream.send_all(bytes([byte]))
            await trio.lowlevel.checkpoint()

    async with answering(answer) as server:
        for steps in range(1, 12):
            connection = await post(server)
            for _ in range(20):
                await cancelled_at(steps, partial(connection.answer, 10))
            assert await answered(server, connection) == b"ok"

    assert server.requests == [MESSAGE] * 11
    assert server.peers == 1


async def test_a_request_that_is_cut_in_its_middle_ends_its_connection() -> None:
    """Nobody can go on with it; and it may have left."""

    async def never(peer: Peer, _: bytes) -> None:
        await trio.sleep_forever()

    async with answering(never) as server:
        # The server reads a request whole, and no other behind it.
        long = MESSAGE + b"x" * 50_000_000
        connection = await post(server, long)
        with trio.move_on_after(0.05) as scope:
            await connection.answer(10)
        assert scope.cancelled_caught
        assert connection.may_have_left
        with pytest.raises(trio.ClosedResourceError):
            await answered(server, connection)
        assert not server.pool._idle


async def test_a_connection_that_was_closed_meanwhile_is_not_used() -> None:
    async def answer(peer: Peer, _: bytes) -> None:
        await peer.stream.send_all(OK)
        peer.stream.socket.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]

    async with answering(answer) as server:
        for _ in range(5):
            assert await ask(server) == b"ok"
            await trio.testing.wait_all_tasks_blocked(0.005)

    assert server.peers == 5


async def test_a_connection_that_spoke_unasked_is_not_used() -> None:
    """Its words would be taken for the next answer."""

    async def answer(peer: Peer, _: bytes) -> None:
        await peer.stream.send_all(OK)
        await trio.sleep(0)
        await peer.stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")

    async with answering(answer) as server:
        for _ in range(3):
            assert await ask(server) == b"ok"
            await trio.testing.wait_all_tasks_blocked(0.005)

    assert server.peers == 3


async def test_a_connection_that_ends_unanswered_is_an_error() -> None:
    async with answering(b"") as server:
        connection = await post(server)
        with pytest.raises(MalformedError):
            await answered(server, connection)

    assert connection.may_have_left
    assert server.requests == [MESSAGE]


async def test_an_early_refusal_of_a_long_body_is_heard() -> None:
    async def refuse(stream: trio.SocketStream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(b"HTTP/1.1 413 Long\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
        await stream.send_eof()
        while await stream.receive_some():
            pass

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, refuse, 0, host="127.0.0.1"))
        pool = Connections(Origin("http", "127.0.0.1", listener.socket.getsockname()[1]))
        connection = await pool.open()
        connection.post(MESSAGE + b"x" * 5_000_000)
        assert (await connection.answer(10), connection.reader.status) == (b"big", 413)
        pool.settle(connection)
        assert not pool._idle
        nursery.cancel_scope.cancel()


async def test_an_old_one_is_not_used_again(autojump_clock: trio.testing.MockClock) -> None:
    async with answering() as server:
        await ask(server)
        await trio.sleep(3)
        await ask(server)
        await trio.sleep(5)
        await ask(server)

    assert server.peers == 2


async def test_the_one_used_last_is_used_again_and_the_oldest_gives_way() -> None:
    async with answering() as server:
        pool = server.pool
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask, server)
        first, _, last = (connection for connection, _ in pool._idle)
        assert pool.idle() is last
        pool.settle(last)
        last.reader.reusable = True
        (await pool.open()).close()
        assert first not in {connection for connection, _ in pool._idle}


async def _slow(peer: Peer, _: bytes) -> None:
    for part in (OK[:9], OK[9:-1], OK[-1:]):
        await peer.stream.send_all(part)
        await trio.sleep(0.0005)


class TestCancellation:
    """Wherever it comes, the connection is closed, its place is free, and the next request works."""

    @pytest.mark.parametrize("secured", [False, True])
    async def test_at_every_step(self, secured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        certificates = make_certificates("localhost") if secured else None
        if certificates is not None:
            monkeypatch.setattr(authorities, "client_context", lambda: certificates.client)
        tls = None if certificates is None else certificates.server
        async with answering(_slow, tls=tls) as server:
            for warm in (False, True):
                for step in range(1, 200):
                    if not warm:
                        server.pool.close_idle()
                    over = await cancelled_at(step, partial(ask, server))
                    if over:
                        break
                else:
                    raise AssertionError("it never ended")
                assert step > 3
                with trio.fail_after(PATIENCE):
                    assert await ask(server) == b"ok"

        await trio.testing.wait_all_tasks_blocked(0.01)


class TestTls:
    """Verified: the certificate, and the name."""

    async def test_a_trusted_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        certificates = make_certificates("localhost")
        monkeypatch.setattr(authorities, "client_context", lambda: certificates.client)
        async with answering(tls=certificates.server) as server:
            for _ in range(3):
                assert await ask(server) == b"ok"

        assert server.peers == 1

    async def test_another_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        certificates = make_certificates("other.test")
        monkeypatch.setattr(authorities, "client_context", lambda: certificates.client)
        async with answering(tls=certificates.server) as server:
            with pytest.raises(NoConnectionError, match=r"(?i)hostname mismatch"):
                await ask(server)
        assert server.requests == []

    async def test_nobody_vouches_for_it(self) -> None:
        async with answering(tls=make_certificates("localhost").server) as server:
            with pytest.raises(NoConnectionError, match=r"(?i)certificate verify failed"):
                await ask(server)

    async def test_http_1_is_asked_for(self) -> None:
        certificates = make_certificates("localhost")
        certificates.server.set_alpn_protocols(["h2", "http/1.1"])
        certificates.authority.configure_trust(authorities.client_context())
        seen: list[str | None] = []

        async def answer(peer: Peer, _: bytes) -> None:
            seen.append(peer.stream.selected_alpn_protocol())  # type: ignore[union-attr]
            await peer.stream.send_all(OK)

        try:
            async with answering(answer, tls=certificates.server) as server:
                await ask(server)
        finally:
            authorities.client_context.cache_clear()

        assert seen == ["http/1.1"]

    async def test_no_tls_behind_https(self) -> None:
        async def refuse(stream: trio.SocketStream) -> None:
            async with stream:
                await stream.send_all(b"HTTP/1.1 400 No\r\n\r\n")

        async with trio.open_nursery() as nursery:
            (listener,) = await nursery.start(partial(trio.serve_tcp, refuse, 0, host="127.0.0.1"))
            with pytest.raises(NoConnectionError):
                await dial(Origin("https", "127.0.0.1", listener.socket.getsockname()[1]))
            nursery.cancel_scope.cancel()


async def test_closed_connections_refuse() -> None:
    async with answering() as server:
        await ask(server)
        server.pool.close()
        assert not server.pool._idle
        with pytest.raises(trio.ClosedResourceError):
            await ask(server)


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for host in ("127.0.0.1", "nobody.invalid"):
        with pytest.raises(NoConnectionError):
            await dial(Origin("http", host, port))
