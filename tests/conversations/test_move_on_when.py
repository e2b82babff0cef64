"""Blocks that an event ends, or a time of day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
import trio
from doubles import EPOCH, FakeOutbox, FakeStore
from town import TEXTS, open_town
from trio.testing import MockClock

from triobot.conversations.blocks import Scope
from triobot.conversations.chat import Chat
from triobot.conversations.mailbox import MAILBOX
from triobot.conversations.routes.filters import Command, Filter, command, message, pressed, text
from triobot.conversations.routes.router import Router
from triobot.conversations.routes.routing import Otherwise
from triobot.errors import LocalProtocolError

START = datetime.fromtimestamp(EPOCH / 1000, UTC)


# --- by an event


async def test_an_event_ends_a_block_ahead_of_its_questions() -> None:
    """And is there as the filter took it; it is consumed with the record that takes it."""
    bot = Router()

    @bot.interrupt(command("stop"))
    async def stop(chat: Chat) -> None:
        await chat.send("never")

    @bot.conversation
    async def order(chat: Chat) -> None:
        with chat.move_on_when(command("stop")) as stopped:
            await chat.ask("One?")
            await chat.choose("Two?", {2: "Two"})
        assert isinstance(stopped.event, Command)
        await chat.send(f"stopped {stopped.cancelled_caught} {stopped.event.rest}")
        await chat.ask("Why?")

    outbox, store = FakeOutbox(), FakeStore()
    async with open_town(bot, outbox=outbox, store=store) as town:
        await town.says("hi")
        await town.says("one")
        hold = outbox.hold(lambda op: getattr(op, "content", "").startswith("stopped"))
        seq = await town.says("/stop now")
        assert seq not in store.rows
        hold.release()
        await town.rest()
        assert seq not in store.rows
        assert town.sent() == ["One?", "Two?", "stopped True now", "Why?"]
        assert [edit.content for edit in town.edits()] == ["Two?"]
        await town.presses("Two")
        assert outbox.presses == [("refused", "press1", TEXTS.expired)]


async def test_a_block_that_no_event_ends_is_nothing() -> None:
    """What would have ended it goes its usual way afterwards."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        with chat.move_on_when(text("back")) as back:
            name = await chat.ask("Name?")
        assert (back.cancelled_caught, back.event) == (False, None)
        await chat.send(f"{name} {await chat.ask('More?')}")

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("Ali")
        await town.says("back")
        assert town.sent() == ["Name?", "More?", "Ali back"]
        assert town.left_over() == {}


async def test_a_busy_conversation_is_ended_too(autojump_clock: MockClock) -> None:
    """A step is cancelled in the middle."""
    bot = Router()
    steps: list[str] = []

    async def convert() -> None:
        steps.append("begun")
        try:
            await trio.sleep(3600)
        finally:
            steps.append("cleaned up")

    @bot.conversation(text("hi"))
    async def work(chat: Chat) -> None:
        with chat.move_on_when(text("stop")) as stop:
            await chat.step(convert)
        await chat.send(f"stopped: {stop.cancelled_caught}")

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("something else")
        assert steps == ["begun"]
        await town.says("stop")
        assert steps == ["begun", "cleaned up"]
        assert town.sent() == ["stopped: True"]


async def test_of_several_blocks_the_innermost_that_takes_it_ends(autojump_clock: MockClock) -> None:
    """They nest with each other and with timeouts."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        with chat.move_on_when(text("a", "b")) as outer, chat.move_on_after(100) as limit:
            with chat.move_on_when(text("b", "c")) as inner:
                await chat.ask("One?")
            await chat.send(f"inner {inner.cancelled_caught}")
            await chat.ask("Two?")
        await chat.send(f"limit {limit.cancelled_caught} outer {outer.cancelled_caught}")

    async with open_town(bot) as town:
        for words in (["b", "b"], ["a"], ["c", "a"]):
            await town.says("hi")
            for word in words:
                await town.says(word)
        assert town.sent() == [
            *("One?", "inner True", "Two?", "limit False outer True"),
            *("One?", "limit False outer True"),
            *("One?", "inner True", "Two?", "limit False outer True"),
        ]
        await town.says("hi")
        await trio.sleep(101)
        assert town.sent()[10:] == ["One?", "limit True outer False"]


async def test_what_is_queued_ends_a_block_that_opens() -> None:
    """Before anything of it is sent; the rest of the queue stays in order."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        await chat.send("Thinking.")
        with chat.move_on_when(text("back")) as back:
            await chat.ask("One?")
        await chat.send(f"back {back.cancelled_caught}")
        await chat.send(f"{await chat.ask('Two?')} {await chat.ask('Three?')}")

    outbox = FakeOutbox()
    held = outbox.hold(lambda op: op.content == "Thinking.")
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        for word in ("x", "back", "y"):
            await town.says(word)
        held.release()
        await town.rest()
        assert town.sent() == ["Thinking.", "back True", "Two?", "Three?", "x y"]


