"""The program stops: no conversation has ended, nothing that is in hand is lost, drain waits for the busy."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import CHAT, TEXTS, Town, open_town, start
from trio.testing import MockClock, wait_all_tasks_blocked

from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import command, message, text
from triobot.conversations.routes.router import Router
from triobot.seams.writes import Write
from triobot.wire.events import Message


def asking_bot(got: list[object]) -> Router:
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        got.append(await chat.choose("Which?", {1: "One"}))
        got.append(await chat.ask("Name?"))
        await chat.send("Thanks.")

    return bot


async def test_a_stop_is_no_ending(autojump_clock: MockClock) -> None:
    """No button goes, no apology is said; what was taken is in the journals."""
    got: list[object] = []
    store = FakeStore()
    outbox = FakeOutbox()
    async with open_town(asking_bot(got), store=store, outbox=outbox) as town:
        await town.says("hi")
        await town.says("hi", 6)
        outbox.hold(lambda op: op.chat_id == 6)
        await town.presses("One", 6)
        assert got == [1]
    assert [type(op).__name__ for op in outbox.left] == ["SendMessage"] * 3 + ["EditMessage"] or town.edits(
        5
    ) == []
    assert town.edits(CHAT) == []
    assert list(store.rows) == []
    assert TEXTS.apology not in town.sent() + town.sent(6)


async def test_a_restart_goes_on_with_what_was_in_hand() -> None:
    """In the order of acceptance, and then with what waited behind it."""
    bot = Router()
    got: list[str] = []

    @bot.conversation
    async def echo(chat: Chat[Message]) -> None:
        await chat.send(f"echo {chat.event.content}")
        got.append(chat.event.content)

    store = FakeStore()
    outbox = FakeOutbox()
    held = outbox.hold()
    async with open_town(bot, store=store, outbox=outbox) as town:
        await town.rest()
        for words in ("a", "b", "c"):
            await town.says(words)
        await town.says("a", 6)
    assert [row.begun is not None for row in store.rows.values()] == [True, False, False, True]
    held.release()
    async with open_town(bot, store=store, outbox=outbox) as town:
        await town.rest()
        assert store.rows == {}
        assert town.left_over() == {}
    assert sorted(got) == ["a", "a", "b", "c"]
    assert [op.content for op in outbox.left if op.chat_id == CHAT][1:] == ["echo a", "echo b", "echo c"]


async def test_drain_waits_for_the_busy_only(autojump_clock: MockClock) -> None:
    """Those who wait, sleep or nurse children are parked; a conversation that sends or steps is not."""
    bot = Router()

    async def slow() -> None:
        await trio.sleep(3)

    async def child(chat: Chat) -> None:
        await chat.receive(command("never"))

    @bot.conversation(command("ask"))
    async def ask(chat: Chat) -> None:
        await chat.ask("?")

    @bot.conversation(command("sleep"))
    async def sleep(chat: Chat) -> None:
        await chat.sleep(10**6)

    @bot.conversation(command("nurse"))
    async def nurse(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(child, chat)

    @bot.conversation(command("step"))
    async def step(chat: Chat) -> None:
        await chat.step(slow)
        await chat.send("stepped")
        await chat.ask("?")

    async with open_town(bot) as town:
        for chat, words in enumerate(("/ask", "/sleep", "/nurse")):
            await town.says(words, chat)
        with trio.fail_after(0.1):
            await town.dispatcher.drain()
        assert town.dispatcher.work.stopping

    async with open_town(bot) as town:
        await town.says("/step", 9)
        start_time = trio.current_time()
        await town.dispatcher.drain()
        assert trio.current_time() - start_time == pytest.approx(3)
        assert town.sent(9) == ["stepped", "?"]


async def test_drain_waits_for_what_was_given_and_not_looked_at_yet() -> None:
    """Also for a conversation that has not begun, and for a child."""
    bot = Router()
    got: list[str] = []

    async def child() -> None:
        for _ in range(5):
            await trio.lowlevel.checkpoint()
        got.append("child")

    @bot.conversation
    async def work(chat: Chat) -> None:
        got.append("begun")
        got.append(await chat.ask("?"))
        async with chat.open_nursery() as nursery:
            nursery.start_soon(child)

    async with open_town(bot) as town:
        await town.says("hi", wait=False)
        while not town.dispatcher.tasks.running:
            await trio.lowlevel.checkpoint()
        await town.dispatcher.drain()
        assert got == ["begun"]

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("answer", wait=False)
        while not town.dispatcher.work.busy:
            await trio.lowlevel.checkpoint()
        await town.dispatcher.drain()
        assert got == ["begun", "begun", "answer", "child"]


async def test_a_long_step_is_done_again_after_a_stop(autojump_clock: MockClock) -> None:
    """The answer before it was taken before it was stored; nobody is asked again."""
    bot, steps = Router(), list[float]()

    async def step() -> None:
        steps.append(trio.current_time())
        await trio.sleep(100)

    @bot.conversation
    async def work(chat: Chat) -> None:
        answer = await chat.ask("Ready?")
        await chat.step(step)
        await chat.send(f"{answer}: done.")

    store = FakeStore()
    async with open_town(bot, store=store) as town:
        await town.says("hi")
        await town.says("yes")
        assert town.counts["answered_at_once"] == 1
        with trio.move_on_after(10):
            await town.dispatcher.drain()
        assert store.rows == {}
    async with open_town(bot, store=store) as town:
        await trio.sleep(200)
        assert town.sent() == ["yes: done."]
        assert "parked" not in town.counts
    assert len(steps) == 2
    assert await store.conversations(CHAT) == []


async def test_after_drain_nothing_more_is_given_out() -> None:
    """It stays in the inbox, also what would have interrupted."""
    bot = Router()
    got: list[str] = []

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        got.append("cancel")

    @bot.conversation
    async def work(chat: Chat) -> None:
        got.append(await chat.ask("?"))

    store = FakeStore()
    async with open_town(bot, store=store) as town:
        await town.says("hi")
        await town.dispatcher.drain()
        for words in ("answer", "/cancel"):
            await town.says(words)
        await town.says("new", 6)
        assert got == []
        assert list(store.rows) == [2, 3, 4]
    async with open_town(bot, store=store) as town:
        await town.rest()
        assert got == ["answer", "cancel"]
        assert town.sent() == []
        assert town.sent(6) == ["?"]


@pytest.mark.parametrize("question", [True, False])
async def test_what_waits_for_a_start_ends_the_block_that_was_open(
    question: bool, autojump_clock: MockClock
) -> None:
    """It came while the bot stopped and the block's code worked: that waits for something else since."""
    bot, got = Router(), list[object]()

    @bot.conversation(text("hi"))
    async def order(chat: Chat) -> None:
        with chat.move_on_when(text("enough")) as block:
            await chat.send("Well?")
            await (chat.choose("Which?", {1: "One"}) if question else chat.receive(text()))
        assert block.event is not None
        got.append(block.event.content)

    store, outbox = FakeStore(), FakeOutbox()
    async with open_town(bot, store=store, outbox=outbox) as town:
        outbox.latency = 5
        await town.says("hi")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(town.dispatcher.drain)
            await trio.sleep(1)
            await town.says("enough")
            await trio.sleep(10)
        assert got == []
    outbox.latency = 0
    async with open_town(bot, store=store, outbox=outbox) as town:
        await trio.sleep(10)
        assert got == ["enough"]
        assert TEXTS.want_choice not in town.sent()
        assert store.rows == {}


