"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable

import attrs

BOT = """\
from triobot import Bot, Chat

bot = Bot()
other = "text"


@bot.conversation
async def hello(chat: Chat) -> None:
    await chat.send("Hello.")
"""


@attrs.frozen
class Ended:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]
