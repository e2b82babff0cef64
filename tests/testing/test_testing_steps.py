"""What steps return in a test that says so: none of them runs, and no resource is opened."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from triobot import Bot, Chat
from triobot.filters import join, message
from triobot.testing import drive, recorded


class NoFlourError(Exception):
    pass


class Oven:
    async def bake(self, what: str) -> int:
        raise AssertionError("it is closed")


def a_kitchen() -> tuple[Bot, list[str]]:
    bot, done = Bot(), list[str]()

    async def buy(what: str) -> str:
        raise AssertionError("no step runs")

    async def weigh(what: str) -> int:
        done.append("weigh")
        await trio.lowlevel.checkpoint()
        return len(what)

    @bot.resource
    @asynccontextmanager
    async def oven() -> AsyncGenerator[Oven]:
        done.append("open")
        yield Oven()

    @bot.background
    async def watch() -> None:
        done.append("watch")
        bot.use(oven)

    @bot.conversation(join(), name="order")
    async def order(chat: Chat) -> None:
        for _ in range(3):
            try:
                await chat.send(await chat.step(buy, "flour", raises=NoFlourError))
            except NoFlourError as error:
                await chat.send(f"No: {error}")
        minutes = await chat.step(chat.use(oven).bake, "bread")
        await chat.send(f"{minutes} of {await chat.step(weigh, 'bread')}")

    return bot, done


async def test_steps_return_what_a_test_says(autojump_clock: MockClock) -> None:
    bot, done = a_kitchen()
    steps = {"buy": ["rye", NoFlourError("none"), recorded('[1,"wheat"]')], "Oven.bake": [20]}
    async with drive(bot, steps=steps) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("rye")
        await sara.sees("No: none")
        await sara.sees("wheat")
        await sara.sees("20 of 5")
    # What isn't named runs; the world outside isn't touched.
    assert done == ["weigh"]


async def test_the_last_result_stays(autojump_clock: MockClock) -> None:
    bot, _ = a_kitchen()
    async with drive(bot, steps={"buy": ["rye"], "bake": [7]}) as world:
        sara = world.user("Sara")
        await sara.joins()
        for _ in range(3):
            await sara.sees("rye")
        await sara.sees("7 of 5")
        await world.crashes()


@pytest.mark.parametrize("joined", [True, False])
async def test_who_has_joined_long_ago_is_there_without_an_event(
    joined: bool, autojump_clock: MockClock
) -> None:
    bot = Bot()

    @bot.conversation(join() | message(str), name="greet")
    async def greet(chat: Chat) -> None:
        await chat.send("Hello.")

    async with drive(bot) as world:
        sara = world.user("Sara", joined=joined)
        if not joined:
            await sara.joins()
            await sara.sees("Hello.")
        await sara.sees_nothing(within=2)
        await sara.says("hi")
        await sara.sees("Hello.")
