"""What was paid carries the name that the platform knows it by."""

from __future__ import annotations

import re

import attrs

from triobot import Bot, Chat, Key, Paid
from triobot.filters import command, paid
from triobot.testing import drive

GIVEN = Key("given", int, default=0)


@attrs.frozen
class Order:
    """What is sold."""

    size: str


def shop() -> Bot:
    """Make a bot that sells by a button, and by an invoice."""
    bot = Bot()

    @bot.aside(paid(Order))
    async def give(chat: Chat[Paid[Order]]) -> None:
        chat.data[GIVEN] += 1
        await chat.send(f"given for {chat.event.reference}")

    @bot.conversation(command("button"))
    async def charge(chat: Chat) -> None:
        await chat.charge(1_000, "A pizza", item=Order("s"))

    @bot.conversation(command("invoice"))
    async def invoice(chat: Chat) -> None:
        await chat.invoice(1_000, "A pizza", item=Order("s"))

    return bot


async def test_a_receipt_names_the_payment_as_the_platform_does(autojump_clock: object) -> None:
    """A button by its ``ref_id``, an invoice by its id."""
    async with drive(shop()) as world:
        sara = world.user("Sara", wallet=10_000)
        await sara.joins()
        bills = world.exchange.world.bills
        for way in ("button", "invoice"):
            await sara.says(f"/{way}")
            await world.waits(seconds=1)
            await sara.pays(invoice=way == "invoice")
            given = (await sara.sees(re.compile("given for"))).text.removeprefix("given for ")
            bill = bills.payment(given) if way == "button" else bills.invoice(given)
            assert bill is not None
