"""A bot in this process, with a real store: SQLite with fsync, but no sockets. The platform answers at once.

So what is left is what the runtime itself does for an event: the store, the journal, the conversation, the
outbox, and the typed client above its transport.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import final
from urllib.parse import parse_qs

import attrs
import httpx
import trio

from tests.loopback import text_event
from triobot import Bot, Settings
from triobot.base.secrets import Secret
from triobot.runtime.bot import within
from triobot.runtime.work import Intake, Surroundings
from triobot.store import Stamp, open_sqlite
from triobot.webhook.inbox import EventStored

_FORM = "application/x-www-form-urlencoded"


@final
@attrs.define
class Clock:
    """The time of day, and what was added to it."""

    ahead: int = 0

    def now(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead


@final
class _Platform(httpx.AsyncBaseTransport):
    """Takes everything, and wakes whoever waits for something to be said in a chat."""

    def __init__(self) -> None:
        self.said = 0
        self.waiting: dict[int, trio.Event] = {}
        self.more = trio.lowlevel.ParkingLot()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await trio.lowlevel.checkpoint()
        form = parse_qs((await request.aread()).decode())
        self.said += 1
        chat = self.waiting.pop(int(form["chat_id"][0]), None)
        if chat is not None:
            chat.set()
        self.more.unpark_all()
        return httpx.Response(200, json={"id": self.said})


@final
@attrs.frozen
class Box:
    """A running bot and its people."""

    bot: Bot
    intake: Intake
    _platform: _Platform

    @property
    def said(self) -> int:
        """How much the bot has said."""
        return self._platform.said

    async def post(self, chat: int, text: str) -> None:
        """Bring a message, and wait until it is accepted."""
        outcome = await self.intake.inbox.accept(_FORM, text_event(chat, text))
        if not isinstance(outcome, EventStored):
            raise TypeError(f"a message was not accepted: {outcome!r}")
        self.intake.inbox.answered(outcome)

    async def say(self, chat: int, text: str) -> None:
        """Bring a message, and wait until the bot has said something to it."""
        heard = self._platform.waiting[chat] = trio.Event()
        await self.post(chat, text)
        await heard.wait()

    async def wait_said(self, whole: int) -> None:
        """Wait until the bot has said so much."""
        while self.said < whole:
            await self._platform.more.park()

    async def rest(self) -> None:
        """Wait until nothing is in hand."""
        work = self.intake.work
        assert work is not None
        while True:
            standing = work.statistics()
            if not standing.store.inbox and not standing.outbox.queued and not standing.outbox.in_flight:
                break
            await trio.sleep(0.01)
        await work.dispatcher.work.commits.wait_for()


@asynccontextmanager
async def open_box(bot: Bot, path: Path, *, clock: Clock | None = None) -> AsyncGenerator[Box]:
    """Run a bot on a store, for as long as the block runs."""
    wall, platform = clock or Clock(), _Platform()
    intakes: list[Intake] = []
    settings = Settings(
        token=Secret("123456:benchmark-token"),
        base_url="http://127.0.0.1:9",
        webhook_secret=Secret("benchmark-secret-0123456789abcdef"),
    )
    stamp = Stamp(settings.base_url, settings.checked_token.reveal())
    async with open_sqlite(path, stamp=stamp, clock=wall) as store:
        around = Surroundings(
            settings=settings,
            clock=wall,
            transport=platform,
            store=store,
            on_alarm=lambda alarm: print(alarm.kind, alarm.text),
            opened=intakes.append,
        )
        with within(bot, around):
            async with bot.running():
                yield Box(bot, intakes[0], platform)
