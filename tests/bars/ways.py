"""The ways of an event through the bot: the code that runs from the event's request to its last write.

A bot listens on a socket, stores into an SQLite file and talks to the emulated platform, which is in the same
process and not counted. Before the recording, another chat goes through the first steps of each way. Several
chats then take each way, since a larger write or a new connection adds one or two modules.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from triobot import Bot, Chat, Paid, Settings
from triobot.base.secrets import Secret
from triobot.emulator.person import App, Person, connect
from triobot.emulator.server import Emulator, serve_emulator
from triobot.filters import paid

from .recording import Recorder, Way

TITLES: Final = {
    "start": "A first event starts a conversation, which asks",
    "answer": "An answer, and the next question",
    "timeout": "A timeout fires, and two sends follow",
    "charge": "An answer, then a charge's button",
    "money": "The money: a callback, the verification, the goods, and on",
    "restart": "After a restart: an answer brings the conversation back, and goes on to a charge",
}
"""Each way by its name."""

QUICK: Final = ("start", "answer", "restart")
"""Those that wait for no timeout and take no money."""

_PATIENCE: Final = 120.0
_BLOCK_SECONDS: Final = 3.0

bot: Bot = Bot()


@bot.conversation
async def talk(chat: Chat) -> None:
    """Meet each way once."""
    name = await chat.ask("Your name?")
    with chat.move_on_after(_BLOCK_SECONDS if name.startswith("Slow") else 3600) as limit:
        await chat.ask(f"{name}, how old?")
    await chat.send("late" if limit.cancelled_caught else "fine")
    await chat.ask("Go on?")
    await chat.charge(1000, "Tea", item="tea", late="refund")


@bot.aside(paid(str))
async def deliver(chat: Chat[Paid[str]]) -> None:
    """Give what was bought."""
    await chat.send(f"Tea for {chat.event.item}.")


@attrs.frozen
class Stage:
    """A platform with people, and all that a bot needs to meet them."""

    platform: Emulator
    app: App
    settings: Settings
    listening: socket.socket
    recorder: Recorder

    async def person(self, name: str) -> Person:
        """Let somebody have the app."""
        return await self.app.user(name, irr=100_000)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run the bot; the platform's connections to it wait in the backlog meanwhile."""
        settings = attrs.evolve(self.settings, fd=os.dup(self.listening.fileno()))
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(bot.serve, settings=settings))
            yield
            bot.stop()


def record(names: Sequence[str] = tuple(TITLES), *, runs: int = 1) -> dict[str, list[Way]]:
    """Take ways, each as often as is asked for.

    It profiles this process from here on, so it is for a process of its own.
    """
    logging.basicConfig(level=logging.ERROR)
    recorder = Recorder()
    recorder.install()
    return trio.run(_record, recorder, names, runs, clock=recorder.clock)


async def _record(recorder: Recorder, names: Sequence[str], runs: int) -> dict[str, list[Way]]:
    found: dict[str, list[Way]] = {name: [] for name in names}
    async with _stage(recorder) as stage:
        people = [await stage.person(f"Restarted {number}") for number in range(runs)]
        before = [await stage.person(f"Before {number}") for number in range(runs)]
        async with stage.running():
            for person in (*people, *before) if "restart" in names else before[:1]:
                await _to_the_last_question(person)
            await recorder.learn_idling()
            for number in range(runs):
                await _go_ways(stage, await stage.person(f"Slow {number}"), found)
        if "restart" in names:
            for person, first in zip(people, before, strict=True):
                async with stage.running():
                    await first.says("yes")
                    await first.sees("Tea", within=_PATIENCE)
                    recorder.begin(timed=True)
                    await recorder.wait_quiet()  # a start's work for other chats isn't counted
                    recorder.begin()
                    await person.says("yes")
                    await person.sees("Tea", within=_PATIENCE)
                    found["restart"].append(await recorder.end())
    return found


async def _to_the_last_question(person: Person) -> None:
    await person.joins()
    await person.sees("Your name?", within=_PATIENCE)
    await person.says("Ali")
    await person.sees("Ali, how old?", within=_PATIENCE)
    await person.says("4")
    await person.sees("Go on?", within=_PATIENCE)


async def _go_ways(stage: Stage, person: Person, found: dict[str, list[Way]]) -> None:
    recorder = stage.recorder

    async def taken(name: str) -> None:
        way = await recorder.end()
        if name in found:
            found[name].append(way)

    recorder.begin()
    await person.joins()
    await person.sees("Your name?", within=_PATIENCE)
    await taken("start")
    recorder.begin()
    await person.says("Slow")
    await person.sees("Slow, how old?", within=_PATIENCE)
    await taken("answer")
    if not {"timeout", "charge", "money"} & set(found):
        return
    recorder.begin(timed=True)
    await person.sees("late", within=_PATIENCE)
    await person.sees("Go on?", within=_PATIENCE)
    await taken("timeout")
    recorder.begin()
    await person.says("yes")
    await person.sees("Tea", within=_PATIENCE)
    await taken("charge")
    recorder.begin()
    await person.pays("Pay")
    await person.sees("Tea for tea.", within=_PATIENCE)
    await taken("money")


@asynccontextmanager
async def _stage(recorder: Recorder) -> AsyncGenerator[Stage]:
    token, secret = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as listening,
    ):
        port = listening.getsockname()[1]
        async with trio.open_nursery() as nursery:
            platform: Emulator = await nursery.start(
                partial(
                    serve_emulator,
                    port=0,
                    bot_url=f"http://127.0.0.1:{port}/{secret}",
                    token=token,
                    control_token=secrets.token_urlsafe(24),
                )
            )
            settings = Settings(
                token=Secret(token),
                base_url=platform.base_url,
                webhook_secret=Secret(secret),
                store=f"sqlite:{Path(folder) / 'bot.db'}",
                development=False,
            )
            async with connect(platform.control_url, platform.control_token) as app:
                yield Stage(platform, app, settings, listening, recorder)
            nursery.cancel_scope.cancel()
