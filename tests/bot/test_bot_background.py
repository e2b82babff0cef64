"""Background tasks: they run only while the bot's methods work, and their errors stop the bot."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from tests.bot.rig import Chats, make_bot, say
from triobot import Bot, Chat
from triobot.errors import ConfigError
from triobot.testing import drive


def quiet_bot(chats: Chats) -> Bot:
    """Make a bot that only takes what people say."""
    bot = make_bot(chats)

    @bot.conversation
    async def quiet(chat: Chat) -> None: ...

    return bot


async def test_a_background_task_uses_the_bots_doors_from_its_first_line_to_its_last() -> None:
    """What it says while it is cancelled still leaves, and its resources are open until it has ended."""
    chats, done = Chats(), list[str]()
    bot = quiet_bot(chats)

    @bot.resource
    @asynccontextmanager
    async def kitchen() -> AsyncGenerator[str]:
        done.append("opened")
        yield "kitchen"
        done.append("closed")

    @bot.background
    async def tell() -> None:
        await bot.to(7).send(f"The {bot.use(kitchen)} opens.")
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await bot.to(7).send(f"The {bot.use(kitchen)} closes.")
                done.append("ended")

    for number in (1, 2):
        async with bot.running():
            await chats.wait_for(
                7, *["The kitchen opens.", "The kitchen closes."] * (number - 1), "The kitchen opens."
            )
        assert done == ["opened", "ended", "closed"] * number
        assert chats.texts[7][-1] == "The kitchen closes."


async def test_it_may_end() -> None:
    chats = Chats()
    bot = make_bot(chats)

    @bot.background
    async def once() -> None:
        await bot.to(7).send("Started.")

    @bot.conversation
    async def echo(chat: Chat) -> None:
        await chat.send("Yes?")

    async with bot.running() as intake:
        await chats.wait_for(7, "Started.")
        await say(intake, 8, "hello")
        await chats.wait_for(8, "Yes?")


async def test_its_error_stops_the_bot() -> None:
    """With that error: a bot that goes on without its other half is noticed too late."""
    bot = quiet_bot(Chats())

    @bot.background
    async def fails() -> None:
        raise LookupError("no such queue")

    with pytest.raises(ExceptionGroup) as failed:
        async with bot.running():
            await trio.sleep_forever()
    assert failed.group_contains(LookupError, match="no such queue")


async def test_messages_of_others_become_signals(autojump_clock: object) -> None:
    """In virtual time too, and anew after each crash."""
    bot, starts = Bot(), list[int]()

    @bot.background
    async def ticking() -> None:
        starts.append(len(starts))
        while True:
            await trio.sleep(60)
            await bot.to(13_601).start(told, starts[-1], key=f"start {starts[-1]}")

    @bot.aside
    async def told(chat: Chat, number: int) -> None:
        await chat.send(f"run {number}")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("run 0", within=61)
        await world.crashes()
        await ali.sees("run 1", within=61)
        await world.restarts()
        await ali.sees("run 2", within=61)


def plain() -> None: ...


async def with_argument(chat: Chat) -> None: ...


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (lambda: plain, "async"),
        (lambda: with_argument, "without arguments"),
        (lambda: 3, "decorates an async function, not 3"),
    ],
)
def test_something_else_is_refused(given: Callable[[], object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make_bot(Chats()).background(given())  # type: ignore[type-var]
