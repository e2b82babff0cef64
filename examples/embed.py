"""A Trio program with tasks of its own and a bot inside: the program sends the time to all subscribers.

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
                with suppress(ForbiddenError):  # the person left, or blocked the bot
                    # Code outside of conversations sends with `bot.to`, conversations with `chat.send`.
                    await bot.to(chat_id).send(f"It is {datetime.now().astimezone():%H:%M:%S}.")


async def main(interval: float = 60) -> None:
    async with trio.open_nursery() as nursery:
        # `start` returns when the bot listens. From then on, the bot runs until `bot.stop`.
        [address] = await nursery.start(bot.serve)
        print(f"The bot listens on {address}.")
        # The program handles the signals. Otherwise, a signal would end the bot like a kill.
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with trio.open_nursery() as tasks:
                tasks.start_soon(tell_time, interval)
                await anext(signals)
                tasks.cancel_scope.cancel()  # tasks that use the bot end before the bot
        bot.stop()


if __name__ == "__main__":
    trio.run(main)
