"""Over real sockets: hostile requests, senders that leave, and a stop that refuses nobody."""

from __future__ import annotations

import logging
import os
import socket
import stat
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked
from webhook_rig import (
    SECRET,
    Rig,
    Server,
    form,
    make_rig,
    post,
    read_all,
    read_answer,
    serving,
    status,
    until,
    without_date,
)

from tests.loopback import PATIENCE
from triobot.base.binding import FdBind, TcpBind, UnixBind, inherited_binds
from triobot.errors import ConfigError
from triobot.webhook import endpoint
from triobot.webhook.app import serve_stock
from triobot.webhook.limits import Limits
from triobot.webhook.serving import answering, serve

pytestmark = pytest.mark.virtual_time

QUICK = Limits(body_seconds=0.2, linger_seconds=0.2, settle_seconds=0.05, grace_seconds=2)


@pytest.fixture(params=["direct", "hypercorn"])
def server(request: pytest.FixtureRequest) -> Server:
    """Who brings the requests; what is asked of the webhook holds under each."""
    return request.param


def head(*lines: str, path: str = "/" + SECRET, method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: bot", *lines, "", ""]).encode()


async def test_an_event_arrives_and_nobody_is_named() -> None:
    async with serving() as rig:
        answer = await rig.ask(post(form("hello")))

    assert without_date(answer) == b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    assert rig.texts == ["hello"]


async def test_one_connection_brings_many_events(server: Server) -> None:
    async with serving(server=server) as rig, await rig.connect() as stream:
        for number in range(5):
            await stream.send_all(post(form(str(number)), close=False))
            assert status(await read_answer(stream)) == 200

    assert rig.texts == ["0", "1", "2", "3", "4"]


async def test_pipelined_events_keep_their_order(server: Server) -> None:
    async with serving(server=server) as rig:
        requests = b"".join(post(form(str(number)), close=False) for number in range(5))
        answer = await rig.ask(requests + post(form("last")))

    assert answer.count(b"HTTP/1.1 200") == 6
    assert rig.texts == ["0", "1", "2", "3", "4", "last"]


async def test_wrong_secret_gets_404_before_a_byte_of_its_body(server: Server) -> None:
    async with serving(server=server) as rig:
        conflicting = head("Content-Length: 5", "Transfer-Encoding: chunked", path="/wrong")
        for request in (
            head("Content-Length: 10", path="/wrong"),
            head("Content-Length: 99999999999", path="/wrong"),
            head("Transfer-Encoding: chunked", path="/wrong"),
            # Our own listener hears no such request at all, whatever its path.
            *([conflicting] if server == "hypercorn" else []),
            head("Content-Length: 10", "Expect: 100-continue", path="/%D8%B1%D9%85%D8%B2"),
            head("Connection: close", path="/wrong", method="GET"),
            head("Connection: close", path="/" + SECRET + "x", method="DELETE"),
        ):
            answer = await rig.ask(request)
            assert b"HTTP/1.1 404" in answer
            assert answer.endswith(b"not found\n")

    assert rig.traffic.statistics().unknown_path == (7 if server == "hypercorn" else 6)


async def test_non_ascii_bytes_in_the_path(server: Server) -> None:
    async with serving(server=server) as rig:
        answer = await rig.ask("POST /رمز HTTP/1.1\r\nHost: bot\r\n\r\n".encode())
        assert status(answer) in (400, 404)
        assert status(await rig.ask(post(form()))) == 200


@pytest.mark.parametrize("path", ["/" + SECRET, "/wrong"])
async def test_a_huge_unwanted_body_holds_nothing(server: Server, path: str) -> None:
    """The refusal arrives although the sender is still writing, and the connection ends."""
    async with serving(server=server) as rig, await rig.connect() as stream:
        answer = bytearray()

        async def write() -> None:
            try:
                await stream.send_all(head("Content-Length: 50000000", path=path))
                for _ in range(500):
                    await stream.send_all(b"x" * 100_000)
            except trio.BrokenResourceError:
                pass

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            answer += await read_answer(stream)

        assert status(bytes(answer)) == (413 if path == "/" + SECRET else 404)
        rig.shutdown.set()
        await rig.stopped.wait()


@pytest.mark.parametrize("path", ["/" + SECRET, "/wrong"])
async def test_a_sender_that_reads_only_after_it_has_written_hears_the_refusal(
    server: Server, path: str
) -> None:
    async with serving(limits=Limits(linger_seconds=5), server=server) as rig, await rig.connect() as stream:
        await stream.send_all(head("Content-Length: 8000000", path=path))
        for _ in range(80):
            await stream.send_all(b"x" * 100_000)
        assert status(await read_all(stream)) == (413 if path == "/" + SECRET else 404)


async def test_a_huge_chunked_body_without_a_length(server: Server) -> None:
    limits = Limits(body_bytes=100_000, linger_seconds=0.2, grace_seconds=2)
    async with serving(limits=limits, server=server) as rig, await rig.connect() as stream:
        await stream.send_all(head("Transfer-Encoding: chunked"))

        async def write() -> None:
            try:
                for _ in range(400):
                    await stream.send_all(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
            except trio.BrokenResourceError:
                pass

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            answer = await read_answer(stream)

    assert status(answer) == 413
    assert rig.traffic.statistics().too_long == 1


async def test_a_chunked_event(server: Server) -> None:
    body = form("chunky")
    chunks = b"".join(b"1\r\n" + body[at : at + 1] + b"\r\n" for at in range(len(body))) + b"0\r\n\r\n"
    async with serving(server=server) as rig:
        answer = await rig.ask(head("Transfer-Encoding: chunked", "Connection: close") + chunks)

    assert status(answer) == 200
    assert rig.texts == ["chunky"]


@pytest.mark.parametrize(
    "rest",
    [
        b"zz\r\n",
        b"-1\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhelloXX0\r\n\r\n",
        b"5\nhello\n0\n\n",
        b"5;\0\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n0\r\nno colon\r\n\r\n",
        b"5\r\nhello\r\n0\r\nA: \0\r\n\r\n",
        b"5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n",
        b"5\r\nhello\r\n0\r\nA: " + b"a" * 40_000 + b"\r\n\r\n",
    ],
)
@pytest.mark.parametrize("later", [False, True])
async def test_broken_chunks_and_trailers_are_400(rest: bytes, later: bool) -> None:
    """Whether they come with the head or behind it; none becomes an event, and nothing behind it is read."""
    begun = head("Transfer-Encoding: chunked")
    async with serving() as rig, await rig.connect() as stream:
        await stream.send_all(begun if later else begun + rest + post(form("smuggled")))
        if later:
            await trio.sleep(0.01)
            await stream.send_all(rest + post(form("smuggled")))
        answer = await read_all(stream)

        assert status(answer) == 400
        assert answer.count(b"HTTP/1.1") == 1
        assert b"connection: close" in answer
    assert rig.texts == []
    assert rig.store.kept == []
    assert rig.traffic.bad_framing == 1


async def test_a_slow_body_is_given_up(server: Server) -> None:
    async with serving(limits=QUICK, server=server) as rig:
        answer = await rig.ask(head("Content-Length: 100") + b"chat_id=7")

        assert status(answer) == 408
        assert status(await rig.ask(post(form()))) == 200


async def test_slow_headers_are_given_up() -> None:
    async with serving(limits=Limits(idle_seconds=0.1)) as rig:
        assert await rig.ask(b"POST / HTTP/1.1\r\nHost:") == b""


async def test_long_headers_are_refused() -> None:
    async with serving() as rig:
        assert status(await rig.ask(b"POST / HTTP/1.1\r\nX: " + b"x" * 40_000)) == 431


async def test_a_request_inside_a_request_is_not_served(server: Server) -> None:
    """A proxy may see one request here, and a lenient server two."""
    async with serving(server=server) as rig:
        smuggled = post(form("smuggled"))
        answer = await rig.ask(
            head("Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n" + smuggled
        )
        other = await rig.ask(head("Content-Length: 5", "Content-Length: 6") + b"12345" + smuggled)

        assert status(answer) == 400
        assert status(other) == 400
        assert (answer.count(b"HTTP/1.1"), other.count(b"HTTP/1.1")) == (1, 1)
        rig.shutdown.set()
        await rig.stopped.wait()

    assert rig.texts == []
    assert rig.traffic.statistics().bad_framing == {"direct": 2, "hypercorn": 1}[server]


async def test_a_truncated_body_is_no_event(server: Server) -> None:
    async with serving(server=server) as rig:
        async with await rig.connect() as stream:
            await stream.send_all(head("Content-Length: 500") + form("half"))
        await until(lambda: rig.traffic.truncated == 1)
        assert status(await rig.ask(post(form("whole")))) == 200

    assert rig.texts == ["whole"]
    assert rig.store.kept == []


async def test_leaving_before_the_answer_makes_the_next_one_a_repetition(server: Server) -> None:
    async with serving(server=server) as rig:
        rig.store.gate = trio.Event()
        async with await rig.connect() as stream:
            await stream.send_all(post(form("yes")))
            await until(lambda: rig.store.waiting_at_gate == 1)
        await trio.sleep(0.02)
        rig.store.gate.set()
        await until(lambda: rig.traffic.unanswered == 1)

        assert status(await rig.ask(post(form("yes")))) == 200
        assert rig.texts == ["yes"]
        assert status(await rig.ask(post(form("yes")))) == 200

    assert rig.texts == ["yes", "yes"]


async def test_half_closing_senders_get_their_answer(server: Server) -> None:
    async with serving(server=server) as rig, await rig.connect() as stream:
        await stream.send_all(post(form("hello")))
        await stream.send_eof()
        assert status(await read_all(stream)) == 200


@pytest.mark.parametrize("framing", ["Content-Length: {}", "Transfer-Encoding: chunked"])
async def test_an_event_whose_sender_has_left_may_have_been_taken_elsewhere(framing: str) -> None:
    """As a proxy does that has waited for a frozen process, and asked another one."""
    body = form("hello")
    if "chunked" in framing:
        sent = head(framing) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    else:
        sent = post(body)
    async with serving() as rig:
        rig.inbox.shared = True
        with socket.create_connection(("127.0.0.1", rig.port)) as stream:
            stream.sendall(sent)  # and closed, before the process comes to read it
        await trio.sleep(0.05)
        assert status(await rig.ask(post(form("whole")))) == 200

    assert rig.texts == ["whole"]


async def test_only_the_sender_hears_that_an_event_could_not_be_stored_where_others_store_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that has waited for 6 seconds asks another process; the refusal is for who waits for longer."""
    monkeypatch.setattr(endpoint, "LEFT_AFTER", 0.3)
    async with serving(server=server) as rig:
        rig.store.full = True
        assert status(await rig.ask(post(form("alone")))) == 503
        rig.inbox.shared = True
        began = trio.current_time()
        assert status(await rig.ask(post(form("shared")))) == 503
        assert trio.current_time() >= began + 0.3

    assert rig.texts == []


async def test_answered_ones_are_marked(server: Server) -> None:
    async with serving(server=server) as rig:
        await rig.ask(post(form("yes")))
        await until(lambda: len(rig.store.answered) == 1)
        assert status(await rig.ask(post(form("yes")))) == 200

    assert rig.texts == ["yes", "yes"]


@pytest.mark.parametrize(
    "request_",
    [
        head("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: A", method="GET"),
        head("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAAA", method="GET"),
        head("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 1", method="GET"),
        head(
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            method="GET",
        ),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 50,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"\0" * 100,
        head("Content-Length: abc"),
        head("Transfer-Encoding: gzip"),
        head("Transfer-Encoding: chunked") + b"zz\r\n",
    ],
)
async def test_no_stranger_ends_the_server(
    server: Server, request_: bytes, request: pytest.FixtureRequest
) -> None:
    if server == "hypercorn" and b"HTTP2-Settings" in request_:
        ends = "hypercorn 0.18 ends with all its connections when these settings can't be read"
        request.applymarker(pytest.mark.xfail(reason=ends))
    async with serving(server=server) as rig:
        async with await rig.connect() as stream:
            await stream.send_all(request_)
            with trio.move_on_after(0.1):
                await read_all(stream)
        assert status(await rig.ask(post(form("still here")))) == 200

    assert rig.texts == ["still here"]


async def test_a_websocket_is_one_more_404(server: Server) -> None:
    async with serving(server=server) as rig, await rig.connect() as stream:
        await stream.send_all(
            head(
                "Connection: Upgrade",
                "Upgrade: websocket",
                "Sec-WebSocket-Version: 13",
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                method="GET",
            )
        )
        assert status(await read_answer(stream)) == (404 if server == "hypercorn" else 405)


async def test_no_log_holds_the_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(limits=QUICK) as rig:
        await rig.ask(post(form("private words")))
        await rig.ask(post(form(), path=f"/{SECRET}?{SECRET}"))
        await rig.ask(post(form(), path=f"/{SECRET[:-1]}"))
        await rig.ask(head(f"Referer: http://x/{SECRET}", "Connection: close", method="GET"))
        await rig.ask(head("Connection: close", path="/healthz", method="GET"))
        await rig.ask(head("Content-Length: 9", f"X: {SECRET}"))
        rig.store.full = True
        await rig.ask(post(form()))

    lines = [record.getMessage() for record in caplog.records if record.name == "triobot.webhook.access"]
    assert [line.rsplit(" ", 2)[0] for line in lines][:5] == [
        "POST /*** 200",
        "POST /*** 200",
        "POST /*** 404",
        "GET /*** 405",
        "GET /healthz 200",
    ]
    shown = caplog.text + "".join(str(record.__dict__) for record in caplog.records)
    assert SECRET[:-1] not in shown
    assert "private" not in shown


async def test_connections_beyond_the_limit_wait_for_those_in_hand() -> None:
    async with serving(limits=Limits(connections=1, idle_seconds=5)) as rig:
        rig.store.gate = trio.Event()
        first = await rig.connect()
        await first.send_all(post(form("0"), close=False))
        await until(lambda: rig.store.waiting_at_gate == 1)
        second = await rig.connect()
        await second.send_all(post(form("1")))
        with trio.move_on_after(0.05) as waited:
            await read_all(second)
        assert waited.cancelled_caught
        rig.store.gate.set()
        assert status(await read_answer(first)) == 200
        with trio.fail_after(1):
            # The first has nothing in hand any more, and gives way.
            assert status(await read_all(second)) == 200
        assert await read_all(first) == b""
        await first.aclose()
        await second.aclose()


async def test_one_address_is_held_to_its_share() -> None:
    """A new connection closes the one that waits for longest; where all are in hand, it is closed itself."""
    limits = Limits(connections_per_address=1, shared_addresses=())
    async with serving(limits=limits) as rig, await rig.connect() as first:
        await first.send_all(post(form("0"), close=False))
        await read_answer(first)
        async with await rig.connect() as second:
            rig.store.gate = trio.Event()
            await second.send_all(post(form("1"), close=False))
            await until(lambda: rig.store.waiting_at_gate == 1)
            assert await read_all(first) == b""
            assert await rig.ask(post(form("2"))) == b""
            rig.store.gate.set()
            assert status(await read_answer(second)) == 200
        assert status(await rig.ask(post(form("3")))) == 200

    assert rig.texts == ["0", "1", "3"]


async def test_a_proxy_s_address_is_not_held_to_one_s_share() -> None:
    """What comes from this machine or a private network is many senders', unless somebody says otherwise."""
    async with serving(limits=Limits(connections_per_address=1)) as rig, await rig.connect() as first:
        await first.send_all(post(form("0"), close=False))
        await read_answer(first)
        assert status(await rig.ask(post(form("1")))) == 200
        await first.send_all(post(form("2")))
        assert status(await read_all(first)) == 200


class TestStopping:
    """A stop takes what is on its way, and answers what is in hand."""

    async def test_a_request_in_hand_is_answered(self) -> None:
        async with serving() as rig:
            rig.store.gate = trio.Event()
            async with await rig.connect() as stream:
                await stream.send_all(post(form("late"), close=False))
                await until(lambda: rig.store.waiting_at_gate == 1)
                rig.shutdown.set()
                await trio.sleep(0.15)
                assert not rig.stopped.is_set()
                rig.store.gate.set()
                answer = await read_all(stream)
            await rig.stopped.wait()

        assert status(answer) == 200
        assert b"connection: close" in answer.lower()
        assert rig.texts == ["late"]

    async def test_a_connection_that_has_not_spoken_yet_may_still(self) -> None:
        async with serving(limits=Limits(settle_seconds=2 * PATIENCE)) as rig, await rig.connect() as stream:
            await trio.sleep(0.02)
            rig.shutdown.set()
            await trio.sleep(0.02)
            await stream.send_all(post(form("last word"), close=False))
            assert status(await read_all(stream)) == 200
            with trio.fail_after(PATIENCE):
                await rig.stopped.wait()

        assert rig.texts == ["last word"]

    @pytest.mark.parametrize("sent", [0, 20, -3], ids=["no byte", "half a head", "most of the body"])
    async def test_behind_hypercorn_what_has_begun_may_end_too(self, sent: int) -> None:
        rig, request = make_rig(limits=QUICK), post(form("last word"), close=False)
        limits = attrs.evolve(QUICK, settle_seconds=2 * PATIENCE)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rig.inbox.run)
            served = partial(
                serve_stock,
                lambda path: rig.endpoint,
                [TcpBind("127.0.0.1", 0)],
                shutdown=rig.shutdown,
                limits=limits,
            )
            (address,) = await nursery.start(served)
            rig.port = int(address.rsplit(":", 1)[1])
            async with await rig.connect() as stream:
                await stream.send_all(request[:sent])
                await wait_all_tasks_blocked(0.02)
                rig.shutdown.set()
                await wait_all_tasks_blocked(0.02)
                await stream.send_all(request[sent:])
                with trio.fail_after(PATIENCE):
                    assert status(await read_answer(stream)) == 200
            nursery.cancel_scope.cancel()

    async def test_idle_connections_do_not_hold_it_up(self) -> None:
        async with serving() as rig, await rig.connect() as stream:
            await stream.send_all(post(form(), close=False))
            await read_answer(stream)
            rig.shutdown.set()
            with trio.fail_after(1):
                await rig.stopped.wait()

    async def test_the_grace_ends(self) -> None:
        async with serving(limits=Limits(settle_seconds=0.05, grace_seconds=0.1)) as rig:
            rig.store.gate = trio.Event()
            async with await rig.connect() as stream:
                await stream.send_all(post(form("never"), close=False))
                await until(lambda: rig.store.waiting_at_gate == 1)
                rig.shutdown.set()
                with trio.fail_after(2):
                    await rig.stopped.wait()
                assert await read_all(stream) == b""

    @pytest.mark.virtual_time(False)  # its senders never rest, and the clock moves only while everybody does
    async def test_two_servers_on_one_socket_refuse_nobody(self) -> None:
        """One process ends while the next has not begun: the kernel keeps the connections between them."""
        shared = socket.create_server(("127.0.0.1", 0), backlog=100)
        port = shared.getsockname()[1]
        limits = Limits(settle_seconds=0.1, grace_seconds=PATIENCE)
        statuses: list[int] = []
        rigs = [make_rig() for _ in range(4)]
        over = False

        async def live(rig: Rig, *, task_status: trio.TaskStatus[list[str]]) -> None:
            bind = FdBind(os.dup(shared.fileno()))
            await serve(
                answering([rig.endpoint]),
                [bind],
                shutdown=rig.shutdown,
                limits=limits,
                task_status=task_status,
            )
            rig.stopped.set()

        async def keep_asking(name: int) -> None:
            number = 0
            while not over:
                number += 1
                async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                    await stream.send_all(post(form(f"{name}-{number}", chat=name + 1)))
                    statuses.append(status(await read_all(stream)))

        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                for name in range(4):
                    nursery.start_soon(keep_asking, name)
                for rig in rigs:
                    await nursery.start(partial(live, rig))
                    await until(lambda rig=rig: len(rig.delivered) > 10)
                    rig.shutdown.set()
                    await rig.stopped.wait()
                    over = rig is rigs[-1]
                last = make_rig()
                await nursery.start(partial(live, last))
                last.shutdown.set()
                await last.stopped.wait()
                # Whoever connected in the last gap is waiting in the queue of the socket itself.
                shared.close()

        answered = [code for code in statuses if code]
        assert set(answered) == {200}
        assert len(statuses) - len(answered) <= 4  # cut off by closing the socket at the very end
        assert sum(len(rig.delivered) for rig in [*rigs, last]) >= len(answered)


class TestBinding:
    """Listening works, or says in one line why it doesn't."""

    @pytest.mark.parametrize(
        ("text", "bind"),
        [
            ("127.0.0.1:8080", TcpBind("127.0.0.1", 8080)),
            ("[::1]:0", TcpBind("::1", 0)),
            ("localhost:80", TcpBind("localhost", 80)),
            ("unix:/run/bot.sock", UnixBind("/run/bot.sock")),
            ("fd://3", FdBind(3)),
        ],
    )
    def test_shown(self, text: str, bind: object) -> None:
        assert str(bind) == text

    @pytest.mark.parametrize(
        ("environ", "fds"),
        [
            ({}, ()),
            ({"LISTEN_PID": "12", "LISTEN_FDS": "2"}, (3, 4)),
            ({"LISTEN_PID": "13", "LISTEN_FDS": "2"}, ()),
            ({"LISTEN_PID": "12", "LISTEN_FDS": "0"}, ()),
            ({"LISTEN_PID": "12", "LISTEN_FDS": "x"}, ()),
            ({"LISTEN_FDS": "1"}, ()),
        ],
    )
    def test_inherited(self, environ: dict[str, str], fds: tuple[int, ...]) -> None:
        assert inherited_binds(environ, 12) == tuple(FdBind(fd) for fd in fds)

    async def refusal(self, bind: TcpBind | UnixBind | FdBind) -> str:
        with pytest.raises(ConfigError) as caught:
            await serve(answering([make_rig().endpoint]), [bind], shutdown=trio.Event())
        return str(caught.value)

    async def test_a_port_in_use(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            line = await self.refusal(TcpBind("127.0.0.1", port))

        assert line == f"can't listen on 127.0.0.1:{port}: another program is listening there"

    async def test_no_such_address_or_descriptor(self, tmp_path: Path) -> None:
        assert "can't listen on 203.0.113.7:80" in await self.refusal(TcpBind("203.0.113.7", 80))
        assert "can't listen on fd://9999" in await self.refusal(FdBind(9999))
        with (tmp_path / "file").open("w") as file:
            assert "can't listen on fd://" in await self.refusal(FdBind(os.dup(file.fileno())))
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        assert "no stream socket" in await self.refusal(FdBind(datagrams.detach()))

    @pytest.mark.parametrize("link", [False, True])
    async def test_somebody_s_file_at_the_path_is_left_alone(self, tmp_path: Path, link: bool) -> None:
        """A slip in the settings must not cost a file; nor a link to a socket that nobody serves."""
        path = tmp_path / "bot.sqlite"
        if link:
            with socket.socket(socket.AF_UNIX) as left_over:
                left_over.bind(str(tmp_path / "bot.sock"))
            path.symlink_to(tmp_path / "bot.sock")
        else:
            path.write_text("years of work")
        with trio.fail_after(PATIENCE):
            assert "no socket" in await self.refusal(UnixBind(str(path)))
        assert path.is_symlink() if link else path.read_text() == "years of work"

    @pytest.mark.parametrize("mode", [None, 0o660, 0o600, 0o666])
    async def test_a_path_s_mode_and_group(self, tmp_path: Path, mode: int | None) -> None:
        """A proxy that runs as another user needs leave to write."""
        path = tmp_path / "bot.sock"
        others = next((group for group in os.getgroups() if group != os.getgid()), os.getgid())
        rig = make_rig()
        umask = os.umask(0o022)
        try:
            async with trio.open_nursery() as nursery:
                bind = UnixBind(str(path), mode, str(others))
                await nursery.start(partial(serve, answering([rig.endpoint]), [bind], shutdown=rig.shutdown))
                found = path.stat()
                rig.shutdown.set()
        finally:
            os.umask(umask)

        assert stat.S_IMODE(found.st_mode) == (0o755 if mode is None else mode)
        assert found.st_gid == others

    async def test_a_group_that_is_none(self, tmp_path: Path) -> None:
        bind = UnixBind(str(tmp_path / "bot.sock"), 0o660, "no-such-group")

        assert "there is no group 'no-such-group'" in await self.refusal(bind)

    async def test_a_path(self, tmp_path: Path) -> None:
        path = str(tmp_path / "bot.sock")
        rig = make_rig()
        left_over = socket.socket(socket.AF_UNIX)
        left_over.bind(path)
        left_over.close()
        async with trio.open_nursery() as nursery:
            addresses = await nursery.start(
                partial(serve, answering([rig.endpoint]), [UnixBind(path)], shutdown=rig.shutdown)
            )
            assert addresses == [f"unix:{path}"]
            async with await trio.open_unix_socket(path) as stream:
                await stream.send_all(post(form("through a path")))
                assert status(await read_all(stream)) == 200
            assert "another program" in await self.refusal(UnixBind(path))
            rig.shutdown.set()

        assert rig.texts == ["through a path"]
