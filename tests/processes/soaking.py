"""The bot that is soaked: what it says tells whether an event was lost, doubled or handled out of order."""

from __future__ import annotations

from tests.processes.lane import TRANSPORT
from triobot import Bot, Chat
from triobot.filters import text

bot = Bot(transport=TRANSPORT)
"""Asks after each number, and repeats the next one with it: a conversation of two events."""


@bot.conversation(text())
async def pair(chat: Chat) -> None:
    first = getattr(chat.event, "content", "?")
    with chat.move_on_after(3600):
        second = await chat.ask(f"{first}, and?")
        await chat.send(f"{first} and {second}")
