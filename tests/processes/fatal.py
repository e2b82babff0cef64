"""A bot with conversations that kill its whole process, each in another way."""

from __future__ import annotations

import os
import resource
import signal

import trio

from tests.processes.lane import TRANSPORT
from triobot import Bot, Chat
from triobot.filters import command, text

bot = Bot(transport=TRANSPORT)
ROOM = 64 * 1024 * 1024


def eat() -> None:
    """Take memory until there is none, and be killed for it as the kernel does."""
    pages = int(open("/proc/self/statm").read().split()[0])  # noqa: PTH123, SIM115
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, resource.RLIM_INFINITY))
    eaten: list[bytearray] = []
    try:
        while True:
            eaten.append(bytearray(1024 * 1024))
    except MemoryError:
        os.kill(os.getpid(), signal.SIGKILL)


@bot.aside(command("abort"))
async def abort(chat: Chat) -> None:
    os.abort()


@bot.conversation(text("spin"))
async def spin(chat: Chat) -> None:
    await chat.ask("How long?")
    while True:
        pass  # for ever


@bot.conversation(text("eat"))
async def hungry(chat: Chat) -> None:
    await chat.send("Hungry.")
    await chat.step(trio.to_thread.run_sync, eat)


@bot.conversation(text("greedy"))
async def greedy(chat: Chat) -> None:
    """It only fails: what it took is free again."""
    await chat.send("Greedy.")
    bytearray(1 << 60)


@bot.conversation(text())
async def count(chat: Chat) -> None:
    number = 0
    while True:
        await chat.receive(text())
        number += 1
        await chat.send(f"{number}")
