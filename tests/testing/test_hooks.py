"""Hooks: the outer part of every route's coroutine, which replays as the rest does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeAlias

import pytest
import trio

from triobot import Bot, Chat, Key, Room, Router
from triobot.conversations.routes.router import table_of
from triobot.errors import ConfigError
from triobot.filters import command, signal, text
from triobot.testing import drive

Call: TypeAlias = Callable[[], Awaitable[None]]

CLOSED = Key("closed", bool, default=False)
FLAG: ContextVar[str] = ContextVar("FLAG")


async def test_hooks_are_around_all_routes_the_bots_outermost(autojump_clock: object) -> None:
    """In the order of lines, whether they stand before or behind the routes."""
    bot, admin, inner = Bot(), Router(), Router()
    told = list[str]()

    def hook(router: Router, name: str) -> None:
        async def around(room: Room, call: Call) -> None:
            told.append(f"<{name}")
            await call()
            told.append(f"{name}>")

        around.__qualname__ = name
        router.around(around)

    @inner.aside(command("aside"))
    async def aside(chat: Chat) -> None:
        told.append("aside")

    @admin.interrupt(command("interrupt"))
    async def interrupt(chat: Chat) -> None:
        told.append("interrupt")

    for name in ("i1", "i2"):
        hook(inner, name)
    hook(admin, "a")
    admin.include(inner)
    bot.include(admin)

    @bot.conversation(text("talk"))
    async def talk(chat: Chat) -> None:
        await sub(chat)

    @bot.conversation
    async def sub(chat: Chat) -> None:
        told.append("talk")

    for name in ("b1", "b2"):
        hook(bot, name)

    async with drive(bot, replay_check=False) as world:
        sara = world.user("Sara")
        await sara.joins()
        await world.waits(seconds=1)
        for said in ("talk", "/interrupt", "/aside"):
            told.clear()
            await sara.says(said)
            await world.waits(seconds=1)
            route = said.removeprefix("/")
            within = {"talk": [], "interrupt": ["a"], "aside": ["a", "i1", "i2"]}[route]
            hooks = ["b1", "b2", *within]
            assert told == [*(f"<{one}" for one in hooks), route, *(f"{one}>" for one in reversed(hooks))]


async def test_what_a_hook_sets_is_there_again_after_a_restart(autojump_clock: object) -> None:
    """In the handler, its child, its step; and what it asked the world for is asked for once."""
    bot, fetched = Bot(), list[str]()

    async def feature() -> str:
        await trio.lowlevel.checkpoint()
        fetched.append("flag")
        return "new"

    async def read() -> str:
        await trio.lowlevel.checkpoint()
        return FLAG.get()

    @bot.around
    async def flags(room: Room, call: Call) -> None:
        FLAG.set(await room.step(feature))
        await call()
        assert isinstance(room, Chat)
        await room.send("Bye.")

    @bot.conversation
    async def talk(chat: Chat) -> None:
        await chat.send(f"a {FLAG.get()}")
        name = await chat.ask("?")
        async with chat.open_nursery() as nursery:

            async def child() -> None:
                await chat.send(f"child {FLAG.get()} {await chat.step(read)}")

            nursery.start_soon(child)
        await chat.send(f"b {name}")

    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("?")
        await world.waits(seconds=1)
        await world.crashes()
        await sara.says("Sara")
        await sara.sees("Bye.")
        await world.waits(seconds=1)
        await world.crashes()
        await world.waits(seconds=70)
        assert [seen.text for seen in await sara.history()] == [
            "a new",
            "?",
            "Sara",
            "child new new",
            "b Sara",
            "Bye.",
        ]
        assert fetched == ["flag"]


async def test_a_hook_that_does_not_call_declines(autojump_clock: object) -> None:
    bot, ran = Bot(), list[str]()

    @bot.around
    async def closed(room: Room, call: Call) -> None:
        if room.data[CLOSED]:
            assert isinstance(room, Chat)
            await room.send("Back at nine.")
            return
        await call()

    @bot.conversation(text("hi"))
    async def talk(chat: Chat) -> None:
        ran.append("talk")
        chat.data[CLOSED] = True

    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("hi")
        await world.waits(seconds=1)
        assert ran
        ran.clear()
        await sara.says("hi")
        await sara.sees("Back at nine.")
        assert not ran


@pytest.mark.parametrize("how", ["twice", "in a child", "in a step", "not awaited"])
async def test_what_is_within_runs_once_and_in_the_hook_itself(autojump_clock: object, how: str) -> None:
    bot = Bot()

    @bot.around
    async def wrong(room: Room, call: Call) -> None:
        if how == "twice":
            await call()
            await call()
        elif how == "not awaited":
            call()  # type: ignore[unused-coroutine]
        elif how == "in a step":
            await room.step(call)
        else:
            async with room.open_nursery() as nursery:
                nursery.start_soon(call)

    @bot.conversation
    async def talk(chat: Chat) -> None:
        await chat.send("Hello!")

    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await world.waits(seconds=1)
        [alarm] = world.alarms
        words = {
            "twice": "call() twice",
            "in a child": "in the hook itself",
            "in a step": "inside a step",
            "not awaited": "call() is not awaited",
        }
        assert words[how] in alarm.text
        assert "test_hooks.py:" in alarm.text
        world.alarms.clear()


async def test_errors_pass_and_a_hook_may_say_its_own_words(autojump_clock: object) -> None:
    bot = Bot()

    @bot.around
    async def words(room: Room, call: Call) -> None:
        try:
            await call()
        except LookupError:
            assert isinstance(room, Chat)
            await room.send("Not found.")

    @bot.conversation
    async def talk(chat: Chat) -> None:
        raise KeyError(await chat.ask("What?"))

    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("What?")
        await sara.says("that")
        await sara.sees("Not found.")


async def test_a_block_of_a_hook_ends_the_talk(autojump_clock: object) -> None:
    bot = Bot()

    @bot.around
    async def limit(room: Room, call: Call) -> None:
        with room.move_on_after(3600) as limit:
            await call()
        if limit.cancelled_caught:
            assert isinstance(room, Chat)
            await room.send("Too late.")

    @bot.conversation
    async def talk(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(chat.ask, "One?")
            await chat.ask("Two?")

    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("Two?")
        await world.crashes()
        await world.waits(seconds=3590)
        assert await sara.history()
        await world.waits(seconds=20)
        await sara.sees("Too late.")


async def test_hooks_are_around_rooms_too(autojump_clock: object) -> None:
    """And around what goes on by `continue_as`, anew."""
    bot, told = Bot(), list[str]()

    @bot.around
    async def around(room: Room, call: Call) -> None:
        told.append(f"<{room.route}")
        await call()
        told.append(">")

    @bot.room(signal(str), name="match")
    async def match(room: Room[str]) -> None:
        told.append(room.event)
        if await room.receive(signal(str)) == "again":
            await room.continue_as(match)

    async with drive(bot, replay_check=False) as world:
        for word in ("one", "again", "end"):
            await bot.to(match, 7).signal(word)
            await world.waits(seconds=1)
    assert told == ["<match", "one", "<match", "one", ">"]


def test_hooks_that_make_no_sense_are_refused_at_their_line() -> None:
    bot, admin = Bot(), Router()

    async def around(room: Room, call: Call) -> None:
        await call()

    bot.around(around)
    with pytest.raises(ConfigError, match="two hooks around the same routes"):
        bot.around(around)
    with pytest.raises(ConfigError, match="an async function"):
        bot.around(lambda chat, call: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match="two arguments, a room and call"):
        bot.around(trio.sleep)  # type: ignore[arg-type]

    @admin.aside(command("ban"))
    async def ban(chat: Chat) -> None: ...

    admin.around(around)
    fresh = Bot()
    fresh.around(around)
    fresh.include(admin)
    with pytest.raises(ConfigError, match="two hooks around the same routes"):
        table_of(fresh)
