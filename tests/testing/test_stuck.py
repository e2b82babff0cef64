"""A test that waits for what can't come fails, and says who waits where, rather than hang at full speed."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from triobot import Bot, Chat
from triobot.testing import drive, virtual


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's thread is waited for."""
    monkeypatch.setattr(virtual, "STUCK_AFTER", 0.0)


def bot_that_waits() -> Bot:
    """Its conversation waits in a step for what nobody does."""
    bot = Bot()

    @bot.conversation
    async def hangs(chat: Chat) -> None:
        await chat.ask("What?")
        await chat.step(never)

    return bot


async def never() -> None:
    await trio.Event().wait()  # the step


async def test_nothing_is_due(autojump_clock: object) -> None:
    """The test's own task is named, and the conversation's, each with its line and what it awaits."""
    with pytest.raises(AssertionError, match="every task waits, and nothing is due") as found:
        async with drive(bot_that_waits()) as world:
            ali = world.user("Ali")
            await ali.joins()
            await ali.says("x")
            await trio.Event().wait()  # the test
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    for mark in ("the step", "the test"):
        line = next(n for n, words in enumerate(lines, 1) if words.endswith(f"# {mark}"))
        assert re.search(rf"at {re.escape(__file__)}:{line} waits for Event.wait", str(found.value))
    assert "hangs at" in str(found.value)


async def test_what_is_due_or_in_a_thread_comes(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deadline in a year, a thread of Trio's, and for a while one of anybody's."""
    async with drive(bot_that_waits()) as world:
        await world.waits(days=365)
        await trio.to_thread.run_sync(time.sleep, 0.05)
        monkeypatch.setattr(virtual, "STUCK_AFTER", 30.0)
        came, token = trio.Event(), trio.lowlevel.current_trio_token()
        threading.Timer(0.05, token.run_sync_soon, [came.set]).start()
        await came.wait()


async def test_a_background_task_that_fails_before_the_bot_is_up(autojump_clock: object) -> None:
    """Its error is the test's."""
    bot = bot_that_waits()

    @bot.resource
    @asynccontextmanager
    async def pool() -> AsyncGenerator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            yield None

    async def fail() -> None:
        raise RuntimeError("the pool is down")

    with pytest.raises(RuntimeError, match="the pool is down"):
        async with drive(bot):
            pass
