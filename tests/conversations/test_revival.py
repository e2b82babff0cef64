"""Conversations that come back: from the store after a restart, and from it while the program runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import attrs
import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import TEXTS, Town, open_town, start
from trio.testing import MockClock

from triobot.conversations import registry
from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import command, message, text
from triobot.conversations.routes.matching import matches
from triobot.conversations.routes.router import Router
from triobot.seams.inbox import Acceptance, Arrival
from triobot.seams.journals import AppendRecords
from triobot.seams.writes import JournalConflictError, Write
from triobot.wire.events import Message


def counting_bot(got: list[str]) -> Router:
    """Counts what it hears in each chat, and says so."""
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        got.append("cancel")
        await chat.send("Cancelled.")

    @bot.aside(command("help"))
    async def help_(chat: Chat) -> None:
        got.append("help")

    @bot.conversation(message())
    async def count(chat: Chat[Message]) -> None:
        number = 0
        while True:
            await chat.receive(text())
            number += 1
            await chat.send(str(number))

    return bot


# --- while the program runs


async def test_chats_in_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in which nothing has happened for longest leave it, and come back when something does."""
    monkeypatch.setattr(registry, "KEPT", 3)
    async with open_town(counting_bot([])) as town:
        for chat in range(1, 11):
            await town.says("hi", chat)
        assert len(town.dispatcher.chats.actors) == 3
        assert len(town.dispatcher.tasks.running) == 3
        assert town.counts["evicted"] == 7
        for _ in range(2):
            for chat in range(1, 11):
                await town.says("more", chat)
                assert len(town.dispatcher.chats.actors) <= 3
        for chat in range(1, 11):
            assert town.sent(chat) == ["1", "2"]
        assert town.store.rows == {}
        assert "crashed" not in town.counts
        assert "parked" not in town.counts


async def test_the_chat_that_was_used_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the least recently used that leaves."""
    monkeypatch.setattr(registry, "KEPT", 2)
    async with open_town(counting_bot([])) as town:
        for chat in (1, 2, 1, 3):
            await town.says("hi", chat)
        assert sorted(town.dispatcher.chats.actors) == [1, 3]


async def test_who_is_busy_stays(monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock) -> None:
    """However many there are: a step is never cut for memory's sake."""
    monkeypatch.setattr(registry, "KEPT", 1)
    bot, done = Router(), list[int]()

    @bot.conversation
    async def work(chat: Chat) -> None:
        await chat.step(trio.sleep, 10)
        done.append(chat.id)

    async with open_town(bot) as town:
        for chat in range(1, 6):
            await town.says("hi", chat, wait=False)
        await trio.sleep(1)
        assert len(town.dispatcher.chats.actors) == 5
        await trio.sleep(100)
    assert sorted(done) == [1, 2, 3, 4, 5]


