"""The client on the transport that it makes itself: cancelled anywhere, and at the end of its patience."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from loopback_http import Peer, answer_all, serving

from tests.loopback import PATIENCE
from tests.steps import cancelled_at
from triobot.client import PlatformClient
from triobot.errors import DeliveryUnknownError, NotDeliveredError
from triobot.http import TrioTransport
from triobot.wire.content import Blob, Image
from triobot.wire.operations import SendMessage, Upload
from triobot.wire.results import Sent

TOKEN = "0123456789abcdef" * 4
HELLO = SendMessage(7, "salam")
FILE = Upload.of(Image(Blob(b"x" * 200_000, "x.jpg")))


@pytest.mark.parametrize("operation", [HELLO, FILE], ids=["form", "upload"])
async def test_a_cancellation_at_any_step_leaves_every_place_free(operation: SendMessage | Upload) -> None:
    transport = TrioTransport(connections=1)
    pool = transport._connections.pool

    async def answer(peer: Peer) -> None:
        while (request := await peer.read_request()) is not None:
            await trio.sleep(0)
            if request.path == "/upload":
                await peer.answer(b'{"type":"image","path":"https://cdn.test/1.jpg","SID":"s1"}')
            else:
                await peer.answer()

    async with (
        serving(answer) as server,
        PlatformClient(server.url, TOKEN, transport=transport, connections=1) as platform,
    ):
        for step in range(1, 300):
            if step % 2:
                pool.close_idle()
            over = await cancelled_at(step, partial(platform.perform, operation))  # type: ignore[arg-type]
            assert (pool.taken, pool.waiting) == (pool.idle, 0)
            if over and step % 2:
                break
        assert 3 < step < 299
        with trio.fail_after(PATIENCE):
            assert await platform.perform(HELLO) == Sent(7, 7)


async def test_patience_knows_whether_anything_left(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        await trio.sleep_forever()

    async def silent(peer: Peer) -> None:
        if peer.number:
            await answer_all(peer)
        await peer.read_request()
        await trio.sleep_forever()

    async with (
        serving(silent) as server,
        PlatformClient(server.url, TOKEN, patience=0.05, connections=1) as platform,
    ):
        with monkeypatch.context() as patched:
            patched.setattr(trio, "open_tcp_stream", never)
            with pytest.raises(NotDeliveredError, match="nothing was sent"):
                await platform.perform(HELLO)
        with pytest.raises(DeliveryUnknownError, match=r"no answer within 0.05 seconds"):
            await platform.perform(HELLO)
        assert await platform.perform(HELLO) == Sent(7, 7)


async def test_an_idle_connection_that_the_platform_closed_costs_nothing() -> None:
    async def once(peer: Peer) -> None:
        await peer.read_request()
        await peer.answer()
        await peer.stream.aclose()

    async with serving(once) as server, PlatformClient(server.url, TOKEN) as platform:
        for _ in range(5):
            assert await platform.perform(HELLO) == Sent(7, 7)
            await trio.testing.wait_all_tasks_blocked(0.005)
