"""A filter is asked again about an event that was kept: what it goes by may have changed."""

from __future__ import annotations

from town import open_town
from trio.testing import MockClock

from triobot import Chat, Otherwise, Router
from triobot.filters import text, when


async def test_one_filter_in_two_waits_is_asked_by_each(autojump_clock: MockClock) -> None:
    """Whose turn it is may have changed: what was kept for later is looked at anew."""
    turn = ["nobody"]
    its_turn, bot = when(lambda event: getattr(event, "content", "") == turn[0]), Router()

    @bot.conversation(text("begin"))
    async def plays(chat: Chat) -> None:
        for name in ("ali", "sara"):
            turn[0] = name
            await chat.receive(its_turn, otherwise=Otherwise.KEEP)
            await chat.send(name)

    async with open_town(bot) as town:
        for word in ("begin", "sara", "ali"):
            await town.says(word)
        assert town.sent() == ["ali", "sara"]
