"""The page's line: who may open it, and what it says; tried over real sockets, as a browser's would be."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

import pytest
import trio
import wsproto
from wsproto.events import AcceptConnection, Event, RejectConnection, Request, TextMessage

from tests.loopback import PATIENCE
from triobot.emulator.door import PROTOCOL
from triobot.emulator.server import Emulator, serve_emulator

TOKEN = "control"
GOOD = [PROTOCOL, TOKEN.encode().hex()]


@asynccontextmanager
async def serving() -> AsyncGenerator[Emulator]:
    async with trio.open_nursery() as nursery:
        yield await nursery.start(
            partial(serve_emulator, port=0, bot_url=None, token="token", control_token=TOKEN)
        )
        nursery.cancel_scope.cancel()


async def opened(
    platform: Emulator,
    *,
    path: str = "/control/stream",
    protocols: list[str] = GOOD,
    host: str = "",
    origin: str | None = None,
    texts: int = 0,
) -> tuple[Event, list[str]]:
    """Open a line; what was answered, and the first texts."""
    authority = urlsplit(platform.base_url).netloc
    socket = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
    headers = [(b"Origin", origin.encode())] if origin is not None else []
    said: list[str] = []
    answer: Event | None = None
    part = ""
    port = urlsplit(platform.base_url).port
    assert port is not None
    with trio.fail_after(PATIENCE):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            request = Request(
                host=host or authority, target=path, subprotocols=protocols, extra_headers=headers
            )
            await stream.send_all(socket.send(request))
            while answer is None or len(said) < texts:
                data = await stream.receive_some()
                assert data, "the line was cut"
                socket.receive_data(data)
                for event in socket.events():
                    if isinstance(event, AcceptConnection | RejectConnection):
                        answer = event
                    elif isinstance(event, TextMessage):
                        part += event.data
                        if event.message_finished:
                            said.append(part)
                            part = ""
    return answer, said


async def test_it_tells_everything_then_what_is_new_and_beats() -> None:
    async with serving() as platform:
        platform.world.add_user("\ud800Sara")
        answer, (first, second) = await opened(platform, texts=2)

        assert isinstance(answer, AcceptConnection) and answer.subprotocol == PROTOCOL
        assert json.loads(first)["all"] is True
        assert json.loads(first)["users"][0]["name"] == "?Sara"
        assert second == ""


@pytest.mark.parametrize(
    "protocols",
    [[], [PROTOCOL], [PROTOCOL, "00"], [PROTOCOL, TOKEN], GOOD[::-1], ["other", GOOD[1]], [*GOOD, "more"]],
    ids=str,
)
async def test_it_needs_the_token(protocols: list[str]) -> None:
    async with serving() as platform:
        answer, _ = await opened(platform, protocols=protocols)
        assert isinstance(answer, RejectConnection) and answer.status_code == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost:3000", "null", ""])
async def test_no_other_page_opens_it(origin: str) -> None:
    """A browser lets any page try; only what we ask for keeps it out."""
    async with serving() as platform:
        answer, _ = await opened(platform, origin=origin)
        assert isinstance(answer, RejectConnection) and answer.status_code == 403
        answer, _ = await opened(platform, origin=platform.base_url)
        assert isinstance(answer, AcceptConnection)


async def test_no_other_name_opens_it() -> None:
    async with serving() as platform:
        answer, _ = await opened(platform, host="evil.example", origin="http://evil.example")
        assert isinstance(answer, RejectConnection) and answer.status_code == 403


async def test_nothing_else_is_a_line() -> None:
    async with serving() as platform:
        for path in ("/", "/sendMessage", "/control/users"):
            answer, _ = await opened(platform, path=path)
            assert isinstance(answer, RejectConnection)
