"""Code outside of conversations reads chats' values, through a whole bot."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.bot.rig import Chats, make_bot, say
from triobot import Chat, Key
from triobot.conversations import data as data_module
from triobot.errors import ConfigError, ForeignTaskError, UnreadableRecordError

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
        await bot.to(7).set(VISITS, 41)
        await say(intake, 7, "hi")
        await say(intake, 8, "hi")
        await chats.wait_for(7, "42")
        await chats.wait_for(8, "1")
    async with bot.running():
        assert await bot.to(7).get(VISITS) == 42
        assert await bot.to(9).get(VISITS) == 0
        async with trio.open_nursery() as nursery:
            for chat in range(1000, 1300):
                nursery.start_soon(bot.to(chat).set, VISITS, chat)
        found = [pair async for pair in bot.each(VISITS)]
    assert found == [(7, 42), (8, 1), *((chat, chat) for chat in range(1000, 1300))]

    with pytest.raises(ConfigError, match="running"):
        async for _ in bot.each(VISITS):
            pass


async def test_who_stops_in_the_middle_of_each_has_nothing_to_close(tmp_path: Path) -> None:
    """Neither a break nor a program's end leaves a generator that Trio would complain about."""
    bot = make_bot(Chats(), store=f"sqlite:{tmp_path / 'bot.db'}")

    @bot.conversation
    async def rest(chat: Chat) -> None: ...

    async with bot.running():
        for chat in (7, 8):
            await bot.to(chat).set(VISITS, 1)
        with warnings.catch_warnings(record=True) as complaints:
            warnings.simplefilter("always")
            async for chat_id, _ in bot.each(VISITS):
                if chat_id == 7:
                    break
            with trio.move_on_after(0.01):
                async for _ in bot.each(VISITS):
                    await trio.sleep_forever()
            gc.collect()
            await trio.lowlevel.checkpoint()
        assert [str(one.message) for one in complaints] == []


async def test_what_cannot_be_read_is_said_with_its_chat_and_key(tmp_path: Path) -> None:
    """To one who asks, and to one who goes through all of them; who goes on gets the next one."""
    bot = make_bot(Chats(), store=f"sqlite:{tmp_path / 'bot.db'}")
    as_text = Key("visits", str)

    @bot.conversation
    async def rest(chat: Chat) -> None: ...

    async with bot.running():
        await bot.to(7).set(VISITS, 1)
        await bot.to(8).set(as_text, "two")
        with pytest.raises(UnreadableRecordError) as caught:
            await bot.to(7).get(as_text)
        assert "in chat 7, Key('visits') holds a int, and not a str; give the key an upgrade=" in str(
            caught.value
        )
        each = aiter(bot.each(as_text))
        with pytest.raises(UnreadableRecordError, match="in chat 7"):
            await anext(each)
        found = [pair async for pair in each]
        assert found == [(8, "two")]
