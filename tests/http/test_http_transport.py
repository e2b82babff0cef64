"""The transport over real sockets: what it does with a connection, and what it makes of failures."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from functools import partial

import httpx
import pytest
import trio
from http_rig import OK, Peer, answering, make_certificates

from tests.loopback import PATIENCE
from tests.steps import cancelled_at
from triobot.http import TrioTransport
from triobot.http.connections import ClientConnection, Origin
from triobot.http.request import MalformedError


def origin_of(port: int) -> Origin:
    return Origin("http", "127.0.0.1", port)


MESSAGE = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"


def client(transport: httpx.AsyncBaseTransport) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=transport, timeout=PATIENCE)


async def test_one_request_after_another_on_one_connection() -> None:
    async with answering() as server, client(TrioTransport()) as http:
        for number in range(3):
            response = await http.post(f"{server.url}/{number}?a=b", content=b"x" * number)
            assert (response.status_code, response.text) == (200, "ok")
            assert response.http_version == "HTTP/1.1"
            assert response.reason_phrase == "OK"

    assert server.peers == 1
    assert [request.split(b" ")[1] for request in server.requests] == [b"/0?a=b", b"/1?a=b", b"/2?a=b"]
    assert b"Host: 127.0.0.1:%d\r\n" % server.port in server.requests[0]


async def post(transport: TrioTransport, port: int, message: bytes = MESSAGE) -> ClientConnection:
    """Take a connection for a request that is written out already; `answered` sends it."""
    connection, _ = await transport.connections.get(origin_of(port))
    connection.post(message)
    return connection


async def answered(transport: TrioTransport, connection: ClientConnection, most: int = 10) -> bytes:
    try:
        body = await connection.answer(most)
    except Exception:
        transport.connections.discard(connection)
        raise
    transport.connections.settle(connection)
    return body


async def test_the_short_way() -> None:
    transport = TrioTransport()
    async with answering() as server, transport:
        for _ in range(3):
            connection = await post(transport, server.port)
            assert not connection.may_have_left
            assert await answered(transport, connection) == b"ok"
            assert (connection.may_have_left, connection.reader.status) == (True, 200)
        assert len(await answered(transport, await post(transport, server.port), most=1)) > 1

    assert server.requests == [MESSAGE] * 4
    assert server.peers == 1


async def test_another_task_goes_on_with_what_one_was_cancelled_over() -> None:
    """At any step, with an answer that comes byte by byte: it is sent once, and read whole."""

    async def answer(peer: Peer, _: bytes) -> None:
        for byte in OK:
            await peer.stream.send_all(bytes([byte]))
            await trio.lowlevel.checkpoint()

    transport = TrioTransport()
    async with answering(answer) as server, transport:
        for steps in range(1, 12):
            connection = await post(transport, server.port)
            for _ in range(20):
                await cancelled_at(steps, partial(connection.answer, 10))
            assert await answered(transport, connection) == b"ok"

    assert server.requests == [MESSAGE] * 11
    assert server.peers == 1


async def test_a_request_that_is_cut_in_its_middle_ends_its_connection() -> None:
    """Nobody can go on with it; and it may have left."""

    async def never(peer: Peer, _: bytes) -> None:
        await trio.sleep_forever()

    transport = TrioTransport()
    async with answering(never) as server, transport:
        # The server reads a request whole, and no other behind it.
        long = MESSAGE + b"x" * 50_000_000
        connection = await post(transport, server.port, long)
        with trio.move_on_after(0.05) as scope:
            await connection.answer(10)
        assert scope.cancelled_caught
        assert connection.may_have_left
        with pytest.raises(trio.ClosedResourceError):
            await answered(transport, connection)
        assert transport.connections.taken == 0


class Pieces:
    """A body of pieces. No generator: httpx puts one of its own around it, which leaves inner ones behind."""

    def __init__(self, *pieces: bytes) -> None:
        self._rest = list(pieces)

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        if not self._rest:
            raise StopAsyncIteration
        return self._rest.pop(0)


async def test_bodies_are_streamed_both_ways() -> None:
    async def answer(peer: Peer, _: bytes) -> None:
        await peer.stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await first.wait()
        await peer.stream.send_all(b"6\r\n world\r\n0\r\n\r\n")

    first = trio.Event()
    async with answering(answer) as server, client(TrioTransport()) as http:
        async with http.stream("POST", server.url, content=Pieces(b"abc", b"", b"de")) as response:
            pieces = response.aiter_raw()
            assert await anext(pieces) == b"hello"
            first.set()
            assert [piece async for piece in pieces] == [b" world"]
        told = {"content-length": "5"}
        first.set()
        await http.post(server.url, content=Pieces(b"abc", b"de"), headers=told)

    assert server.requests[0].endswith(b"\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    assert server.requests[1].endswith(b"\r\n\r\nabcde")
    assert server.peers == 1


@pytest.mark.parametrize(
    ("content", "length"),
    [
        ([b"abc"], "5"),
        ([b"abcdef"], "5"),
        ([b"abc", b"de", b"f"], "5"),
        ([b"abcde", b"", b"f"], "5"),
        ([b"x"], "0"),
        ([b"x"], "five"),
    ],
)
async def test_a_body_must_be_as_long_as_it_says(content: list[bytes], length: str) -> None:
    """And what isn't has never left to its end, as other errors of the same kind have not left at all."""
    transport = TrioTransport()
    async with answering() as server, client(transport) as http:
        with pytest.raises(httpx.LocalProtocolError):
            await http.post(server.url, content=Pieces(*content), headers={"content-length": length})
        assert transport.connections.taken == 0
    assert server.requests == []


