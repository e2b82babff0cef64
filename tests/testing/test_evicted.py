"""Who leaves memory is still there for its user: nothing on the screen changes, and every button works."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest

from triobot import Bot, Buttons, Chat, Key, Paid
from triobot.emulator.person import Person
from triobot.filters import paid, text
from triobot.testing import drive
from triobot.wire.ids import ChatId

GIVEN = Key("given", int, default=0)


@attrs.frozen
class Details:
    """What a form asks for."""

    floor: int


@attrs.frozen
class Pizza:
    """What is sold."""

    size: int = 1


async def choose(chat: Chat[Any]) -> object:
    with chat.move_on_when(text("stop")):
        async with chat.typing():
            return await chat.choose("Size?", {"s": "Small"})


async def choose_twice(chat: Chat[Any]) -> object:
    async with chat.open_nursery() as nursery:
        nursery.start_soon(chat.choose, "Size?", {"s": "Small"})
        await chat.choose("Sauce?", {"r": "Red"})
        nursery.cancel()


async def show(chat: Chat[Any]) -> object:
    async with chat.live("Baking", buttons=Buttons({"no": "Stop"})):
        return await chat.receive(text())


async def fill(chat: Chat[Any]) -> object:
    return await chat.fill(Details, "Where to?")


async def charge(chat: Chat[Any]) -> object:
    return await chat.charge(1_000, "Pizza", item=Pizza(), options={"no": "No"}, late="refund")


CASES: dict[Callable[[Chat[Any]], Awaitable[object]], Callable[[Person], Awaitable[object]]] = {
    choose: lambda ali: ali.presses("Small"),
    choose_twice: lambda ali: ali.presses("Red"),
    show: lambda ali: ali.says("enough"),
    fill: lambda ali: ali.submits({"floor": "3"}),
    charge: lambda ali: ali.pays(),
}


@pytest.mark.parametrize("waits", CASES, ids=lambda waits: waits.__name__)
async def test_nothing_shows_that_a_chat_has_left_memory(
    autojump_clock: object, waits: Callable[[Chat[Any]], Awaitable[object]]
) -> None:
    bot = Bot()

    @bot.conversation
    async def talk(chat: Chat) -> None:
        await waits(chat)
        await chat.send("Done.")

    @bot.aside(paid(Pizza))
    async def deliver(chat: Chat[Paid[Pizza]]) -> None:
        chat.data[GIVEN] += 1

    async with drive(bot) as world:
        ali = world.user("Ali", wallet=10_000)
        await ali.joins()
        await world.waits(seconds=5)
        before = [(seen.text, seen.buttons, seen.form) for seen in await ali.history()]
        assert before
        assert bot._work is not None
        dispatcher = bot._work.dispatcher
        for _ in range(3):
            life = dispatcher.chats.actors.get(ChatId(ali.chat_id))
            assert life is not None
            dispatcher.chats.evict(life)
            await world.waits(seconds=5)
            assert [(seen.text, seen.buttons, seen.form) for seen in await ali.history()] == before
            dispatcher.chats.recall(ChatId(ali.chat_id))
            await world.waits(seconds=5)
        await CASES[waits](ali)
        await ali.sees("Done.")


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_stop_from_outside_reaches_a_run_out_of_memory(
    autojump_clock: object, restarts: bool
) -> None:
    bot = Bot()

    @bot.conversation
    async def talk(chat: Chat) -> None:
        await chat.ask("Well?")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Well?")
        if restarts:
            await world.restarts()
        else:
            assert bot._work is not None
            chats = bot._work.dispatcher.chats
            chats.evict(chats.actors[ChatId(ali.chat_id)])
        await world.waits(seconds=5)
        assert await bot.to(ali.chat_id).stop(talk)
        await world.waits(seconds=5)
        assert not await bot.to(ali.chat_id).stop(talk)
