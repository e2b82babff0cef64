"""Order a pizza: questions, a form, a map, a time limit, money, a picture. One coroutine from end to end."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import attrs
import trio

from triobot import Bot, Chat, Field, Image, Location, Paid
from triobot.filters import command, paid

PICTURE = Path(__file__).with_name("pizza.jpg")

bot = Bot()


class Size(Enum):
    SMALL = 180_000
    LARGE = 250_000


@attrs.frozen
class Details:
    floor: int
    doorbell: Annotated[str, Field("Name on the doorbell")]
    cutlery: Annotated[bool, Field("With cutlery")] = False


@attrs.frozen
class Order:
    """What is bought: all that is needed to give it."""

    name: str
    size: Size
    where: Location
    details: Details


async def submit(order: Order, key: str) -> int:
    """Tell the kitchen; returns the minutes until it is ready. Yours would call another service.

    It runs again if the program is killed in it: the key tells the kitchen that it is the same pizza.
    """
    await trio.lowlevel.checkpoint()
    return 20 if order.size is Size.SMALL else 30


@bot.conversation
async def pizza(chat: Chat) -> None:
    name = await chat.ask("Your name?")
    size = await chat.choose("Size?", {Size.SMALL: "Small", Size.LARGE: "Large"})
    where = await chat.ask("Where to?", Location)

    try:
        with chat.fail_after(10 * 60):
            details = await chat.fill(Details, "How do we find you?")
            title, order = f"A {size.name.lower()} pizza", Order(name, size, where, details)
            # What is paid too late is left to go back: the kitchen has other orders by then.
            await chat.charge(size.value, title, item=order, late="refund")
    except trio.TooSlowError:
        await chat.send("Too slow, come back any time.")


@bot.aside(paid(Order))
async def deliver(chat: Chat[Paid[Order]]) -> None:
    """The one place that gives a pizza. It begins when the money is there, and nothing else ends it."""
    order = chat.event.item
    async with chat.typing():
        # What reaches the world outside the chat goes through a step.
        minutes = await chat.step(submit, order, chat.event.key)
    await chat.send(Image.open(PICTURE, caption=f"Thank you, {order.name}! Ready in {minutes} minutes."))


@bot.interrupt(command("cancel"))
async def cancel(chat: Chat) -> None:
    await chat.send("Cancelled." if chat.interrupted else "There is nothing to cancel.")


if __name__ == "__main__":
    bot.run()
