"""People who leave a bot don't affect other people."""

from __future__ import annotations

import pytest
import trio

from triobot import Bot, Chat
from triobot.errors import ForbiddenError
from triobot.filters import command, text
from triobot.testing import drive
from triobot.wire.ids import ChatId


async def test_writing_to_somebody_who_left_fails_at_once_and_holds_nobody(autojump_clock: object) -> None:
    bot = Bot()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        await chat.send("Hello.")

    async with drive(bot) as world:
        ali, sara = world.user("Ali"), world.user("Sara")
        await ali.joins()
        await ali.sees("Hello.")
        await ali.leaves()
        await world.waits(seconds=1)
        before = trio.current_time()
        with pytest.raises(ForbiddenError):
            await bot.to(ali.chat_id).send("Where are you?")
        assert trio.current_time() - before < 1
        await sara.joins()
        await sara.sees("Hello.", within=1)
        await ali.joins()
        await ali.sees("Hello.", within=1)


async def test_what_waited_in_a_chat_that_was_to_be_forgotten_is_gone(autojump_clock: object) -> None:
    """Forgetting ends what runs first, and may be refused then, for open money: nothing is handled late."""
    bot = Bot()

    @bot.conversation(command("work"))
    async def work(chat: Chat) -> None:
        await chat.sleep(1000)

    @bot.conversation(text())
    async def other(chat: Chat) -> None:
        await chat.send(f"other {getattr(chat.event, 'content', None)}")

    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("/work")
        await sara.says("typed before")
        await world.waits(seconds=1)
        assert bot._work is not None
        await bot._work.dispatcher.end_chat(ChatId(sara.chat_id))
        await sara.says("new")
        await sara.sees("other new")
        await world.restarts()
        await world.waits(seconds=60)
        said = [seen.text for seen in await sara.history() if seen.from_bot]
        assert said == ["other new"]
        assert bot.statistics().store.inbox == 0
