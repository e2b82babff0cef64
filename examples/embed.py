"""A Trio program with tasks of its own and a bot inside: it tells everybody who asked what the time is.

Run it with `python examples/embed.py`.
"""

import signal
from contextlib import suppress
from datetime import datetime

import trio

from triobot import Bot, Chat, Key
from triobot.errors import ForbiddenError
from triobot.filters import command

LISTENS = Key("listens", bool)

bot = Bot()


@bot.conversation
async def subscribe(chat: Chat) -> None:
    chat.data[LISTENS] = True
    await chat.send("You will hear from me. /stop ends it.")


@bot.interrupt(command("stop"))
async def unsubscribe(chat: Chat) -> None:
    chat.data[LISTENS] = False
    await chat.send("Silence.")


async def tell_time(interval: float) -> None:
    while True:
        await trio.sleep(interval)
        async for chat_id, listens in bot.each(LISTENS):
            if listens:
                with suppress(ForbiddenError):  # left, or blocked the bot
                    # The door from outside: inside a conversation it would be chat.send.
                    await bot.to(chat_id).send(f"It is {datetime.now().astimezone():%H:%M:%S}.")


async def main(interval: float = 60) -> None:
    async with trio.open_nursery() as nursery:
        # Returns when the bot listens; from then on it lives until it is stopped.
        [address] = await nursery.start(bot.serve)
        print(f"The bot listens on {address}.")
        # Signals are the program's: without this the bot would end as if it had been killed.
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with trio.open_nursery() as tasks:
                tasks.start_soon(tell_time, interval)
                await anext(signals)
                tasks.cancel_scope.cancel()  # what asks the bot ends before it does
        bot.stop()


if __name__ == "__main__":
    trio.run(main)
