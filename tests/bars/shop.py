"""A bot that uses the runtime like a small shop, and then prints the loaded modules and stops."""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta

import attrs
import trio

from triobot import Bot, Chat, Key, Message, Paid, Room, filters

bot = Bot()
SEEN = Key("seen", int, default=0)
done = trio.Event()


@attrs.frozen
class Cake:
    """What is sold."""

    name: str


@bot.conversation(filters.message())
async def talk(chat: Chat[Message]) -> None:
    """Use each of a conversation's doors once; nobody answers."""
    chat.data[SEEN] += 1
    with chat.move_on_after(0.2):
        await chat.ask("Your name?")
    await chat.to(kitchen).signal(Cake("plum"))
    await chat.start(later)
    await chat.broadcast("news").start("Fresh cake.", [chat.id])
    with chat.move_on_after(0.5):
        await chat.charge(1000, "cake", item=Cake("honey"))
    done.set()


@bot.aside
async def later(chat: Chat) -> None:
    """Wait beside the conversation."""
    await chat.sleep(0.1)


@bot.room(filters.signal(Cake))
async def kitchen(room: Room[Cake]) -> None:
    """Take a signal."""


@bot.every(timedelta(hours=1))
async def sweep(room: Room) -> None:
    """Be due in an hour."""


@bot.aside(filters.paid(Cake))
async def give(chat: Chat[Paid[Cake]]) -> None:
    """Give what was bought; nobody buys."""


@bot.background
async def tell() -> None:
    """Print the modules that were loaded by all that, and stop."""
    await done.wait()
    print(*sorted(name for name in sys.modules if name.partition(".")[0] == "triobot"), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
