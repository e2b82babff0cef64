"""An interrupt knows what it ended, whenever the process dies."""

from __future__ import annotations

from itertools import groupby

import pytest
import trio
from crash_scenes import Killer

from tests.samples import sample
from triobot import Bot, Chat
from triobot.filters import command, text
from triobot.testing import drive

# This many acts there are at least between the interrupt and its last word.
FEWEST, MOST = 16, 30


def make_bot() -> Bot:
    bot = Bot()

    @bot.interrupt(command("stop") | command("halt"))
    async def stop(chat: Chat) -> None:
        await chat.send(f"after {(chat.interrupted or 'nothing').rpartition('.')[2]}")
        await chat.ask("Why?")

    @bot.conversation(text("work"))
    async def work(chat: Chat) -> None:
        try:
            await chat.ask("Name?")
        finally:
            with chat.shield(), chat.move_on_after(600):
                await chat.send("bye")

    return bot


@pytest.mark.parametrize("at", sample(range(MOST + 1), every=3))
async def test_an_interrupt_knows_what_it_ended(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Its beginning is durable with that end, or neither is."""
    killer = Killer(monkeypatch, at)
    async with drive(make_bot(), attempts=100) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("work")
        await ali.sees("Name?")
        async with trio.open_nursery() as nursery:
            killer.world, killer.nursery = world, nursery
            await ali.says("/stop")
            await world.waits(hours=1)
            await ali.says("/halt")
            await world.waits(hours=1)
            killer.nursery = None
        said = [seen.text for seen in await ali.history() if seen.from_bot]
    assert [line for line, _ in groupby(said)] == ["Name?", "bye", "after work", "Why?", "after stop", "Why?"]
    assert len(said) <= 6 + (0 < at <= killer.count)
    assert FEWEST <= killer.count <= MOST
