"""A bot that sells one pizza, and writes down which oven got which key."""

from __future__ import annotations

import os
from pathlib import Path

import attrs
import trio

from tests.processes.lane import TRANSPORT
from triobot import Bot, Chat, Paid
from triobot.errors import PaymentHandedOverError
from triobot.filters import command, paid, text

OVEN = Path(os.environ.get("OVEN", "oven"))
HURRY = 25.0

bot = Bot(transport=TRANSPORT)


@attrs.frozen
class Pizza:
    """What is sold.

    Attributes:
        asks: its aside asks where to.
        hangs: the first oven that is to bake it never comes to its end.
    """

    asks: bool = False
    hangs: bool = False


async def bake(key: str, *, hangs: bool) -> None:
    """Every call is one more pizza."""
    with OVEN.open("a") as oven:
        oven.write(f"{key}\n")
    await trio.sleep_forever() if hangs and len(OVEN.read_text().split()) == 1 else await trio.sleep(0)


async def sell(chat: Chat, pizza: Pizza) -> None:
    try:
        await chat.charge(200_000, "Pizza", item=pizza)
    except PaymentHandedOverError:
        await chat.send("Ask at the counter.")
        return
    await chat.ask("Anything else?")


@bot.conversation(text("buy"))
async def buy(chat: Chat) -> None:
    await sell(chat, Pizza())


@bot.conversation(text("hang"))
async def hang(chat: Chat) -> None:
    await sell(chat, Pizza(hangs=True))


@bot.conversation(text("address"))
async def address(chat: Chat) -> None:
    await chat.charge(200_000, "Pizza", item=Pizza(asks=True))


@bot.conversation(text("hurry"))
async def hurry(chat: Chat) -> None:
    with chat.move_on_after(HURRY):
        await chat.charge(200_000, "Pizza", item=Pizza())
        return await chat.send("Thank you.")
    return await chat.send("Too late.")


@bot.interrupt(command("cancel"))
async def cancel(chat: Chat) -> None:
    await chat.send("Cancelled.")


@bot.aside(paid(Pizza))
async def deliver(chat: Chat[Paid[Pizza]]) -> None:
    async def give(key: str) -> None:
        await bake(key, hangs=chat.event.item.hangs)

    if chat.event.item.asks and not chat.event.redelivered:
        await chat.ask("Where to?")
    await chat.step(give, chat.event.key)
    await chat.send("Here it is.")
