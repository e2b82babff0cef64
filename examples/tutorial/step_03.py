"""A cake shop that asks where to bring the cake."""

from typing import Annotated

import attrs

from triobot import Bot, Chat, Field

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
    cake = await chat.choose("Which cake?", CAKES)
    delivery = await chat.fill(Delivery, "Where do we bring it?")
    await chat.send(f"{CAKES[cake]} for {name}: {delivery.street}, floor {delivery.floor}.")
