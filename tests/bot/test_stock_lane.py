"""The stock lane: hypercorn, Quart's routes, the dispatcher's channel and nursery, the sender, httpx.

Each event passes all of these layers, and triobot's own listener isn't loaded.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import attrs
import httpx
import hypercorn.trio
import pytest
import trio
from hypercorn.config import Config
from quart_trio import QuartTrio

from tests.bot.rig import SECRET
from tests.loopback import PATIENCE, Users, open_platform
from triobot import Bot, Chat, Settings
from triobot.base.secrets import Secret
from triobot.conversations.early import EarlyDoor
from triobot.http.connections import ClientConnection
from triobot.outbox.sender import LaneSender
from triobot.runtime.serve import Server, serve_together
from triobot.seams.inbox import InboxRow

pytestmark = pytest.mark.processes

EVENTS = 5


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each part was passed."""
    counts = Counter[str]()

    def count(cls: type, name: str, word: str, counted: Callable[..., bool] = lambda *_: True) -> None:
        inner = getattr(cls, name)

        def counting(self: Any, *args: Any, **more: Any) -> Any:
            result = inner(self, *args, **more)
            counts[word] += counted(result, *args)
            return result

        monkeypatch.setattr(cls, name, counting)

    def is_event(_: object, value: object) -> bool:
        return isinstance(value, tuple) and isinstance(value[0], InboxRow)

    count(QuartTrio, "dispatch_request", "a route of Quart's")
    count(trio.MemorySendChannel, "send_nowait", "the channel", is_event)
    count(EarlyDoor, "_take", "taken at once", lambda taken, *_: taken is not None)
    count(LaneSender, "perform", "the sender")
    count(httpx.AsyncHTTPTransport, "handle_async_request", "httpx")
    count(ClientConnection, "post", "our client")
    return counts


def make_bot(platform: str, *, stock: bool, nurseries: list[trio.Nursery | None] | None = None) -> Bot:
    """A conversation that says everything again, and notes the nursery of its task."""
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
            if nurseries is not None:
                nurseries.append(trio.lowlevel.current_task().parent_nursery)
            text = await chat.ask(text)

    return bot


@asynccontextmanager
async def served(bot: Bot, way: str) -> AsyncGenerator[int]:
    """The bot on a port: by our listener, by hypercorn, or as an application of hypercorn's."""
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        if way in ("triobot", "hypercorn"):
            server = cast("Server", way)
            serve = partial(serve_together, [(bot, bot.settings())], server=server)
        else:
            app: Any = QuartTrio("site") if way == "mounted" else bot.asgi
            if way == "mounted":
                bot.mount(app, "/bot")
            config = Config()
            config.bind, config.accesslog, config.errorlog = ["127.0.0.1:0"], None, None
            serve = partial(hypercorn.trio.serve, app, config, shutdown_trigger=stop.wait, mode="asgi")
        (address,) = await nursery.start(serve)
        yield int(address.rpartition(":")[2])
        stop.set()
        bot.stop()


@pytest.mark.parametrize("way", ["triobot", "hypercorn", "asgi", "mounted"])
async def test_what_an_event_passes(way: str, passed: Counter[str]) -> None:
    nurseries: list[trio.Nursery | None] = []
    with trio.fail_after(PATIENCE):
        async with open_platform() as platform:
            bot = make_bot(platform.url, stock=way != "triobot", nurseries=nurseries)
            async with served(bot, way) as port:
                users = Users(port, f"/bot/{SECRET}" if way == "mounted" else f"/{SECRET}")
                async with users.connect() as line:
                    for number in range(EVENTS):
                        assert await users.say(line, 7, f"text {number}") == 200
                        await platform.wait_until(lambda: platform.total == number + 1)  # noqa: B023
                assert bot._work is not None  # pyright: ignore[reportPrivateUsage]
                the_one = bot._work.dispatcher.work.nursery  # pyright: ignore[reportPrivateUsage]
                assert platform.texts[7] == ["first", *(f"text {number}" for number in range(1, EVENTS))]

    assert the_one is not None
    assert nurseries == [the_one] * EVENTS
    assert passed["the sender"] == EVENTS
    if way == "triobot":
        assert passed["a route of Quart's"] == passed["httpx"] == 0
        assert passed["our client"] == EVENTS
    else:
        assert passed["a route of Quart's"] == passed["the channel"] == EVENTS
        assert passed["httpx"] == EVENTS
        assert passed["our client"] == passed["taken at once"] == 0


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