async def test_an_event_ends_a_block_of_a_chat_that_is_behind(autojump_clock: MockClock) -> None:
    """Its mailbox is full, and the event goes ahead of what waits in the inbox."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        with chat.move_on_when(text("stop")):
            await chat.sleep(3600)
        await chat.send("stopped")
        while await chat.receive(message()):
            await chat.send("one more")

    async with open_town(bot) as town:
        await town.says("hi")
        for _ in range(MAILBOX + 5):
            await town.says("x")
        await town.says("stop")
        await trio.sleep(1)
        assert town.sent() == ["stopped", *["one more"] * (MAILBOX + 5)]


async def test_an_event_that_waited_in_the_inbox_ends_a_block_that_opened_since() -> None:
    """It was passed on to the mailbox late, and the block was not there when it came."""
    bot = Router()

    @bot.conversation(text("hi"))
    async def order(chat: Chat) -> None:
        await chat.send("Thinking.")
        with chat.move_on_when(text("stop")) as stop:
            while True:
                await chat.receive(message())
        await chat.send(f"stopped {stop.cancelled_caught}")

    outbox = FakeOutbox()
    held = outbox.hold(lambda op: op.content == "Thinking.")
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        for _ in range(MAILBOX + 5):
            await town.says("x")
        await town.says("stop")
        held.release()
        await town.rest()
        assert town.sent() == ["Thinking.", "stopped True"]


async def test_a_block_keeps_its_event_however_it_is_left() -> None:
    """It came to its own end before it felt the event, which is the block's all the same."""
    bot = Router()

    @bot.interrupt(command("stop"))
    async def stop(chat: Chat) -> None:
        await chat.send("interrupt")

    scopes: list[Scope[Command]] = []

    @bot.conversation
    async def order(chat: Chat) -> None:
        with chat.move_on_when(command("stop")) as scope:
            scopes.append(scope)
            with chat.shield():
                await chat.ask("One?")
        await chat.ask("Two?")

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("/stop")
        assert town.sent() == ["One?"]
        await town.says("one")
        assert town.sent() == ["One?", "Two?"]
        assert not scopes[0].cancelled_caught
        assert isinstance(scopes[0].event, Command)
        assert town.store.rows == {}


async def test_what_ended_a_block_answers_no_question_after_it() -> None:
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        with chat.move_on_when(text("stop")) as stopped, chat.shield():
            await chat.receive(text("go"), otherwise=Otherwise.KEEP)
        assert stopped.event is not None
        await chat.send(await chat.ask("Two?"))

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("stop")
        await town.says("go")
        assert town.sent() == ["Two?"]
        await town.says("two")
        assert town.sent() == ["Two?", "two"]


async def test_a_press_ends_a_block_and_may_be_answered() -> None:
    """Even one of a question that is open: the block is asked first."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        with chat.move_on_when(pressed()) as moved:
            await chat.choose("One?", {1: "One"})
        assert moved.event is not None
        await chat.answer("Seen.")

    async with open_town(bot) as town:
        await town.says("hi")
        await town.presses("One")
        await town.presses("One")
        assert sorted(town.outbox.presses) == [
            ("answered", "press1", "Seen."),
            ("refused", "press2", ""),
            ("taken", "press1", ""),
        ]


async def test_a_branchs_block_ends_that_branch_only() -> None:
    bot = Router()

    async def listen(chat: Chat, word: str) -> None:
        with chat.move_on_when(text(word)):
            await chat.sleep(3600)
        await chat.send(f"heard {word}")

    @bot.conversation
    async def order(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(listen, chat, "a")
            nursery.start_soon(listen, chat, "b")

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("a")
        assert town.sent() == ["heard a"]
        await town.says("b")
        assert town.sent() == ["heard a", "heard b"]
        assert town.left_over() == {}


async def test_an_asides_block_is_ended_beside_the_live_one() -> None:
    bot = Router()

    @bot.aside(command("remind"))
    async def remind(chat: Chat) -> None:
        with chat.move_on_when(text("forget it")):
            await chat.sleep(3600)
        await chat.send("forgotten")

    @bot.conversation
    async def order(chat: Chat) -> None:
        await chat.ask("One?")

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("/remind")
        await town.says("forget it")
        assert town.sent() == ["One?", "forgotten"]


async def test_an_interrupt_ends_a_conversation_with_open_blocks() -> None:
    """What comes while it still cleans up is its successor's."""
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send(await chat.ask("Why?"))

    @bot.conversation
    async def order(chat: Chat) -> None:
        with chat.move_on_when(text("stop")), chat.shield():
            await chat.send("held")

    outbox = FakeOutbox()
    held = outbox.hold(lambda op: op.content == "held")
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        await town.says("/cancel")
        await town.says("stop")
        held.release()
        await town.rest()
        assert town.sent() == ["held", "Why?", "stop"]
        assert town.left_over() == {}


