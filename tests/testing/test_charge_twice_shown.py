"""A button whose first send had no answer may be on the screen twice, under one number."""

from __future__ import annotations

import attrs

from triobot import Bot, Chat, Key, Paid
from triobot.emulator.faults import EventFault, Fault
from triobot.filters import command, paid, text
from triobot.testing import DrivenWorld, drive

GIVEN = Key("given", int, default=0)


@attrs.frozen
class Pizza:
    size: int


def pizzeria() -> Bot:
    bot = Bot()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    @bot.conversation(text("buy"))
    async def buy(chat: Chat) -> None:
        await chat.charge(1_000, "Pizza", item=Pizza(1))

    @bot.aside(paid(Pizza))
    async def deliver(chat: Chat[Paid[Pizza]]) -> None:
        chat.data[GIVEN] += 1
        await chat.send("Here it is.")

    return bot


async def shown(world: DrivenWorld) -> int:
    return (await world.transcript()).count("<Pay>")


async def test_the_other_button_goes_when_it_is_pressed(autojump_clock: object) -> None:
    """Nobody knows of it before that."""
    async with drive(pizzeria()) as world:
        ali = world.user("Ali")
        await ali.joins()
        world.faults.add(Fault(operation="sendMessage", drop="after", times=1))
        await ali.says("buy")
        await world.waits(minutes=2)
        assert await shown(world) == 2
        await ali.says("/cancel")
        await world.waits(minutes=1)
        assert await shown(world) == 1
        await ali.pays()  # there is nothing in the wallet
        await world.waits(minutes=1)
        assert await shown(world) == 0


async def test_what_is_paid_on_the_other_button_is_found(autojump_clock: object) -> None:
    """Hours after the one that is known has gone, and though the platform's word of it is lost."""
    async with drive(pizzeria()) as world:
        ali = world.user("Ali", wallet=1_000)
        await ali.joins()
        world.faults.add(Fault(operation="sendMessage", drop="after", times=1))
        await ali.says("buy")
        await world.waits(minutes=2)
        await ali.says("/cancel")
        await world.waits(hours=2)
        world.faults.add(EventFault(type="payCallback", drop=True))
        await ali.pays()
        await ali.sees("Here it is.", within=40 * 60)
