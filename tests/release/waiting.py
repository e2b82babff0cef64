"""A bot with one wait of each kind, whose conversations go on under another release."""

from __future__ import annotations

import uuid

from triobot import Bot, Chat, Key, Paid
from triobot.filters import paid, text

bot = Bot()
COINS = Key("coins", int, default=0)
ASLEEP = 4.0


async def draw() -> str:
    """Draw a code that is another one at each call."""
    return uuid.uuid4().hex


@bot.conversation(text("sleep"))
async def sleep(chat: Chat) -> None:
    """Ask in vain, with a deadline that passes between two processes."""
    with chat.move_on_after(ASLEEP) as limit:
        await chat.ask("Asleep?")
    await chat.send(f"Woke: {limit.cancelled_caught}")


@bot.conversation(text())
async def order(chat: Chat) -> None:
    name = await chat.ask("Name?")
    code = await chat.step(draw)
    await chat.send(f"Your code: {code}")
    hurry = "none"
    with chat.move_on_after(3600):
        hurry = await chat.ask("Hurry?")
    async with chat.open_nursery() as nursery:

        async def remind() -> None:
            await chat.sleep(3600)
            await chat.send("Still there?")

        nursery.start_soon(remind)
        size = await chat.choose("Size?", {"S": "Small", "L": "Large"})
        nursery.cancel()
    await chat.charge(250_000, "100 coins", item=100)
    count = await chat.ask(f"You have {chat.data[COINS]} coins. How many more?", int)
    await chat.send(f"{name}, {hurry}, {size}, {count}, {code}.")


@bot.aside(paid(int))
async def give(chat: Chat[Paid[int]]) -> None:
    chat.data[COINS] += chat.event.item
