"""A bot in production loads no development code, and has no route of the emulator."""

from __future__ import annotations

import subprocess
import sys

import httpx
import pytest
import trio

from tests.bot.rig import Chats, make_bot
from triobot import Chat
from triobot.emulator.exchange import Exchange
from triobot.emulator.server import make_exchange, make_routed_app

DEVELOPMENT = {"triobot.emulator", "triobot.testing", "hypothesis", "pytest", "PIL", "watchfiles"}
RUNS = """\
import sys, trio
from triobot import Bot
from triobot.base.secrets import Secret
from triobot.runtime.settings import Settings

bot = Bot(store="memory:")

@bot.conversation
async def hello(chat):
    await chat.send("hello")

async def main():
    settings = Settings(token=Secret("t"), webhook_secret=Secret("{SECRET}"), store="memory:", port=0)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: bot.serve(settings=settings, task_status=task_status))
        bot.asgi
        import triobot.cli.run_work
        {ALSO}; print(*sys.modules)
        bot.stop()

trio.run(main)
"""
SECRET = "a-secret-of-at-least-22-chars"


def loaded_for_development(also: str = "pass") -> set[str]:
    """What of it a process has loaded in which a bot serves, and that does this besides."""
    program = RUNS.replace("{SECRET}", SECRET).replace("{ALSO}", also)
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    names = set(done.stdout.split())
    assert {"triobot.runtime.bot", "triobot.runtime.work", "triobot.cli.run_work"} <= names
    return {known for known in DEVELOPMENT for name in names if f"{name}.".startswith(f"{known}.")}


@pytest.mark.slow
def test_a_bot_that_serves_has_loaded_nothing_for_development() -> None:
    """Also what is imported late, by what runs: the command, the listener, the store, the client."""
    assert loaded_for_development() == set()


@pytest.mark.slow
def test_the_test_above_would_notice() -> None:
    assert loaded_for_development("import triobot.emulator.world") == {"triobot.emulator"}


async def routes_of_the_emulator(exchange: Exchange) -> list[str]:
    """Every path that the emulator answers, with something in the place of each variable."""
    app = make_routed_app(exchange, "t", "c")
    await trio.lowlevel.checkpoint()
    paths = [rule.rule for rule in app.url_map.iter_rules()]
    return sorted({path.replace("<int:user_id>", "1").partition("<")[0] or "/" for path in paths})


async def test_a_bot_serves_no_route_of_the_emulator(tmp_path: pytest.TempPathFactory) -> None:
    async def post(body: object) -> int:
        raise AssertionError("nothing is posted here")

    exchange = make_exchange(tmp_path, post, base_url="http://127.0.0.1:9")  # type: ignore[arg-type]
    paths = await routes_of_the_emulator(exchange)
    assert {"/control/users", "/control/stream", "/control/clock", "/page/", "/"} <= set(paths)
    bot = make_bot(Chats())

    @bot.conversation
    async def hello(chat: Chat) -> None:
        await chat.send("hello")

    async with trio.open_nursery() as nursery:
        (address,) = await nursery.start(bot.serve)
        async with httpx.AsyncClient(base_url=address, trust_env=False) as browser:
            for path in (*paths, "/page/main.js", "/sendMessage", "/control/users/1/say"):
                for method in ("GET", "POST"):
                    answer = await browser.request(
                        method, path, headers={"X-Triobot-Control": "c", "Content-Type": "application/json"}
                    )
                    assert answer.status_code == 404, path
                    assert b"control" not in answer.content
        bot.stop()
