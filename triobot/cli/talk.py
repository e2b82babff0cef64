"""``triobot talk``: be the user of one's own bot, in the terminal; nothing to set up."""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Final

import trio

from ..bot import Bot
from ..emulator.person import AppError, Person, connect
from ..errors import ConfigError
from ..wire.content import File, Image
from .loading import load_bot
from .terminal import harmless, set_up_logging, until_signal
from .transcript import Transcript, open_stage

_KEYS: Final = """\
  text            say it; a button's label presses that button
  !submit a=1 b="2 3"
                  fill in the form and send it
  !pay [CODE]     pay; with a code such as 1000 the payment fails that way
  !contact        share your number       !location   share where you are
  !file PATH      send a file             !image PATH send a picture
  !leave, !join   leave, come back        !quit       end (so does the end of the input)"""

DETAILS: Final = f"""\
Starts the emulated platform and the bot on it, with a store in memory, and lets you talk to it as its user.
TRIOBOT_* variables are not read.

what you may type:
{_KEYS}

examples:
  triobot talk pizza.py:bot
  echo hello | triobot talk examples/echo.py:bot
"""

_WALLET: Final = 10_000_000
# What is typed ahead, as in a pipe, must not overtake the bot's answers by more than a person would.
_UNHURRIED: Final = 0.3


def declare(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument("bot", metavar="MODULE:BOT", help="the bot, such as pizza:bot or path/pizza.py:bot")


def run(arguments: argparse.Namespace) -> None:
    """Run the bot on a platform of its own until the input ends."""
    set_up_logging(debug=arguments.debug, level=logging.WARNING)
    bot = load_bot(arguments.bot)
    if trio.run(until_signal, partial(_talk, bot)):
        raise KeyboardInterrupt


async def _talk(bot: Bot) -> None:
    async with open_stage(bot, store="memory:") as stage:
        platform = stage.platform
        transcript = Transcript(platform, "you", partial(print, flush=True))
        print(f"{_KEYS}\n")
        async with (
            trio.open_nursery() as nursery,
            connect(platform.control_url, platform.control_token) as app,
        ):
            nursery.start_soon(transcript.follow)
            person = await app.user("You", irr=_WALLET)
            await person.joins()
            await trio.sleep(_UNHURRIED)
            while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
                if line.strip() == "!quit":
                    break
                try:
                    await _act(person, line.strip())
                except (AppError, ConfigError) as error:
                    print(f"  ! {harmless(str(error))}")
                await trio.sleep(_UNHURRIED)
            nursery.cancel_scope.cancel()


async def _act(person: Person, line: str) -> None:
    """Do what one line says."""
    verb, _, rest = line.partition(" ")
    match verb:
        case "":
            pass
        case "!submit":
            await person.submits(_values(rest), within=0)
        case "!pay":
            await person.pays(code=_number(rest) if rest else None, within=0)
        case "!contact":
            await person.shares_contact()
        case "!location":
            await person.shares_location()
        case "!file":
            await person.says(File.from_bytes(_bytes(rest), Path(rest).name))
        case "!image":
            await person.says(Image.from_bytes(_bytes(rest), Path(rest).name))
        case "!join":
            await person.joins()
        case "!leave":
            await person.leaves()
        case _ if verb.startswith("!"):
            raise ConfigError(f"nobody knows {verb}; see the list above")
        case _:
            try:
                await person.presses(line, within=0)
            except AppError:
                await person.says(line)


def _values(text: str) -> dict[str, str]:
    try:
        pairs = [pair.partition("=") for pair in shlex.split(text)]
    except ValueError as error:
        raise ConfigError(f"the fields can't be read: {error}") from None
    return {name: value for name, _, value in pairs}


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ConfigError("a payment's code is a number from 1000 to 1006")
    return int(text)


def _bytes(place: str) -> bytes:
    try:
        return Path(place).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"the file can't be read: {error.strerror}") from None
