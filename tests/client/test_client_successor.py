"""The client over httpx2's transport: its errors say what httpx's say, and its places are free again."""

from __future__ import annotations

import socket
from functools import partial

import pytest
import trio
from loopback_http import Peer, answer_all, serving

from tests.loopback import PATIENCE
from tests.steps import cancelled_at
from triobot.client import PlatformClient
from triobot.client.successor import adapted
from triobot.errors import ConfigError, DeliveryUnknownError, NotDeliveredError
from triobot.wire.content import Blob, Image
from triobot.wire.operations import SendMessage, Upload
from triobot.wire.results import Sent

httpx2 = pytest.importorskip("httpx2")

TOKEN = "0123456789abcdef" * 4
HELLO = SendMessage(7, "salam")
FILE = Upload.of(Image(Blob(b"x" * 200_000, "x.jpg")))


def one_connection() -> object:
    return httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=1))


async def test_a_message_and_a_file() -> None:
    asked: list[str] = []

    async def answer(peer: Peer) -> None:
        while (request := await peer.read_request()) is not None:
            asked.append(f"{request.path} {len(request.body)}")
            if request.path == "/upload":
                await peer.answer(b'{"type":"image","path":"https://cdn.test/1.jpg","SID":"s1"}')
            else:
                await peer.answer()

    async with (
        serving(answer) as server,
        PlatformClient(server.url, TOKEN, transport=one_connection()) as platform,  # type: ignore[arg-type]
    ):
        with trio.fail_after(PATIENCE):
            assert await platform.perform(HELLO) == Sent(7, 7)
            await platform.perform(FILE)
    assert [line.split()[0] for line in asked] == ["/sendMessage", "/upload"]
    assert int(asked[1].split()[1]) > 200_000


async def test_no_connection_is_known_to_be_none() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with PlatformClient(url, TOKEN, transport=one_connection()) as platform:  # type: ignore[arg-type]
            with pytest.raises(NotDeliveredError):
                await platform.perform(HELLO)


async def test_a_connection_that_breaks_behind_the_request_leaves_it_unknown() -> None:
    async def leave(peer: Peer) -> None:
        if peer.number == 0:
            await peer.read_request()
        else:
            await answer_all(peer)

    async with (
        serving(leave) as server,
        PlatformClient(server.url, TOKEN, transport=one_connection()) as platform,  # type: ignore[arg-type]
    ):
        with trio.fail_after(PATIENCE):
            with pytest.raises(DeliveryUnknownError):
                await platform.perform(HELLO)
            assert await platform.perform(HELLO) == Sent(7, 7), "the pool's only place is free again"


async def test_a_cancellation_at_any_step_leaves_the_place_free() -> None:
    async with (
        serving(answer_all) as server,
        PlatformClient(server.url, TOKEN, transport=one_connection(), connections=1) as platform,  # type: ignore[arg-type]
    ):
        for step in range(1, 300):
            if await cancelled_at(step, partial(platform.perform, HELLO)):
                break
            with trio.fail_after(PATIENCE):
                assert await platform.perform(HELLO) == Sent(7, 7)
        assert 3 < step < 299


def test_what_is_no_transport_is_refused() -> None:
    with pytest.raises(ConfigError, match="httpx2's, not a Client"):
        adapted(type("Client", (), {})())
