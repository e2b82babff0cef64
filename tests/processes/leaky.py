"""A bot whose code does everything wrong that could let a text, a phone number or a secret out."""

from __future__ import annotations

import os

import trio

from tests.processes.lane import TRANSPORT
from triobot import Alarm, Bot, Chat, Event, Image
from triobot.filters import command, message, when

bot = Bot(transport=TRANSPORT)


PHONE = "+989121234567"


@bot.on_alarm
async def hear(alarm: Alarm) -> None:
    """Fail with all that there is."""
    await bot.to(PHONE).send("a text of the hook's own")
    raise RuntimeError(f"{alarm.text} {PHONE} {os.environ['TRIOBOT_TOKEN']}")


def picky(event: Event) -> bool:
    """A filter that fails with the text."""
    said = f"{getattr(event, 'content', '')}"
    if said.startswith("filter"):
        raise ValueError(said)
    return False


@bot.conversation(when(picky))
async def never(chat: Chat) -> None:
    """Never begins."""


@bot.interrupt(command("group"))
async def group(chat: Chat) -> None:
    """Several errors at once."""

    async def fail(said: str) -> None:
        raise ValueError(said)

    async with chat.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(fail, f"{chat.event}")


@bot.conversation
async def leak(chat: Chat) -> None:
    """Fail in the way that the text asks for, with the text in the error."""
    said = f"{getattr(chat.event, 'content', '')}"
    if said.startswith("raise"):
        raise RuntimeError(f"could not handle {said}")
    if said.startswith("key"):
        empty: dict[str, str] = {}
        empty[said]
    if said.startswith("chain"):
        try:
            int(said)
        except ValueError as error:
            raise LookupError(said) from error
    if said.startswith("step"):

        async def call() -> None:
            raise OSError(f"no connection for {said}")

        await chat.step(call)
    if said.startswith("base"):
        raise ExceptionGroup(said, [ValueError(said)])
    if said.startswith("foreign"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(chat.send, said)
    if said.startswith("phone"):
        await bot_chat(said)
    if said.startswith("file"):
        await chat.send(Image.open(f"/nowhere/{said}"))
    await chat.send(said)
    await chat.ask(said, int)
    await chat.receive(message())


async def bot_chat(said: str) -> None:
    """Use the door from outside where it is not allowed, with a phone number."""
    await bot.to(said.split()[-1]).send(said)
