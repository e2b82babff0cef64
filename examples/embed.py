"""A Trio program with tasks of its own and a bot inside: it tells everybody who asked what the time is.

Run it with `python examples/embed.py`.
"""

from datetime import datetime

import trio

from triobot import Bot, Chat, ChatId
from triobot.errors import ForbiddenError
from triobot.filters import command

bot = Bot()
listeners: set[ChatId] = set()


@bot.conversation
async def subscribe(chat: Chat) -> None:
    listeners.add(chat.id)
    await chat.send("You will hear from me. /stop ends it.")


@bot.interrupt(command("stop"))
async def unsubscribe(chat: Chat) -> None:
    listeners.discard(chat.id)
    await chat.send("Silence.")


async def tell_time(interval: float) -> None:
    while True:
        await trio.sleep(interval)
        for chat_id in list(listeners):
            try:
                # The door from outside: inside a conversation it would be chat.send.
                await bot.chat(chat_id).send(f"It is {datetime.now().astimezone():%H:%M:%S}.")
            except ForbiddenError:  # left, or blocked the bot
                listeners.discard(chat_id)


async def main(interval: float = 60) -> None:
    async with trio.open_nursery() as nursery:
        # Returns when the bot listens; from then on it lives and ends with this nursery.
        [address] = await nursery.start(bot.serve)
        print(f"The bot listens on {address}.")
        nursery.start_soon(tell_time, interval)


if __name__ == "__main__":
    trio.run(main)
