"""The client on the transport that it makes itself: cancelled anywhere, and at the end of its patience."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import pytest
import trio
from loopback_http import Peer, answer_all, serving
from trio.testing import MockClock

from tests.loopback import PATIENCE
from tests.steps import cancelled_at
from triobot.client import PlatformClient
from triobot.client.posted import PostedForm
from triobot.errors import ConfigError, DeliveryUnknownError, NotDeliveredError
from triobot.http.connections import ClientConnection, Connections, NoConnectionError
from triobot.http.request import MalformedError
from triobot.outbox import open_outbox
from triobot.seams.outbox import OnUnknown
from triobot.wire.content import Blob, Image
from triobot.wire.operations import CreateInvoice, Operation, SendMessage, Upload
from triobot.wire.results import Sent

TOKEN = "0123456789abcdef" * 4
HELLO = SendMessage(7, "salam")
FILE = Upload.of(Image(Blob(b"x" * 200_000, "x.jpg")))


def own(platform: PlatformClient) -> Connections:
    assert platform._own is not None
    return platform._own


@pytest.mark.parametrize("operation", [HELLO, FILE], ids=["form", "upload"])
async def test_a_cancellation_at_any_step_leaves_every_place_free(operation: SendMessage | Upload) -> None:
    async def answer(peer: Peer) -> None:
        while (request := await peer.read_request()) is not None:
            await trio.sleep(0)
            if request.path == "/upload":
                await peer.answer(b'{"type":"image","path":"https://cdn.test/1.jpg","SID":"s1"}')
            else:
                await peer.answer()

    async with (
        serving(answer) as server,
        PlatformClient(server.url, TOKEN, connections=1) as platform,
    ):
        pool = own(platform)
        theirs = platform._carried().transport._pool  # type: ignore[attr-defined]
        for step in range(1, 300):
            if step % 2:
                pool.close_idle()
                await theirs.aclose()
            over = await cancelled_at(step, partial(platform.perform, operation))  # type: ignore[arg-type]
            assert not theirs._requests
            assert all(kept.is_idle() or kept.is_closed() for kept in theirs.connections)
            if over and step % 2:
                break
        assert 3 < step < 299
        with trio.fail_after(PATIENCE):
            assert await platform.perform(HELLO) == Sent(7, 7)
            await platform.perform(FILE)


async def test_patience_knows_whether_anything_left(
    monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    mock_clock.rate = 1  # only what never ends takes longer than the patience, however busy the machine is

    async def never(*_: object) -> None:
        mock_clock.jump(2 * PATIENCE)
        await trio.sleep_forever()

    async def silent(peer: Peer) -> None:
        if peer.number:
            await answer_all(peer)
        await peer.read_request()
        await never()

    async with (
        serving(silent) as server,
        PlatformClient(server.url, TOKEN, patience=PATIENCE, connections=1) as platform,
    ):
        with monkeypatch.context() as patched:
            patched.setattr(trio, "open_tcp_stream", never)
            with pytest.raises(NotDeliveredError, match="nothing was sent"):
                await platform.perform(HELLO)
        with pytest.raises(DeliveryUnknownError, match=rf"no answer within {PATIENCE:g} seconds"):
            await platform.perform(HELLO)
        assert await platform.perform(HELLO) == Sent(7, 7)


@pytest.mark.parametrize("operation", [HELLO, FILE], ids=["form", "upload"])
@pytest.mark.parametrize("make", [lambda: None, httpx.AsyncHTTPTransport], ids=["ours", "httpx"])
async def test_nothing_leaves_that_is_no_longer_certain_once_it_has_a_connection(
    operation: SendMessage | Upload, make: Callable[[], httpx.AsyncBaseTransport | None]
) -> None:
    """As where a process stands still while it connects, and another one goes on with its conversations."""

    async def answer(peer: Peer) -> None:
        while await peer.read_request() is not None:
            await peer.answer(b'{"type":"image","path":"https://cdn.test/1.jpg","SID":"s1"}')

    answers = iter([False, True])
    async with (
        serving(answer) as server,
        PlatformClient(server.url, TOKEN, transport=make(), certain=lambda: next(answers)) as platform,
    ):
        with pytest.raises(NotDeliveredError, match="may have lost its store"):
            await platform.perform(operation)
        await trio.testing.wait_all_tasks_blocked(0.005)
        assert (len(server.peers), server.received) == (1, [])
        await platform.perform(operation)
        assert len(server.received) == 1


async def test_an_idle_connection_that_the_platform_closed_costs_nothing() -> None:
    async def once(peer: Peer) -> None:
        await peer.read_request()
        await peer.answer()
        await peer.stream.aclose()

    async with serving(once) as server, PlatformClient(server.url, TOKEN) as platform:
        for _ in range(5):
            assert await platform.perform(HELLO) == Sent(7, 7)
            await trio.testing.wait_all_tasks_blocked(0.005)


@pytest.mark.parametrize("operation", [HELLO, CreateInvoice(7, 1000, "tea")], ids=["send", "invoice"])
async def test_what_is_never_repeated_takes_a_new_connection(operation: Operation[Any]) -> None:
    """A platform that drops what comes over a kept connection: whether it has read that, nobody knows."""

    async def once(peer: Peer) -> None:
        await peer.read_request()
        await peer.answer(b'{"id": "7"}')
        await peer.read_request()
        await peer.stream.aclose()

    async with (
        serving(once) as server,
        PlatformClient(server.url, TOKEN) as platform,
        open_outbox(platform, raise_alarm=lambda alarm: None) as outbox,
    ):
        await outbox.perform(HELLO)
        await outbox.perform(operation, on_unknown=OnUnknown.RAISE)
        await outbox.perform(operation, on_unknown=OnUnknown.RAISE)
        assert [peer.number for peer in server.peers] == [0, 1, 2]
        assert len(server.received) == 3


@pytest.mark.parametrize("idle", [1, 3])
async def test_a_write_that_fails_before_a_byte_left_is_repeated_elsewhere(idle: int) -> None:
    """Only such a one: nobody can tell whether the platform has acted on the others."""
    async with (
        serving(answer_all) as server,
        PlatformClient(server.url, TOKEN, connections=idle) as platform,
    ):
        async with trio.open_nursery() as nursery:
            for _ in range(idle):
                nursery.start_soon(platform.perform, HELLO)
        for connection, _ in own(platform)._idle:
            made = connection._link
            # As if the other side had closed it between the look at it and the write.
            made.is_quiet = lambda: True  # type: ignore[method-assign]
            made._sock.shutdown(socket.SHUT_WR)  # type: ignore[attr-defined]
        before = len(server.received)
        assert await platform.perform(HELLO) == Sent(7, 7)
        assert len(server.received) == before + 1
        assert len(own(platform)._idle) == 1


async def test_a_begun_request_is_carried_by_one_task_after_another() -> None:
    """What is cancelled before anything left is over; later, another task gets its result, once."""

    async def slow(peer: Peer) -> None:
        while await peer.read_request() is not None:
            await trio.lowlevel.checkpoint()
            await peer.answer()

    async with serving(slow) as server, PlatformClient(server.url, TOKEN, connections=1) as platform:
        results: list[Sent] = []
        for step in range(1, 60):
            request = platform.begin(HELLO)
            assert request is not None

            async def carry(posted: PostedForm[Sent] = request) -> None:
                results.append(await posted.result())

            await cancelled_at(step, carry)
            if request.may_have_left:
                await carry()
            request.close()
        assert len(results) > 50
        assert len(server.received) == len(results)


async def test_a_begun_request_can_be_expired() -> None:
    """The task that waits is told at once, and whether anything had left; the connection is free."""

    async def silent(peer: Peer) -> None:
        await peer.read_request()
        await trio.sleep_forever()

    async with serving(silent) as server, PlatformClient(server.url, TOKEN, connections=1) as platform:
        for wait, error in ((0, NotDeliveredError), (1, DeliveryUnknownError)):
            request = platform.begin(HELLO)
            assert request is not None
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def expire(posted: PostedForm[Sent] = request, wait: int = wait) -> None:
                    while wait and not posted.may_have_left:
                        await trio.lowlevel.checkpoint()
                    posted.expire(3)

                with pytest.raises(error, match="no answer within 3 seconds"):
                    await request.result()
            assert not own(platform)._idle


NEVER_SENT = [NoConnectionError("refused")]
LOST = [
    MalformedError("no answer"),
    trio.BrokenResourceError("reset"),
    trio.ClosedResourceError("closed"),
    ConnectionResetError(104, "reset"),
]


@pytest.mark.parametrize("error", [*NEVER_SENT, *LOST], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("left", [False, True])
async def test_what_ends_a_form_says_whether_it_may_have_left(
    monkeypatch: pytest.MonkeyPatch, error: Exception, left: bool
) -> None:
    """As httpx's errors do: no connection always means never sent, anything else goes by what was written."""

    async def answer(connection: ClientConnection, most: int) -> bytes:
        connection.may_have_left = left
        raise error

    async with serving(answer_all) as server, PlatformClient(server.url, TOKEN) as platform:
        monkeypatch.setattr(ClientConnection, "answer", answer)
        unknown = left and error in LOST
        with pytest.raises(DeliveryUnknownError if unknown else NotDeliveredError) as caught:
            await platform.perform(HELLO)
    assert caught.value.__cause__ is error


