"""A cake shop that tells its kitchen."""

from typing import Annotated

import attrs
import trio

from triobot import Bot, Chat, Field
from triobot.filters import command

CAKES = {"honey": "Honey cake", "lemon": "Lemon cake"}

bot = Bot()


@attrs.frozen
class Delivery:
    street: str
    floor: int
    gift: Annotated[bool, Field("Wrap it as a gift")] = False


async def tell_kitchen(cake: str, name: str) -> int:
    """Write the order down where the kitchen reads it; return in how many minutes the cake is ready."""
    async with await trio.open_file("kitchen.txt", "a") as file:
        await file.write(f"{cake} for {name}\n")
    return 40


@bot.conversation
async def order(chat: Chat) -> None:
    name = await chat.ask("Welcome! What is your name?")
    with chat.move_on_after(10 * 60) as limit:
        cake = await chat.choose("Which cake?", CAKES)
        delivery = await chat.fill(Delivery, "Where do we bring it?")
        await chat.send(f"{CAKES[cake]} for {name}: {delivery.street}, floor {delivery.floor}.")
        minutes = await chat.step(tell_kitchen, cake, name)
        await chat.send(f"It is ready in {minutes} minutes.")
        await chat.ask("How did you find us?")
        await chat.send("Thank you!")
    if limit.cancelled_caught:
        await chat.send("Ten minutes are over. Write to us when you are hungry.")


@bot.interrupt(command("cancel"))
async def cancel(chat: Chat) -> None:
    await chat.send("Your order is cancelled.")
