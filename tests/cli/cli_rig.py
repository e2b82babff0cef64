"""What the tests of the command line share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

import triobot

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


def child_environment(**more: str) -> Mapping[str, str]:
    """For a real process: no settings but `more`, and the package as it is here, installed or not."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRIOBOT_", "LISTEN_"))}
    return {**kept, "PYTHONPATH": str(Path(triobot.__file__).parents[1]), **more}
