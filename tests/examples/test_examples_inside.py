"""The examples in which the bot lives inside another program, run as that program."""

from __future__ import annotations

import re
import secrets
import signal
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from types import ModuleType
from typing import Any, cast

import httpx
import pytest
import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from tests.loopback import PATIENCE, free_port
from triobot.emulator.person import App, connect
from triobot.emulator.server import Emulator, serve_emulator

Example = Callable[[str], ModuleType]
SECRET = secrets.token_urlsafe(24)


@asynccontextmanager
async def platform_for(
    monkeypatch: pytest.MonkeyPatch, webhook: str
) -> AsyncGenerator[tuple[App, trio.Nursery]]:
    """A platform that posts to `webhook`, and the settings of a bot for it in the environment."""
    async with trio.open_nursery() as nursery:
        emulator: Emulator = await nursery.start(
            partial(
                serve_emulator,
                port=0,
                bot_url=f"{webhook}/{SECRET}",
                token="token-of-tests",
                control_token="control-token-of-tests",
            )
        )
        monkeypatch.setenv("TRIOBOT_TOKEN", "token-of-tests")
        monkeypatch.setenv("TRIOBOT_BASE_URL", emulator.base_url)
        monkeypatch.setenv("TRIOBOT_WEBHOOK_SECRET", SECRET)
        monkeypatch.setenv("TRIOBOT_STORE", "memory:")
        async with connect(emulator.control_url, emulator.control_token) as app:
            yield app, nursery
        nursery.cancel_scope.cancel()


async def test_a_program_s_own_task_writes_to_its_bot_s_chats(
    example: Example, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    async with platform_for(monkeypatch, f"http://127.0.0.1:{port}") as (app, nursery):
        monkeypatch.setenv("TRIOBOT_PORT", str(port))
        program = example("embed")
        ended = trio.Event()

        async def run() -> None:
            await program.main(0.1)
            ended.set()

        nursery.start_soon(run)
        sara, reza = await app.user("Sara"), await app.user("Reza")
        await sara.joins()
        await sara.sees("You will hear from me. /stop ends it.")
        await reza.joins()
        await reza.sees(re.compile("It is .*[0-9]{2}:[0-9]{2}:[0-9]{2}"))
        await sara.sees(re.compile("It is "))
        await sara.says("/stop")
        await sara.sees("Silence.")

        heard = [await program.bot.to(who.chat_id).get(program.LISTENS) for who in (sara, reza)]

        assert heard == [False, True]
        assert f"The bot listens on http://127.0.0.1:{port}." in capsys.readouterr().out
        signal.raise_signal(signal.SIGTERM)  # it would end the tests if nobody heard it
        with trio.fail_after(PATIENCE):
            await ended.wait()


async def test_a_site_has_its_pages_and_its_bot_on_one_port(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of the site tells a chat something, once; the bot comes to rest with the site."""
    program = example("existing_app")
    monkeypatch.setattr(program, "DAY", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        site = f"http://127.0.0.1:{listening.getsockname()[1]}"
        config = Config()
        config.bind = [f"fd://{listening.detach()}"]
    async with platform_for(monkeypatch, f"{site}/bot") as (app, nursery):
        stop, stopped = trio.Event(), trio.Event()

        async def run_site(task_status: trio.TaskStatus[object] = trio.TASK_STATUS_IGNORED) -> None:
            await serve(cast("Any", program.app), config, shutdown_trigger=stop.wait, task_status=task_status)
            stopped.set()

        await nursery.start(run_site)
        sara = await app.user("Sara")
        await sara.joins()
        await sara.sees("The number of your order?")
        await sara.says("۷")
        await sara.sees("You will hear of order 7 here.")
        async with httpx.AsyncClient(base_url=site, trust_env=False) as browser:
            page = await browser.get("/")
            unknown = await browser.post("/orders/8/shipped")
            known = [await browser.post("/orders/7/shipped") for _ in range(2)]
        await sara.sees("Order 7 is on its way.")
        await sara.sees("Has order 7 arrived?")
        await sara.presses("No", times=2)
        await sara.sees("We are looking for it.")
        lost = list(program.bot.use(program.orders).lost)
        stop.set()
        with trio.fail_after(PATIENCE):
            await stopped.wait()

        assert "follows 1 orders" in page.text
        assert (unknown.status_code, *(answer.status_code for answer in known)) == (404, 204, 204)
        assert lost == [7]
        asked = [seen for seen in await sara.history() if seen.text.startswith("Has order")]
        assert len(asked) == 1
