"""An event that a conversation waits for is stored in the transaction that records that it was taken."""

from __future__ import annotations

import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import ALI, CHAT, SARA, TEXTS, Run, Town, open_town, start
from trio.testing import MockClock

from triobot import Buttons, Chat, Key, Router
from triobot.conversations.early import Coming
from triobot.conversations.routes.filters import Filter
from triobot.errors import StoreFullError
from triobot.filters import command, flooding, text
from triobot.seams.inbox import Arrival, Quota, Redelivered
from triobot.seams.writes import Accept, Write
from triobot.wire.events import Message
from triobot.wire.ids import ChatId
from triobot.wire.platform_side import encode_event

COUNT = Key("answers_count", int, default=0)


class Commits(FakeStore):
    """Remembers what was committed by itself, in its units."""

    def __init__(self) -> None:
        super().__init__()
        self.alone: list[tuple[Write, ...]] = []

    async def commit(self, *writes: Write) -> None:
        self.alone.append(writes)
        await super().commit(*writes)


def asking_bot(got: list[object] | None = None) -> Router:
    """Asks twice, and says what it heard, and by chance more."""
    bot, got = Router(), [] if got is None else got

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    @bot.conversation
    async def order(chat: Chat) -> None:
        name = await chat.ask("Name?")
        got.append(f"{name} {chat.uuid()} {chat.now()}")
        await chat.send(f"Hello {got[-1]}.")
        size = await chat.ask("Size?")
        await chat.send(f"{name} gets {size}.")

    return bot


async def delivered(town: Town, words: str, key: str | None = None, chat: int = CHAT) -> bool:
    """Deliver what is taken at once; return whether it was new."""
    said = Message(ChatId(chat), words, ALI)
    body = encode_event(said)
    now = town.services.clock.now()
    arrival = Arrival(said.chat_id, ALI.id, now, body.content_type, body.data, key, key is not None)
    assert town.door is not None
    stored = await town.door.store(said, arrival, Quota(), lambda begins, row: None)
    assert stored is None or isinstance(stored, Redelivered)
    return stored is None


async def kill(town: Town, run: Run) -> None:
    """Leave no time to write anything down."""
    store = town.store
    store.full = 1000
    await run.cut()
    store.full = 0


async def test_question_and_answer_cost_one_commit(autojump_clock: MockClock) -> None:
    """With that the reply leaves; its outcome, and where the conversation stands then, come behind it."""
    store, outbox = Commits(), FakeOutbox()
    async with open_town(asking_bot(), store=store, outbox=outbox) as town:
        await town.says("hi")
        store.alone.clear()
        held = outbox.hold()
        await town.says("Ali")
        assert len(outbox.called) == 2
        (unit,) = store.alone
        assert sum(isinstance(write, Accept) for write in unit) == 1
        assert store.rows == {}
        held.release()
        await town.rest()
        assert town.sent()[1:] == [f"Hello {town.sent()[1].partition('Hello ')[2]}", "Size?"]  # type: ignore[attr-defined]


async def test_what_ends_with_its_answer_leaves_nothing_but_what_it_keeps(autojump_clock: MockClock) -> None:
    """The event goes in with what comes of it."""
    bot, store = Router(), FakeStore()

    @bot.conversation
    async def count(chat: Chat) -> None:
        await chat.ask("One more?")
        chat.data[COUNT] += 1

    async with open_town(bot, store=store) as town:
        await town.says("hi")
        await town.says("yes")
        assert town.counts["answered_at_once"] == 1
        assert store.rows == {}
        assert store.kept == {(CHAT, COUNT.name): "[1,1]"}
        assert await store.conversations(CHAT) == []


async def test_nothing_leaves_before_its_event_is_stored(autojump_clock: MockClock) -> None:
    """Neither what it says, nor what it says in the end, nor what it asks of other chats."""
    bot, store, outbox = Router(), FakeStore(), FakeOutbox()

    @bot.conversation
    async def fails(chat: Chat) -> None:
        if await chat.ask("Well?") == "fail":
            raise ValueError
        await chat.signal(6, "go")  # type: ignore[attr-defined]
        await chat.send("Told.")

    async with open_town(bot, store=store, outbox=outbox) as town:
        for said in ("fail",):
            await town.says("hi")
            store.latency = 5
            async with trio.open_nursery() as nursery:
                nursery.start_soon(delivered, town, said)
                await trio.sleep(4)
                assert town.sent() == ["Well?"]
            await trio.sleep(50)
            assert town.sent() == ["Well?", TEXTS.apology]


