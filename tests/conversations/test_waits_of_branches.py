"""A branch that waited before the others went on: after a restart it waits as it did before."""

from __future__ import annotations

import attrs
import pytest

from triobot import Bot, Chat, Key, Paid
from triobot.filters import command, paid
from triobot.testing import drive

OWNS = Key("owns", bool, default=False)


@attrs.frozen
class Course:
    """What is bought."""

    name: str


@pytest.mark.parametrize("how", ["stays", "dies"])
async def test_what_fits_no_branch_is_answered(how: str, autojump_clock: object) -> None:
    """And is not kept for a question that comes later."""
    bot = Bot()

    async def choose(chat: Chat) -> None:
        await chat.choose("Tea or coffee?", {1: "Tea", 2: "Coffee"})

    @bot.conversation
    async def order(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(choose, chat)
            await chat.sleep(10)
            await chat.send("Still there?")
            await chat.sleep(100)
            await chat.send(f"Hello {await chat.ask('Who?')}.")

    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("Still there?", within=20)
        if how == "dies":
            await world.crashes()
        await sara.says("Milk")
        await sara.sees("Please press one of the buttons.")
        await sara.sees("Who?", within=200)
        await sara.says("Sara")
        await sara.sees("Hello Sara.")


@pytest.mark.parametrize("how", ["stays", "dies"])
async def test_a_branch_hears_that_it_was_paid(how: str, autojump_clock: object) -> None:
    bot = Bot()

    @bot.aside(paid(Course))
    async def deliver(chat: Chat[Paid[Course]]) -> None:
        await chat.send(f"Here is {chat.event.item.name}.")
        chat.data[OWNS] = True

    async def sell(chat: Chat) -> None:
        await chat.charge(1_000, "A course", item=Course("Persian"), late="refund")
        await chat.send("Thank you!")

    @bot.conversation(command("buy"))
    async def buy(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(sell, chat)
            await chat.sleep(10)
            await chat.send("Take your time.")

    async with drive(bot) as world:
        sara = world.user("Sara", wallet=10_000)
        await sara.joins()
        await sara.says("/buy")
        await sara.sees("Take your time.", within=20)
        if how == "dies":
            await world.crashes()
        await sara.pays()
        await sara.sees("Here is Persian.", within=20)
        await sara.sees("Thank you!", within=20)
