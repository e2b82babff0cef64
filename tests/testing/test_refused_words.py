"""What can't be sent or kept is refused alike live, in a replay and in a replay-check."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from tests.everything import COUNT, KEEP, Cake, News, Routes
from triobot import Bot, Chat
from triobot.testing import drive

HALF: Final[str] = json.loads('"Booked \\ud83d"')
"""Half an emoji: no request can hold it."""


async def shows(chat: Chat[Any]) -> None:
    async with chat.live("0 %") as live:
        live.show(HALF)


REFUSED: Final[dict[str, Callable[[Chat[Any], Routes], Awaitable[object]]]] = {
    "answer": lambda chat, _: chat.answer(HALF),
    "alert": lambda chat, _: chat.answer("", alert=True),
    "send": lambda chat, _: chat.send(HALF),
    "send nothing": lambda chat, _: chat.send(""),
    "live": lambda chat, _: chat.live(HALF).__aenter__(),
    "show": lambda chat, _: shows(chat),
    "ask": lambda chat, _: chat.ask(HALF),
    "choose": lambda chat, _: chat.choose(HALF, {1: "One"}),
    "option": lambda chat, _: chat.choose("Which?", {1: HALF}),
    "charge": lambda chat, _: chat.charge(1_000, HALF, item=Cake()),
    "no aside": lambda chat, _: chat.charge(1_000, "News", item=News()),
    "invoice": lambda chat, _: chat.invoice(1_000, "A cake", item=Cake(), expires=1),
    "broadcast": lambda chat, _: chat.broadcast("half").start(HALF, [chat.id], buttons=KEEP),
    "audience": lambda chat, _: chat.broadcast("none").start("News", ["nobody"]),
    "key": lambda chat, routes: chat.start(routes.beside, key="\0"),
    "arguments": lambda chat, routes: chat.start(routes.beside, object()),
    "signal": lambda chat, _: chat.to(chat.id).signal(object()),
    "set": lambda chat, _: chat.shared.set(COUNT, HALF),
    "update": lambda chat, _: chat.shared.update(COUNT, lambda old: HALF),
}


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("name", REFUSED)
async def test_an_error_that_is_caught_is_raised_again(
    name: str, checked: bool, autojump_clock: object
) -> None:
    bot, told = Bot(), list[str]()
    routes = Routes(bot)

    @bot.conversation
    async def book(chat: Chat) -> None:
        await chat.choose("Book?", {"y": "Yes"})
        try:
            await REFUSED[name](chat, routes)
        except Exception as error:
            told.append(f"{type(error).__name__}: {error}")
        else:
            told.append("nothing was refused")
        await chat.ask("Name?")
        await chat.send("Thanks.")

    async with drive(bot, replay_check=checked) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.presses("Yes")
        await sara.sees("Name?")
        await world.crashes()
        await sara.says("Sara")
        await sara.sees("Thanks.")
    assert len(set(told)) == 1, told
    assert len(told) > 1
    assert name == "alert" or told[0] != "nothing was refused"