async def test_a_question_that_is_answered_while_draining_loses_its_buttons() -> None:
    """It has ended; drain waits for that, too."""
    bot = Router()

    @bot.conversation
    async def work(chat: Chat) -> None:
        await chat.choose("Which?", {1: "One"})
        await chat.send("busy")

    outbox = FakeOutbox()
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        held = outbox.hold()
        await town.presses("One")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(town.dispatcher.drain)
            await wait_all_tasks_blocked()
            held.release()
        assert town.sent() == ["Which?", "busy"]
        assert len(town.edits()) == 1
        assert not town.dispatcher.tasks.running


async def test_a_normal_end_while_draining_starts_nobody() -> None:
    """What was queued waits for the restart."""
    bot = Router()

    @bot.conversation
    async def work(chat: Chat) -> None:
        await chat.send("busy")

    outbox = FakeOutbox()
    store = FakeStore()
    held = outbox.hold()
    async with open_town(bot, outbox=outbox, store=store) as town:
        await town.says("hi")
        await town.says("again")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(town.dispatcher.drain)
            await wait_all_tasks_blocked()
            held.release()
        assert town.sent() == ["busy"]
    assert list(store.rows) == [2]


async def test_the_handled_are_deleted_at_the_end(autojump_clock: MockClock) -> None:
    """Even if the store is slow; not for ever."""
    bot = Router()

    @bot.conversation
    async def work(chat: Chat) -> None:
        await chat.send("done")

    store = FakeStore(latency=3)
    async with open_town(bot, store=store) as town:
        await trio.sleep(10)
        await town.says("hi")
    assert store.rows == {}

    store = FakeStore(latency=3)
    async with open_town(bot, store=store) as town:
        await trio.sleep(10)
        await town.says("hi")
        store.latency = 10**6
        began = trio.current_time()
    assert trio.current_time() - began < 60


