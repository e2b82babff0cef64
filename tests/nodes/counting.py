"""A bot whose chats say and press, and buy; each answer names the event that it is for, and its number."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from triobot import Bot, Chat, Key, Paid
from triobot.filters import paid, pressed, text

PRICE: Final = 1_000
EACH: Final = 10
"""Events of a conversation; then the next one goes on from the same number."""
NUMBER: Final = Key("number", int, default=0)
OVEN: Final = Path(os.environ.get("OVEN", "oven"))

bot = Bot()
_time_ns: Final = time.time_ns


def time_ns() -> int:
    """What this machine's clock says, as far off as a file has it."""
    with suppress(OSError, KeyError, ValueError):
        return _time_ns() + int(Path(os.environ["CLOCK"]).read_text()) * 1_000_000_000
    return _time_ns()


time.time_ns = time_ns


@attrs.frozen
class Meal:
    """What is bought: this chat's meal of this number."""

    order: str


async def serve(key: str, order: str) -> None:
    """Every other key is one more meal."""
    with OVEN.open("a") as oven:
        oven.write(f"{key} {order}\n")


@bot.conversation(text() | pressed())
async def count(chat: Chat) -> None:
    number = chat.data[NUMBER]
    for before in range(EACH):
        event = await chat.receive(text() | pressed()) if before else chat.event
        number += 1
        said = str(getattr(event, "content", getattr(event, "value", "?")))
        await chat.send(f"{number} {said}")
        if said.startswith("buy"):
            number += 1  # the button of a charge is one more message
            await chat.charge(PRICE, f"{number} pay", item=Meal(f"{chat.id}.{number}"))
            await chat.send(f"{number} paid")
        chat.data[NUMBER] = number


@bot.aside(paid(Meal))
async def give(chat: Chat[Paid[Meal]]) -> None:
    await chat.step(serve, chat.event.key, chat.event.item.order)
