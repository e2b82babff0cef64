"""triobot: an echo, by a conversation for each message, by one that goes on, or by one that asks; or silence.

What "nobody" takes is stored, answered and dropped: the way in alone.
"""

import sys

from triobot import Bot, Chat, Settings
from triobot.base.secrets import Secret
from triobot.filters import command, text

port, platform, secret, token, kind, store = sys.argv[1:]
bot = Bot(
    settings=Settings(
        token=Secret(token), base_url=platform, store=store, port=int(port), webhook_secret=Secret(secret)
    )
)


async def echo(chat: Chat) -> None:
    await chat.send(chat.event.content)


async def echoing(chat: Chat) -> None:
    await chat.send(chat.event.content)
    while True:
        message = await chat.receive(text())
        await chat.send(message.content)


async def asking(chat: Chat) -> None:
    text = chat.event.content
    while True:
        text = await chat.ask(text)


async def silent(chat: Chat) -> None:
    pass


if kind == "nobody":
    bot.conversation(command("never"))(silent)
else:
    bot.conversation({"new": echo, "one": echoing, "ask": asking, "silent": silent}[kind])
bot.run()
