"""Steps still use the bot's methods while the bot stops."""

from __future__ import annotations

import trio

from tests.bot.rig import Chats, make_bot, say
from triobot import Chat


async def test_steps_use_the_bots_doors_while_it_comes_to_rest() -> None:
    """A stop refuses nothing: a step that has begun may still look, and fetch."""
    chats = Chats()
    bot = make_bot(chats)
    begun, go_on = trio.Event(), trio.Event()
    lives: list[int] = []

    @bot.conversation
    async def slow(chat: Chat) -> None:
        async def look() -> int:
            begun.set()
            await go_on.wait()
            return bot.statistics().live

        lives.append(await chat.step(look))
        await chat.send("done")

    async def later() -> None:
        await trio.sleep(0.05)
        go_on.set()

    async with trio.open_nursery() as nursery, bot.running() as intake:
        await say(intake, 7, "hello")
        await begun.wait()
        nursery.start_soon(later)
    assert lives == [1]
    assert chats.texts == {7: ["done"]}
