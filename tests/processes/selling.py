"""A bot that sells one pizza, and writes down which oven got which key."""

from __future__ import annotations

import os
from pathlib import Path

import attrs
import trio

from triobot import Bot, Chat, Paid
from triobot.errors import PaymentHandedOverError
from triobot.filters import command, paid, text

OVEN = Path(os.environ.get("OVEN", "oven"))
HURRY = 25.0

bot = Bot()


@attrs.frozen
class Pizza:
    """What is sold."""


async def bake(key: str, *, hangs: bool = False) -> None:
    """Every call is one more pizza; the first of those that hang never comes to its end."""
    with OVEN.open("a") as oven:
        oven.write(f"{key}\n")
    await trio.sleep_forever() if hangs and len(OVEN.read_text().split()) == 1 else await trio.sleep(0)


@bot.conversation(text("buy"))
async def buy(chat: Chat) -> None:
    try:
        money = await chat.charge(200_000, "Pizza", item=Pizza())
    except PaymentHandedOverError:
        await chat.send("Ask at the counter.")
        return
    await chat.step(bake, money.key)
    await chat.send("Here it is.")


@bot.conversation(text("address"))
async def address(chat: Chat) -> None:
    money = await chat.charge(200_000, "Pizza", item=Pizza())
    await chat.ask("Where to?")
    await chat.step(bake, money.key, paid=money)
    await chat.send("Here it is.")


@bot.conversation(text("hurry"))
async def hurry(chat: Chat) -> None:
    with chat.move_on_after(HURRY):
        money = await chat.charge(200_000, "Pizza", item=Pizza())
        await chat.step(bake, money.key)
        return await chat.send("Here it is.")
    return await chat.send("Too late.")


@bot.interrupt(command("cancel"))
async def cancel(chat: Chat) -> None:
    await chat.send("Cancelled.")


@bot.aside(paid(Pizza))
async def late(chat: Chat[Paid[Pizza]]) -> None:
    async def once(key: str) -> None:
        await bake(key, hangs=True)

    await chat.step(once, chat.event.key)
    await chat.send("Late, but here.")
