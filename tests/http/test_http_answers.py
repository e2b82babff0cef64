"""Senders that send no body, and senders that read no answers."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from tests.loopback import PATIENCE
from triobot.base.binding import TcpBind, open_listeners
from triobot.base.limits import ServingLimits
from triobot.http.listener import serve_listeners
from triobot.http.server_connection import Talk

pytestmark = pytest.mark.virtual_time

NEXT = b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n"


async def test_who_sends_no_body_doesn_t_keep_its_place() -> None:
    """A handler that waits for the body, and has no deadline of its own, hears that the sender has left."""
    (listener,) = await open_listeners([TcpBind("127.0.0.1", 0)], backlog=10)
    port = listener.socket.getsockname()[1]
    heard, ended = list[bytes](), trio.Event()

    async def patient(talk: Talk) -> None:
        try:
            while piece := await talk.read():
                heard.append(piece)
        finally:
            ended.set()

    limits = ServingLimits(idle_seconds=0.1, body_seconds=0.3)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            serve = partial(serve_listeners, patient, [listener], shutdown=trio.Event(), limits=limits)
            nursery.start_soon(serve)
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\na")
                with trio.move_on_after(3) as patience:
                    await ended.wait()
                assert await stream.receive_some() == b""
            nursery.cancel_scope.cancel()

    assert heard == [b"a"]
    assert not patience.cancelled_caught


async def test_who_reads_no_answers_doesn_t_keep_its_place() -> None:
    """Else as many silent readers as there are places would keep everybody else out for ever."""
    (listener,) = await open_listeners([TcpBind("127.0.0.1", 0)], backlog=10)
    port = listener.socket.getsockname()[1]
    ended = trio.Event()

    async def much(talk: Talk) -> None:
        try:
            await talk.answer(200, [], bytes(20_000_000))
        finally:
            ended.set()

    limits = ServingLimits(idle_seconds=0.1, send_seconds=0.2)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            serve = partial(serve_listeners, much, [listener], shutdown=trio.Event(), limits=limits)
            nursery.start_soon(serve)
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(NEXT)
                with trio.move_on_after(2) as patience:
                    await ended.wait()
            nursery.cancel_scope.cancel()

    assert not patience.cancelled_caught