async def test_what_was_being_said_at_a_crash_is_said_again_word_for_word(autojump_clock: MockClock) -> None:
    """Twice over: the turn that was torn runs again as it ran, and after it everything goes its way."""
    store, got = FakeStore(), list[object]()
    bot, outboxes = asking_bot(got), [FakeOutbox(), FakeOutbox(), FakeOutbox()]
    async with trio.open_nursery() as nursery:
        town = Town(bot, outboxes[0], store, TEXTS, username=None)
        run = await start(nursery, town)
        await town.rest()
        await town.says("hi")
        outboxes[0].hold()
        await town.says("Ali")
        assert town.counts["answered_at_once"] == 1
        await kill(town, run)
    await trio.sleep(5)
    for outbox in outboxes[1:]:
        held = outbox.hold() if outbox is outboxes[1] else None
        async with open_town(bot, store=store, outbox=outbox) as town:
            await town.rest()
            assert store.rows == {}
            assert town.counts["possible_repeat"] == 1
            if held is None:
                await town.says("large")
    assert len(set(got)) == 1
    assert len(got) == 3
    said = [op.content for op in outboxes[2].left]
    assert said == [f"Hello {got[0]}.", "Size?", "Ali gets large."]


async def test_a_kill_before_the_commit_takes_all_of_it_back(autojump_clock: MockClock) -> None:
    """The platform has heard nothing of it, and delivers it again; nobody has seen anything."""
    store, got, outbox = FakeStore(), list[object](), FakeOutbox()
    async with trio.open_nursery() as nursery:
        town = Town(asking_bot(got), outbox, store, TEXTS, username=None)
        run = await start(nursery, town)
        await town.rest()
        await town.says("hi")
        store.full = 1000
        answers = list[bool | str]()

        async def answer() -> None:
            try:
                answers.append(await delivered(town, "Ali", "once"))
            except StoreFullError:
                answers.append("full")

        nursery.start_soon(answer)
        await trio.lowlevel.checkpoint()
        await kill(town, run)
        await trio.sleep(1)
    assert answers == ["full"]
    assert len(outbox.left) == 1
    async with open_town(asking_bot(got), store=store, outbox=outbox) as town:
        await town.says("Zahra")
        assert town.sent()[1].startswith("Hello Zahra")  # type: ignore[attr-defined]


async def test_no_message_shows_what_is_not_stored(autojump_clock: MockClock) -> None:
    """If it can't be, the message stays as it was."""
    bot, store = Router(), FakeStore()

    @bot.conversation
    async def order(chat: Chat) -> None:
        while True:
            async with chat.live("Baking", buttons=Buttons({"no": "Stop"})) as live:
                live.show(f"Baking for {await chat.ask('For whom?')}")
                await chat.sleep(100)

    async with open_town(bot, store=store) as town:
        await town.says("hi")
        store.full = 3
        with pytest.raises(StoreFullError):
            await delivered(town, "Ali", "once")
        await trio.sleep(10)
        assert town.edits() == []
        store.full, store.latency = 0, 5
        async with trio.open_nursery() as nursery:
            nursery.start_soon(delivered, town, "Ali", "twice")
            await trio.sleep(4)
            assert town.edits() == []
        await trio.sleep(50)
        assert [edit.content for edit in town.edits()] == ["Baking for Ali"]
        await trio.sleep(100)
        assert [edit.content for edit in town.edits()] == ["Baking for Ali"] * 2
        assert town.sent() == ["Baking", "For whom?", "Baking", "For whom?"]
        assert store.kept == {}


async def test_a_full_disk_leaves_the_chat_as_it_was(autojump_clock: MockClock) -> None:
    """The event is refused, and what came of it is taken back; once there is room it may come again."""
    store, got = FakeStore(), list[object]()
    async with open_town(asking_bot(got), store=store) as town:
        await town.says("hi")
        await town.says("hi", 6)
        store.full = 3
        with pytest.raises(StoreFullError):
            await delivered(town, "Ali", "once")
        await trio.sleep(10)
        assert town.sent() == ["Name?"]
        assert town.counts["revived"] == 1
        store.full = 0
        await town.says("Ali")
        await town.says("Reza", 6)
        await town.says("large")
        assert len(got) == 3
        assert town.sent() == ["Name?", f"Hello {got[1]}.", "Size?", "Ali gets large."]
        assert town.sent(6)[-1] == "Size?"
        assert store.rows == {}


