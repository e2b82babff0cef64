"""A step that takes a payment and fails: what it should have given is given by somebody else."""

from __future__ import annotations

import attrs
import pytest
import trio

from triobot import Bot, Chat, Paid
from triobot.errors import StepError
from triobot.filters import paid, text
from triobot.testing import drive


@attrs.frozen
class Pizza:
    size: int


class Oven:
    def __init__(self) -> None:
        self.broken = True
        self.baked: list[str] = []

    async def bake(self, key: str) -> None:
        await trio.lowlevel.checkpoint()
        if self.broken:
            raise ValueError
        self.baked.append(key)

    async def bake_slowly(self, key: str) -> None:
        await trio.sleep(3600)


def pizzeria(oven: Oven, how: str) -> Bot:
    bot = Bot()

    @bot.conversation(text("buy"))
    async def buy(chat: Chat) -> None:
        money = await chat.charge(1_000, "Pizza", item=Pizza(1))
        with chat.move_on_after(60):
            try:
                await chat.step(oven.bake_slowly if how == "late" else oven.bake, money.key, paid=money)
            except StepError:
                await chat.send("Sorry.")
        oven.broken = False
        if how == "again":
            await chat.step(oven.bake, money.key, paid=money)
        if how == "settled":
            await money.settle()
        if how == "killed":
            await chat.ask("Is that all?")
        await chat.send("Bye.")

    @bot.aside(paid(Pizza))
    async def late(chat: Chat[Paid[Pizza]]) -> None:
        assert chat.event.redelivered
        await chat.step(oven.bake, chat.event.key, paid=chat.event)
        await chat.send("Late, but here.")

    return bot


@pytest.mark.parametrize(
    ("how", "given", "by_aside"),
    [
        ("failed", 1, True),
        ("late", 1, True),
        ("killed", 1, True),
        ("again", 1, False),
        ("settled", 0, False),
    ],
)
async def test_a_step_that_failed_has_given_nothing(
    autojump_clock: object, how: str, given: int, by_aside: bool
) -> None:
    """Whatever the conversation makes of that, its normal end doesn't settle the payment."""
    oven = Oven()
    async with drive(pizzeria(oven, how), replay_check=False) as world:
        ali = world.user("Ali", wallet=1_000)
        await ali.joins()
        await ali.says("buy")
        await ali.sees("Pizza")
        await ali.pays()
        if how == "killed":
            await ali.sees("Is that all?")
            await world.crashes()
            await ali.says("Yes")
        await ali.sees("Bye.", within=120)
        if by_aside:
            await ali.sees("Late, but here.")
        await world.waits(hours=1)
        assert len(oven.baked) == given
        assert not by_aside or "Late, but here." in await world.transcript()