async def test_an_event_that_ended_a_block_is_the_journals() -> None:
    """Its row waits until the block is left: a stop finds it taken, and the next process goes on."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        with chat.move_on_when(text("stop", "again")) as stop:
            with chat.shield():
                await chat.receive(command("go"), otherwise=Otherwise.KEEP)
            await chat.ask("never")
        assert stop.event is not None
        await chat.send(f"stopped by {stop.event.content}")
        await chat.send(await chat.ask("More?"))

    store = FakeStore()
    async with open_town(bot, store=store) as town:
        await town.says("hi")
        await town.says("stop")
    async with open_town(bot, store=store) as town:
        await town.says("again")
        assert town.sent() == []
        await town.says("/go")
        assert town.sent() == ["stopped by stop", "More?", "again"]
    assert not store.rows


async def test_an_error_in_the_block_is_raised_and_the_event_is_dealt_with() -> None:
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        with chat.move_on_when(text("stop")) as stop:
            try:
                await chat.ask("One?")
            finally:
                raise KeyError(1)
        await chat.send(f"never {stop}")

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("stop")
        assert town.sent() == ["One?", TEXTS.apology]
        assert town.store.rows == {}


async def test_a_blocks_filter_that_fails_takes_nothing() -> None:
    bot = Router()

    def look(event: object, setting: object) -> object | None:
        raise KeyError("author")

    bad: Filter[object] = Filter(look, "bad")

    @bot.conversation
    async def order(chat: Chat) -> None:
        with chat.move_on_when(bad):
            await chat.send(await chat.ask("One?"))

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("one")
        assert town.sent() == ["One?", "one"]
        assert town.counts["filter_failed"] == 1


# --- by the time of day


async def test_a_block_ends_at_a_time_of_day(autojump_clock: MockClock) -> None:
    """Whatever its time zone."""
    bot = Router()
    tehran = timezone(timedelta(hours=3, minutes=30))

    @bot.conversation
    async def order(chat: Chat) -> None:
        with chat.move_on_at((START + timedelta(seconds=50)).astimezone(tehran)) as limit:
            await chat.ask("One?")
        await chat.send(f"limit {limit.cancelled_caught}")
        with chat.move_on_at(START) as limit:
            await chat.ask("never")
        await chat.send(f"limit {limit.cancelled_caught}")

    async with open_town(bot) as town:
        await trio.sleep(10)
        await town.says("hi")
        await trio.sleep(39)
        assert town.sent() == ["One?"]
        await trio.sleep(2)
        assert town.sent() == ["One?", "limit True", "limit True"]


async def test_a_sleep_ends_at_a_time_of_day(autojump_clock: MockClock) -> None:
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        await chat.sleep_until(START - timedelta(days=1))
        await chat.send("at once")
        await chat.sleep_until(START + timedelta(days=1))
        await chat.send("a day later")

    async with open_town(bot) as town:
        await trio.sleep(5)
        await town.says("hi")
        assert town.sent() == ["at once"]
        await trio.sleep(24 * 3600 - 6)
        assert town.sent() == ["at once"]
        await trio.sleep(2)
        assert town.sent() == ["at once", "a day later"]


async def test_a_sleep_follows_a_clock_that_is_set(autojump_clock: MockClock) -> None:
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        await chat.sleep_until(START + timedelta(hours=5))
        await chat.send("awake")

    async with open_town(bot) as town:
        await town.says("hi")
        town.clock.set(5 * 3600 * 1000)
        await trio.sleep(61)
        assert town.sent() == ["awake"]


@pytest.mark.parametrize("when", [datetime(2030, 1, 1), 12.0, None])  # noqa: DTZ001
async def test_a_time_of_day_needs_its_zone(when: datetime) -> None:
    """Else it would be another one on another machine."""
    bot = Router()
    errors: list[str] = []

    @bot.conversation
    async def order(chat: Chat) -> None:
        for use in (chat.move_on_at, chat.sleep_until):
            try:
                made = use(when)
                if not isinstance(made, Scope):
                    await made
            except LocalProtocolError as error:
                errors.append(error.field)

    async with open_town(bot) as town:
        await town.says("hi")
    assert errors == ["when", "when"]
