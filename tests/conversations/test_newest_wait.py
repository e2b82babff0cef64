"""The newest wait goes first, whoever has come back in which order."""

from __future__ import annotations

import pytest

from triobot import Bot, Chat
from triobot.conversations import registry
from triobot.filters import text
from triobot.testing import drive


@pytest.mark.parametrize("how", ["stays", "dies", "leaves memory"])
async def test_the_newest_wait_is_the_same_after_a_revival(
    how: str, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    """A conversation that asked after the aside beside it has the next word; then the aside has it."""
    monkeypatch.setattr(registry, "KEPT", 1 if how == "leaves memory" else 100)
    bot = Bot()

    @bot.conversation
    async def order(chat: Chat) -> None:
        with chat.move_on_after(60):
            await chat.ask("Name?")
        await chat.send(f"Order: {await chat.ask('Street?')}.")

    @bot.aside(text("help"))
    async def help_(chat: Chat) -> None:
        await chat.send(f"Help: {await chat.ask('With what?')}.")

    async with drive(bot) as world:
        ali, sara = world.user("Ali"), world.user("Sara")
        await ali.joins()
        await ali.sees("Name?")
        await ali.says("help")
        await ali.sees("With what?")
        await ali.sees("Street?", within=100)
        await sara.joins()
        await sara.sees("Name?")
        if how == "dies":
            await world.crashes()
        await ali.says("one")
        await ali.sees("Order: one.")
        await ali.says("two")
        await ali.sees("Help: two.")
