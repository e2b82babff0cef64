"""A restored backup: nobody knows what conversations did since it was made."""

from __future__ import annotations

from typing import Literal

import attrs
import pytest
import trio
from doubles import FakeStore
from town import Town, open_town, start
from trio.testing import MockClock

from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import text
from triobot.conversations.routes.router import Router
from triobot.errors import DeliveryUnknownError


async def say(chat: Chat, words: str, how: Literal["resend", "raise"] = "raise") -> None:
    try:
        await chat.send(words, on_unknown=how)
    except DeliveryUnknownError:
        await chat.send(f"{words}, perhaps")


class Restored(FakeStore):
    """A store that goes on later, as another one."""

    def restored(self, at: int) -> None:
        self.began = attrs.evolve(self.began, epoch=1, epoch_at=at, restored=True)


async def goes_on(town: Town, seconds: float, *, restored: bool = True) -> None:
    """Stop it, restore its store after a while, and let the next process live for some seconds."""
    await trio.sleep(1000)
    assert isinstance(town.store, Restored)
    if restored:
        town.store.restored(town.services.clock.now())
    town.new_dispatcher()
    async with trio.open_nursery() as nursery:
        run = await start(nursery, town)
        await trio.sleep(seconds)
        await run.cut()


@pytest.mark.parametrize("restored", [True, False])
@pytest.mark.parametrize("how", ["raise", "resend"])
async def test_what_it_comes_to_by_itself_is_done(
    autojump_clock: MockClock, restored: bool, how: Literal["resend", "raise"]
) -> None:
    """Of messages a store knows nothing that came after it: it goes on from there, and says so once."""
    bot, store = Router(), Restored()

    @bot.conversation
    async def twice(chat: Chat) -> None:
        await chat.sleep(60)
        await say(chat, "once", how)
        await say(chat, "twice", how)

    async with open_town(bot, store=store) as town:
        await town.says("hi")
        await trio.sleep(30)
    await goes_on(town, 10, restored=restored)
    assert town.sent() == ["once", "twice"]
    assert town.counts.get("possible_repeat", 0) == 0


@pytest.mark.parametrize("restored", [True, False])
async def test_what_was_about_to_leave_may_have_left(autojump_clock: MockClock, restored: bool) -> None:
    """When the backup was made, or when the program was killed."""
    bot, store = Router(), Restored()

    @bot.conversation
    async def once(chat: Chat) -> None:
        await say(chat, "once")

    async with open_town(bot, store=store) as town:
        held = town.outbox.hold()
        await town.says("hi")
        await trio.sleep(1)
    held.release()
    await goes_on(town, 10, restored=restored)
    assert town.sent() == ["once", "once, perhaps"]


@pytest.mark.parametrize("by", ["an event", "a deadline"])
async def test_what_comes_after_the_restore_is_new(autojump_clock: MockClock, by: str) -> None:
    bot, store = Router(), Restored()

    @bot.conversation
    async def late(chat: Chat) -> None:
        if by == "an event":
            await chat.receive(text())
        else:
            await chat.sleep(2000)
        await say(chat, "once")

    async with open_town(bot, store=store) as town:
        await town.says("hi")
        await trio.sleep(1)
    await trio.sleep(1000)
    store.restored(town.services.clock.now())
    town.new_dispatcher()
    async with trio.open_nursery() as nursery:
        run = await start(nursery, town)
        await trio.sleep(1)
        if by == "an event":
            await town.says("go")
        await trio.sleep(1000)
        await run.cut()
    assert town.sent() == ["once"]
    assert town.counts.get("possible_repeat", 0) == 0


async def test_only_what_nobody_knows_the_outcome_of_counts(autojump_clock: MockClock) -> None:
    """In flight, or cut by the end of the program; an outcome that is recorded ends it."""
    bot, store = Router(), FakeStore()

    @bot.conversation
    async def once(chat: Chat) -> None:
        await say(chat, "once")
        await chat.receive(text())
        await say(chat, "twice")
        await chat.receive(text())

    async with open_town(bot, store=store) as town:
        first = town.outbox.hold()
        await town.says("hi")
        assert await store.unknown_effects() == 1
        first.release()
        await town.rest()
        assert await store.unknown_effects() == 0
        town.outbox.hold()
        await town.says("go on")
    assert await store.unknown_effects() == 1
    async with open_town(bot, store=store) as town:
        await town.rest()
        assert town.sent() == ["twice, perhaps"]
        # What was said then is said for certain.
        assert await store.unknown_effects() == 0


@pytest.mark.parametrize("restored", [True, False])
async def test_buttons_that_may_be_gone_are_shown_again(autojump_clock: MockClock, restored: bool) -> None:
    """Whoever pressed one after the backup was made has none left; the others press theirs as before."""
    bot, store = Router(), Restored()

    @bot.conversation
    async def sell(chat: Chat) -> None:
        await chat.send(await chat.choose("Which cake?", {"honey": "Honey", "lemon": "Lemon"}))

    async with open_town(bot, store=store, code=True) as town:
        await town.says("hi")
    await goes_on(town, 10, restored=restored)
    await goes_on(town, 10, restored=False)
    town.new_dispatcher()
    async with trio.open_nursery() as nursery:
        run = await start(nursery, town)
        await town.says("hello")
        assert town.sent()[-1] == ("Which cake?" if restored else "Please press one of the buttons.")
        await town.says("hello?")
        assert town.sent()[-1] == "Please press one of the buttons."
        await town.presses("Lemon")
        assert town.sent()[-1] == "lemon"
        await run.cut()
