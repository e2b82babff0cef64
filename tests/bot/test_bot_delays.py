"""A slow stop logs the route and line that it waits for, after the grace period and every ten seconds."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
import trio
import trio.testing

from tests.bot.rig import Chats, make_bot, say
from tests.loopback import PATIENCE
from triobot import Bot, Chat
from triobot.base.alarm_kinds import Alarm
from triobot.runtime import watchdog

HERE = Path(__file__).name
Holds: TypeAlias = Callable[[Bot, "Lines"], str]


class Lines(logging.Handler):
    """The lines about stops that are held up by code of this file; it goes on after the second."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.enough = trio.Event()
        self.enough_for_threads = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        place = re.search(rf"the stop has lasted .*{re.escape(HERE)}:(\d+)", line)
        if place and "holds it up" in Path(__file__).read_text().splitlines()[int(place[1]) - 1]:
            self.said.append(line)
        if len(self.said) == 2:
            self.enough.set()
            self.enough_for_threads.set()


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    monkeypatch.setattr(watchdog, "STILL_AFTER", 0.01)
    monkeypatch.setattr(watchdog, "DELAY", 0.01)
    handler, logger = Lines(), logging.getLogger("triobot.watchdog")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


async def hold_up(lines: Lines) -> None:
    """Clean up for long."""
    with trio.CancelScope(shield=True):
        await lines.enough.wait()  # holds it up


def cleanup(bot: Bot, lines: Lines) -> str:
    @bot.conversation
    async def pizza(chat: Chat) -> None:
        try:
            await chat.ask("Size?")
        finally:
            await hold_up(lines)

    return "route test_bot_delays.cleanup.<locals>.pizza"


def computing(bot: Bot, lines: Lines) -> str:
    """The loop has no turn meanwhile."""

    @bot.conversation
    async def pizza(chat: Chat) -> None:
        try:
            await chat.ask("Size?")
        finally:
            lines.enough_for_threads.wait(PATIENCE)  # holds it up

    return "route test_bot_delays.computing.<locals>.pizza"


def branch(bot: Bot, lines: Lines) -> str:
    async def child(chat: Chat) -> None:
        try:
            await chat.sleep(1_000)
        finally:
            await hold_up(lines)

    @bot.conversation
    async def pizza(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(child, chat)
            await chat.ask("Size?")

    return "route test_bot_delays.branch.<locals>.pizza"


def step(bot: Bot, lines: Lines) -> str:
    @bot.conversation
    async def pizza(chat: Chat) -> None:
        async def bake() -> None:
            await trio.to_thread.run_sync(lines.enough_for_threads.wait, PATIENCE)  # holds it up

        await chat.step(bake)

    return "route test_bot_delays.step.<locals>.pizza"


def childless(bot: Bot, lines: Lines) -> str:
    """Its children run none of the bot's code, as those of a child process."""

    @bot.conversation
    async def pizza(chat: Chat) -> None:
        async def bake() -> None:
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:  # holds it up
                    nursery.start_soon(lines.enough.wait)

        await chat.step(bake)

    return "route test_bot_delays.childless.<locals>.pizza"


def background(bot: Bot, lines: Lines) -> str:
    @bot.conversation
    async def pizza(chat: Chat) -> None: ...

    @bot.background
    async def refresh() -> None:
        try:
            await trio.sleep_forever()
        finally:
            await hold_up(lines)

    return "refresh"


def resource(bot: Bot, lines: Lines) -> str:
    @bot.conversation
    async def pizza(chat: Chat) -> None: ...

    @bot.resource
    @asynccontextmanager
    async def pool() -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await hold_up(lines)

    return "pool"


def on_error(bot: Bot, lines: Lines) -> str:
    @bot.conversation
    async def pizza(chat: Chat) -> None:
        raise ValueError

    @bot.on_error
    async def tell(failure: object) -> None:
        await hold_up(lines)

    return "tell"


def on_alarm(bot: Bot, lines: Lines) -> str:
    @bot.conversation
    async def pizza(chat: Chat) -> None:
        raise ValueError

    @bot.on_alarm
    async def tell(alarm: Alarm) -> None:
        await hold_up(lines)

    return "tell"


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(
    "holds",
    [cleanup, computing, branch, step, childless, background, resource, on_error, on_alarm],
    ids=lambda one: one.__name__,
)
async def test_what_holds_a_stop_up_is_named(holds: Holds, at_once: bool, lines: Lines) -> None:
    """Who is told to stop at once is named, too."""
    bot = make_bot(Chats(), grace=0)
    who = holds(bot, lines)
    with trio.CancelScope() as scope:
        async with bot.running() as intake:
            await say(intake, 7, "hello")
            await trio.testing.wait_all_tasks_blocked()
            if at_once:
                scope.cancel()
    assert len(lines.said) >= 2
    for said in lines.said[:2]:
        assert re.search(rf"waits for .*{re.escape(who)}.* at .*{HERE}:\d+", said), said


async def test_many_who_wait_in_one_line_are_named_once(lines: Lines) -> None:
    bot = make_bot(Chats(), grace=0)
    who = cleanup(bot, lines)
    async with bot.running() as intake:
        for chat in (7, 8, 9):
            await say(intake, chat, "hello")
        await trio.testing.wait_all_tasks_blocked()
    assert lines.said[0].count(who) == 1


async def test_a_stop_in_time_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Nor one whose conversations rest."""
    bot = make_bot(Chats())

    @bot.conversation
    async def pizza(chat: Chat) -> None:
        await chat.ask("Size?")

    async with bot.running() as intake:
        await say(intake, 7, "hello")
        await trio.testing.wait_all_tasks_blocked()
    assert "the stop has lasted" not in caplog.text
