"""The way back of a conversation that can't go on: for its user, for an operator, and for what was typed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import pytest
import trio
from doubles import FakeClock, FakeOutbox, FakeStore
from town import TEXTS, Town, open_town
from trio.testing import MockClock

from triobot.conversations.calls.chat_calls import give_order
from triobot.conversations.chat import Chat
from triobot.conversations.questions import cleanup
from triobot.conversations.routes.filters import command, text
from triobot.conversations.routes.router import Router
from triobot.seams.journals import ConversationRow
from triobot.wire.ids import ChatId


def shop(*, broken: bool = False) -> Router:
    """A bot that asks three questions; `broken` does something else first."""
    bot = Router()

    @bot.conversation(command("order"))
    async def order(chat: Chat) -> None:
        if broken:
            await chat.sleep(1)
        what = await chat.ask("Order of what?")
        number = await chat.ask("How many?", int)
        street = await chat.ask("Which street?")
        await chat.send(f"{number} {what} to {street}")

    @bot.conversation(text())
    async def chatter(chat: Chat) -> None:
        await chat.send("What?")
        await chat.ask("Tell me more.")

    return bot


class World:
    """A bot's runs, one after another, on one store."""

    def __init__(self) -> None:
        self.store, self.outbox = FakeStore(), FakeOutbox()

    def run(self, *, broken: bool = False) -> AbstractAsyncContextManager[Town]:
        """A run."""
        return open_town(shop(broken=broken), store=self.store, outbox=self.outbox)

    def rows(self, chat: int = 5) -> Sequence[ConversationRow]:
        """What is stored of a chat."""
        return self.store.journals.conversations(ChatId(chat))


async def ordered(world: World) -> None:
    """Ali has answered the first question."""
    async with world.run() as town:
        await town.says("/order")
        await town.says("Pizza")
        assert town.sent() == ["Order of what?", "How many?"]


async def parked(world: World, *said: str) -> list[object]:
    """Say this while it is parked, two minutes apart; what the user hears."""
    async with world.run(broken=True) as town:
        before = len(town.sent())
        for words in said:
            await town.says(words)
            await town.rest()
            await trio.sleep(120)
        (row, *_) = world.rows()
        assert row.parked_because
        return town.sent()[before:]


async def test_no_message_is_answered_with_silence(autojump_clock: MockClock) -> None:
    """Each of them hears that it can't go on; but not more than once a minute, and not again at a start."""
    world = World()
    await ordered(world)
    assert await parked(world, "2", "hello?") == [TEXTS.parked] * 2
    assert await parked(world, "are you there?") == [TEXTS.parked]
    async with world.run(broken=True) as town:
        before = len(town.sent())
        for n in range(40):
            await town.says(f"hello {n}")
            await trio.sleep(2)
        assert town.sent()[before:] == [TEXTS.parked] * 2


async def test_what_was_typed_answers_only_a_question_that_was_seen(autojump_clock: MockClock) -> None:
    """When it goes on: the number that was asked for before it was parked, and nothing after that."""
    world = World()
    await ordered(world)
    await parked(world, "2", "hello?", "are you there?")
    async with world.run() as town:
        await town.says("Hey")
        await trio.sleep(1)
        assert town.sent()[-1] == "Which street?"
        assert town.counts["typed_while_parked"] == 3
        await town.says("Valiasr")
        assert town.sent()[-1] == "2 Pizza to Valiasr"
        assert world.store.rows == {}


async def test_a_command_that_starts_shows_the_way_out(autojump_clock: MockClock) -> None:
    """Once it offers, twice it begins anew; what was typed before answers nothing of it."""
    world = World()
    await ordered(world)
    async with world.run(broken=True) as town:
        await town.says("2")
        await trio.sleep(5)
        await town.says("hello?")
        before = len(town.sent())
        await town.says("/order")
        await town.says("/order")  # a double tap, before it could be read
        await trio.sleep(5)
        assert town.sent()[before:] == [TEXTS.afresh.replace("{command}", "/order")]
        (row,) = world.rows()
        assert row.parked_because
        await town.says("/order")
        await trio.sleep(5)
        assert town.sent()[before + 1 :] == ["Order of what?"]
        assert [row.parked_because for row in world.rows()] == [None]
        await town.says("Salad")
        assert town.sent()[-1] == "How many?"
        assert world.store.rows == {}


async def offered(world: World) -> None:
    """Ali was offered to begin anew, and the process ended."""
    await ordered(world)
    async with world.run(broken=True) as town:
        await town.says("2")
        await town.says("/order")
        await trio.sleep(5)
        assert town.sent()[-1] == TEXTS.afresh.replace("{command}", "/order")


async def test_an_offer_outlives_the_process(autojump_clock: MockClock) -> None:
    """What was typed before it stays for the parked conversation; a command behind it begins anew."""
    world = World()
    await offered(world)
    async with world.run(broken=True) as town:
        await trio.sleep(5)
        before = len(town.sent())
        await town.says("hello?")
        assert len(town.sent()) == before  # it has just been said
        await town.says("/order")
        await trio.sleep(5)
        assert town.sent()[before:] == ["Order of what?"]
        assert [row.parked_because for row in world.rows()] == [None]
        assert (world.store.rows, world.store.kept) == ({}, {})


async def test_an_offer_whose_words_were_not_said_is_said_at_the_next_start(
    autojump_clock: MockClock,
) -> None:
    """A kill between the command and the words about it leaves nobody without a word."""
    world = World()
    await ordered(world)
    async with world.run(broken=True) as town:
        await town.says("2")
        await trio.sleep(5)
        before = len(town.sent())
        held = world.outbox.hold()
        await town.says("/order")
    world.outbox.forget(held)
    async with world.run(broken=True) as town:
        await trio.sleep(5)
        assert town.sent()[before:] == [TEXTS.afresh.replace("{command}", "/order")] * 2
        await town.says("/order")
        await trio.sleep(5)
        assert town.sent()[before + 2 :] == ["Order of what?"]