async def test_a_deadline_of_who_has_left_memory(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """It comes back for that, in time."""
    monkeypatch.setattr(registry, "KEPT", 1)
    bot, ended = Router(), list[float]()

    @bot.conversation
    async def work(chat: Chat) -> None:
        with chat.move_on_after(30):
            await chat.receive(text("never"))
        if chat.id == 1:
            ended.append(trio.current_time())

    async with open_town(bot) as town:
        begun = trio.current_time()
        for chat in (1, 2, 3):
            await town.says("hi", chat)
        assert 1 not in town.dispatcher.chats.actors
        await trio.sleep(100)
    assert [round(time - begun) for time in ended] == [30]


# --- after a restart


async def test_what_was_sent_while_nobody_ran_is_looked_at_as_if_it_came_now(
    autojump_clock: MockClock,
) -> None:
    """An aside and an interrupt behind a full mailbox don't wait until a long sleep is over."""
    got: list[str] = []
    bot = counting_bot(got)

    @bot.interrupt(command("doze"))
    async def doze(chat: Chat) -> None:
        await chat.sleep(10**6)

    store = FakeStore()
    async with open_town(bot, store=store) as town:
        await town.says("/doze")
    town = Town(bot, FakeOutbox(), store, TEXTS, username=None)
    for words in (*map(str, range(40)), "/help", "/cancel", "after"):
        await town.says(words)
    async with trio.open_nursery() as nursery:
        run = await start(nursery, town)
        await trio.sleep(10)
        assert got == ["help", "cancel"]
        assert town.sent() == ["Cancelled."]
        assert store.rows == {}
        assert town.counts["interrupted"] == 40
        await run.cut()


async def test_a_deadline_that_passed_while_nobody_ran(autojump_clock: MockClock) -> None:
    """It ends its block at once; what comes then has its full length."""
    bot, took = Router(), list[float]()

    @bot.conversation
    async def work(chat: Chat) -> None:
        with chat.move_on_after(60):
            await chat.receive(text("never"))
        begun = chat.now()
        await chat.sleep(60)
        took.append((chat.now() - begun).total_seconds())
        await chat.send("late")

    store, outbox = FakeStore(), FakeOutbox()
    async with open_town(bot, store=store, outbox=outbox) as town:
        await town.says("hi")
    await trio.sleep(3600)
    async with open_town(bot, store=store, outbox=outbox) as town:
        await trio.sleep(50)
        assert town.sent() == []
        await trio.sleep(20)
        assert town.sent() == ["late"]
    assert took == [60]


@pytest.mark.parametrize(
    ("down", "wanted"),
    [
        (0, [("inner", 100), ("middle", 200), ("outer", 300)]),
        # It ends as soon as somebody is there to see it, and the others keep their own times.
        (100, [("inner", 100), ("middle", 250), ("outer", 300)]),
        # The outermost goes by its own time, too: the one inside it had ended before.
        (400, [("inner", 100), ("middle", 550), ("outer", 550)]),
    ],
)
async def test_three_blocks_with_a_restart_in_the_middle(
    down: float, wanted: list[tuple[str, float]], autojump_clock: MockClock
) -> None:
    """Each ends at its own time, measured from when it began; one or two of them while nobody runs."""
    bot, ends = Router(), list[tuple[str, float]]()

    @bot.conversation
    async def work(chat: Chat) -> None:
        begun = chat.now()

        def ended(name: str) -> None:
            if (name, seconds := (chat.now() - begun).total_seconds()) not in ends:
                ends.append((name, seconds))

        with chat.move_on_after(300) as outer:
            with chat.move_on_after(200) as middle:
                with chat.move_on_after(100) as inner:
                    await chat.receive(text("never"))
                assert inner.cancelled_caught
                ended("inner")
                await chat.receive(text("never"))
            assert middle.cancelled_caught
            ended("middle")
            await chat.receive(text("never"))
        assert outer.cancelled_caught
        ended("outer")

    store = FakeStore()
    async with open_town(bot, store=store) as town:
        await town.says("hi")
        await trio.sleep(150)
    await trio.sleep(down)
    for pause in (100, 100):
        async with open_town(bot, store=store) as town:
            await trio.sleep(pause)
            assert "parked" not in town.counts
    assert ends == wanted
    assert not store.journals.conversations(5)  # type: ignore[arg-type]


# --- what can't go on


class Unheld:
    """No record can hold it."""

    def __init__(self, typed: str) -> None: ...


@attrs.frozen
class Sum:
    of: str = attrs.field(converter=lambda typed: cast("str", Unheld(typed)))


async def test_a_start_that_no_record_can_hold_fails(caplog: pytest.LogCaptureFixture) -> None:
    """It could not go on after a restart. The error names the value, and the chat is free."""
    bot = Router()

    @bot.conversation(matches(r"sum (?P<of>\d+)", Sum))
    async def work(chat: Chat) -> None:
        await chat.send("never")

    @bot.conversation(text("hi"))
    async def other(chat: Chat) -> None:
        await chat.send("hello")

    async with open_town(bot) as town:
        await town.says("sum 7")
        await town.says("hi")
        assert town.sent() == [TEXTS.apology, "hello"]
        assert town.counts["crashed"] == 1
    assert "UnrecordableError" in caplog.text
    assert "Unheld" in caplog.text


def versions(got: list[str], version: int, *, first: str = "") -> Router:
    """A bot that has changed: its version, or without saying so what it does first."""
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        got.append("cancel")

    @bot.conversation(text("hi"), version=version)
    async def work(chat: Chat) -> None:
        if first:
            await chat.step(trio.sleep, 0)
        await chat.send("Hello.")
        await chat.receive(text("more"))
        got.append("more")

    return bot


@pytest.mark.parametrize("changed", ["version", "code"])
async def test_other_code_parks_what_it_cannot_run(changed: str, autojump_clock: MockClock) -> None:
    """Nothing is lost: the old code goes on with it, and an interrupt ends it."""
    got: list[str] = []
    old = versions(got, 1)
    new = versions(got, 2) if changed == "version" else versions(got, 1, first="step")
    store, outbox = FakeStore(), FakeOutbox()
    async with open_town(old, store=store, outbox=outbox) as town:
        await town.says("hi")
        await town.says("hi", 7)
    for words in range(1, 3):
        async with open_town(new, store=store, outbox=outbox) as town:
            await town.says("hm")
            await town.rest()
            assert town.counts["parked"] >= 1
            assert store.journals.conversations(5)[0].parked_because  # type: ignore[arg-type]
            assert town.sent() == ["Hello.", *[TEXTS.parked] * words]
            assert town.alarms
            await trio.sleep(61)  # it is said once a minute, whoever says it
    async with open_town(old, store=store, outbox=outbox) as town:
        await town.says("more")
        await trio.sleep(10)
        assert got == ["more"]
    async with open_town(new, store=store, outbox=outbox) as town:
        await town.says("/cancel", 7)
        await trio.sleep(10)
        assert got == ["more", "cancel"]
        assert not store.journals.conversations(7)  # type: ignore[arg-type]
        assert store.rows == {}


async def test_what_the_store_refused_is_gone_on_from_at_the_next_start(autojump_clock: object) -> None:
    """Nobody has seen anything of it, no other chat suffers, and its event waits in the inbox."""

    class Refusing(FakeStore):
        refuses = False

        async def commit(self, *writes: Write) -> None:
            if self.refuses and any(
                isinstance(one, AppendRecords) and one.conversation == 1 for one in writes
            ):
                raise JournalConflictError(1, "somebody else wrote it")
            await super().commit(*writes)

        async def accept(self, arrival: Arrival, *, also: Sequence[Write] = (), **rest: Any) -> Acceptance:
            if self.refuses and any(isinstance(one, AppendRecords) and one.conversation == 1 for one in also):
                raise JournalConflictError(1, "somebody else wrote it")
            return await super().accept(arrival, also=also, **rest)

    router, store, outbox, ran = Router(), Refusing(), FakeOutbox(), list[str]()

    async def does(what: str) -> None:
        await trio.lowlevel.checkpoint()
        ran.append(what)

    @router.conversation
    async def order(chat: Chat) -> None:
        while True:
            name = await chat.ask("Name?")
            await chat.step(does, name)

    async with open_town(router, store=store, outbox=outbox) as town:
        await town.says("hi")
        await town.says("hi", 6)
        await town.says("one")
        store.refuses = True
        await town.says("two", wait=False)
        await town.says("other", 6)
        await trio.sleep(5)
        assert ran == ["one", "other"]
        assert [alarm.kind for alarm in town.alarms] == ["conversation_parked"]
        store.refuses = False
    async with open_town(router, store=store, outbox=outbox) as town:
        await trio.sleep(5)
        assert ran == ["one", "other", "two"]
        assert town.sent().count("Name?") == 3
        assert store.rows == {}


@pytest.mark.parametrize("down", [10, 1_000])
@pytest.mark.parametrize("kind", ["receive", "ask", "end"])
async def test_what_was_accepted_before_a_deadline_goes_first_although_that_passed_meanwhile(
    autojump_clock: MockClock, kind: str, down: float
) -> None:
    """It came while the bot stopped, or was too busy, and waits in the inbox at the next start."""
    bot, got = Router(), list[object]()

    @bot.conversation
    async def work(chat: Chat) -> None:
        with chat.move_on_after(60) as limit:
            if kind == "end":
                with chat.move_on_when(text("in time")) as block:
                    await chat.sleep(50_000)
                got.append(block.event is not None)
            else:
                got.append(await (chat.receive(text()) if kind == "receive" else chat.ask("?")))
        got.append(limit.cancelled_caught)

    store, outbox = FakeStore(), FakeOutbox()
    async with open_town(bot, store=store, outbox=outbox) as town:
        await town.says("hi")
        await trio.sleep(5)
    town = Town(bot, outbox, store, TEXTS, username=None)
    await town.says("in time")
    await trio.sleep(down)
    async with trio.open_nursery() as nursery:
        run = await start(nursery, town)
        await trio.sleep(1)
        assert len(got) == 2
        assert got[1] is False
        assert not store.rows
        await run.cut()


async def test_a_deadline_that_passed_meanwhile_ends_its_block_where_nothing_came(
    autojump_clock: MockClock,
) -> None:
    """Also where what came is later than the deadline: that answers the next question."""
    bot, got = Router(), list[object]()

    @bot.conversation
    async def work(chat: Chat) -> None:
        with chat.move_on_after(60) as limit:
            await chat.ask("?")
        got.append(limit.cancelled_caught)
        got.append(await chat.receive(text("late")))

    store, outbox = FakeStore(), FakeOutbox()
    async with open_town(bot, store=store, outbox=outbox) as town:
        await town.says("hi")
    town = Town(bot, outbox, store, TEXTS, username=None)
    await trio.sleep(100)
    await town.says("late")
    async with trio.open_nursery() as nursery:
        run = await start(nursery, town)
        await trio.sleep(1)
        assert got[0] is True
        assert len(got) == 2
        await run.cut()
