"""A call that a kill lets happen again is the one that did it: what it returns is what it returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import trio

from tests.chaos.fuzz import Deaths, Kill
from tests.samples import sample
from triobot import Bot, Chat
from triobot.filters import text
from triobot.testing import drive

WRITES: Final = 18
"""More than any of the programs has, without the early door too, where an event is a write of its own."""


def starts_a_broadcast(bot: Bot) -> None:
    @bot.conversation(text("go"))
    async def main(chat: Chat) -> None:
        await chat.send(f"begun: {await chat.broadcast('sale').start('Sale!', [chat.id])}")


def stops_a_broadcast(bot: Bot) -> None:
    @bot.conversation(text("go"))
    async def main(chat: Chat) -> None:
        await chat.broadcast("sale").start("Sale!", range(100_000, 100_500))
        await chat.send(f"stopped: {await chat.broadcast('sale').stop()}")


def starts_by_key(bot: Bot) -> None:
    @bot.aside
    async def reminder(chat: Chat[Any]) -> None:
        await chat.send("Reminder.")

    @bot.conversation(text("go"))
    async def main(chat: Chat) -> None:
        begun = [await chat.start(reminder, key=key) for key in ("a", "a", "b")]
        await chat.send(f"begun: {begun}")


def starts_first_of_all(bot: Bot) -> None:
    @bot.aside
    async def reminder(chat: Chat[Any]) -> None:
        await chat.ask("Now?")

    @bot.conversation(text("go"))
    async def main(chat: Chat) -> None:
        begun = await chat.to(77).start(reminder, key="a")
        await chat.send(f"begun: {begun}")


def stops_another(bot: Bot) -> None:
    @bot.aside
    async def reminder(chat: Chat[Any]) -> None:
        await chat.sleep(100)
        await chat.send("never said")

    @bot.conversation(text("go"))
    async def main(chat: Chat) -> None:
        await chat.start(reminder)
        await chat.sleep(1)
        stopped = [await chat.stop(reminder) for _ in range(2)]
        await chat.send(f"stopped: {stopped[0]}")


PROGRAMS: Final = (starts_a_broadcast, stops_a_broadcast, starts_by_key, starts_first_of_all, stops_another)


async def lived(make: Callable[[Bot], None], kill: Kill | None) -> tuple[set[str], int]:
    bot = Bot()
    make(bot)
    deaths, checked = Deaths([] if kill is None else [kill]), kill is None
    with deaths.watching():
        async with drive(bot, attempts=100, replay_check=checked) as world, trio.open_nursery() as nursery:
            nursery.start_soon(deaths.bring_back, world)
            sara = world.user("Sara")
            await sara.joins()
            await sara.says("go")
            await world.waits(seconds=200)
            said = {str(seen.text) for seen in await sara.history() if seen.from_bot}
            world.alarms.clear()
            nursery.cancel_scope.cancel()
    return said - {"Sale!"}, deaths.writes


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
async def test_a_call_says_that_it_has_done_it(make: Callable[[Bot], None], autojump_clock: object) -> None:
    calm, writes = await lived(make, None)
    assert any("True" in line for line in calm)
    assert writes <= WRITES


@pytest.mark.parametrize("durable", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", sample(range(WRITES), every=3))
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
async def test_a_call_says_so_after_a_kill(
    make: Callable[[Bot], None], write: int, durable: bool, autojump_clock: object
) -> None:
    calm, _ = await lived(make, None)
    said, _ = await lived(make, Kill(write, durable=durable))
    assert said == calm
