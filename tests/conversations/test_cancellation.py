"""A timeout at every possible moment: each event is handled once, or is there for whoever comes next.

One chat for each pair of a deadline and an arrival, all of them in one virtual time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import product

import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import TEXTS, Town, open_town
from trio.testing import MockClock

from tests.samples import sample
from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import command, message, text
from triobot.conversations.routes.router import Router
from triobot.conversations.routes.routing import Otherwise
from triobot.wire.events import Message
from triobot.wire.operations import SendMessage

# The outbox takes a second: every operation is met before it, within it, at its end and after it.
MOMENTS = [step / 6 for step in range(26)]
PAIRS = list(enumerate(product(MOMENTS, MOMENTS), start=1))

Ask = Callable[[Chat], Awaitable[object]]


async def ask_text(chat: Chat) -> object:
    return await chat.ask("Block?")


async def ask_number(chat: Chat) -> object:
    return await chat.ask("Block?", int)


async def receive(chat: Chat) -> object:
    return (await chat.receive(text())).content


async def keep(chat: Chat) -> object:
    return (await chat.receive(text("7"), otherwise=Otherwise.KEEP)).content


async def twice(chat: Chat) -> object:
    await chat.send("well")
    return await chat.ask("Block?")


ASKS = [ask_text, ask_number, receive, keep, twice]


@pytest.mark.parametrize("asks", ASKS)
async def test_a_message_is_taken_in_the_block_or_after_it(asks: Ask, autojump_clock: MockClock) -> None:
    """Never lost, never twice."""
    pairs = sample(PAIRS, first=ASKS.index(asks))
    heard: Counter[tuple[int, str]] = Counter()
    bot = Router()

    @bot.conversation(command("go"))
    async def work(chat: Chat) -> None:
        deadline = PAIRS[chat.id - 1][1][0]
        with chat.move_on_after(deadline):
            heard[chat.id, f"block {await asks(chat)}"] += 1
            return
        heard[chat.id, f"after {await chat.ask('After?')}"] += 1

    @bot.conversation(message())
    async def fresh(chat: Chat[Message]) -> None:
        heard[chat.id, f"fresh {chat.event.content}"] += 1

    store = FakeStore()
    outbox = FakeOutbox(latency=1.0)
    async with open_town(bot, outbox=outbox, store=store) as town:
        async with trio.open_nursery() as nursery:
            for chat, (_, arrival) in pairs:
                nursery.start_soon(say_later, town, chat, arrival)
        await trio.sleep(100)
        assert store.rows == {}
        assert town.left_over() == {}
    outcomes = Counter(outcome.split()[0] for _, outcome in heard)
    assert len(heard) == len(pairs)
    assert set(heard.values()) == {1}
    assert {outcome.split()[1] for _, outcome in heard} == {"7"}
    assert outcomes["block"] > 0
    assert outcomes["after"] > 0
    assert TEXTS.want_text not in [op.content for op in outbox.left if isinstance(op, SendMessage)]


async def say_later(town: Town, chat: int, arrival: float) -> None:
    await town.says("/go", chat, wait=False)
    await trio.sleep(arrival)
    await town.says("7", chat, wait=False)


@pytest.mark.slow
async def test_a_press_is_taken_or_expired(autojump_clock: MockClock) -> None:
    """Its question ends in any moment: taken once, or answered once that it is over; its buttons go."""
    heard: Counter[int] = Counter()
    bot = Router()

    @bot.conversation
    async def work(chat: Chat) -> None:
        with chat.move_on_after(PAIRS[chat.id - 1][1][0]):
            heard[await chat.choose("Which?", {chat.id: "One"})] += 1
        await chat.sleep(50)

    async def press_later(town: Town, chat: int, arrival: float) -> None:
        await town.says("go", chat, wait=False)
        await trio.sleep(1.0 + arrival)
        if town.messages(chat):
            pressed[chat] = await town.presses("One", chat, wait=False)

    store = FakeStore()
    outbox = FakeOutbox(latency=1.0)
    pressed: dict[int, str] = {}
    async with open_town(bot, outbox=outbox, store=store) as town:
        async with trio.open_nursery() as nursery:
            for chat, (_, arrival) in PAIRS:
                nursery.start_soon(press_later, town, chat, arrival)
        await trio.sleep(100)
        assert store.rows == {}
        assert town.left_over() == {}
    taken = [id for what, id, _ in outbox.presses if what == "taken"]
    refused = [id for what, id, _ in outbox.presses if what == "refused"]
    assert set(heard.values()) == {1}
    assert sorted(taken) == sorted(pressed[chat] for chat in heard)
    assert sorted(refused) == sorted(set(pressed.values()) - set(taken))
    assert len(taken) > 100
    assert len(refused) > 10
    assert [said for what, _, said in outbox.presses if what == "refused"] == [TEXTS.expired] * len(refused)
    for chat in heard:
        assert len(town.edits(chat)) == 1


@pytest.mark.slow
async def test_an_interrupt_at_any_moment_loses_only_what_came_before_it(autojump_clock: MockClock) -> None:
    """A message behind the interrupt is its own; one before it was heard or dropped."""
    heard: dict[int, list[str]] = {}
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        heard.setdefault(chat.id, []).append(f"cancel {await chat.ask('Why?')}")

    @bot.conversation(command("go"))
    async def work(chat: Chat) -> None:
        while True:
            heard.setdefault(chat.id, []).append(f"work {await chat.ask('What?')}")
            await chat.send("well")

    async def live(town: Town, chat: int, first: float, second: float) -> None:
        await town.says("/go", chat, wait=False)
        await trio.sleep(first)
        await town.says("before", chat, wait=False)
        await trio.sleep(second)
        await town.says("/cancel", chat, wait=False)
        await town.says("after", chat, wait=False)

    store = FakeStore()
    async with open_town(bot, outbox=FakeOutbox(latency=1.0), store=store) as town:
        async with trio.open_nursery() as nursery:
            for chat, (first, second) in PAIRS:
                nursery.start_soon(live, town, chat, first, second)
        await trio.sleep(100)
        assert store.rows == {}
        assert town.left_over() == {}
        dropped = town.counts["interrupted"]
    assert all(words in (["cancel after"], ["work before", "cancel after"]) for words in heard.values())
    assert sum(len(words) == 1 for words in heard.values()) == dropped
    assert dropped > 10


# --- what is given back


async def test_what_is_given_back_returns_to_its_place(autojump_clock: MockClock) -> None:
    """Before what came after it."""
    bot = Router()
    got: list[str] = []

    @bot.conversation(command("go"))
    async def work(chat: Chat) -> None:
        with chat.move_on_after(10):
            await chat.ask("Block?")
        for question in ("One?", "Two?"):
            got.append(await chat.ask(question))

    outbox = FakeOutbox()
    outbox.hold(lambda op: op.content == "Block?")
    async with open_town(bot, outbox=outbox) as town:
        for words in ("/go", "a", "b"):
            await town.says(words)
        await trio.sleep(11)
        assert got == ["a", "b"]


async def test_a_press_that_is_given_back_is_answered_that_it_is_over(autojump_clock: MockClock) -> None:
    """Not as if it had been taken."""
    bot = Router()

    @bot.conversation
    async def work(chat: Chat) -> None:
        with chat.move_on_after(10):
            await chat.choose("Block?", {1: "One"})

    outbox = FakeOutbox()
    outbox.hold()
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        outbox.message_ids.append((1, outbox.left[-1]))
        await town.presses("One")
        assert outbox.presses == []
        await trio.sleep(11)
        assert outbox.presses == [("refused", "press1", TEXTS.expired)]
        assert town.store.rows == {}


@pytest.mark.parametrize("how", ["drain", "receive"])
async def test_a_task_on_its_way_out_takes_nothing(how: str) -> None:
    """What came after the interrupt is the interrupt's."""
    bot = Router()
    got: list[str] = []

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        got.append(f"cancel {(await chat.receive(text())).content}")

    @bot.conversation
    async def work(chat: Chat) -> None:
        with chat.shield():
            await chat.send("held")
        if how == "drain":
            got.extend(event.content for event in chat.drain())
        got.append((await chat.receive(text())).content)

    outbox = FakeOutbox()
    held = outbox.hold()
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        await town.says("/cancel")
        await town.says("after")
        held.release()
        await town.rest()
        assert got == ["cancel after"]


