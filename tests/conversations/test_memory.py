"""What a conversation leaves behind when it has ended: nothing, whatever it waited for."""

from __future__ import annotations

import gc

import pytest
import trio
from town import CHAT, open_town
from trio.testing import MockClock

from triobot.conversations.chat import Chat
from triobot.conversations.conversation import Conversation
from triobot.conversations.routes.filters import text
from triobot.conversations.routes.router import Router

DAY = 24 * 3600.0


def in_memory() -> int:
    gc.collect()
    return sum(type(there) is Conversation for there in gc.get_objects())


@pytest.mark.slow
async def test_a_conversation_that_ended_is_not_kept_until_its_deadline(autojump_clock: MockClock) -> None:
    """Hundreds of questions with a month for their answer, and each is answered at once."""
    bot = Router()

    @bot.conversation(text())
    async def pair(chat: Chat) -> None:
        with chat.move_on_after(30 * DAY):
            await chat.ask("And?")

    before = in_memory()
    async with open_town(bot) as town:
        for number in range(600):
            await town.says("one", chat=CHAT + number % 3)
        assert [town.sent(chat) for chat in range(CHAT, CHAT + 3)] == [["And?"] * 100] * 3
        assert in_memory() - before < 100


@pytest.mark.slow
async def test_a_conversation_that_ended_leaves_nothing_to_the_collector() -> None:
    """It is gone with the last step of its task, and the collector, which looks rarely, finds nothing."""
    bot = Router()

    @bot.conversation(text())
    async def pair(chat: Chat) -> None:
        first = chat.event
        second = await chat.ask("And?")
        await chat.send(f"{first} and {second}")

    async with open_town(bot) as town:
        await town.says("one")
        await town.says("two")
        gc.collect()
        gc.disable()
        try:
            for number in range(200):
                await town.says(f"{number}")
            assert gc.collect() < 100
        finally:
            gc.enable()


@pytest.mark.slow
async def test_a_chat_that_waits_is_few_objects() -> None:
    """So many does the collector go through for each, and there may be thousands."""
    bot = Router()

    @bot.conversation(text())
    async def wait(chat: Chat) -> None:
        await chat.ask("And?")

    async with open_town(bot) as town:
        for number in range(20):
            await town.says("one", chat=CHAT + number)
        gc.collect()
        before = len(gc.get_objects())
        for number in range(20, 120):
            await town.says("one", chat=CHAT + number)
        gc.collect()
        assert len(gc.get_objects()) - before < 55 * 100


@pytest.mark.slow
async def test_deadlines_that_hold_strike_among_those_that_were_withdrawn(autojump_clock: MockClock) -> None:
    """A near deadline ends each slow chat, while the quick ones put off a far deadline again and again."""
    bot = Router()

    @bot.conversation(text("slow"))
    async def slow(chat: Chat) -> None:
        with chat.move_on_after(float(chat.id)):
            await chat.ask("And?")
        await chat.send(f"{chat.id}: {trio.current_time() - begun:.0f} s")

    @bot.conversation(text("quick"))
    async def quick(chat: Chat) -> None:
        with chat.move_on_after(30 * DAY):
            while True:
                await chat.ask("Next?")

    chats = range(100, 400, 10)
    async with open_town(bot) as town:
        begun = trio.current_time()
        for number, chat in enumerate(chats):
            await town.says("slow", chat=chat)
            await town.says("quick", chat=1000 + number)
        for _ in range(20):
            for number in range(len(chats)):
                await town.says("more", chat=1000 + number)
        await trio.sleep(1000)
        assert [town.sent(chat)[-1] for chat in chats] == [f"{chat}: {chat} s" for chat in chats]
