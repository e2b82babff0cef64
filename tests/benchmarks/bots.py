"""The bots of the durable benchmarks."""

from __future__ import annotations

from triobot import Bot, Chat

asking: Bot = Bot()
"""One long conversation a chat: it asks, again and again."""


@asking.conversation
async def ask_for_ever(chat: Chat) -> None:
    number = 0
    while True:
        await chat.ask(f"Question {number}?")
        number += 1


sleeping: Bot = Bot()
"""Who writes is told something an hour later; the answer to "echo" comes at once."""


@sleeping.conversation
async def sleep(chat: Chat) -> None:
    if getattr(chat.event, "content", "") != "echo":
        await chat.sleep(3600)
    await chat.send("Good morning.")
