"""The bot of ``triobot demo``: sells a pizza with the user's own label on the box, in one coroutine."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import trio

from ... import Bot, Chat, Field, File, Keyboard, Location, Paid
from ...base.frozen import guarded
from ...filters import command, paid

bot: Final = Bot()


class Size(Enum):
    """Pizza sizes; each value is the price in rials."""

    SMALL = 180_000
    LARGE = 250_000


@guarded
class Details:
    """Delivery details; triobot shows them as a form."""

    floor: int
    doorbell: Annotated[str, Field("Name on the doorbell")]
    cutlery: Annotated[bool, Field("With cutlery")] = False


@guarded
class PizzaOrder:
    """The ordered pizza, attached to its payment."""

    name: str
    size: Size
    where: Location
    details: Details


@bot.conversation
async def pizza(chat: Chat) -> None:
    """Take an order, from the greeting to the payment."""
    name = await chat.ask("Good evening! Your name?")
    size = await chat.choose("Which size?", {Size.SMALL: "Small", Size.LARGE: "Large"})
    await chat.answer("Good choice.")
    where = await chat.ask("Where to?", Location, keyboard=Keyboard(location="Send my location"))

    with chat.move_on_after(10 * 60) as limit:
        details = await chat.fill(Details, "How do we find you?")
        label = await chat.ask("Which label shall we print on the box? Send a file.", File)
        proof = await chat.step(read, label)
        await chat.send(File.from_bytes(proof, label.filename, caption="It will look like this."))

        title = f"A {size.name.lower()} pizza"
        await chat.charge(size.value, title, item=PizzaOrder(name, size, where, details), late="refund")
    if limit.cancelled_caught:
        await chat.send("Too slow, come back any time.")


@bot.aside(paid(PizzaOrder))
async def deliver(chat: Chat[Paid[PizzaOrder]]) -> None:
    """Deliver the paid order. Only this route delivers."""
    order = chat.event.item
    async with chat.typing():
        minutes = await chat.step(submit, order, chat.event.key)
    await chat.send(f"Thank you, {order.name}! We ring at {order.details.doorbell} in {minutes} minutes.")


@bot.interrupt(command("cancel"))
async def cancel(chat: Chat) -> None:
    """End the chat's live conversation."""
    await chat.send("Cancelled." if chat.interrupted else "There is nothing to cancel.")


async def read(file: File) -> bytes:
    """Download a file that a user sent, and return its bytes."""
    with TemporaryDirectory() as folder:
        path = await bot.download(file, Path(folder) / "label", limit=1024 * 1024)
        return await trio.Path(path).read_bytes()


async def submit(order: PizzaOrder, key: str) -> int:
    """Send the order to the kitchen, and return the minutes until delivery.

    A real bot would call another service here, which is why this function runs as a step.
    """
    await trio.sleep(0.3)
    return 20 if order.size is Size.SMALL else 30
