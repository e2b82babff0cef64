"""The bot's methods for code outside of conversations, and starts and stops of conversations."""

from __future__ import annotations

from pathlib import Path

import trio

from tests.bot.rig import Chats, make_bot, say
from triobot import Chat, ChatRef, File, Key
from triobot.errors import ForeignTaskError


async def test_every_live_door_names_the_authors_line() -> None:
    """Straight from a conversation; in a step each is legal, and outside, too."""
    chats, said, legal = Chats(), list[str](), list[object]()
    bot = make_bot(chats)
    kept: list[ChatRef] = []

    async def each() -> None:
        async for _ in bot.each(None):  # type: ignore[arg-type]
            pass

    async def chat_to(chat: Chat) -> None:
        bot.to(chat.id)

    async def inside() -> str:
        legal.append(bot.statistics())
        await bot.to(8).send("from a step")
        return "done"

    @bot.conversation
    async def work(chat: Chat) -> None:
        for door in (
            lambda: chat_to(chat),
            lambda: kept[0].send("no"),
            lambda: kept[0].signal(1),
            lambda: kept[0].start(work),
            lambda: kept[0].stop(work),
            lambda: kept[0].get(Key("door", int)),
            each,
            lambda: bot.upload(File.open("a.pdf")),
            lambda: bot.download(File.open("a.pdf"), Path("b")),
        ):
            try:
                await door()
            except ForeignTaskError as error:
                said.append(str(error))
        for now in (bot.statistics, lambda: bot.use(None)):  # type: ignore[arg-type]
            try:
                now()
            except ForeignTaskError as error:
                said.append(str(error))
        await chat.step(inside)
        await chat.send("done")

    async with bot.running() as intake:
        kept.append(bot.to(9))
        await say(intake, 7, "hi")
        await chats.wait_for(7, "done")
        assert chats.texts[8] == ["from a step"]
        assert bot.statistics().live >= 0
    assert len(said) == 11
    assert all("test_bot_calls.py:" in line for line in said)
    assert all("inside a conversation; use chat." in line for line in said)


async def test_a_start_has_one_effect_over_restarts(tmp_path: Path) -> None:
    """By its key; and what was started is stopped."""
    chats = Chats()
    bot = make_bot(chats, store=f"sqlite:{tmp_path / 'bot.db'}")

    @bot.aside
    async def remind(chat: Chat, order: int) -> None:
        await chat.send(f"Order {order}?")
        await chat.sleep(10_000)

    async with bot.running():
        assert await bot.to(7).start(remind, 1, key="one")
        assert not await bot.to(7).start(remind, 1, key="one")
        await chats.wait_for(7, "Order 1?")
        assert await bot.to(7).stop(remind, key="one")
        while bot.statistics().live:
            await trio.sleep(0.001)
        assert not await bot.to(7).stop(remind)
    async with bot.running():
        assert not await bot.to(7).start(remind, 1, key="one")
        assert await bot.to(8).start(remind, 1, key="one")
        await chats.wait_for(8, "Order 1?")
