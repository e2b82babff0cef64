"""The bots that the process tests run, kill and restart."""

from __future__ import annotations

import uuid

import attrs

from tests.processes.lane import TRANSPORT
from triobot import Bot, Chat, Key, Room
from triobot.filters import message, signal, text

bot = Bot(transport=TRANSPORT)
"""Repeats each text, one after the other, in a conversation that never ends by itself."""


@bot.conversation
async def repeat(chat: Chat) -> None:
    said = getattr(chat.event, "content", "joined")
    while True:
        if said == "fail":
            raise RuntimeError("told to")
        await chat.send(f"{said}")
        said = (await chat.receive(message())).content


single = Bot(transport=TRANSPORT)
"""A conversation a message."""


@single.conversation(text())
async def once(chat: Chat) -> None:
    await chat.send(getattr(chat.event, "content", "?"))


orders = Bot(transport=TRANSPORT)
"""A conversation of four questions, each with another way to wait; it ends with what it was told."""


async def draw() -> str:
    """A code that is another one at each call."""
    return uuid.uuid4().hex


@orders.conversation(text())
async def order(chat: Chat) -> None:
    number = getattr(chat.event, "content", "?")
    name = await chat.ask(f"{number}: Name?")
    hurry = "no answer"
    with chat.move_on_after(0.2 if name.startswith("silent") else 600):
        hurry = await chat.ask(f"{number}: Hurry?")
    code = await chat.step(draw)
    size = await chat.choose(f"{number}: Size of {code}?", {"S": "Small", "L": "Large"})
    await chat.send(f"{number}: {name}, {hurry}, {size}, {code}.")


timed = Bot(transport=TRANSPORT)
"""Three timeouts, one inside the other; it says which is over, and after how many milliseconds."""

TIMEOUTS = {"outer": 3.5, "middle": 1.5, "inner": 0.4}


@timed.conversation(text())
async def wait_thrice(chat: Chat) -> None:
    begun = chat.now()

    async def tell(name: str) -> None:
        await chat.send(f"{name} {(chat.now() - begun).total_seconds() * 1000:.0f}")

    with chat.move_on_after(TIMEOUTS["outer"]) as outer:
        with chat.move_on_after(TIMEOUTS["middle"]) as middle:
            with chat.move_on_after(TIMEOUTS["inner"]) as inner:
                await chat.ask("begun")
            await tell(f"inner {inner.cancelled_caught}")
            await chat.receive(text("never"))
        await tell(f"middle {middle.cancelled_caught}")
        await chat.receive(text("never"))
    await tell(f"outer {outer.cancelled_caught}")


tallies = Bot(transport=TRANSPORT)
"""Each chat counts in the bot's own room and in one of four others, several times, and says so."""

ROUNDS, ROOMS = 5, 4
COUNTED = Key("counted", int, default=0)


@attrs.frozen
class One:
    """Something to be counted."""


def count(old: int, more: int) -> int:
    return old + more


@tallies.room(signal(One), name="tally")
async def tally(room: Room[One]) -> None:
    room.data[COUNTED] += 1
    for _ in range(9):
        await room.receive(signal(One))
        room.data[COUNTED] += 1


@tallies.aside(text("total"))
async def total(chat: Chat) -> None:
    rooms = [await chat.to(tally, number).get(COUNTED) for number in range(ROOMS)]
    await chat.send(f"total {await chat.shared.get(COUNTED)} {sum(rooms)}")


@tallies.conversation(text("count"))
async def counts(chat: Chat) -> None:
    for _ in range(ROUNDS):
        await chat.shared.update(COUNTED, count, 1)
        await chat.to(tally, chat.id % ROOMS).signal(One())
        await chat.sleep(0.2)
    await chat.send("counted")
