"""The listener over real sockets: connections, their bounds, their end; and TLS."""

from __future__ import annotations

import logging
import math
import select
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trustme
from http_rig import make_certificates

from tests.loopback import PATIENCE
from triobot.base.binding import (
    Bind,
    TcpBind,
    Tls,
    UnixBind,
    open_listeners,
)
from triobot.base.certificates import RenewedCertificate, server_context
from triobot.base.limits import Networks, ServingLimits
from triobot.errors import ConfigError
from triobot.http.listener import serve_listeners
from triobot.http.server_connection import Handler, Talk

pytestmark = pytest.mark.virtual_time

QUICK = ServingLimits(idle_seconds=0.1, linger_seconds=0.1, settle_seconds=0.05, grace_seconds=1)
EXPECTING = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
GET = b"GET /%s HTTP/1.1\r\nHost: a\r\n\r\n"


async def echo(talk: Talk) -> None:
    """Answers with the body; ``/slow`` waits before."""
    body = b""
    while piece := await talk.read():
        body += piece
    if talk.request.target == b"/slow":
        await trio.sleep(0.2)
    if talk.request.target == b"/fail":
        raise ValueError("private words")
    await talk.answer(200, [(b"x-target", talk.request.target)], body)


@asynccontextmanager
async def listening(
    handler: Handler = echo,
    limits: ServingLimits = QUICK,
    tls: Tls | None = None,
    bind: Bind = TcpBind("127.0.0.1", 0),  # noqa: B008
) -> AsyncGenerator[tuple[Callable[[], Awaitable[trio.SocketStream]], trio.Event, trio.Event]]:
    """A listener on a free port: how to connect, what stops it, and what says that it has."""
    (listener,) = await open_listeners([bind], backlog=10)
    port = listener.socket.getsockname()[1] if isinstance(bind, TcpBind) else 0
    shutdown, stopped = trio.Event(), trio.Event()

    async def run() -> None:
        await serve_listeners(handler, [listener], shutdown=shutdown, limits=limits, tls=tls)
        stopped.set()

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            yield partial(trio.open_tcp_stream, "127.0.0.1", port), shutdown, stopped
            nursery.cancel_scope.cancel()


async def read_all(stream: trio.abc.ReceiveStream) -> bytes:
    data = b""
    try:
        while piece := await stream.receive_some():
            data += piece
    except trio.BrokenResourceError:
        pass
    return data


async def answers(stream: trio.SocketStream, count: int) -> bytes:
    data = b""
    while data.count(b"HTTP/1.1 ") < count or b"\r\n\r\n" not in data.split(b"HTTP/1.1 ")[-1]:
        piece = await stream.receive_some()
        assert piece, data
        data += piece
    return data


async def test_a_connection_goes_on_and_ends_when_it_is_told() -> None:
    async with listening() as (connect, _, _), await connect() as stream:
        for number in range(3):
            await stream.send_all(GET % b"%d" % number)
            assert b"x-target: /%d" % number in await answers(stream, 1)
        await stream.send_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        last = await read_all(stream)

    assert last.startswith(b"HTTP/1.1 200 OK\r\ndate: ")
    assert b"connection: close" in last


async def test_an_old_sender_is_answered_once() -> None:
    async with listening() as (connect, _, _), await connect() as stream:
        await stream.send_all(b"POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nok")
        assert (await read_all(stream)).endswith(b"\r\n\r\nok")


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with listening() as (connect, _, _), await connect() as stream:
        await stream.send_all(b"".join(GET % b"%d" % number for number in range(50)))
        data = await answers(stream, 50)

    assert [part.split(b"\r\n")[0] for part in data.split(b"x-target: /")[1:]] == [
        b"%d" % number for number in range(50)
    ]


async def test_a_body_that_waits_is_asked_for() -> None:
    async with listening() as (connect, _, _), await connect() as stream:
        await stream.send_all(
            b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        )
        assert await stream.receive_some() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await stream.send_all(b"ok")
        assert (await answers(stream, 1)).endswith(b"ok")


async def test_a_body_that_waits_and_isn_t_wanted_is_not() -> None:
    async def refuse(talk: Talk) -> None:
        await talk.answer(413, [], b"")

    async with listening(refuse) as (connect, _, _), await connect() as stream:
        await stream.send_all(
            b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
        )
        data = await read_all(stream)

    assert data.startswith(b"HTTP/1.1 413")
    assert b"connection: close" in data


async def test_a_body_is_not_asked_for_behind_its_answer() -> None:
    async def refuse(talk: Talk) -> None:
        await talk.begin(404, [], b"no")
        with trio.move_on_after(0.02):
            await talk.read()
        await talk.end()

    async with listening(refuse) as (connect, _, _), await connect() as stream:
        await stream.send_all(EXPECTING % 9)
        assert b" 100 " not in await read_all(stream)


