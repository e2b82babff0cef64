"""The path of each turn: the lines that ran in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tests.travel.rig import journals
from triobot import Bot, Chat
from triobot.studio.travel.path import MOST
from triobot.testing import drive


def line_of(words: str) -> int:
    """The line of this file in which these words stand first."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(n for n, line in enumerate(lines, 1) if words in line and "line_of(" not in line)


async def test_each_turn_has_the_lines_that_ran_in_it(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = Bot()

    def price(size: int) -> int:
        if size > 10:
            return 7
        return 9

    async def weigh(size: int) -> int:
        await trio.lowlevel.checkpoint()  # in a step, which a replay does not run
        return size

    @bot.conversation
    async def order(chat: Chat) -> None:
        name = await chat.ask("Your name?")
        async with chat.open_nursery() as nursery:
            nursery.start_soon(beside, chat)
            size = await chat.ask("How many?", int)
        weight = await chat.step(weigh, size)
        if price(weight) == 9:
            await chat.send(f"Few, {name}.")
        else:
            await chat.send("Many.")

    async def beside(chat: Chat) -> None:
        await chat.sleep(1)

    with journals(monkeypatch) as kept:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("Your name?")
            await sara.says("Sara")
            await sara.sees("How many?")
            await trio.sleep(2)
            await sara.says("3")
            await sara.sees("Few, Sara.")
        passed = await kept.passed("order")
        paths = await kept.lines("order", __file__)

    assert len(paths) == passed.head["notches"]
    kinds = [str(notch["k"]) for notch in passed.turns]
    asks, sleeps = line_of('ask("Your name?")'), line_of("chat.sleep(1)")
    assert paths[0] == [asks]
    named = paths[kinds.index("receive")]
    assert named[0] == asks
    assert {line_of("open_nursery() as"), line_of('ask("How many?", int)'), sleeps} <= {*named}
    assert paths[kinds.index("sleep")][-1] == sleeps
    weighed = paths[kinds.index("step")]
    assert {line_of("if size > 10"), line_of("return 9"), line_of('send(f"Few')} <= {*weighed}
    ran = {line for path in paths for line in path}
    assert ran.isdisjoint({line_of("return 7"), line_of("in a step, which"), line_of('send("Many.")')})


async def test_a_loop_and_an_end_have_a_path(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn tells each line once; what ran after the last wait is in the last turn."""
    bot = Bot()

    @bot.conversation
    async def count(chat: Chat) -> None:
        total = 0
        for n in range(10):
            total += n
        await chat.ask(str(total))
        total += 1
        await chat.send(str(total))

    tracer = sys.gettrace()
    with journals(monkeypatch) as kept:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("45")
            await sara.says("Thanks.")
            await sara.sees("46")
        paths = await kept.lines("count", __file__)
    assert sys.gettrace() is tracer
    assert paths[0] == [line_of("total = 0"), line_of("for n in"), line_of("total += n"), line_of("ask(str(")]
    *_, thanked, _, ended = paths
    assert thanked == [line_of("ask(str("), line_of("total += 1"), line_of("send(str(total")]
    assert ended == []
    assert len(paths[0]) < MOST
