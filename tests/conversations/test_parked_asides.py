"""A message that meets an aside that can't go on, and nobody else, is kept, and answers it later."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import pytest
import trio
from doubles import FakeClock, FakeOutbox, FakeStore
from town import TEXTS, Town, open_town
from trio.testing import MockClock

from triobot.conversations.calls.chat_calls import give_order
from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import command, join
from triobot.conversations.routes.router import Router
from triobot.wire.ids import ChatId


def welcoming(*, broken: bool = False) -> Router:
    """A bot whose aside asks two questions, and whose conversation asks on; `broken` does something else."""
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    @bot.aside(join())
    async def welcome(chat: Chat) -> None:
        if broken:
            await chat.sleep(1)
        name = await chat.ask("Who are you?")
        street = await chat.ask("Which street?")
        await chat.send(f"{name} of {street}")

    @bot.conversation(command("talk"))
    async def talk(chat: Chat) -> None:
        while True:
            await chat.send(f"You said {await chat.ask('Well?')}")

    return bot


class World:
    """A bot's runs, one after another, on one store."""

    def __init__(self) -> None:
        self.store, self.outbox = FakeStore(), FakeOutbox()

    def run(self, *, broken: bool = False) -> AbstractAsyncContextManager[Town]:
        """A run."""
        return open_town(welcoming(broken=broken), store=self.store, outbox=self.outbox)

    async def begin(self) -> None:
        """Ali joins, and is asked."""
        async with self.run() as town:
            await town.joins()
            assert town.sent() == ["Who are you?"]


async def say(town: Town, *said: str) -> list[object]:
    """Say this, two minutes apart; what the user hears."""
    before = len(town.sent())
    for words in said:
        await town.says(words)
        await town.rest()
        await trio.sleep(120)
    return town.sent()[before:]


async def test_no_message_is_answered_with_silence(autojump_clock: MockClock) -> None:
    """Each of them hears that it can't go on; the first is the answer once it does, the others are let go."""
    world = World()
    await world.begin()
    async with world.run(broken=True) as town:
        assert await say(town, "Ali", "hello?") == [TEXTS.parked] * 2
        before = len(town.sent())
        for n in range(40):
            await town.says(f"hello {n}")
            await trio.sleep(2)
        assert town.sent()[before:] == [TEXTS.parked] * 2
    async with world.run(broken=True) as town:
        await trio.sleep(60)
        assert await say(town, "are you there?") == [TEXTS.parked]
        assert len(world.store.rows) == 43
    async with world.run() as town:
        assert await say(town, "hey") == ["Which street?"]
        assert town.counts["typed_while_parked"] == 43
        assert await say(town, "Valiasr") == ["Ali of Valiasr"]
        assert world.store.rows == {}


async def test_more_than_a_mailbox_keeps_nobody_from_a_command(autojump_clock: MockClock) -> None:
    """A conversation begins all the same, and takes what is typed from then on."""
    world = World()
    await world.begin()
    async with world.run(broken=True) as town:
        for n in range(30):
            await town.says(f"hello {n}")
        assert await say(town, "/talk", "fine") == ["Well?", "You said fine", "Well?"]
        await town.says("/cancel")
        await trio.sleep(10)
        assert town.sent()[-1] == "Cancelled."
        assert len(world.store.rows) == 30
    async with world.run() as town:
        await trio.sleep(10)
        assert town.sent()[-1] == "Which street?"
        assert world.store.rows == {}


async def test_what_is_kept_for_an_aside_answers_nobody_else(autojump_clock: MockClock) -> None:
    """A conversation that begins later doesn't get it, in this process or the next."""
    world = World()
    await world.begin()
    async with world.run(broken=True) as town:
        assert await say(town, "Ali", "hello?", "/talk") == [TEXTS.parked, TEXTS.parked, "Well?"]
        assert await say(town, "fine") == ["You said fine", "Well?"]
    async with world.run(broken=True) as town:
        assert await say(town, "good") == ["You said good", "Well?"]
        assert len(world.store.rows) == 2
    async with world.run() as town:
        before = len(town.sent())
        await trio.sleep(10)
        assert town.sent()[before:] == ["Which street?"]
        assert await say(town, "Valiasr") == ["Ali of Valiasr"]
        assert world.store.rows == {}


@pytest.mark.parametrize("talks", [False, True])
async def test_the_end_of_the_aside_ends_the_waiting(autojump_clock: MockClock, talks: bool) -> None:
    """What was typed for it begins nothing, and answers no other conversation."""
    world = World()
    await world.begin()
    async with world.run(broken=True) as town:
        await say(town, "Ali", *["/talk"] * talks)
    (aside,) = [row for row in world.store.journals.conversations(ChatId(5)) if row.kind == "aside"]
    await give_order(world.store, FakeClock(), aside, True, "Sorry.")
    async with world.run(broken=True) as town:
        before = len(town.sent())
        await trio.sleep(10)
        assert town.sent()[before:] == ["Sorry."]
        assert world.store.rows == {}
        if talks:
            assert await say(town, "fine") == ["You said fine", "Well?"]


async def test_an_aside_that_was_not_parked_takes_what_it_asked_for(autojump_clock: MockClock) -> None:
    """Another one that goes on again lets go of nothing that is for it."""
    store, outbox = FakeStore(), FakeOutbox()
    bots = []
    for broken in False, True:
        bot = Router()
        bots.append(bot)

        @bot.aside(command("one"))
        async def one(chat: Chat, broken: bool = broken) -> None:
            if broken:
                await chat.sleep(1)
            await chat.send(f"one {await chat.ask('How many?')}")

        @bot.aside(command("two"))
        async def two(chat: Chat) -> None:
            await chat.send(f"two {await chat.ask('Who?')}")

    async with open_town(bots[0], store=store, outbox=outbox) as town:
        await town.says("/one")
        await town.says("/two")
    async with open_town(bots[1], store=store, outbox=outbox) as town:
        assert await say(town, "Ali", "5", "hello?") == ["two Ali", TEXTS.parked, TEXTS.parked]
        await town.says("/two")
    async with open_town(bots[0], store=store, outbox=outbox) as town:
        assert sorted(map(str, await say(town, "Sara"))) == ["one 5", "two Sara"]
        assert store.rows == {}


async def test_a_live_conversation_has_what_comes_while_it_is_there(autojump_clock: MockClock) -> None:
    """The aside beside it takes nothing from it, parked or mended."""
    world = World()
    async with world.run() as town:
        await town.says("/talk")
        await town.joins()
        assert town.sent() == ["Well?", "Who are you?"]
    async with world.run(broken=True) as town:
        assert await say(town, "fine", "good") == ["You said fine", "Well?", "You said good", "Well?"]
        assert world.store.rows == {}
