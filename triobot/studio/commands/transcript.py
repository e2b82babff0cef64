"""Prints a conversation in the terminal as the app shows it; also runs the platform and the bot."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, final

import trio

from ...base.frozen import guarded
from ...base.secrets import Secret
from ...cli.terminal import harmless, is_terminal
from ...emulator.chats import ChatMessage, Edited, Shown, TypingSeen
from ...emulator.server import Emulator, serve_emulator
from ...emulator.telling import line_words
from ...runtime.bot import Bot
from ...runtime.settings import Settings
from ...wire.content import Contact, Content, Location, Media
from ...wire.forms import Checkbox, Form, Submit
from ...wire.ids import ChatId
from ...wire.markup import InlineKeyboard, PayButton

_MARGIN: Final = " " * 10


@final
class Transcript:
    """Writes the platform's changes as lines of text.

    Args:
        platform: the platform to watch.
        person: name of the user who talks to the bot.
        write: called with each line.
        names: names of other people by id, if several people talk to the bot.
        places: names of the chats by id, if there are several chats.
    """

    def __init__(
        self,
        platform: Emulator,
        person: str,
        write: Callable[[str], None],
        *,
        names: Mapping[int, str] | None = None,
        places: Mapping[int, str] | None = None,
    ) -> None:
        self._exchange = platform.exchange
        self._person = person
        self._write = write
        self._names: Mapping[int, str] = {} if names is None else names
        self._places: Mapping[int, str] = {} if places is None else places
        self._colours = is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")
        self._seen = 0

    async def follow(self) -> None:
        """Until cancelled, write each change as it happens."""
        while True:
            self.catch_up()
            await self._exchange.wait_change(self._seen)

    def catch_up(self) -> None:
        """Write the changes since the last written change."""
        for change in self._exchange.world.changes(self._seen):
            self._seen = change.seq
            match change.what:
                case Shown(chat_id=chat_id, entry=entry):
                    self._show(chat_id, entry)
                case Edited(chat_id=chat_id, entry=entry, anew=anew) if anew or entry.inline_keyboard:
                    self._show(chat_id, entry, "(edited) ")
                case TypingSeen():
                    self._line("", "(typing...)", dim=True)
                case _:
                    if change.after is not None:
                        self._line("", f"({harmless(line_words(self._exchange.world, change))})", dim=True)

    def act(self, what: str) -> None:
        """Write a line for the user's act `what`, for which the chat shows no message."""
        self.catch_up()
        self._line(self._person, f"[{what}]", dim=True)

    def fact(self, what: str) -> None:
        """Write a line for the checked fact `what`."""
        self.catch_up()
        self._write(f"  {self._painted('32', 'true:')} {harmless(what)}")

    def _show(self, chat_id: ChatId, entry: ChatMessage, how: str = "") -> None:
        who = "bot" if entry.author is None else self._names.get(entry.author, self._person)
        place = f"[{self._places[chat_id]}] " if len(self._places) > 1 and chat_id in self._places else ""
        for number, line in enumerate(f"{place}{how}{_text_of(entry.content)}".split("\n")):
            self._line(who if number == 0 else "", harmless(line))
        if entry.inline_keyboard is not None:
            for row in _rows(entry.inline_keyboard):
                self._line("", harmless(row))
        if entry.reply_keyboard is not None:
            for keys in entry.reply_keyboard.rows:
                self._line("", harmless(" ".join(f"( {key.label} )" for key in keys)))
        if entry.form is not None:
            for row in _fields(entry.form):
                self._line("", harmless(row))

    def _line(self, who: str, text: str, *, dim: bool = False) -> None:
        name = f"{harmless(who):>{len(_MARGIN) - 3}} {':' if who else ' '} "
        painted = self._painted("36" if who == "bot" else "1", name) if who else name
        self._write(painted + (self._painted("2", text) if dim else text))

    def _painted(self, colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colours else text


def _text_of(content: Content) -> str:
    match content:
        case str():
            return content
        case Location():
            return f"<location {content.lat}, {content.long}>"
        case Contact():
            return f"<contact {content.name}>"
        case Media():
            caption = f" {content.caption}" if content.caption else ""
            return f"<{content.kind} {content.filename}, {content.filesize:,} bytes>{caption}"


def _rows(keyboard: InlineKeyboard) -> list[str]:
    return [
        " ".join(
            f"[ {button.text}: {button.amount:,} ]" if isinstance(button, PayButton) else f"[ {button.text} ]"
            for button in row
        )
        for row in keyboard.rows
    ]


def _fields(form: Form) -> list[str]:
    rows: list[str] = []
    for field in form.fields:
        match field:
            case Submit():
                rows.append(f"[ {field.label} ]")
            case Checkbox():
                rows.append(f"[ ] {field.label}")
            case _:
                rows.append(f"{field.label}: ________")
    return rows


@final
@guarded
class Stage:
    """The running platform and bot.

    Attributes:
        platform: the emulator.
        address: the bot's address, without the secret.
    """

    platform: Emulator
    address: str


@asynccontextmanager
async def open_stage(bot: Bot, *, store: str, port: int = 0) -> AsyncGenerator[Stage]:
    """Run a platform and a bot on it while the block runs. No environment variable is read.

    Args:
        store: the bot's store.
        port: the platform's port; 0 for a free one.
    """
    token, secret = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    # Platform and bot need each other's address at the start, so the bot's port is opened first.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with trio.open_nursery() as platforms:
            platform: Emulator = await platforms.start(
                partial(
                    serve_emulator,
                    port=port,
                    bot_url=f"{address}/{secret}",
                    token=token,
                    control_token=secrets.token_urlsafe(24),
                )
            )
            settings = Settings(
                token=Secret(token),
                base_url=platform.base_url,
                webhook_secret=Secret(secret),
                store=store,
                development=True,
                log_tracebacks=True,
                fd=listening.detach(),
            )
            async with trio.open_nursery() as bots:
                await bots.start(partial(bot.serve, settings=settings))
                yield Stage(platform, address)
                bot.stop()
            platforms.cancel_scope.cancel()
