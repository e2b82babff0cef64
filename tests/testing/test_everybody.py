"""A broadcast to everybody: to all who have joined and have not left, without a line of the bot's own."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from triobot import EVERYBODY, Bot, Chat
from triobot.filters import by, command, join, message
from triobot.testing import drive


def a_bot(*, joins: bool) -> Bot:
    bot = Bot()
    bot.ignore(by(666))

    @bot.conversation(join() if joins else command("begin"))
    async def greet(chat: Chat) -> None:
        await chat.ask("Hello. Your name?")

    @bot.aside(command("news"))
    async def news(chat: Chat) -> None:
        await chat.broadcast(f"news-{chat.uuid()}").start("News!", EVERYBODY)

    return bot


@pytest.mark.parametrize("joins", [True, False])
async def test_who_has_joined_and_not_left_is_told(autojump_clock: MockClock, joins: bool) -> None:
    """Whether a route takes joins or not; over a crash; and who comes back is told again."""
    async with drive(a_bot(joins=joins)) as world:
        ali, sara, reza, mina = people = [world.user(name) for name in ("Ali", "Sara", "Reza", "Mina")]
        for person in people:
            await person.joins()
        await sara.leaves()
        await reza.leaves()
        await reza.joins()
        await world.crashes()
        await mina.leaves()
        await ali.says("/news")
        await world.waits(minutes=1)
        told = [[seen.text for seen in await person.history()].count("News!") for person in people]
        assert told == [1, 0, 1, 0]


async def test_a_group_is_told_once_whoever_leaves_it(autojump_clock: MockClock) -> None:
    bot = Bot()

    @bot.aside(command("news"))
    async def news(chat: Chat) -> None:
        await chat.broadcast("news").start("News!", EVERYBODY)

    @bot.conversation(message())
    async def listen(chat: Chat) -> None: ...

    async with drive(bot) as world:
        ali, sara = world.user("Ali"), world.user("Sara")
        group = await world.group(ali, sara)
        for person in (ali, sara):
            await person.at(group).says("Hello")
        await sara.at(group).leaves()
        await ali.at(group).says("/news")
        await world.waits(minutes=1)
        assert [seen.text for seen in await ali.at(group).history()].count("News!") == 1
