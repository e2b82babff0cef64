"""triobot: an echo by a conversation for each message, on what others wrote: in, out or both.

What "nobody" takes comes in by them, is stored, answered and dropped.
"""

import sys

import httpx

from triobot import Bot, Chat, Settings
from triobot.base.secrets import Secret
from triobot.filters import command
from triobot.runtime.serve import run_together

port, platform, secret, token, lane, store = sys.argv[1:]
settings = Settings(
    token=Secret(token), base_url=platform, store=store, port=int(port), webhook_secret=Secret(secret)
)
transport = None
if lane not in ("in", "nobody"):
    # Without it twenty connections of 32 are kept, and the others are made anew for each request.
    transport = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_keepalive_connections=None))
bot = Bot(settings=settings, transport=transport)


async def echo(chat: Chat) -> None:
    await chat.send(chat.event.content)


bot.conversation(*([command("never")] if lane == "nobody" else []))(echo)
run_together([(bot, settings)], server="triobot" if lane == "out" else "hypercorn")