async def test_an_unwanted_body_that_has_come_doesn_t_cost_the_connection() -> None:
    async def refuse(talk: Talk) -> None:
        await talk.answer(404, [], b"")

    async with listening(refuse) as (connect, _, _), await connect() as stream:
        for _ in range(3):
            await stream.send_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000)
            assert b"connection: close" not in await answers(stream, 1)


@pytest.mark.parametrize("start", [b"", b"GET / HT", GET % b"" + b"GET / HTTP/1.1\r\nHo"])
async def test_who_says_nothing_more_is_closed(start: bytes) -> None:
    async with listening() as (connect, _, _), await connect() as stream:
        await stream.send_all(start)
        began = trio.current_time()
        data = await read_all(stream)
        assert 0.08 < trio.current_time() - began < 0.5

    assert data.count(b"HTTP/1.1 200") == start.count(b"\r\n\r\n")


async def test_a_slow_head_gets_no_more_time_with_each_byte() -> None:
    async with listening() as (connect, _, _), await connect() as stream:
        began = trio.current_time()
        with pytest.raises(trio.BrokenResourceError):
            for byte in b"GET / HTTP/1.1\r\nX: " + b"x" * 1000:
                await stream.send_all(bytes([byte]))
                await trio.sleep(0.02)
        assert trio.current_time() - began < 1


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="each connection has a task where there is no epoll")
async def test_whoever_has_sent_no_whole_head_has_no_task() -> None:
    """Thousands of them would cost the others their turns. What they say late is heard all the same."""
    limits = ServingLimits(idle_seconds=2 * PATIENCE)
    head = b"POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"
    async with listening(limits=limits) as (connect, _, _), await connect() as good:
        await good.send_all(GET % b"first")
        await answers(good, 1)
        tasks = trio.lowlevel.current_statistics().tasks_living
        streams = [await connect() for _ in range(60)]
        for stream in streams[::2]:
            await stream.send_all(head[:9])
        await good.send_all(GET % b"second")
        await answers(good, 1)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert trio.lowlevel.current_statistics().tasks_living == tasks

        for at in range(9, len(head)):
            await streams[0].send_all(head[at : at + 1])
        await streams[0].send_all(b"ok")
        assert (await answers(streams[0], 1)).endswith(b"\r\n\r\nok")
        await streams[1].send_all(head + b"ok")
        assert (await answers(streams[1], 1)).endswith(b"\r\n\r\nok")
        await streams[2].send_eof()
        await streams[3].send_eof()
        assert await read_all(streams[2]) == await read_all(streams[3]) == b""
        for stream in streams:
            await stream.aclose()


async def test_blank_lines_are_no_request_either() -> None:
    async with listening() as (connect, _, _), await connect() as stream:
        began = trio.current_time()
        with pytest.raises(trio.BrokenResourceError):
            for _ in range(100):
                await stream.send_all(b"\r\n")
                await trio.sleep(0.02)
        assert trio.current_time() - began < 1


async def test_a_request_in_hand_may_take_its_time() -> None:
    async with listening() as (connect, _, _), await connect() as stream:
        await stream.send_all(GET % b"slow")
        assert b"200 OK" in await answers(stream, 1)


async def test_a_failing_handler_fails_its_request_only(caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as (connect, _, _):
        async with await connect() as stream:
            await stream.send_all(GET % b"fail")
            assert (await read_all(stream)).startswith(b"HTTP/1.1 500")
        async with await connect() as stream:
            await stream.send_all(GET % b"")
            await answers(stream, 1)

    assert "ValueError" in caplog.text
    assert "private words" not in caplog.text


class TestStop:
    """What is in hand is answered; what waits for nothing is closed."""

    async def test_in_hand(self) -> None:
        async with listening() as (connect, shutdown, stopped), await connect() as stream:
            await stream.send_all(GET % b"slow")
            await trio.sleep(0.05)
            shutdown.set()
            data = await read_all(stream)
            await stopped.wait()

        assert b"200 OK" in data
        assert b"connection: close" in data

    async def test_idle(self) -> None:
        limits = ServingLimits(settle_seconds=0.02)
        async with listening(limits=limits) as (connect, shutdown, stopped), await connect() as stream:
            await stream.send_all(GET % b"")
            await answers(stream, 1)
            shutdown.set()
            with trio.fail_after(1):
                await stopped.wait()
            assert await read_all(stream) == b""

    async def test_begun(self) -> None:
        """A head that is on its way may come to its end, as long as it could before."""
        limits = ServingLimits(settle_seconds=0.02, idle_seconds=0.5)
        async with listening(limits=limits) as (connect, shutdown, stopped), await connect() as stream:
            await stream.send_all(GET[:10])
            await trio.sleep(0.02)
            shutdown.set()
            await trio.sleep(0.1)
            await stream.send_all((GET % b"")[8:])
            assert b"200 OK" in await read_all(stream)
            await stopped.wait()


async def test_a_cancelled_listener_leaves_no_connection() -> None:
    async with trio.open_nursery() as nursery:
        (listener,) = await open_listeners([TcpBind("127.0.0.1", 0)], backlog=10)
        port = listener.socket.getsockname()[1]
        run = partial(serve_listeners, echo, [listener], shutdown=trio.Event(), limits=ServingLimits())
        nursery.start_soon(run)
        streams = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(3)]
        await streams[1].send_all(GET % b"slow")
        await streams[2].send_all(GET[:8])
        await trio.testing.wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()
    for stream in streams:
        assert await read_all(stream) == b""
        await stream.aclose()