async def test_a_full_disk_takes_nothing_back_that_came_before(autojump_clock: MockClock) -> None:
    """The question was asked while there was no room: that waits for it, and its chat is where it was."""
    store, got = FakeStore(), list[object]()
    async with open_town(asking_bot(got), store=store) as town:
        await town.rest()
        store.full = 3
        await town.says("hi")
        assert town.sent() == ["Name?"]
        with pytest.raises(StoreFullError):
            await delivered(town, "Ali", "once")
        await trio.sleep(10)
        assert store.full == 0
        await town.says("Ali")
        await town.says("large")
        assert town.sent() == ["Name?", f"Hello {got[-1]}.", "Size?", "Ali gets large."]
        assert town.counts["started"] == 2  # once more, to bring it back
        assert store.rows == {}


async def test_a_second_delivery_is_taken_by_nobody(autojump_clock: MockClock) -> None:
    """Nor after a restart: the next question waits on, and other chats hear nothing of it."""
    store, got = FakeStore(), list[object]()
    async with open_town(asking_bot(got), store=store) as town:
        await town.says("hi")
        await town.says("hi", 6)
        assert await delivered(town, "Ali", "once")
        await town.rest()
        # What came lately is known here: so it is stored first.
        said = encode_event(Message(CHAT, "Ali", ALI))
        now = town.services.clock.now()
        arrival = Arrival(CHAT, ALI.id, now, said.content_type, said.data, "once", once=True)
        assert town.door is not None
        assert isinstance(town.door.accept(Message(CHAT, "Ali", ALI), arrival), Coming)
    async with open_town(asking_bot(got), store=store) as town:
        await town.says("Ali", CHAT + 5)  # a stranger begins something meanwhile
        # After a restart the first event of a chat brings it back.
        await town.says("/nothing", 6)
        await town.dispatcher.keeping.put(CHAT, COUNT.name, "[1,1]")
        town.dispatcher.chats.recall(CHAT)
        await trio.sleep(1)
        actor = town.dispatcher.chats.actors.get(CHAT)
        assert actor is not None
        actor.sender = ALI.id
        fresh = list[bool]()

        async def again() -> None:
            fresh.append(await delivered(town, "Ali", "once"))

        async def other() -> None:
            fresh.append(await delivered(town, "Reza", chat=6))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(again)
            nursery.start_soon(other)
        await trio.sleep(10)
        assert sorted(fresh) == [False, True]
        await town.says("large")
        assert town.sent() == ["Ali gets large."]
        assert store.rows == {}


async def test_what_goes_on_in_its_place_is_taken_back_with_it(autojump_clock: MockClock) -> None:
    """One answer leads to another function, and that to its first question; the disk is full."""
    bot, store = Router(), FakeStore()

    @bot.conversation(text("go"))
    async def go(chat: Chat) -> None:
        await chat.ask("Ready?")
        await chat.continue_as(more, 7)

    @bot.conversation(text("never"))
    async def more(chat: Chat, number: int = 0) -> None:
        answer = await chat.ask("Really?")
        await chat.send(f"{number}: {answer}.")

    async with open_town(bot, store=store) as town:
        await town.says("go")
        store.full = 3
        with pytest.raises(StoreFullError):
            await delivered(town, "yes")
        await trio.sleep(10)
        assert town.sent() == ["Ready?"]
        store.full = 0
        assert await delivered(town, "yes")
        await town.says("indeed")
        assert town.sent() == ["Ready?", "Really?", "7: indeed."]
        assert "parked" not in town.counts
        assert store.rows == {}
    assert await store.conversations(CHAT) == []


