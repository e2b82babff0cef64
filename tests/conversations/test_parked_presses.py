"""A press or a form that meets a conversation that can't go on is kept, and answers it later."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from doubles import FakeClock, FakeOutbox, FakeStore
from town import SARA, TEXTS, Town, open_town
from trio.testing import MockClock

from triobot.conversations.chat import Chat
from triobot.conversations.questions.buttons import Buttons
from triobot.conversations.routes.filters import command, text
from triobot.conversations.routes.router import Router


@attrs.frozen
class Address:
    street: str


def shop(*, broken: bool = False, beside: bool = False) -> Router:
    """A bot that asks with buttons and a form; `broken` does something else first."""
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    async def order(chat: Chat) -> None:
        if broken:
            await chat.sleep(1)
        likes = Buttons({"like": "Like"})
        told = await chat.send("Welcome.", buttons=likes)
        size = await chat.choose("Which size?", {"s": "Small", "l": "Large"})
        async with chat.open_nursery():
            drink = await chat.choose("A drink?", {"tea": "Tea", "no": "None"})
        address = await chat.fill(Address, "Where?")
        await chat.send(f"{size} {drink} {address.street}")
        await chat.receive(likes.pressed(told))
        await chat.send("Thank you.")

    if beside:
        bot.aside(command("order"))(order)
    else:
        bot.conversation(command("order"))(order)

    @bot.conversation(text("talk"))
    async def talk(chat: Chat) -> None:
        for n in range(9):
            await chat.send(f"{n}? {await chat.ask('Well?')} {len(chat.drain())}")

    return bot


class World:
    """A bot's runs, one after another, on one store."""

    def __init__(self, *, beside: bool = False) -> None:
        self.store, self.outbox, self.beside = FakeStore(), FakeOutbox(), beside

    @asynccontextmanager
    async def run(self, *, broken: bool = False) -> AsyncGenerator[Town]:
        """A run, in which somebody wakes the chat."""
        bot = shop(broken=broken, beside=self.beside)
        # What came before belongs to the run before.
        await trio.sleep(1)
        self.store.began = attrs.evolve(self.store.began, at=FakeClock().now())
        async with open_town(bot, store=self.store, outbox=self.outbox) as town:
            yield town
            await town.rest()

    def told(self, press: str) -> list[str]:
        """The answers to a press."""
        return [said for what, one, said in self.outbox.presses if one == press and what == "refused"]


@pytest.mark.parametrize("beside", [False, True])
async def test_a_press_is_kept_until_it_is_an_answer(autojump_clock: MockClock, beside: bool) -> None:
    """Its user hears so at once, and once; what it answered is asked no more, over any number of starts."""
    world = World(beside=beside)
    async with world.run() as town:
        await town.says("/order")
    async with world.run(broken=True) as town:
        press = await town.presses("Large")
        await trio.sleep(60)
        assert world.told(press) == [TEXTS.parked]
        assert town.counts["kept_while_parked"] == 1
    async with world.run(broken=True) as town:
        await town.rest()
        await trio.sleep(60)
        assert world.told(press) == [TEXTS.parked]
        assert len(world.store.rows) == 1
    async with world.run() as town:
        await trio.sleep(10)
        assert town.sent()[-1] == "A drink?"
        assert world.store.rows == {}
        await town.presses("Tea")
        await town.submits({"street": "Valiasr"})
        assert town.sent()[-1] == "l tea Valiasr"


@pytest.mark.parametrize("beside", [False, True])
async def test_a_form_is_kept(autojump_clock: MockClock, beside: bool) -> None:
    """It is told of with a message: nobody waits for an answer to a form."""
    world = World(beside=beside)
    async with world.run() as town:
        await town.says("/order")
        await town.presses("Small")
        await town.presses("None")
    async with world.run(broken=True) as town:
        await town.submits({"street": "Valiasr"})
        await trio.sleep(60)
        assert TEXTS.parked in town.sent()
        assert TEXTS.expired not in town.sent()
    async with world.run() as town:
        await trio.sleep(10)
        assert town.sent()[-1] == "s no Valiasr"
        assert world.store.rows == {}


@pytest.mark.parametrize("beside", [False, True])
async def test_a_button_that_lasts_is_kept(autojump_clock: MockClock, beside: bool) -> None:
    """It carries no question's token: its message says whose it is."""
    world = World(beside=beside)
    async with world.run() as town:
        await town.says("/order")
        await town.presses("Small")
        await town.presses("None")
        await town.submits({"street": "Valiasr"})
    async with world.run(broken=True) as town:
        press = await town.presses("Like")
        await trio.sleep(60)
        assert world.told(press) == [TEXTS.parked]
    async with world.run() as town:
        await trio.sleep(10)
        assert town.sent()[-1] == "Thank you."
        assert world.store.rows == {}