async def test_an_offer_is_over_once_the_conversation_goes_on(autojump_clock: MockClock) -> None:
    """The command is an answer like any other then; and after another deploy it is offered anew."""
    world = World()
    await offered(world)
    async with world.run() as town:
        await town.says("Hey")
        await trio.sleep(5)
        assert town.sent()[-1] == "Which street?"
        assert world.store.kept == {}
    async with world.run(broken=True) as town:
        await town.says("Valiasr")
        await trio.sleep(5)
        await town.says("/order")
        await trio.sleep(5)
        assert town.sent()[-1] == TEXTS.afresh.replace("{command}", "/order")
        (row,) = world.rows()
        assert row.parked_because


async def test_more_than_a_mailbox_is_typed(autojump_clock: MockClock) -> None:
    """What waits in the inbox is let go like what waits in memory, and the way out is shown there, too."""
    world = World()
    await ordered(world)
    async with world.run(broken=True) as town:
        for n in range(40):
            await town.says(f"hello {n}")
        await trio.sleep(100)
        assert len(world.store.rows) == 40
        await town.says("/order")
        await trio.sleep(5)
        await town.says("/order")
        await trio.sleep(5)
        await town.says("Salad")
        await trio.sleep(5)
        assert town.sent()[-1] == "How many?"
        assert world.store.rows == {}


async def test_an_operator_ends_it_with_a_word(autojump_clock: MockClock) -> None:
    """In a chat that is in memory: what was typed to it begins nothing, and the next word does."""
    world = World()
    await ordered(world)
    async with world.run(broken=True) as town:
        for words in ("2", "hello?", "are you there?"):
            await town.says(words)
            await trio.sleep(5)
        before = len(town.sent())
        (row,) = world.rows()
        assert await town.dispatcher.chat_calls.order(row, end=True, say="Please order again.")
        assert not await town.dispatcher.chat_calls.order(row, end=True, say="Again?")
        await trio.sleep(5)
        assert town.sent()[before:] == ["Please order again."]
        assert (world.rows(), world.store.rows, town.left_over()) == ([], {}, {})
        await town.says("hi")
        assert town.sent()[-2:] == ["What?", "Tell me more."]


async def test_what_is_stored_is_said_whatever_else_the_chat_is_told(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator's words, and those about a conversation: only what is stored nowhere is left out."""
    monkeypatch.setattr(cleanup, "CLEANUPS", 0)
    world = World()
    await ordered(world)
    async with world.run(broken=True) as town:
        await town.says("2")
        await trio.sleep(5)
        assert town.sent()[-1] == TEXTS.parked
        (row,) = world.rows()
        assert await town.dispatcher.chat_calls.order(row, end=True, say="Please order again.")
        await trio.sleep(5)
        assert town.sent()[-1] == "Please order again."
        assert (world.rows(), world.store.rows, town.left_over()) == ([], {}, {})


async def test_an_operators_words_survive_the_process(autojump_clock: MockClock) -> None:
    """The end is ordered without a running bot; the next one can't send, and the one after it does."""
    world = World()
    await ordered(world)
    await parked(world, "2", "hello?")
    (row,) = world.rows()
    await give_order(world.store, FakeClock(), row, True, "Please order again.")
    held = world.outbox.hold()
    async with world.run():  # its code could go on: but it is to end
        await trio.sleep(5)
        assert world.rows() == []
    world.outbox.forget(held)
    async with world.run() as town:
        await trio.sleep(5)
        assert town.sent()[-1] == "Please order again."
        assert world.store.rows == {}
        assert "Which street?" not in town.sent()


async def test_an_operator_has_it_tried_again(autojump_clock: MockClock) -> None:
    """Whether its chat is in memory or not; nothing is lost if that is of no use."""
    world = World()
    await ordered(world)
    async with world.run(broken=True) as town:
        for words in ("2", "hello?"):
            await town.says(words)
            await trio.sleep(5)
        for times in range(1, 4):
            (row,) = world.rows()
            before = town.counts["parked"]
            assert await town.dispatcher.chat_calls.order(row, end=False)
            await trio.sleep(5)
            assert (town.counts["parked"] - before, times) == (1, times)
        assert len(world.store.rows) == 2
    (row,) = world.rows()
    await give_order(world.store, FakeClock(), row, False, "")
    async with world.run() as town:  # nobody says a word
        await trio.sleep(5)
        assert town.sent()[-1] == "Which street?"
        assert [row.parked_because for row in world.rows()] == [None]
        assert world.store.rows == {}


async def test_the_alarm_counts_and_names_the_commands(autojump_clock: MockClock) -> None:
    """At the first, and when there are ten times as many."""
    world = World()
    async with world.run() as town:
        for chat in range(1, 13):
            await town.says("/order", chat)
    async with world.run(broken=True) as town:
        for chat in range(1, 13):
            await town.says("Pizza", chat)
            await town.rest()
        first, tenth = [alarm.text for alarm in town.alarms if alarm.kind == "conversation_parked"]
        name = "test_parked.shop.<locals>.order"
        assert f"1 in all, 1 of {name} since the start" in first
        assert "operation 1: a send sendMessage ended here; now it is a sleep" in first
        assert f"10 of {name} since the start" in tenth
        for text in (first, tenth):
            assert f"`triobot journal retry --route '{name}'`" in text
            assert "journal end" in text