@pytest.mark.parametrize(
    "headers",
    [
        {"x": "a\r\nEvil: yes"},
        {"x": "a\nb"},
        {"x": "a\x00b"},
        {"x y": "a"},
        {"transfer-encoding": "gzip"},
        {"transfer-encoding": "chunked", "content-length": "3"},
    ],
)
async def test_nothing_makes_two_requests_of_one(headers: dict[str, str]) -> None:
    async with answering() as server, client(TrioTransport()) as http:
        with pytest.raises(httpx.LocalProtocolError):
            await http.post(server.url, content=b"abc", headers=headers)

    assert server.requests == []


@pytest.mark.parametrize("url", ["ftp://x/", "http://", "ws://x/"])
async def test_other_schemes_are_refused(url: str) -> None:
    async with TrioTransport() as transport:
        with pytest.raises(httpx.UnsupportedProtocol):
            await transport.handle_async_request(httpx.Request("GET", url))


async def test_head_and_statuses_without_a_body() -> None:
    async def answer(peer: Peer, request: bytes) -> None:
        status = request.split(b" ")[1].removeprefix(b"/")
        await peer.stream.send_all(b"HTTP/1.1 %s X\r\nContent-Length: 5\r\n\r\n" % status)

    async with answering(answer) as server, client(TrioTransport()) as http:
        assert (await http.head(server.url + "/200")).headers["content-length"] == "5"
        assert (await http.get(server.url + "/204")).content == b""
        assert (await http.get(server.url + "/304")).content == b""


async def test_a_connection_that_was_closed_meanwhile_is_not_used() -> None:
    async def answer(peer: Peer, _: bytes) -> None:
        await peer.stream.send_all(OK)
        peer.stream.socket.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]

    async with answering(answer) as server, client(TrioTransport()) as http:
        for _ in range(5):
            assert (await http.post(server.url, content=b"x")).status_code == 200
            await trio.testing.wait_all_tasks_blocked(0.005)

    assert server.peers == 5


async def test_a_connection_that_spoke_unasked_is_not_used() -> None:
    """Its words would be taken for the next answer."""

    async def answer(peer: Peer, _: bytes) -> None:
        await peer.stream.send_all(OK)
        await trio.sleep(0)
        await peer.stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")

    async with answering(answer) as server, client(TrioTransport()) as http:
        for _ in range(3):
            assert (await http.post(server.url)).text == "ok"
            await trio.testing.wait_all_tasks_blocked(0.005)

    assert server.peers == 3


async def test_a_connection_that_ends_unanswered_is_an_error() -> None:
    async with answering(b"") as server, TrioTransport() as transport:
        connection = await post(transport, server.port)
        with pytest.raises(MalformedError):
            await answered(transport, connection)

    assert connection.may_have_left
    assert server.requests == [MESSAGE]


