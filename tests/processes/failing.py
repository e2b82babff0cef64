"""A bot that fails, alone and in a site: at its start, in its run or by its server, as ``FAILS`` says."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import hypercorn.trio.run
import trio.testing
from quart_trio import QuartTrio

from triobot import Bot, Chat

bot = Bot()
site = QuartTrio("site")
bot.mount(site, "/bot")
# Two bots with one store.
twins = QuartTrio("twins")
bot.mount(twins, "/one")
Bot().mount(twins, "/other")


@bot.conversation
async def hello(chat: Chat) -> None:
    """Say something."""
    await chat.send("hello")


@bot.resource
@asynccontextmanager
async def database() -> AsyncGenerator[str]:
    """What isn't there."""
    if os.environ["FAILS"] == "start":
        raise ConnectionRefusedError(errno.ECONNREFUSED, "the database is away")
    yield "database"


@bot.background
async def read() -> None:
    """Fail, once the server listens."""
    if os.environ["FAILS"] == "run":
        await fail()


async def fail(*_: object) -> None:
    """Fail by a word that is private."""
    await trio.testing.wait_all_tasks_blocked(0.05)
    int("what a person wrote")


if os.environ["FAILS"] == "server":
    # Where one connection fails, hypercorn's worker fails on Trio.
    hypercorn.trio.run.check_multiprocess_shutdown_event = fail
