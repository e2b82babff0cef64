"""Code that ends its own run does nothing behind that, at whichever write the process dies or stops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs
import pytest
import trio

from tests.chaos.fuzz import Deaths, Kill
from tests.samples import sample
from triobot import Bot, Chat
from triobot.filters import command, signal, text
from triobot.testing import drive

WRITES: Final = 19
"""More than any of the programs has."""


@attrs.frozen
class Enough:
    """What a block ends by."""


def stops_itself(bot: Bot) -> None:
    @bot.aside(text("!"))
    async def reminder(chat: Chat[Any], n: int = 0) -> None:
        await chat.sleep(50)
        await chat.send("Reminder.")
        await chat.stop(reminder)
        await chat.send("behind it")

    @bot.conversation(text("go"))
    async def main(chat: Chat) -> None:
        await chat.start(reminder, 1, key="r")


def stops_its_own_run(bot: Bot) -> None:
    @bot.aside
    async def reminder(chat: Chat[Any], key: str) -> None:
        await chat.sleep(50)
        await chat.stop(reminder, key=key)
        await chat.send("behind it")

    @bot.conversation(text("go"))
    async def main(chat: Chat) -> None:
        await chat.start(reminder, "r", key="r")
        await chat.sleep(60)
        await chat.send("Done.")


def stops_itself_behind_a_shield(bot: Bot) -> None:
    @bot.conversation(text("go"))
    async def main(chat: Chat) -> None:
        with chat.shield():
            await chat.stop(main)
            await chat.send("In the shield.")
        await chat.send("behind it")


def stops_itself_in_a_child(bot: Bot) -> None:
    @bot.conversation(text("go"))
    async def main(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(chat.stop, main)
            await chat.receive(text("never"))
        await chat.send("behind it")


def interrupts_itself(bot: Bot) -> None:
    @bot.interrupt(command("help"))
    async def help_(chat: Chat[Any]) -> None:
        await chat.send(f"Help, after {chat.interrupted and 'something'}.")

    @bot.conversation(text("go"))
    async def main(chat: Chat) -> None:
        await chat.start(help_)
        await chat.send("behind it")


def ends_its_own_block(bot: Bot) -> None:
    """In order with all else that comes, so that it may come as far as its next wait."""

    @bot.conversation(text("go"))
    async def main(chat: Chat) -> None:
        with chat.move_on_when(signal(Enough)) as block:
            await chat.to(chat.id).signal(Enough())
            await chat.sleep(60)
            await chat.send("behind it")
        await chat.send(f"Ended by {block.event}.")


PROGRAMS: Final = (
    *(stops_itself, stops_its_own_run, stops_itself_behind_a_shield, stops_itself_in_a_child),
    *(interrupts_itself, ends_its_own_block),
)


async def lived(make: Callable[[Bot], None], kill: Kill | None) -> tuple[list[str], int]:
    bot = Bot()
    make(bot)
    deaths = Deaths([] if kill is None else [kill])
    with deaths.watching():
        async with (
            drive(bot, attempts=100, replay_check=kill is None) as world,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(deaths.bring_back, world)
            sara = world.user("Sara")
            await sara.joins()
            await sara.says("go")
            await world.waits(seconds=200)
            said = [seen.text for seen in await sara.history() if seen.from_bot]
            assert [alarm.kind for alarm in world.alarms] == []
            nursery.cancel_scope.cancel()
    return list(dict.fromkeys(str(one) for one in said)), deaths.writes


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
async def test_nothing_comes_behind_it(make: Callable[[Bot], None], autojump_clock: object) -> None:
    calm, writes = await lived(make, None)
    assert "behind it" not in calm
    assert writes <= WRITES


@pytest.mark.parametrize("how", ["before", "after", "stop"])
@pytest.mark.parametrize("write", sample(range(WRITES), every=3))
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
async def test_nothing_comes_behind_it_after_a_kill(
    make: Callable[[Bot], None], write: int, how: str, autojump_clock: object
) -> None:
    calm, _ = await lived(make, None)
    said, _ = await lived(make, Kill(write, durable=how != "before", stops=how == "stop"))
    assert said == calm
