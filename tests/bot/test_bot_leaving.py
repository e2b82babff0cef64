"""Somebody leaves: that is nobody else's business."""

from __future__ import annotations

import pytest
import trio

from triobot import Bot, Chat
from triobot.errors import ForbiddenError
from triobot.testing import drive


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
            await bot.chat(ali.chat_id).send("Where are you?")
        assert trio.current_time() - before < 1
        await sara.joins()
        await sara.sees("Hello.", within=1)
        await ali.joins()
        await ali.sees("Hello.", within=1)
