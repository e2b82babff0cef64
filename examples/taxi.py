"""Book a taxi: the chat gets the fleet's updates, and a car is released if the ride fails."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import uuid4

import attrs
import trio

from triobot import Bot, Chat, ChatId, Location, Paid
from triobot.errors import PaymentError
from triobot.filters import command, join, paid, signal

PATIENCE = 5 * 60.0  # seconds

bot = Bot()


# --- the fleet: in your bot, another company's service


class NoCar(Exception):
    """No car is free."""


@attrs.frozen
class Driver:
    name: str
    plate: str


@attrs.frozen
class Moved:
    minutes: int


@attrs.frozen
class Arrived:
    pass


@attrs.define
class Fleet:
    cars: int = 2
    booked: dict[str, ChatId] = attrs.field(factory=dict[str, ChatId])
    paid: dict[str, str] = attrs.field(factory=dict[str, str])

    async def price(self, start: Location, end: Location) -> int:
        await trio.lowlevel.checkpoint()
        return 80_000

    async def book(self, chat_id: ChatId, key: str) -> None:
        await trio.lowlevel.checkpoint()
        if len(self.booked) == self.cars:
            raise NoCar
        self.booked[key] = chat_id

    async def confirm(self, key: str, payment: str) -> None:
        """Record that the ride is paid; the same payment may come again."""
        await trio.lowlevel.checkpoint()
        if key not in self.booked:
            raise NoCar
        self.paid[key] = payment

    async def release(self, key: str) -> None:
        """Release the car of a booking. Without the booking, do nothing, so the call may be repeated."""
        await trio.lowlevel.checkpoint()
        self.booked.pop(key, None)


@bot.resource
@asynccontextmanager
async def fleet() -> AsyncGenerator[Fleet]:
    yield Fleet()


# --- the conversation


@attrs.frozen
class Ride:
    """What is paid for."""

    key: str


@bot.conversation(command("start", "taxi") | join())
async def taxi(chat: Chat) -> None:
    cars = chat.use(fleet)
    start = await chat.ask("Where are you?", Location)
    end = await chat.ask("Where to?", Location)
    rials = await chat.step(cars.price, start, end)
    how = await chat.choose(f"{rials:,} rials", {"cash": "Cash", "app": "Pay now", "no": "No, thanks"})
    if how == "no":
        return
    key, driver = await chat.step(new_key), None
    try:
        with chat.fail_after(PATIENCE), chat.move_on_when(command("cancel")):
            await chat.step(cars.book, chat.id, key, raises=NoCar)
            found = await chat.receive(signal(Driver), otherwise="Looking for a driver...")
            await chat.send(f"{found.name} is coming, {found.plate}.")
            if how == "app":
                # Nothing after the charge can fail, because verified money can't be given back. Late money
                # isn't verified, and goes back by itself, because the car has been released by then.
                await chat.charge(rials, "Taxi", item=Ride(key), late="refund")
            driver = found
    except (trio.TooSlowError, NoCar, PaymentError):
        pass
    if driver is None:
        # By `key`, because a step that was cancelled may have booked a car already.
        await chat.step(cars.release, key)
        await chat.send("Cancelled, or no car was found.")
        return
    async with chat.live("The driver is on the way.") as live:
        while isinstance(update := await chat.receive(signal(Moved) | signal(Arrived)), Moved):
            live.show(f"{update.minutes} min away")
    await chat.choose("The car is here. How was it?", {n: "★" * n for n in range(1, 6)})
    await chat.send("Thank you!")


@bot.aside(paid(Ride))
async def confirm(chat: Chat[Paid[Ride]]) -> None:
    """Confirm the paid ride to the fleet. If the step fails, triobot retries it, and then calls you."""
    await chat.step(chat.use(fleet).confirm, chat.event.item.key, chat.event.key)


async def new_key() -> str:
    return str(uuid4())


async def tell(chat_id: ChatId, update: Driver | Moved | Arrived, event_id: str) -> None:
    """Send the fleet's update to the chat. Your site calls this when the fleet posts, perhaps twice."""
    await bot.to(chat_id).signal(update, key=event_id)


if __name__ == "__main__":
    bot.run()