async def test_what_an_aside_was_given_survives_a_stop() -> None:
    """It is in the inbox still; the aside is in its journal, and takes it then."""
    bot = Router()
    got: list[str] = []

    @bot.aside(command("aside"))
    async def aside(chat: Chat) -> None:
        got.append(await chat.ask("Name?"))

    store = FakeStore()
    outbox = FakeOutbox()
    held = outbox.hold()
    async with open_town(bot, outbox=outbox, store=store) as town:
        await town.says("/aside")
        await town.says("Ali")
    assert list(store.rows) == [2]
    held.release()
    async with open_town(bot, outbox=outbox, store=store) as town:
        await town.rest()
        assert town.counts["revived"] == 1
    assert got == ["Ali"]
    assert store.rows == {}


async def test_a_leave_while_an_interrupt_waits_for_a_shield(autojump_clock: MockClock) -> None:
    """Neither the interrupt begins, nor does anything go to a chat that was left."""
    bot = Router()
    got: list[str] = []

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        got.append("cancel")

    @bot.conversation
    async def work(chat: Chat) -> None:
        with chat.shield(), chat.move_on_after(10):
            await chat.choose("Sure?", {1: "Yes"})

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("/cancel")
        await town.leaves()
        await trio.sleep(11)
        assert got == []
        assert town.edits() == []
        assert town.left_over() == {}
        assert town.store.rows == {}
