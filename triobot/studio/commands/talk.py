"""``triobot talk``: talk to the bot in the terminal as its user; nothing to set up."""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Final, TextIO, cast, final

import trio
from trio.testing import wait_all_tasks_blocked

from ...cli.loading import load_bot
from ...cli.terminal import harmless, is_terminal, set_up_logging, until_signal
from ...emulator.person import App, AppError, Person, connect
from ...emulator.server import Emulator
from ...errors import ConfigError
from ...runtime.bot import Bot
from ...wire.content import File, Image
from ...wire.ids import ChatId
from .transcript import Transcript, open_stage

_KEYS: Final = """\
  text            say it; a button's label presses that button
  !submit a=1 b="2 3"
                  fill in the form and send it
  !pay [CODE]     pay; with a code such as 1000 the payment fails that way
  !contact        share your number       !location   share where you are
  !file PATH      send a file             !image PATH send a picture
  !leave, !join   leave, come back        !quit       end (so does the end of the input)
  !as NAME        be somebody else        !group NAME ALI MINA   make a group, and go there
  !in NAME        go to a group           !in         go back to the private chat"""

DETAILS: Final = f"""\
Starts the emulated platform and the bot on it, with a store in memory. You talk to the bot as its user.
TRIOBOT_* variables are not read.

what you may type:
{_KEYS}

examples:
  triobot talk pizza.py:bot
  echo hello | triobot talk pizza.py:bot
"""

_WALLET: Final = 10_000_000
_YOU: Final = "You"
# Seconds to wait before the next input line is read. Lines from a pipe must not overtake the bot's answers.
# So such a line is read only once all tasks have been blocked for `_AT_REST` seconds. After `_LONGEST`
# seconds, the line is read in any case: a bot may have a task that never blocks.
_UNHURRIED: Final = 0.3
_AT_REST: Final = 0.05
_LONGEST: Final = 10.0


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bot", metavar="MODULE:BOT", help="the bot, such as pizza:bot or path/pizza.py:bot")


def run(arguments: argparse.Namespace) -> None:
    """Run the bot on a new platform until the input ends."""
    set_up_logging(debug=arguments.debug, level=logging.WARNING, brief=True)
    bot = load_bot(arguments.bot)
    if trio.run(until_signal, partial(_talk, bot)):
        raise KeyboardInterrupt


@final
class _Company:
    """The people that the terminal's user can play, and their chats.

    Attributes:
        names, places: names of people and chats, by id.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._people: dict[str, Person] = {}
        self._groups: dict[str, ChatId] = {}
        self._who = ""
        self._where = ""
        self.names: dict[int, str] = {}
        self.places: dict[int, str] = {}

    @property
    def prompt(self) -> str:
        """Prompt with the current person, and the group if there is one."""
        return f"{self._who} in {self._where}> " if self._where else f"{self._who}> "

    @property
    def present(self) -> Person:
        """The current person, in the current chat."""
        person = self._people[self._who]
        return person.at(self._groups[self._where]) if self._where else person

    async def be(self, name: str) -> None:
        """Switch to the person `name` in the private chat; create the person if needed."""
        await self._known(name)
        self._who, self._where = name, ""

    async def gather(self, name: str, members: Sequence[str]) -> None:
        """Create a group of these people, and switch to the group.

        Raises:
            ConfigError: `members` is empty, or `name` is taken.
        """
        if not members or name in self._groups:
            raise ConfigError("!group takes a new name, and the people in it: !group team Ali Mina")
        people = [await self._known(member) for member in members]
        self._groups[name] = group = await self._app.group(name, *people)
        self.places[group] = name
        self._who = self._who if self._who in members else members[0]
        self._where = name

    def go(self, name: str) -> None:
        """Switch to a group; an empty name switches to the private chat.

        Raises:
            ConfigError: there is no such group.
        """
        if name and name not in self._groups:
            raise ConfigError(f"there is no group {name}; !group {name} ALI MINA makes one")
        self._where = name

    async def _known(self, name: str) -> Person:
        if (person := self._people.get(name)) is None:
            person = await self._app.user(name, irr=_WALLET)
            self._people[name], self.names[person.id] = person, name
            self.places[person.chat_id] = name
            await person.joins()
        return person


async def _talk(bot: Bot) -> None:
    async with open_stage(bot, store="memory:") as stage:
        platform = stage.platform
        print(f"{_KEYS}\n")
        async with (
            trio.open_nursery() as nursery,
            connect(platform.control_url, platform.control_token) as app,
        ):
            company = _Company(app)
            transcript = Transcript(platform, _YOU, _show, names=company.names, places=company.places)
            nursery.start_soon(transcript.follow)
            await company.be(_YOU)
            await _answered(platform)
            while (line := await _read(company.prompt)) is not None:
                if line.strip() == "!quit":
                    break
                try:
                    await _act(company, line.strip())
                except (AppError, ConfigError) as error:
                    _show(f"  ! {harmless(str(error))}")
                await _answered(platform)
            nursery.cancel_scope.cancel()


def _show(line: str) -> None:
    print(line, flush=True)


async def _read(prompt: str) -> str | None:
    """Return the next input line without its line end; None after the last line."""
    stdin = cast("TextIO | None", sys.stdin)
    if stdin is None:  # standard input was closed before this process started
        await trio.lowlevel.checkpoint()
        return None
    if is_terminal(sys.stdin):
        print(prompt, end="", flush=True)
    # Read without a buffer: a blocked reader would hold the buffer's lock, which the interpreter needs at
    # exit.
    unbuffered = cast("RawIOBase", cast("BufferedReader", stdin.buffer).raw)
    line = await trio.to_thread.run_sync(unbuffered.readline, abandon_on_cancel=True)
    # An invalid byte is replaced, and the rest of the line is kept.
    return line.decode(stdin.encoding, "replace").rstrip("\r\n") if line else None


async def _answered(platform: Emulator) -> None:
    """Wait briefly; without a terminal, until the bot has taken all events and all tasks are blocked."""
    await trio.sleep(_UNHURRIED)
    if is_terminal(sys.stdin):
        return
    with trio.move_on_after(_LONGEST):
        await platform.exchange.pusher.wait_idle()
        await wait_all_tasks_blocked(_AT_REST)


async def _act(company: _Company, line: str) -> None:
    verb, _, rest = line.partition(" ")
    person = company.present
    match verb:
        case "":
            pass
        case "!as" if rest:
            await company.be(rest)
        case "!group":
            name, *members = rest.split() or [""]
            await company.gather(name, members)
        case "!in":
            company.go(rest)
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
