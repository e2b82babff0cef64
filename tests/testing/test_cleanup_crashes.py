"""Cleanup that sends: plain, under the chat's shield, and under one of Trio's own."""

from __future__ import annotations

from itertools import groupby

import pytest
import trio
from crash_scenes import Killer

from tests.samples import sample
from triobot import Bot, Chat
from triobot.filters import command
from triobot.testing import drive
from triobot.wire.ids import ChatId

# A commit that comes together with another one is one act the fewer; and this many there are at least.
FEWEST, MOST = 12, 20


def make_bot() -> Bot:
    bot = Bot()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    @bot.conversation
    async def tidy(chat: Chat) -> None:
        try:
            try:
                try:
                    await chat.ask("Name?")
                finally:
                    await chat.send("plain")
            finally:
                with chat.shield(), chat.move_on_after(600):
                    await chat.send("shielded")
        finally:
            with trio.CancelScope(shield=True):
                await chat.send("Trio's")

    return bot


async def test_evicted_again_and_again_it_sends_nothing(autojump_clock: object, long: bool) -> None:
    """An eviction is no end: each cleanup runs, and nothing leaves or is recorded."""
    bot, times = make_bot(), 1000 if long else 100
    async with drive(bot, replay_check=False) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Name?")
        await world.waits(seconds=1)
        assert bot._work is not None
        dispatcher = bot._work.dispatcher
        for _ in range(times):
            life = dispatcher.chats.actors.get(ChatId(ali.chat_id))
            assert life is not None and life.can_evict
            dispatcher.chats.evict(life)
            dispatcher.chats.recall(ChatId(ali.chat_id))
            await world.waits(seconds=1)
        assert bot.statistics().counts["revived"] == times
        assert [seen.text for seen in await ali.history() if seen.from_bot] == ["Name?"]


@pytest.mark.parametrize("at", sample(range(MOST + 1), every=3))
async def test_interrupted_the_shielded_ones_send_once(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Also when the process dies at any act in between; twice comes only what was on its way then."""
    killer = Killer(monkeypatch, at)
    async with drive(make_bot(), attempts=100) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Name?")
        async with trio.open_nursery() as nursery:
            killer.world, killer.nursery = world, nursery
            await ali.says("/cancel")
            await world.waits(hours=1)
            killer.nursery = None
        said = [seen.text for seen in await ali.history() if seen.from_bot]
    assert [text for text, _ in groupby(said)] == ["Name?", "shielded", "Trio's", "Cancelled."]
    assert len(said) <= 4 + (0 < at <= killer.count)
    assert killer.count >= FEWEST