async def test_a_bug_on_the_straight_way_stays_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(connection: ClientConnection, most: int) -> bytes:
        raise ZeroDivisionError

    async with serving(answer_all) as server, PlatformClient(server.url, TOKEN) as platform:
        monkeypatch.setattr(ClientConnection, "answer", answer)
        with pytest.raises(ZeroDivisionError):
            await platform.perform(HELLO)


async def test_forms_and_files_share_the_limit_and_keep_their_connections() -> None:
    """Never more requests at a time than the client may have, whichever connection they go over."""
    now = most = 0

    async def answer(peer: Peer) -> None:
        nonlocal now, most
        while await peer.read_request() is not None:
            now += 1
            most = max(most, now)
            await trio.testing.wait_all_tasks_blocked()
            now -= 1
            await peer.answer(b'{"type":"image","path":"https://cdn.test/1.jpg","SID":"s1","id":7}')

    async with serving(answer) as server, PlatformClient(server.url, TOKEN, connections=1) as platform:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(platform.perform, HELLO)
                nursery.start_soon(platform.perform, FILE)
        assert (most, len(server.received), len(server.peers)) == (1, 6, 2)


async def test_a_client_in_place_of_a_transport_is_refused() -> None:
    transport: Any = httpx.AsyncClient()
    with pytest.raises(ConfigError, match=r"httpx\.AsyncBaseTransport, not AsyncClient"):
        PlatformClient("https://api.gap.im", TOKEN, transport=transport)
    await transport.aclose()
