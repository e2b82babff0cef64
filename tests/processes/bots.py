"""The bots that the process tests run, kill and restart."""

from __future__ import annotations

from triobot import Bot, Chat
from triobot.filters import message, text

bot = Bot()
"""Repeats each text, one after the other, in a conversation that never ends by itself."""


@bot.conversation
async def repeat(chat: Chat) -> None:
    said = getattr(chat.event, "content", "joined")
    while True:
        if said == "fail":
            raise RuntimeError("told to")
        await chat.send(f"{said}")
        said = (await chat.receive(message())).content


single = Bot()
"""A conversation a message."""


@single.conversation(text())
async def once(chat: Chat) -> None:
    await chat.send(getattr(chat.event, "content", "?"))
