"""A conversation that ends with what it was just told, and a process that is killed at any act of that."""

from __future__ import annotations

import pytest
import trio
from crash_scenes import Killer

from tests.samples import sample
from tests.stores import store_of
from triobot import Bot, Chat, Key
from triobot.seams.writes import Write
from triobot.testing import drive
from triobot.testing.process import CrashableStore
from triobot.wire.ids import ChatId

APOLOGY = "Something went wrong here. Please start again."
HEARD = Key("heard", int, default=0)
MOST = 14


def make_bot() -> Bot:
    bot = Bot()

    @bot.conversation
    async def listen(chat: Chat) -> None:
        word = await chat.ask("Well?")
        chat.data[HEARD] += 1
        if word == "fail":
            raise RuntimeError("told to")

    return bot


@pytest.mark.parametrize("word", ["fail", "end"])
@pytest.mark.parametrize("at", sample(range(MOST + 1), every=3))
async def test_it_ends_once(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, word: str, at: int
) -> None:
    """Its turn is run again by the next process, and by no later one; an apology may be heard once more."""
    commit, bot = CrashableStore.commit, make_bot()

    async def commit_slowly(store: CrashableStore, *writes: Write) -> None:
        await trio.sleep(0.05)  # what the word was taken with is durable, and its end is not for a while
        killer.acted(store._mortal)
        await commit(store, *writes)

    monkeypatch.setattr(CrashableStore, "commit", commit_slowly)
    killer = Killer(monkeypatch, at)
    async with drive(bot, attempts=100, replay_check=False) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Well?")
        await world.waits(seconds=5)
        async with trio.open_nursery() as nursery:
            killer.world, killer.nursery = world, nursery
            await ali.says(word)
            await world.waits(minutes=1)
            killer.nursery = None
        for _ in range(2):
            await world.restarts()
            await world.waits(minutes=1)
        assert await bot.to(ali.chat_id).get(HEARD) == 1
        assert not await store_of(world).conversations(ChatId(ali.chat_id))
        said = [seen.text for seen in await ali.history() if seen.from_bot]
        apologies = said.count(APOLOGY)
        await ali.says("again")
        await world.waits(minutes=1)
        assert [seen.text for seen in await ali.history() if seen.from_bot] == [*said, "Well?"]
        world.alarms.clear()
    killed = 0 < at <= killer.count
    assert said == ["Well?", *[APOLOGY] * apologies]
    assert (word == "fail") <= apologies <= (word == "fail") * (1 + killed)
    assert killer.count <= MOST or killed