@pytest.mark.parametrize("beside", [False, True])
async def test_what_it_can_not_wait_for_expires_later(autojump_clock: MockClock, beside: bool) -> None:
    """Questions that had their answer, and those of nobody: only the code knows them."""
    world = World(beside=beside)
    async with world.run() as town:
        await town.says("/order")
        size, data = town.button("Large")
        await town.presses("Small")
        drink, asked = town.button("Tea")
    async with world.run(broken=True) as town:
        old = await town.presses_data(data, size)
        strange = await town.presses_data("qabcdefgh.sx", drink)
        open_one = await town.presses_data(asked, drink)
        await town.rest()
        await trio.sleep(60)
        assert world.told(old) == world.told(strange) == world.told(open_one) == [TEXTS.parked]
        assert len(world.store.rows) == 3
    async with world.run() as town:
        await trio.sleep(10)
        assert town.sent()[-1] == "Where?"
        assert world.told(old) == world.told(strange) == [TEXTS.parked, TEXTS.expired]
        assert world.store.rows == {}


async def test_the_end_of_the_parked_one_ends_the_waiting(autojump_clock: MockClock) -> None:
    """Nothing is left behind in the inbox, nor in memory."""
    world = World()
    async with world.run() as town:
        await town.says("/order")
    async with world.run(broken=True) as town:
        await town.presses("Large")
        await town.says("/cancel")
        await trio.sleep(10)
        assert town.sent()[-1] == "Cancelled."
        assert world.store.rows == {}
        assert not town.left_over()


async def test_what_is_kept_for_an_aside_is_nobody_elses(autojump_clock: MockClock) -> None:
    """The live conversation asks, drains and is interrupted; the press waits on for the aside."""
    world = World(beside=True)
    async with world.run() as town:
        await town.says("/order")
        await town.says("talk")
    async with world.run(broken=True) as town:
        press = await town.presses("Large")
        await town.says("fine")
        assert town.sent()[-2:] == ["0? fine 0", "Well?"]
        await town.says("/cancel")
        await trio.sleep(10)
        assert world.told(press) == [TEXTS.parked]
        assert len(world.store.rows) == 1
    async with world.run() as town:
        await trio.sleep(10)
        assert town.sent()[-1] == "A drink?"
        assert world.store.rows == {}


async def test_a_press_is_the_answer_and_what_was_typed_is_none(autojump_clock: MockClock) -> None:
    """What was typed beside it answers no question that its user has not seen."""
    bots = []
    for broken in False, True:
        bot = Router()
        bots.append(bot)

        @bot.conversation(command("order"))
        async def order(chat: Chat, broken: bool = broken) -> None:
            if broken:
                await chat.sleep(1)
            size = await chat.choose("Which size?", {"s": "Small"})
            await chat.send(f"{size} {await chat.ask('Whose?')}")

    store, outbox = FakeStore(), FakeOutbox()
    async with open_town(bots[0], store=store, outbox=outbox) as town:
        await town.says("/order")
    async with open_town(bots[1], store=store, outbox=outbox) as town:
        await town.presses("Small")
        await town.says("hello?")
        await trio.sleep(10)
    async with open_town(bots[0], store=store, outbox=outbox) as town:
        await trio.sleep(10)
        assert town.sent()[-1] == "Whose?"
        await town.says("Ali's")
        assert town.sent()[-1] == "s Ali's"
        assert store.rows == {}


async def test_behind_a_full_mailbox_too(autojump_clock: MockClock) -> None:
    """A press that waits in the inbox only is told at once, as well."""
    world = World()
    async with world.run() as town:
        await town.says("/order")
    async with world.run(broken=True) as town:
        for n in range(30):
            await town.says(f"hello {n}")
        press = await town.presses("Large")
        await town.says("hello?")
        assert world.told(press) == [TEXTS.parked]
    async with world.run() as town:
        await trio.sleep(10)
        assert "A drink?" in town.sent()
        assert world.store.rows == {}


async def test_presses_for_a_parked_aside_leave_the_chat_its_turn(autojump_clock: MockClock) -> None:
    """Old buttons may be pressed any number of times: what else is written starts its conversation."""
    world = World(beside=True)
    async with world.run() as town:
        await town.says("/order")
    async with world.run(broken=True) as town:
        for _ in range(30):
            await town.presses_data("qabcdefgh.sx", 7)
        await town.says("talk")
        assert town.sent()[-1] == "Well?"
        await town.says("fine")
        assert town.sent()[-2:] == ["0? fine 0", "Well?"]
    async with world.run() as town:
        await trio.sleep(10)
        assert world.store.rows == {}


async def test_a_stranger_keeps_nothing(autojump_clock: MockClock) -> None:
    """In a group, a sender's own conversation waits for that sender only."""
    bots = []
    for broken in False, True:
        bot = Router()
        bots.append(bot)

        @bot.conversation(command("order"), per="sender")
        async def order(chat: Chat, broken: bool = broken) -> None:
            if broken:
                await chat.sleep(1)
            await chat.send(str(await chat.choose("Which?", {"s": "Small"})))

    store, outbox = FakeStore(), FakeOutbox()
    async with open_town(bots[0], store=store, outbox=outbox) as town:
        await town.joins(sender=SARA)
        await town.says("/order")
    async with open_town(bots[1], store=store, outbox=outbox) as town:
        hers, his = await town.presses("Small", sender=SARA), await town.presses("Small")
        await trio.sleep(10)
        assert ("refused", hers, TEXTS.expired) in outbox.presses
        assert ("refused", his, TEXTS.parked) in outbox.presses
        assert len(store.rows) == 1
    async with open_town(bots[0], store=store, outbox=outbox) as town:
        await trio.sleep(10)
        assert town.sent()[-1] == "s"
