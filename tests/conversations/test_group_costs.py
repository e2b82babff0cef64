"""What one member says costs the same however many other members have a conversation of their own."""

from __future__ import annotations

import sys
from types import FrameType

import pytest
from trio.testing import MockClock

from triobot import Bot, Chat
from triobot.filters import command
from triobot.testing import drive

bot = Bot()


@bot.conversation(command("o"), per="sender")
async def order(chat: Chat) -> None:
    while True:
        dish = await chat.choose("Dish?", {"s": "Soup", "r": "Rice"})
        await chat.ask("How many?", int)
        await chat.send(f"Noted: {dish}")


async def cost(members: int, *, presses: bool) -> float:
    """Calls of `triobot.conversations` for one answer."""
    calls = 0

    def count(frame: FrameType, what: str, _: object) -> None:
        nonlocal calls
        calls += what == "call" and "/conversations/" in frame.f_code.co_filename

    async with drive(bot, replay_check=False) as world:
        people = [world.user(f"U{number}") for number in range(members)]
        group = await world.group(*people)
        there = [one.at(group) for one in people]
        for one in there:
            await one.says("/o")
        await world.waits(seconds=10)
        if not presses:
            for one in there[:10]:
                await one.presses("Soup")
        await world.waits(seconds=5)
        sys.setprofile(count)
        for one in there[:10]:
            await (one.presses("Soup") if presses else one.says("2"))
        sys.setprofile(None)
        world.alarms.clear()
    return calls / 10


@pytest.mark.slow
@pytest.mark.parametrize("presses", [False, True], ids=["words", "presses"])
async def test_a_members_answer_costs_the_same_in_a_large_group(
    presses: bool, autojump_clock: MockClock
) -> None:
    few, many = await cost(20, presses=presses), await cost(320, presses=presses)
    assert many < 1.5 * few