@pytest.mark.parametrize("what", ["deadline", "put", "interrupt"])
async def test_whatever_happens_while_it_is_being_stored_comes_behind_it(
    what: str, autojump_clock: MockClock
) -> None:
    """The store is slow: there is time for more, and the answer came first."""
    bot, store = Router(), FakeStore()
    heard: list[object] = []

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        heard.append("cancelled")

    @bot.conversation
    async def ask(chat: Chat) -> None:
        chat.data[COUNT] = 1
        await chat.send("Go on.")
        with chat.move_on_after(100):
            heard.append((await chat.receive(text())).content)
        heard.append(chat.data[COUNT])
        heard.append((await chat.receive(text())).content)

    async with open_town(bot, store=store) as town:
        await town.says("hi")
        await trio.sleep(98 if what == "deadline" else 50)
        store.latency = 5
        async with trio.open_nursery() as nursery:
            nursery.start_soon(town.says, "said")
            await trio.sleep(1)
            if what == "put":
                nursery.start_soon(town.dispatcher.keeping.put, CHAT, COUNT.name, "[1,7]")
            elif what == "interrupt":
                nursery.start_soon(town.says, "/cancel")
        await trio.sleep(50)
        assert town.counts["answered_at_once"] == 1
        assert heard == ["said", 1, *(["cancelled"] if what == "interrupt" else [])]
        assert store.rows == {}


async def test_an_answer_that_comes_while_the_bot_stops_is_taken_by_the_next(
    autojump_clock: MockClock,
) -> None:
    """Events are given out no more: it waits in the inbox."""
    store, got = FakeStore(), list[object]()
    async with open_town(asking_bot(got), store=store) as town:
        await town.says("hi")
        await town.dispatcher.drain()
        await town.says("Ali")
        assert got == []
        assert len(store.rows) == 1
    async with open_town(asking_bot(got), store=store) as town:
        await town.rest()
        assert len(got) == 1
        assert store.rows == {}


async def test_what_is_being_stored_when_the_bot_stops_is_stored(autojump_clock: MockClock) -> None:
    """And goes on from there."""
    store, got = FakeStore(), list[object]()
    fresh = list[bool]()

    async def answer(town: Town) -> None:
        fresh.append(await delivered(town, "Ali", "once"))

    async with trio.open_nursery() as nursery:
        async with open_town(asking_bot(got), store=store) as town:
            await town.says("hi")
            store.latency = 3
            nursery.start_soon(answer, town)
            await trio.sleep(1)
        store.latency = 0
    assert fresh == [True]
    async with open_town(asking_bot(got), store=store) as town:
        await town.rest()
        assert len(set(got)) == 1
        assert town.sent() == [f"Hello {got[0]}.", "Size?"]


async def test_what_others_write_while_a_turn_lasts_comes_before_its_own(
    autojump_clock: MockClock,
) -> None:
    """What is written last counts, whoever's turn began first."""
    bot, store, seen = Router(), FakeStore(), list[int]()

    @bot.conversation
    async def count(chat: Chat) -> None:
        while True:
            now = chat.data[COUNT]
            await trio.sleep(10)
            chat.data[COUNT] = now + 1
            await chat.receive(text())
            seen.append(chat.data[COUNT])

    async with open_town(bot, store=store) as town:
        await town.says("hi")
        await trio.sleep(5)
        await town.dispatcher.keeping.put(CHAT, COUNT.name, "[1,40]")
        await trio.sleep(10)
        assert store.kept == {(CHAT, COUNT.name): "[1,1]"}
        await town.says("go on")
        await trio.sleep(20)
        assert seen == [1]
        assert store.kept == {(CHAT, COUNT.name): "[1,2]"}


async def test_what_others_write_in_the_end_stays(autojump_clock: MockClock) -> None:
    """Also if this turn wrote first, and came to rest last: in the store, in the view, after a restart."""
    bot, store, seen = Router(), FakeStore(), list[int]()

    @bot.conversation
    async def count(chat: Chat) -> None:
        chat.data[COUNT] = 1
        await trio.sleep(10)
        await chat.receive(text())
        seen.append(chat.data[COUNT])
        await chat.receive(text())

    async with open_town(bot, store=store) as town:
        await town.says("hi")
        await trio.sleep(5)
        await town.dispatcher.keeping.put(CHAT, COUNT.name, "[1,2]")
        await trio.sleep(10)
        assert store.kept == {(CHAT, COUNT.name): "[1,2]"}
    async with open_town(bot, store=store) as town:
        await town.says("go on")
        await trio.sleep(20)
        assert seen == [2]
        assert store.kept == {(CHAT, COUNT.name): "[1,2]"}