async def test_a_full_disk_loses_nothing_and_alarms(autojump_clock: MockClock) -> None:
    """The rows stay, and go once there is room."""
    bot = Router()

    @bot.conversation
    async def work(chat: Chat) -> None:
        await chat.send("done")

    store = FakeStore()
    async with open_town(bot, store=store) as town:
        town.at_once = False
        store.full = 3
        await town.says("hi")
        assert list(store.rows) == [1]
        await trio.sleep(5)
        assert store.rows == {}
        assert [alarm.kind for alarm in town.alarms] == ["store_unwritable"] * 3
        store.full = 10**6
        await town.says("hi")
    assert list(store.rows) == [2]


async def test_a_dispatcher_that_is_cut_before_it_began() -> None:
    """Nothing happens."""
    bot = Router()

    @bot.conversation(message())
    async def work(chat: Chat) -> None:
        await chat.send("done")

    with trio.CancelScope() as scope:
        scope.cancel()
        town = Town(bot, FakeOutbox(), FakeStore(), TEXTS, username=None)
        await town.dispatcher.run()
    assert scope.cancelled_caught


async def test_work_that_ends_by_itself_in_the_cut_consumes_nothing_wrong(autojump_clock: MockClock) -> None:
    """One that never came to an operation has left nothing behind: what starts it starts it once more."""
    bot = Router()
    begun: list[str] = []

    @bot.conversation(text("hi"))
    async def work(chat: Chat) -> None:
        begun.append("hi")
        with trio.CancelScope(shield=True):
            await trio.sleep(5)

    store = FakeStore()
    async with trio.open_nursery() as nursery:
        town = Town(bot, FakeOutbox(), store, TEXTS, username=None)
        town.at_once = False
        run = await start(nursery, town)
        await town.says("hi")
        await town.says("more")
        await run.cut()
        assert list(store.rows) == [1, 2]
        assert begun == ["hi"]

        town.new_dispatcher()
        run = await start(nursery, town)
        await trio.sleep(60)
        await run.cut()
    assert begun == ["hi", "hi"]
    assert store.rows == {}


@pytest.mark.parametrize("ends", ["leaves", "stop"])
async def test_what_ends_a_conversation_is_not_dealt_with_before_that_is_stored(
    ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between the two would leave the conversation to go on."""
    bot, store, order, room = Router(), FakeStore(), list[str](), trio.Event()
    commit, note = store.commit, store.note_consumed

    async def late(*writes: Write) -> None:
        order.append(" ".join(sorted(type(write).__name__ for write in writes)))
        await room.wait()
        await commit(*writes)

    def noted(seqs: Sequence[int]) -> bool:
        order.append("noted")
        return note(seqs)

    @bot.conversation
    async def asks(chat: Chat) -> None:
        await chat.ask("Name?")

    async with open_town(bot, store=store) as town:
        await town.says("hi")
        await town.rest()
        chat_calls = town.dispatcher.chat_calls
        monkeypatch.setattr(store, "commit", late)
        monkeypatch.setattr(store, "note_consumed", noted)
        if ends == "leaves":
            await town.leaves(wait=False)
        else:
            assert await chat_calls.stop(CHAT, chat_calls.table.route_of(asks, None, "stop()").name, None)
        await wait_all_tasks_blocked()
        assert len(order) == 1
        assert "Consume" in order[0]
        assert "AppendRecords" in order[0] or "EndConversation" in order[0]
        room.set()
        await town.rest()
        assert store.rows == {}


async def test_an_interrupted_conversation_that_rests_is_not_busy(autojump_clock: MockClock) -> None:
    """A start is behind it, so it stays in memory; a stop waits no longer for it than for the platform."""
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None: ...

    @bot.conversation
    async def work(chat: Chat) -> None:
        with chat.shield(), chat.move_on_after(10):
            await chat.ask("Sure?")

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("/cancel")
        await trio.sleep(1)
        (conversation,) = town.dispatcher.tasks.running
        assert not conversation.is_waiting
        assert town.dispatcher.tasks.waits_for_platform
