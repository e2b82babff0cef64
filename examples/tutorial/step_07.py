"""A cake shop that is paid."""

from typing import Annotated

import attrs
import trio

from triobot import Bot, Chat, Field, Paid
from triobot.filters import command, paid

CAKES = {"honey": "Honey cake", "lemon": "Lemon cake"}
PRICE = 300_000  # rials

bot = Bot()


@attrs.frozen
class Delivery:
    street: str
    floor: int
    gift: Annotated[bool, Field("Wrap it as a gift")] = False


@attrs.frozen
class Order:
    name: str
    cake: str
    delivery: Delivery


async def tell_kitchen(order: Order, key: str) -> int:
    """Write the order down where the kitchen reads it; return in how many minutes the cake is ready."""
    async with await trio.open_file("kitchen.txt", "a") as file:
        await file.write(f"{key}: {order.cake} for {order.name}\n")
    return 40


@bot.conversation
async def order(chat: Chat) -> None:
    name = await chat.ask("Welcome! What is your name?")
    with chat.move_on_after(10 * 60) as limit:
        cake = await chat.choose("Which cake?", CAKES)
        delivery = await chat.fill(Delivery, "Where do we bring it?")
        await chat.send(f"{CAKES[cake]} for {name}: {delivery.street}, floor {delivery.floor}.")
        await chat.charge(PRICE, CAKES[cake], item=Order(name, cake, delivery), late="refund")
    if limit.cancelled_caught:
        await chat.send("Ten minutes are over. Write to us when you are hungry.")


@bot.aside(paid(Order))
async def bake(chat: Chat[Paid[Order]]) -> None:
    minutes = await chat.step(tell_kitchen, chat.event.item, chat.event.key)
    await chat.send(f"It is paid, and ready in {minutes} minutes.")


@bot.interrupt(command("cancel"))
async def cancel(chat: Chat) -> None:
    await chat.send("Your order is cancelled.")