@pytest.mark.parametrize(
    ("error", "broken", "theirs"),
    [
        (trio.BrokenResourceError("reset"), False, httpx.ReadError),
        (trio.ClosedResourceError("closed"), False, httpx.ReadError),
        (trio.BrokenResourceError("reset"), True, httpx.WriteError),
        (MalformedError("no answer"), False, httpx.RemoteProtocolError),
    ],
)
async def test_who_uses_it_by_httpx_gets_httpxs_errors(
    monkeypatch: pytest.MonkeyPatch, error: Exception, broken: bool, theirs: type[Exception]
) -> None:
    async def receive(connection: ClientConnection) -> None:
        connection.broken = broken
        raise error

    monkeypatch.setattr(ClientConnection, "receive", receive)
    async with answering(b"") as server, client(TrioTransport()) as http:
        with pytest.raises(theirs, match=str(error)) as caught:
            await http.get(server.url)
        with pytest.raises(theirs):
            await http.post(server.url, content=b"x", headers={"Expect": "100-continue"})
    assert caught.value.__cause__ is error or caught.value.__cause__.__cause__ is error  # type: ignore[union-attr]


async def test_an_early_refusal_of_a_long_body_is_heard() -> None:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]

    async def refuse(stream: trio.SocketStream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(b"HTTP/1.1 413 Long\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
        await stream.send_eof()
        while await stream.receive_some():
            pass

    async with trio.open_nursery() as nursery, client(TrioTransport()) as http:
        nursery.start_soon(trio.serve_listeners, refuse, [listener])
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/"
        response = await http.post(url, content=Pieces(*[b"x" * 100_000] * 50))
        assert (response.status_code, response.text) == (413, "big")
        nursery.cancel_scope.cancel()


@pytest.mark.virtual_time
class TestExpect:
    """A body that waits for the other side's word."""

    async def asked(self, word: bytes) -> tuple[httpx.Response, list[bytes]]:
        seen: list[bytes] = []

        async def serve(stream: trio.SocketStream) -> None:
            seen.append(bytes(await stream.receive_some()))
            if word:
                await stream.send_all(word)
            if b" 100 " in word or not word:
                seen.append(bytes(await stream.receive_some()))
                await stream.send_all(OK)
            await trio.sleep_forever()

        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        async with trio.open_nursery() as nursery, client(TrioTransport()) as http:
            nursery.start_soon(trio.serve_listeners, serve, [listener])
            url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/"
            response = await http.post(url, content=b"body", headers={"expect": "100-continue"})
            nursery.cancel_scope.cancel()
        return response, seen

    async def test_goes_when_it_is_wanted(self) -> None:
        response, seen = await self.asked(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert (response.status_code, seen[1]) == (200, b"body")
        assert not seen[0].endswith(b"body")

    async def test_stays_when_it_is_not(self) -> None:
        response, seen = await self.asked(b"HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n")
        assert (response.status_code, len(seen)) == (417, 1)

    async def test_goes_anyway_after_a_while(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("triobot.http.connections._CONTINUE_SECONDS", 0.01)
        response, seen = await self.asked(b"")
        assert (response.status_code, seen[1]) == (200, b"body")


QUICK = httpx.Timeout(5, read=0.02, write=0.05)


@pytest.mark.virtual_time
class TestTimeouts:
    """httpx's own, which hold here too; each says whether anything can have left."""

    async def test_reading(self) -> None:
        async def silent(peer: Peer, _: bytes) -> None:
            await trio.sleep_forever()

        transport = TrioTransport()
        async with answering(silent) as server, httpx.AsyncClient(transport=transport, timeout=QUICK) as http:
            with pytest.raises(httpx.ReadTimeout):
                await http.get(server.url)
            assert transport.connections.taken == 0

    async def test_reading_a_body(self) -> None:
        async def half(peer: Peer, _: bytes) -> None:
            await peer.stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
            await trio.sleep_forever()

        transport = TrioTransport()
        async with answering(half) as server, httpx.AsyncClient(transport=transport, timeout=QUICK) as http:
            with pytest.raises(httpx.ReadTimeout):
                await http.get(server.url)
            assert transport.connections.taken == 0

    async def test_writing(self) -> None:
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/"
        transport = TrioTransport()
        async with httpx.AsyncClient(transport=transport, timeout=QUICK) as http:
            with pytest.raises(httpx.WriteTimeout):
                await http.post(url, content=b"x" * 50_000_000)
            assert transport.connections.taken == 0
        await listener.aclose()

    async def test_connecting_and_waiting_in_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def never(*_: object) -> None:
            await trio.sleep_forever()

        monkeypatch.setattr(trio, "open_tcp_stream", never)
        transport = TrioTransport(connections=1)
        async with httpx.AsyncClient(transport=transport) as http, trio.open_nursery() as nursery:
            with pytest.raises(httpx.ConnectTimeout):
                await http.get("http://x/", timeout=httpx.Timeout(5, connect=0.02))
            nursery.start_soon(partial(http.get, "http://x/", timeout=None))
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(httpx.PoolTimeout):
                await http.get("http://x/", timeout=httpx.Timeout(5, pool=0.02))
            assert (transport.connections.taken, len(transport.connections._line)) == (1, 0)
            nursery.cancel_scope.cancel()


class TestLimits:
    """Places are counted, and go to who came first."""

    async def test_requests_beyond_the_limit_wait(self) -> None:
        now = most = 0

        async def answer(peer: Peer, _: bytes) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await trio.sleep(0.001)
            now -= 1
            await peer.stream.send_all(OK)

        async with (
            answering(answer) as server,
            client(TrioTransport(connections=3)) as http,
            trio.open_nursery() as nursery,
        ):
            for _ in range(20):
                nursery.start_soon(http.get, server.url)

        assert (most, server.peers) == (3, 3)

    async def test_an_idle_one_elsewhere_makes_room(self) -> None:
        transport = TrioTransport(connections=1)
        async with answering() as one, answering() as other, client(transport) as http:
            for server in (one, other, one):
                await http.get(server.url)
            assert transport.connections.taken == 1

        assert (one.peers, other.peers) == (2, 1)

    async def test_one_in_line_for_elsewhere_gets_the_place(self) -> None:
        transport = TrioTransport(connections=1)
        async with (
            answering() as one,
            answering() as other,
            client(transport) as http,
            trio.open_nursery() as nursery,
        ):
            for server in (one, other, one, other):
                nursery.start_soon(http.get, server.url)

        assert (len(one.requests), len(other.requests)) == (2, 2)

    async def test_an_old_one_is_not_used_again(self, autojump_clock: trio.testing.MockClock) -> None:
        async with answering() as server, httpx.AsyncClient(transport=TrioTransport(), timeout=None) as http:
            await http.get(server.url)
            await trio.sleep(3)
            await http.get(server.url)
            await trio.sleep(5)
            await http.get(server.url)

        assert server.peers == 2

    async def test_none_idle_keeps_none(self) -> None:
        async with answering() as server, client(TrioTransport(idle=0)) as http:
            for _ in range(3):
                await http.get(server.url)

        assert server.peers == 3


async def _whole(http: httpx.AsyncClient, url: str) -> None:
    await http.post(url, content=b"abc")


async def _chunked(http: httpx.AsyncClient, url: str) -> None:
    await http.post(url, content=Pieces(b"abc", b"de"))


async def _streamed(http: httpx.AsyncClient, url: str, most: int = 100) -> None:
    # Not through the client: its own generators would be left half read here.
    response = await http._transport.handle_async_request(httpx.Request("GET", url))
    try:
        async for _ in response.stream:  # type: ignore[union-attr]
            await trio.lowlevel.checkpoint()
            most -= 1
            if not most:
                break
    finally:
        await response.aclose()


async def _given_up(http: httpx.AsyncClient, url: str) -> None:
    await _streamed(http, url, 1)


async def _slow(peer: Peer, _: bytes) -> None:
    for part in (OK[:9], OK[9:-1], OK[-1:]):
        await peer.stream.send_all(part)
        await trio.sleep(0.0005)


class TestCancellation:
    """Wherever it comes, the connection is closed, its place is free, and the next request works."""

    @pytest.mark.parametrize("work", [_whole, _chunked, _streamed, _given_up])
    @pytest.mark.parametrize("secured", [False, True])
    async def test_at_every_step(
        self, work: Callable[[httpx.AsyncClient, str], Awaitable[None]], secured: bool
    ) -> None:
        certificates = make_certificates("localhost") if secured else None
        transport = TrioTransport(
            connections=1, ssl_context=None if certificates is None else certificates.client
        )
        tls = None if certificates is None else certificates.server
        async with answering(_slow, tls=tls) as server, client(transport) as http:
            pool = transport.connections
            for warm in (False, True):
                for step in range(1, 200):
                    if not warm:
                        pool.close_idle()
                    over = await cancelled_at(step, partial(work, http, server.url))
                    assert pool.taken == len(pool._idle)
                    assert len(pool._line) == 0
                    if over:
                        break
                else:
                    raise AssertionError("it never ended")
                assert step > 3
                with trio.fail_after(PATIENCE):
                    await work(http, server.url)

        await trio.testing.wait_all_tasks_blocked(0.01)

    async def test_in_line(self) -> None:
        """One that leaves the line takes no place with it, not even if its turn had just come."""
        release = trio.Event()

        async def answer(peer: Peer, _: bytes) -> None:
            await release.wait()
            await peer.stream.send_all(OK)

        transport = TrioTransport(connections=1)
        pool = transport.connections
        async with answering(answer) as server, client(transport) as http:
            for step in range(1, 100):
                release = trio.Event()
                over = False
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(http.get, server.url)
                    await trio.testing.wait_all_tasks_blocked(0.001)

                    async def walk(step: int = step) -> None:
                        nonlocal over
                        over = await cancelled_at(step, partial(http.get, server.url))

                    nursery.start_soon(walk)
                    await trio.testing.wait_all_tasks_blocked(0.001)
                    release.set()
                assert (pool.taken, len(pool._line)) == (len(pool._idle), 0)
                if over:
                    break
            assert 3 < step < 99


class TestTls:
    """Verified: the certificate, and the name."""

    async def test_a_trusted_name(self) -> None:
        certificates = make_certificates("localhost")
        transport = TrioTransport(ssl_context=certificates.client)
        async with answering(tls=certificates.server) as server, client(transport) as http:
            for _ in range(3):
                assert (await http.get(server.url)).text == "ok"

        assert server.peers == 1

    async def test_another_name(self) -> None:
        certificates = make_certificates("other.test")
        transport = TrioTransport(ssl_context=certificates.client)
        async with answering(tls=certificates.server) as server, client(transport) as http:
            with pytest.raises(httpx.ConnectError, match=r"(?i)hostname mismatch"):
                await http.get(server.url)
            assert transport.connections.taken == 0
            named = {"sni_hostname": "other.test"}
            assert (await http.get(server.url, extensions=named)).text == "ok"

    async def test_nobody_vouches_for_it(self) -> None:
        certificates = make_certificates("localhost")
        async with answering(tls=certificates.server) as server, client(TrioTransport()) as http:
            with pytest.raises(httpx.ConnectError, match=r"(?i)certificate verify failed"):
                await http.get(server.url)

    async def test_http_1_is_asked_for(self) -> None:
        certificates = make_certificates("localhost")
        certificates.server.set_alpn_protocols(["h2", "http/1.1"])
        from triobot.http.connections import default_context

        context = default_context()
        certificates.authority.configure_trust(context)
        seen: list[str | None] = []

        async def answer(peer: Peer, _: bytes) -> None:
            seen.append(peer.stream.selected_alpn_protocol())  # type: ignore[union-attr]
            await peer.stream.send_all(OK)

        try:
            async with answering(answer, tls=certificates.server) as server, client(TrioTransport()) as http:
                await http.get(server.url)
        finally:
            default_context.cache_clear()

        assert seen == ["http/1.1"]

    async def test_no_tls_behind_https(self) -> None:
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]

        async def refuse(stream: trio.SocketStream) -> None:
            async with stream:
                await stream.send_all(b"HTTP/1.1 400 No\r\n\r\n")

        async with trio.open_nursery() as nursery, client(TrioTransport()) as http:
            nursery.start_soon(trio.serve_listeners, refuse, [listener])
            with pytest.raises(httpx.ConnectError):
                await http.get(f"https://127.0.0.1:{listener.socket.getsockname()[1]}/")
            nursery.cancel_scope.cancel()


async def test_a_closed_transport_refuses() -> None:
    transport = TrioTransport()
    async with answering() as server, transport:
        await answered(transport, await post(transport, server.port))
        await transport.aclose()
        assert transport.connections.taken == 0
        with pytest.raises(trio.ClosedResourceError):
            await post(transport, server.port)


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with client(TrioTransport()) as http:
        with pytest.raises(httpx.ConnectError):
            await http.get(f"http://127.0.0.1:{port}/")
        with pytest.raises(httpx.ConnectError):
            await http.get("http://nobody.invalid/")
