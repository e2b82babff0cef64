"""The stock lane: hypercorn, Quart's routes, the dispatcher's channel, httpx; and each is really passed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
import trio
from quart_trio import QuartTrio

from tests.bot.rig import SECRET
from tests.loopback import PATIENCE, Users, open_platform
from triobot import Bot, Chat, Settings
from triobot.conversations.dispatcher import Dispatcher
from triobot.http.connections import ClientConnection
from triobot.secrets import Secret
from triobot.together import Server, serve_together

pytestmark = pytest.mark.processes

EVENTS = 5


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each part was passed."""
    counts = Counter[str]()

    def count(cls: type, name: str, word: str, counted: Callable[[object], bool]) -> None:
        inner = getattr(cls, name)

        def counting(self: Any, *args: Any, **more: Any) -> Any:
            result = inner(self, *args, **more)
            counts[word] += counted(result)
            return result

        monkeypatch.setattr(cls, name, counting)

    count(QuartTrio, "dispatch_request", "a route of Quart's", lambda _: True)
    count(httpx.AsyncHTTPTransport, "handle_async_request", "httpx", lambda _: True)
    count(ClientConnection, "send", "our client", lambda _: True)
    count(Dispatcher, "_route", "the channel", lambda _: True)
    count(Dispatcher, "take", "taken at once", lambda taken: taken is not None)
    return counts


def make_bot(platform: str, *, stock: bool) -> Bot:
    """A conversation that says everything again."""
    settings = Settings(
        token=Secret("stock-token-0123456789"),
        base_url=platform,
        webhook_secret=Secret(SECRET),
        store="memory:",
        port=0,
        username="echobot",
    )
    bot = Bot(settings=settings, transport=httpx.AsyncHTTPTransport() if stock else None)

    @bot.conversation
    async def echo(chat: Chat) -> None:
        text = "first"
        while True:
            text = await chat.ask(text)

    return bot


@asynccontextmanager
async def served(bot: Bot, server: Server) -> AsyncGenerator[int]:
    async with trio.open_nursery() as nursery:
        serve = partial(serve_together, [(bot, bot.settings())], server=server)
        (address,) = await nursery.start(serve)
        yield int(address.rpartition(":")[2])
        bot.stop()


@pytest.mark.parametrize("server", ["triobot", "hypercorn"])
async def test_what_an_event_passes(server: Server, passed: Counter[str]) -> None:
    stock = server == "hypercorn"
    with trio.fail_after(PATIENCE):
        async with open_platform() as platform:
            bot = make_bot(platform.url, stock=stock)
            async with served(bot, server) as port:
                users = Users(port, f"/{SECRET}")
                async with users.connect() as line:
                    for number in range(EVENTS):
                        assert await users.say(line, 7, f"text {number}") == 200
                        await platform.wait_until(lambda: platform.total == number + 1)  # noqa: B023
                assert platform.texts[7] == ["first", *(f"text {number}" for number in range(1, EVENTS))]

    if stock:
        assert passed["a route of Quart's"] == passed["the channel"] == EVENTS
        assert passed["httpx"] == EVENTS
        assert passed["our client"] == passed["taken at once"] == 0
    else:
        assert passed["a route of Quart's"] == passed["httpx"] == 0
        assert passed["our client"] == EVENTS


async def test_its_log_has_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with trio.fail_after(PATIENCE):
        async with open_platform() as platform:
            bot = make_bot(platform.url, stock=True)
            async with served(bot, "hypercorn") as port, httpx.AsyncClient() as client:
                base = f"http://127.0.0.1:{port}"
                assert (await client.get(f"{base}/healthz")).status_code == 200
                assert (await client.get(f"{base}/{SECRET}?{SECRET}")).status_code == 405
                assert (await client.request("NONSENSE", f"{base}/{SECRET[:-1]}")).status_code == 404

    ours = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("triobot"))
    assert "GET /healthz 200" in ours
    assert "GET /*** 405" in ours
    assert "NONSENSE /*** 404" in ours
    assert SECRET[:-1] not in ours


async def test_a_path_for_a_proxy(tmp_path: Path) -> None:
    """Sockets are opened in one place for both servers: who may connect holds here, too."""
    path = tmp_path / "bot.sock"
    with trio.fail_after(PATIENCE):
        bot = make_bot("http://127.0.0.1:9", stock=True)
        settings = attrs.evolve(bot.settings(), unix=str(path), unix_mode=0o600)
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve_together, [(bot, settings)], server="hypercorn"))
            assert path.stat().st_mode & 0o777 == 0o600
            async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(path))) as client:
                assert (await client.get("http://bot/readyz")).status_code == 200
            bot.stop()
