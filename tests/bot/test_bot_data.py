"""Values of chats from outside, through a whole bot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.bot.rig import Chats, make_bot, say
from triobot import Chat, Key
from triobot.conversations.data import slots as data_module
from triobot.errors import ConfigError, ForeignTaskError

VISITS = Key("visits", int, default=0)
data_module._declared.clear()


@pytest.fixture(autouse=True)
def declared() -> Iterator[None]:
    data_module._declared.add("visits")
    yield
    data_module._declared.clear()


async def test_get_set_and_each_across_runs(tmp_path: Path) -> None:
    chats = Chats()
    bot = make_bot(chats, store=f"sqlite:{tmp_path / 'bot.db'}")

    @bot.conversation
    async def count(chat: Chat) -> None:
        chat.data[VISITS] += 1
        with pytest.raises(ForeignTaskError):
            async for _ in bot.each(VISITS):
                pass
        await chat.send(str(chat.data[VISITS]))

    async with bot.running() as intake:
        await bot.chat(7).set(VISITS, 41)
        await say(intake, 7, "hi")
        await say(intake, 8, "hi")
        await chats.wait_for(7, "42")
        await chats.wait_for(8, "1")
    async with bot.running():
        assert await bot.chat(7).get(VISITS) == 42
        assert await bot.chat(9).get(VISITS) == 0
        async with trio.open_nursery() as nursery:
            for chat in range(1000, 1300):
                nursery.start_soon(bot.chat(chat).set, VISITS, chat)
        found = [pair async for pair in bot.each(VISITS)]
    assert found == [(7, 42), (8, 1), *((chat, chat) for chat in range(1000, 1300))]

    with pytest.raises(ConfigError, match="running"):
        async for _ in bot.each(VISITS):
            pass
