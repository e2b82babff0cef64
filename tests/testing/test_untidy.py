"""A question that is over loses its buttons, whenever the process dies in between."""

from __future__ import annotations

import pytest
import trio
from crash_scenes import Killer

from tests.samples import sample
from tests.stores import store_of
from triobot import Bot, Buttons, Chat
from triobot.conversations.data import JOINED
from triobot.filters import text
from triobot.testing import drive
from triobot.wire.ids import ChatId

# A crash after the last act changes nothing; commits that come together are one act.
FEWEST, MOST = 12, 32


def make_bot(*, goes_on: bool) -> Bot:
    bot = Bot()

    @bot.conversation
    async def talk(chat: Chat) -> None:
        size = await chat.choose("Size?", {"s": "Small", "l": "Large"})
        async with chat.live("Baking", buttons=Buttons({"no": "Stop"})) as live:
            live.show("Nearly")
            await chat.sleep(60)
            live.show(f"Done: {size}")
        if goes_on:
            await chat.ask("More?")

    return bot


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("at", sample(range(MOST + 1), every=3))
async def test_no_button_of_the_past_stays(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, at: int, goes_on: bool
) -> None:
    """Whether the conversation goes on or has ended, and nothing is kept of it but what is owed."""
    killer = Killer(monkeypatch, at)
    async with drive(make_bot(goes_on=goes_on), attempts=100) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Size?")
        await world.waits(seconds=5)
        async with trio.open_nursery() as nursery:
            killer.world, killer.nursery = world, nursery
            await ali.presses("Small")
            await world.waits(hours=1)
            killer.nursery = None
        shown = {seen.text: seen.buttons for seen in await ali.history() if seen.from_bot}
        assert shown.pop("Size?") == ()
        assert shown.pop("Done: s") == ()
        # A message that came twice, because nobody knew of the first, is nobody's: its buttons say so.
        assert set(shown) <= {"More?", "Baking", "Nearly"}
        if at == 0 or at > killer.count:
            assert shown == ({"More?": ()} if goes_on else {})
        assert killer.count >= FEWEST
        assert set(await store_of(world).data(ChatId(ali.chat_id))) == {JOINED}


async def test_what_leaves_memory_owes_nothing_twice(autojump_clock: object) -> None:
    """The turn that ended a question is run again each time; what it owed was done long ago."""
    bot = Bot()

    @bot.conversation
    async def talk(chat: Chat) -> None:
        await chat.choose("Size?", {"s": "Small", "l": "Large"})
        await chat.receive(text())

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Size?")
        await ali.presses("Small")
        await world.waits(minutes=5)
        assert bot._work is not None
        done = bot.statistics().outbox.done
        for _ in range(3):
            life = bot._work.dispatcher.chats.actors.get(ChatId(ali.chat_id))
            assert life is not None
            bot._work.dispatcher.chats.evict(life)
            bot._work.dispatcher.chats.recall(ChatId(ali.chat_id))
            await world.waits(minutes=5)
        assert bot.statistics().outbox.done == done


@pytest.mark.parametrize("at", range(14))
async def test_what_the_author_shows_instead_stays(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """What was owed before is not shown over it, by this process or the next."""
    bot = Bot()

    @bot.conversation
    async def talk(chat: Chat) -> None:
        sent = await chat.send("Hello.")
        await chat.choose("Size?", {"s": "Small"}, into=sent)
        await chat.edit(sent, "Small it is.")
        await chat.receive(text())

    killer = Killer(monkeypatch, at)
    async with drive(bot, attempts=100) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Size?")
        await world.waits(seconds=5)
        async with trio.open_nursery() as nursery:
            killer.world, killer.nursery = world, nursery
            await ali.presses("Small")
            await world.waits(hours=1)
            killer.nursery = None
        await world.crashes()
        await world.waits(hours=1)
        shown = [(seen.text, seen.buttons) for seen in await ali.history() if seen.from_bot]
        assert shown == [("Small it is.", ())]
