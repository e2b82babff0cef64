"""A bot that tells everybody, once it is started: what is killed in the middle of it."""

from __future__ import annotations

import os
from functools import partial

import attrs
import trio

from tests.processes.lane import TRANSPORT
from triobot import Bot, Chat
from triobot.filters import text
from triobot.runtime.serve import serve_together

OVER = "everybody was told"
CHATTING = 1_000_000
"""The chat that talks to the bot meanwhile, and hears of the end; no receiver."""

bot = Bot(transport=TRANSPORT)
MANY = int(os.environ.get("ANNOUNCED_TO", "600"))


@bot.conversation(text())
async def echo(chat: Chat) -> None:
    await chat.send(f"echo {getattr(chat.event, 'content', '')}")


async def tell_the_end() -> None:
    while (await bot.broadcast("news").status()).state == "sending":
        await trio.sleep(0.05)
    await bot.to(CHATTING).send(OVER)


async def serve() -> None:
    async with trio.open_nursery() as nursery:
        settings = attrs.evolve(bot.settings(), fd=int(os.environ["BOT_FD"]))
        server = "triobot" if TRANSPORT is None else "hypercorn"
        await nursery.start(partial(serve_together, [(bot, settings)], server=server))
        await bot.broadcast("news").start("news", range(1, MANY + 1))
        nursery.start_soon(tell_the_end)
        with trio.open_signal_receiver(15) as signals:
            async for _ in signals:
                break
        status = await bot.broadcast("news").status()
        print(status.state, status.total, status.sent, status.gone, status.failed, status.unknown, flush=True)
        bot.stop()


if __name__ == "__main__":
    trio.run(serve)