async def test_what_was_written_before_a_turn_is_seen_by_it(autojump_clock: MockClock) -> None:
    """Although its event came earlier still, while the conversation was at work."""
    bot, store = Router(), FakeStore()

    @bot.conversation
    async def count(chat: Chat) -> None:
        await trio.sleep(10)
        await chat.receive(text())
        chat.data[COUNT] += 1

    async with open_town(bot, store=store) as town:
        await town.says("hi")
        await town.says("early")
        await town.dispatcher.keeping.put(CHAT, COUNT.name, "[1,40]")
        await trio.sleep(20)
        assert store.kept == {(CHAT, COUNT.name): "[1,41]"}


async def test_two_that_wake_at_the_same_moment_see_what_the_other_wrote(autojump_clock: MockClock) -> None:
    """Neither has run when both are given their turns; and a restart finds it so."""
    bot, store = Router(), FakeStore()

    @bot.aside(text("count"))
    async def count(chat: Chat) -> None:
        await chat.sleep(3)
        chat.data[COUNT] += 1
        async with chat.open_nursery() as nursery:
            nursery.start_soon(chat.sleep, 3)
        await chat.send(f"{chat.data[COUNT]}")

    async with open_town(bot, store=store) as town:
        for _ in range(3):
            await town.says("count", wait=False)
        await trio.sleep(4)
        assert store.kept == {(CHAT, COUNT.name): "[1,3]"}
    async with open_town(bot, store=store) as town:
        await trio.sleep(4)
        assert town.sent() == ["3", "3", "3"]
        assert "parked" not in town.counts


async def test_what_waits_behind_a_continuation_is_its_own_after_a_crash(autojump_clock: MockClock) -> None:
    """An event that came while the first part was at work waits for the second."""
    bot, store, outbox = Router(), FakeStore(), FakeOutbox()

    @bot.conversation(text("go"))
    async def go(chat: Chat) -> None:
        await chat.ask("Ready?")
        await chat.send("Well.")
        await chat.continue_as(more, 7)

    @bot.conversation(text("never"))
    async def more(chat: Chat, number: int = 0) -> None:
        answer = await chat.ask("Really?")
        await chat.send(f"{number}: {answer}.")

    async with trio.open_nursery() as nursery:
        town = Town(bot, outbox, store, TEXTS, username=None)
        run = await start(nursery, town)
        await town.rest()
        await town.says("go")
        outbox.latency = 5
        await town.says("one")
        await town.says("two")
        await kill(town, run)
    async with open_town(bot, store=store) as town:
        await trio.sleep(20)
        assert town.sent() == ["Well.", "Really?", "7: two."]
        assert store.rows == {}
    assert await store.conversations(CHAT) == []


@pytest.mark.parametrize("why", ["filter", "group", "busy", "flooding"])
async def test_what_cannot_be_taken_at_once_goes_the_common_way(why: str, autojump_clock: MockClock) -> None:
    """A filter that fails or that counts, a stranger, a conversation at work."""
    bot, store, got = Router(), FakeStore(), list[object]()

    def look(event: Message, _: object) -> object | None:
        if why == "filter":
            raise ValueError("odd")
        return event.content

    @bot.conversation
    async def ask(chat: Chat) -> None:
        await chat.send("Go on.")
        try:
            got.append(await chat.receive(text() if why in ("group", "flooding") else Filter(look, "odd")))
        except Exception as error:
            got.append(type(error).__name__)
        await chat.receive(command("never"), otherwise="keep")

    if why == "flooding":
        bot.ignore(flooding(per_minute=3))
    async with open_town(bot, store=store) as town:
        if why == "busy":
            town.outbox.hold()
        await town.says("hi")
        await town.says("Ali", sender=SARA if why == "group" else ALI)
        assert "answered_at_once" not in town.counts
        assert len(got) == (why != "busy")
        assert (store.rows == {}) is (why != "busy")


async def test_what_comes_with_a_deadline_is_stored_first(autojump_clock: MockClock) -> None:
    """The deadline was first: the event is not for what it ended, and has a row for what it begins."""
    bot, store, heard = Router(), FakeStore(), list[object]()

    @bot.conversation
    async def ask(chat: Chat[Message]) -> None:
        heard.append(chat.event.content)
        with chat.move_on_after(100):
            heard.append((await chat.receive(text())).content)

    async with open_town(bot, store=store) as town:
        await town.says("hi")
        autojump_clock.jump(100)  # nobody has looked at the clock since
        await town.says("late")
        await trio.sleep(1)
        assert heard == ["hi", "late"]
        assert town.alarms == []
        assert [row.id > 0 for row in await store.conversations(CHAT)] == [True]
        assert store.rows == {}