LANES = """
import sys, tempfile
from functools import partial

import httpx, trio
from triobot import Bot, Settings
from triobot.base.secrets import Secret

LANE = sys.argv[1]
sent = trio.Event()

def answer(request):
    sent.set()
    return httpx.Response(200, json={"id": 1})

async def main(folder):
    token, secret, store = Secret("0123456789abcdefghij"), Secret("SECRET"), f"sqlite:{folder}/bot.db"
    settings = Settings(token=token, webhook_secret=secret, port=0, store=store)
    bot = Bot(settings=settings, transport=httpx.MockTransport(answer))

    @bot.conversation
    async def hello(chat):
        await chat.send("hello")

    stop, serve = trio.Event(), bot.serve
    if LANE == "hypercorn":
        from triobot.runtime.serve import serve_together
        serve = partial(serve_together, [(bot, settings)], server=LANE)
    elif LANE != "triobot":
        from hypercorn.config import Config
        from hypercorn.trio import serve as hypercorn
        from quart_trio import QuartTrio
        app, config = bot.asgi, Config()
        if LANE == "mounted":
            app = QuartTrio("site")
            bot.mount(app, "/bot")
        config.bind, config.loglevel = ["127.0.0.1:0"], "ERROR"
        serve = partial(hypercorn, app, config, shutdown_trigger=stop.wait, mode="asgi")
    async with trio.open_nursery() as nursery:
        [address] = await nursery.start(serve)
        url = address + ("/bot/SECRET" if LANE == "mounted" else "/SECRET")
        async with httpx.AsyncClient(trust_env=False) as client:
            said = {"chat_id": "7", "type": "text", "data": "hi"}
            assert (await client.post(url, data=said)).status_code == 200
        await sent.wait()
        print(*sys.modules)
        bot.stop()
        stop.set()

with tempfile.TemporaryDirectory() as folder:
    trio.run(main, folder)
""".replace("SECRET", SECRET)
LISTENER = {"triobot.http.listener", "triobot.http.server_connection", "triobot.webhook.serving"}


@pytest.mark.slow
@pytest.mark.parametrize("lane", ["triobot", "hypercorn", "asgi", "mounted"])
def test_what_a_lane_loads(lane: str) -> None:
    """An event comes, and is answered: by our listener, or by others' HTTP without it; never by both."""
    done = subprocess.run([sys.executable, "-c", LANES, lane], check=True, capture_output=True, text=True)
    names = set(done.stdout.split())

    if lane == "triobot":
        assert names >= LISTENER
        assert not names & {"quart", "quart_trio", "hypercorn", "werkzeug"}
    else:
        assert names >= {"quart_trio", "hypercorn"}
        assert not names & LISTENER


ECHO = """
import sys, tempfile, trio
from functools import partial
from triobot import Bot, Settings
from triobot.base.secrets import Secret

async def main(folder):
    sent = trio.Event()

    async def platform(stream):
        await stream.receive_some()
        await stream.send_all(b'HTTP/1.1 200 OK\\r\\nContent-Length: 8\\r\\n\\r\\n{"id":1}')
        sent.set()

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, platform, 0, host="127.0.0.1"))
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        token, secret, store = Secret("0123456789abcdefghij"), Secret("SECRET"), f"sqlite:{folder}/bot.db"
        bot = Bot(settings=Settings(token=token, webhook_secret=secret, port=0, store=store, base_url=url))

        @bot.conversation
        async def hello(chat):
            await chat.send("hello")

        [address] = await nursery.start(bot.serve)
        stream = await trio.open_tcp_stream("127.0.0.1", int(address.rpartition(":")[2]))
        said = b"chat_id=7&type=text&data=hi"
        head = b"POST /SECRET HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: %d\\r\\n" % len(said)
        await stream.send_all(head + b"Content-Type: application/x-www-form-urlencoded\\r\\n\\r\\n" + said)
        await sent.wait()
        print(*sys.modules)
        nursery.cancel_scope.cancel()

with tempfile.TemporaryDirectory() as folder:
    trio.run(main, folder)
""".replace("SECRET", SECRET)


@pytest.mark.slow
def test_httpx_is_for_files_and_for_transports_that_are_given() -> None:
    """It takes a fifth of Trio's time, and neither an event nor its answer needs it."""
    done = subprocess.run([sys.executable, "-c", ECHO], check=True, capture_output=True, text=True)

    names = set(done.stdout.split())
    assert names >= {"triobot.client.posted", *LISTENER}
    assert not names & {"httpx", "httpcore", "triobot.client.carried"}
