"""A cake shop that doesn't wait for ever."""

from typing import Annotated

import attrs

from triobot import Bot, Chat, Field
from triobot.filters import command

CAKES = {"honey": "Honey cake", "lemon": "Lemon cake"}

bot = Bot()


@attrs.frozen
class Delivery:
    street: str
    floor: int
    gift: Annotated[bool, Field("Wrap it as a gift")] = False


@bot.conversation
async def order(chat: Chat) -> None:
    name = await chat.ask("Welcome! What is your name?")
    with chat.move_on_after(10 * 60) as limit:
        cake = await chat.choose("Which cake?", CAKES)
        delivery = await chat.fill(Delivery, "Where do we bring it?")
        await chat.send(f"{CAKES[cake]} for {name}: {delivery.street}, floor {delivery.floor}.")
    if limit.cancelled_caught:
        await chat.send("Ten minutes are over. Write to us when you are hungry.")


@bot.interrupt(command("cancel"))
async def cancel(chat: Chat) -> None:
    await chat.send("Your order is cancelled.")