async def test_an_old_sender_gets_a_stream_up_to_the_end_of_its_connection() -> None:
    async def streamed(talk: Talk) -> None:
        await talk.begin(200, [], b"0")
        for number in range(1, 5):
            await talk.write(b"%d" % number)
        await talk.end()

    async with listening(streamed) as (connect, _, _), await connect() as sock:
        await sock.send_all(b"GET /stream HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n")
        head, _, body = (await read_all(sock)).partition(b"\r\n\r\n")

    assert b"connection: close" in head
    assert body == b"01234"


def test_a_network_must_be_one() -> None:
    with pytest.raises(ConfigError):
        Networks(["proxy.example"])


@pytest.mark.virtual_time(False)  # a host's name is looked up in a thread
async def test_a_renewed_certificate_is_taken_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """From the next connection on; while only one of its files is there, the one before stays in use."""
    caplog.set_level(logging.INFO)
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    old, new = trustme.CA(), trustme.CA()
    first, second = old.issue_cert("localhost"), new.issue_cert("localhost")

    def write(place: Path, *blobs: trustme.Blob) -> None:
        place.write_bytes(b"".join(blob.bytes() for blob in blobs))

    async def trusted(port: int, authority: trustme.CA) -> bool:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        stream = await trio.open_ssl_over_tcp_stream("localhost", port, ssl_context=context)
        try:
            await stream.do_handshake()
        except trio.BrokenResourceError:
            return False
        else:
            return True
        finally:
            await trio.aclose_forcefully(stream)

    write(chain, *first.cert_chain_pems)
    write(key, first.private_key_pem)
    (listener,) = await open_listeners([TcpBind("127.0.0.1", 0)], backlog=10)
    port = listener.socket.getsockname()[1]
    tls = RenewedCertificate(chain, key)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            run = partial(
                serve_listeners, echo, [listener], shutdown=trio.Event(), limits=ServingLimits(), tls=tls
            )
            nursery.start_soon(run)
            assert await trusted(port, old)
            write(chain, *second.cert_chain_pems)
            assert await trusted(port, old)
            assert "the one before stays in use" in caplog.text
            write(key, second.private_key_pem)
            assert await trusted(port, new)
            assert not await trusted(port, old)
            assert "was renewed" in caplog.text
            chain.unlink()
            assert await trusted(port, new)
            nursery.cancel_scope.cancel()


@pytest.mark.virtual_time(False)  # a host's name is looked up in a thread
async def test_tls_from_files(tmp_path: Path) -> None:
    certificates = make_certificates("localhost")
    issued = certificates.authority.issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    tls = server_context(tmp_path / "both.pem")
    async with listening(limits=ServingLimits(), tls=tls) as (connect, _, _):
        async with await connect() as plain:
            port = plain.socket.getpeername()[1]
            await plain.send_all(GET % b"")
            await read_all(plain)  # whatever TLS says to that
        secured = await trio.open_ssl_over_tcp_stream(
            "localhost", port, ssl_context=certificates.client, https_compatible=True
        )
        async with secured:
            for _ in range(2):
                await secured.send_all(GET % b"who")
                assert b"x-target: /who" in await secured.receive_some()
            body = b"x" * 300_000
            await secured.send_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + body)
            data = b""
            while not data.endswith(body):
                data += await secured.receive_some()


def test_a_certificate_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be used"):
        server_context(tmp_path / "nothing.pem")
    (tmp_path / "empty.pem").touch()
    with pytest.raises(ConfigError, match="can't be used"):
        server_context(tmp_path / "empty.pem")


async def test_a_path(tmp_path: Path) -> None:
    path = str(tmp_path / "app.sock")
    async with (
        listening(bind=UnixBind(path)),
        await trio.open_unix_socket(path) as sock,
    ):
        await sock.send_all(b"GET /who HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"x-target: /who" in await read_all(sock)


def test_limits_are_checked() -> None:
    with pytest.raises(ConfigError):
        ServingLimits(idle_seconds=-1)
    assert math.isfinite(ServingLimits().idle_seconds)
    logging.getLogger("triobot.http").debug("named as documented")
