"""The test kit with a bot that lives inside an application."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from quart_trio import QuartTrio

from triobot import Bot, Chat
from triobot.errors import ConfigError
from triobot.testing import drive


def asking() -> tuple[Bot, QuartTrio]:
    bot, app = Bot(), QuartTrio(__name__)
    bot.mount(app, "/bot")

    @bot.conversation
    async def ask(chat: Chat) -> None:
        name = await chat.ask("Your name?")
        await chat.send(f"Hello, {name}.")

    async def say(chat_id: int) -> str:
        await bot.to(chat_id).send("From the site.")
        return "said"

    app.add_url_rule("/say/<int:chat_id>", view_func=say, methods=["POST"])
    return bot, app


async def test_a_site_crashes_and_comes_back(autojump_clock: object) -> None:
    bot, app = asking()
    async with drive(bot, app=app) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Your name?")
        before = trio.current_time()
        await world.crashes()
        assert trio.current_time() - before < 1
        answer = await app.test_client().post(f"/say/{ali.chat_id}")
        assert answer.status_code == 200
        await ali.sees("From the site.")
        await world.restarts()
        await ali.says("Ali")
        await ali.sees("Hello, Ali.")


async def test_a_site_whose_bot_does_not_start_says_why(autojump_clock: object) -> None:
    bot, app = asking()

    @bot.resource
    @asynccontextmanager
    async def broken() -> AsyncGenerator[None]:
        raise ConfigError("no database")
        yield

    with pytest.raises(ConfigError, match=r"was not started: can't open the resource .*broken: no database"):
        async with drive(bot, app=app):
            pass


async def test_an_application_without_the_bot_is_refused(autojump_clock: object) -> None:
    with pytest.raises(ConfigError, match="isn't mounted"):
        async with drive(asking()[0], app=QuartTrio("another")):
            pass


def test_a_bot_is_mounted_once() -> None:
    bot, app = asking()
    with pytest.raises(ConfigError, match="already"):
        bot.mount(app, "/other")
    with pytest.raises(ConfigError, match="takes a quart_trio"):
        bot.mount("app", "/bot")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
