"""A newsletter: people subscribe and leave at any moment, and an operator writes to all of them.

Send /subscribe, then /topics; /unsubscribe works in the middle of the topics, too. /operator PASSWORD makes
you an operator, who writes to everybody with /send TEXT.
"""

import os
from collections.abc import AsyncGenerator

import attrs
import trio

from triobot import Bot, BroadcastStatus, Chat, ChatId, Command, Key, Live
from triobot.filters import command

bot = Bot()
PASSWORD = os.environ.get("NEWSLETTER_PASSWORD", "swordfish")
EVERY = 1.0  # seconds between two updates of the progress


@attrs.frozen
class Subscription:
    topics: tuple[str, ...] = ()
    left: bool = False


SUBSCRIPTION = Key("subscription", Subscription)
OPERATOR = Key("operator", bool, default=False)
TOPICS = {"trains": "Trains", "ships": "Ships", "done": "That's all"}


# Asides run beside the chat's conversation, and don't disturb it.
@bot.aside(command("subscribe", "start"))
async def subscribe(chat: Chat) -> None:
    chat.data[SUBSCRIPTION] = Subscription()
    await chat.send("You are on the list. /topics says what you like, /unsubscribe ends it.")


@bot.aside(command("unsubscribe"))
async def unsubscribe(chat: Chat) -> None:
    del chat.data[SUBSCRIPTION]
    await chat.send("You are off the list.")


@bot.conversation(command("topics"))
async def topics(chat: Chat) -> None:
    chosen: tuple[str, ...] = ()
    while (topic := await chat.choose("What do you like?", TOPICS)) != "done":
        chosen = (*dict.fromkeys((*chosen, topic)),)
        await chat.answer("Noted.")
    if SUBSCRIPTION in chat.data:  # still
        chat.data[SUBSCRIPTION] = Subscription(chosen)
    await chat.send(f"You like {', '.join(chosen) or 'nothing in particular'}.")


@bot.aside(command("operator"))
async def become_operator(chat: Chat[Command]) -> None:
    chat.data[OPERATOR] = chat.event.rest == PASSWORD
    await chat.send("Write with /send, your words behind it." if chat.data[OPERATOR] else "No.")


@bot.aside(command("send"))
async def send(chat: Chat[Command]) -> None:
    if not chat.data[OPERATOR] or not chat.event.rest:
        await chat.send("That is for operators: /send and your words.")
        return
    broadcast = chat.broadcast(f"newsletter-{chat.uuid()}")  # starts once, even after a crash
    async with chat.live("Writing down who gets it...") as live:
        await broadcast.start(chat.event.rest, subscribers())
        status = await chat.step(watch, broadcast.key, live)
    left = await chat.step(forget_those_who_left, broadcast.key)
    await chat.send(f"{broadcast.key}: {status.sent} of {status.total} have it, {left} have left.")


async def watch(key: str, live: Live) -> BroadcastStatus:
    while not (status := await bot.broadcast(key).status()).over:
        live.show(f"{status.total - status.left} of {status.total}")
        await trio.sleep(EVERY)
    return status


async def subscribers() -> AsyncGenerator[ChatId]:
    async for chat_id, subscription in bot.each(SUBSCRIPTION):
        if not subscription.left:
            yield chat_id


async def forget_those_who_left(key: str) -> int:
    count = 0
    async for chat_id in bot.broadcast(key).gone():
        await bot.to(chat_id).set(SUBSCRIPTION, Subscription(left=True))
        count += 1
    return count


if __name__ == "__main__":
    bot.run()
