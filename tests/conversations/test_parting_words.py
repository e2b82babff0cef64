"""What an operator is told of code that ends where its journal goes on: how it ended, and its own line."""

from __future__ import annotations

from pathlib import Path

import pytest

from triobot import Bot, Chat
from triobot.testing import drive


@pytest.mark.parametrize("fails", [False, True])
async def test_code_that_ends_too_early(fails: bool, autojump_clock: object) -> None:
    """By itself: no line is named, least of all one of who runs the bot. By an error: that, and its line."""
    bot, again = Bot(), False

    @bot.conversation
    async def hello(chat: Chat) -> None:
        await chat.ask("Name?")
        if again and fails:
            raise KeyError("secret")  # fails
        if not again:
            await chat.ask("More?")

    async with drive(bot, replay_check=False) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Name?")
        await ali.says("Ali")
        await ali.sees("More?")
        await world.waits(seconds=1)
        again = True
        await world.crashes()
        await ali.says("more")
        await world.waits(seconds=5)
        text = world.takes_alarm("conversation_parked").text
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    failed = next(n for n, line in enumerate(lines, 1) if line.endswith("  # fails"))
    assert ("KeyError" in text) is fails
    assert (f"({__file__}:{failed})" in text) is fails
    assert (__file__ in text) is fails
    assert "secret" not in text
