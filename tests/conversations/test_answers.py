"""An event is taken by a conversation that waits for it in the transaction that stores it."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import ALI, CHAT, SARA, TEXTS, Town, open_town, start
from trio.testing import MockClock

from triobot import Chat, Key, Router
from triobot.conversations.inbox.claims import with_taken
from triobot.conversations.routes.filters import Filter
from triobot.filters import command, flooding, text
from triobot.journals import AppendRecords, PutStanding
from triobot.seams import Arrival, ChatAtArrival, Consume, Quota, Write
from triobot.wire.content import Location
from triobot.wire.encode import encode_event
from triobot.wire.events import Message
from triobot.wire.ids import ChatId

COUNT = Key("answers_count", int, default=0)


class Commits(FakeStore):
    """Remembers what was committed by itself, in its units."""

    def __init__(self, *, commit_lag: float = 0.0) -> None:
        super().__init__(commit_lag=commit_lag)
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


async def taken_by_a_dead_process(
    bot: Router, store: FakeStore, said: Sequence[str], answer: str, seconds: float = 0
) -> None:
    """A process that dies between an answer's acceptance and whatever it makes of it."""
    outbox = FakeOutbox()
    async with trio.open_nursery() as nursery:
        town = Town(bot, outbox, store, TEXTS, username=None)
        run = await start(nursery, town)
        await town.rest()
        for words in said:
            await town.says(words)
        await trio.sleep(seconds)
        message, now = Message(CHAT, answer, ALI), town.services.clock.now()
        claim = town.dispatcher.claims.claim(message, now)
        assert claim is not None
        body = encode_event(message)
        arrival = Arrival(CHAT, ALI.id, now, body.content_type, body.data)
        await store.accept(arrival, quota=Quota(), beginning=claim.beginning)
        await run.cut()


async def test_question_and_answer_cost_one_commit(autojump_clock: MockClock) -> None:
    """The reply leaves with nothing written but the event; the record is written with what comes next."""
    store, outbox = Commits(), FakeOutbox()
    async with open_town(asking_bot(), store=store, outbox=outbox) as town:
        await town.says("hi")
        store.alone.clear()
        held = outbox.hold()
        seq = await town.says("Ali")
        assert town.counts["answered_at_once"] == 1
        assert len(outbox.called) == 2
        assert store.alone == []
        assert store.rows[seq].begun is not None
        held.release()
        await town.rest()
        assert len(outbox.left) == 3
        records, consumed, standing = store.alone[0]
        assert isinstance(records, AppendRecords)
        assert len(records.records) == 2
        assert consumed == Consume((seq,))
        assert isinstance(standing, PutStanding)
        assert store.rows == {}


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
        store.full = 1000  # a kill leaves no time to write anything down
        await run.cut()
    store.full = 0
    await trio.sleep(5)
    for outbox in outboxes[1:]:
        held = outbox.hold() if outbox is outboxes[1] else None
        async with open_town(bot, store=store, outbox=outbox) as town:
            await town.rest()
            assert store.rows == {}
            if held is None:
                await town.says("large")
                assert town.counts["answered_at_once"] == 1
    assert len(set(got)) == 1
    assert len(got) == 3
    said = [op.content for op in outboxes[2].left]
    assert said == [f"Hello {got[0]}.", "Size?", "Ali gets large."]


async def test_a_kill_right_behind_the_acceptance_loses_nothing(autojump_clock: MockClock) -> None:
    """Whoever looks into the store then sees the answer taken; an interrupt that came later finds it so."""
    store, got = FakeStore(), list[object]()
    await taken_by_a_dead_process(asking_bot(got), store, ["hi"], "Ali")
    (row,) = store.rows.values()
    (stored,) = await store.conversations(CHAT)
    journal = await store.journal(stored.id)
    assert journal is not None
    told = with_taken(journal, [row])
    assert told.row.unfinished
    assert [line.partition("journal.")[2][:8] for line in told.records[len(journal.records) :]] == [
        'Done",{"',
        'Unended"',
    ]
    assert with_taken(journal, [attrs.evolve(row, begun=None)]) is journal

    cancel = encode_event(Message(CHAT, "/cancel", ALI))
    await store.accept(Arrival(CHAT, ALI.id, row.at, cancel.content_type, cancel.data), quota=Quota())
    async with open_town(asking_bot(got), store=store, username=None) as town:
        await town.rest()
        assert store.rows == {}
        assert len(got) == 1
        assert town.sent()[-1] == "Cancelled."


@pytest.mark.parametrize("what", ["deadline", "put", "interrupt"])
async def test_whatever_happens_meanwhile_goes_first(what: str, autojump_clock: MockClock) -> None:
    """The store is slow: between the claim and the word that it is stored there is time for more."""
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
        store.commit_lag = 5
        async with trio.open_nursery() as nursery:
            nursery.start_soon(town.says, "said")
            await trio.sleep(1)
            if what == "put":
                nursery.start_soon(town.dispatcher.keeping.put, CHAT, COUNT.name, "[1,7]")
            elif what == "interrupt":
                nursery.start_soon(town.says, "/cancel")
        await trio.sleep(20)
        assert town.counts.get("answered_at_once") == (1 if what == "interrupt" else None)
        assert (
            heard
            == {
                "deadline": [1, "said"],
                "put": ["said", 7],
                "interrupt": ["said", 1, "cancelled"],
            }[what]
        )
        assert store.rows == {}


async def test_a_row_that_something_else_has_overtaken_is_an_event_as_any(autojump_clock: MockClock) -> None:
    """It says that it is taken at a place of the journal where something else is by then."""
    bot, store, heard = Router(), FakeStore(), list[object]()

    @bot.conversation
    async def ask(chat: Chat) -> None:
        while True:
            with chat.move_on_after(100):
                heard.append((await chat.receive(text())).content)
            await chat.send(f"{len(heard)}")

    await taken_by_a_dead_process(bot, store, ["hi"], "late", seconds=50)
    (row,) = store.rows.values()
    (stored,) = await store.conversations(CHAT)
    position = stored.position
    store.rows.clear()
    async with open_town(bot, store=store) as town:
        await trio.sleep(60)
        assert town.sent() == ["0"]
    store.rows[row.seq] = row
    async with open_town(bot, store=store) as town:
        await town.rest()
        assert heard == ["late"]
        assert town.sent() == ["1"]
        assert store.rows == {}
    (stored,) = await store.conversations(CHAT)
    assert stored.position > position + 2


async def test_what_a_torn_turn_keeps_is_kept_once(autojump_clock: MockClock) -> None:
    """What others write after it stays, through further restarts."""
    bot, store = Router(), FakeStore()

    @bot.conversation
    async def count(chat: Chat) -> None:
        while True:
            await chat.receive(text())
            chat.data[COUNT] += 1

    await taken_by_a_dead_process(bot, store, ["hi", "one"], "two")
    assert store.kept == {(CHAT, COUNT.name): "[1,1]"}
    for kept in ("[1,2]", "[1,40]", "[1,40]"):
        async with open_town(bot, store=store) as town:
            await town.rest()
            assert store.kept == {(CHAT, COUNT.name): kept}
        store.kept[CHAT, COUNT.name] = "[1,40]"  # by somebody while it was not in memory
    async with open_town(bot, store=store) as town:
        await town.rest()
        await town.says("three")
        assert store.kept == {(CHAT, COUNT.name): "[1,41]"}


async def test_a_press_is_taken_at_once_and_its_buttons_go(autojump_clock: MockClock) -> None:
    """What the question owes is owed by the turn, before and after a crash."""
    bot, store, outbox = Router(), Commits(), FakeOutbox()

    @bot.conversation
    async def choose(chat: Chat) -> None:
        taken = await chat.choose("Which?", {1: "One", 2: "Two"})
        await chat.step(pause)
        await chat.send(f"{taken}")

    async def pause() -> None:
        await trio.sleep(10)

    async with open_town(bot, store=store, outbox=outbox) as town:
        await town.says("hi")
        store.alone.clear()
        await town.presses("Two")
        assert town.counts["answered_at_once"] == 1
        assert all(not isinstance(write, AppendRecords) for unit in store.alone for write in unit)
        await trio.sleep(20)
        assert town.sent()[-1] == "2"
        assert len(town.edits()) == 1
        assert store.rows == {}


async def test_who_steps_for_long_is_taken_up_after_a_clean_stop(autojump_clock: MockClock) -> None:
    """A stop writes down what the row stands for, so that nothing is left of it."""
    bot, store, steps = Router(), FakeStore(), list[int]()

    @bot.conversation
    async def work(chat: Chat) -> None:
        await chat.ask("Ready?")
        await chat.step(step)
        await chat.send("Done.")

    async def step() -> None:
        steps.append(1)
        await trio.sleep(100)

    async with open_town(bot, store=store) as town:
        await town.says("hi")
        await town.says("yes")
        assert town.counts["answered_at_once"] == 1
        assert len(store.rows) == 1
    assert store.rows == {}
    async with open_town(bot, store=store) as town:
        await trio.sleep(200)
        assert town.sent() == ["Done."]
    assert len(steps) == 2


async def test_an_answer_that_comes_while_the_bot_stops_is_taken_by_the_next(
    autojump_clock: MockClock,
) -> None:
    """Events are given out no more: but it is durable as taken."""
    store, got = FakeStore(), list[object]()
    async with open_town(asking_bot(got), store=store) as town:
        await town.says("hi")
        store.commit_lag = 5
        async with trio.open_nursery() as nursery:
            nursery.start_soon(town.says, "Ali")
            await trio.sleep(1)
            await town.dispatcher.drain()
        assert got == []
        store.commit_lag = 0
    (row,) = store.rows.values()
    assert row.begun is not None
    async with open_town(asking_bot(got), store=store) as town:
        await town.rest()
        assert len(got) == 1
        assert store.rows == {}


@pytest.mark.parametrize("why", ["filter", "value", "group", "content", "busy", "flooding"])
async def test_what_cannot_be_taken_at_once_goes_the_common_way(why: str, autojump_clock: MockClock) -> None:
    """A filter that fails, a value that can't be recorded, a stranger, odd content, somebody at work."""
    bot, store, got = Router(), FakeStore(), list[object]()

    def look(event: Message, _: object) -> object | None:
        if why == "filter":
            raise ValueError("odd")
        return object() if why == "value" else event.content

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
        said = Location("35.7", "51.4") if why == "content" else "Ali"
        await town.says(said, sender=SARA if why == "group" else ALI)
        assert "answered_at_once" not in town.counts
        assert len(got) == (why != "busy")
        assert (store.rows == {}) is (why != "busy")


async def test_a_transaction_that_finds_another_chat_takes_nothing(autojump_clock: MockClock) -> None:
    """Another event waits, it has become a group, or its journal ends elsewhere."""
    store = FakeStore()
    async with open_town(asking_bot(), store=store) as town:
        await town.says("hi")
        claim = town.dispatcher.claims.claim(Message(CHAT, "Ali", ALI), town.services.clock.now())
        assert claim is not None
        (it,) = await store.conversations(CHAT)
        plain = ChatAtArrival(0, True, False, dict, lambda _: it.position)
        assert claim.beginning(plain) is not None
        for other in (
            attrs.evolve(plain, waiting=1),
            attrs.evolve(plain, group=True),
            attrs.evolve(plain, position=lambda _: it.position + 1),
            attrs.evolve(plain, position=lambda _: None),
        ):
            assert claim.beginning(other) is None


async def test_a_torn_turn_begins_with_what_is_kept_when_it_runs_again(autojump_clock: MockClock) -> None:
    """What others wrote since the crash is not overwritten; and the next restart finds it so."""
    bot, store = Router(), FakeStore()

    @bot.aside(text("slow"))
    async def slow(chat: Chat) -> None:
        await trio.sleep(3)  # what isn't the chat's, so that its replay takes as long
        await chat.sleep(1000)

    @bot.conversation
    async def play(chat: Chat) -> None:
        await chat.ask("Guess?")
        chat.data[COUNT] += 1
        await chat.send(f"You have {chat.data[COUNT]}.")
        await chat.ask("Again?")

    await taken_by_a_dead_process(bot, store, ["slow", "hi"], "seven", seconds=5)
    async with open_town(bot, store=store) as town:
        keeping = town.dispatcher.keeping
        assert COUNT.name not in await keeping.data(CHAT)
        await keeping.put(CHAT, COUNT.name, "[1,40]")
        await trio.sleep(10)
        assert store.kept == {(CHAT, COUNT.name): "[1,41]"}
        assert town.sent()[0] == "You have 41."
    async with open_town(bot, store=store) as town:
        await town.says("no")
        assert "parked" not in town.counts
        assert store.kept == {(CHAT, COUNT.name): "[1,41]"}


async def test_a_torn_turn_that_is_cut_replays_with_what_it_began_with(
    autojump_clock: MockClock,
) -> None:
    """Other records may come before the one that says what that was."""
    bot, store = Router(), FakeStore()

    @bot.conversation
    async def play(chat: Chat) -> None:
        await chat.ask("Guess?")
        with chat.move_on_after(5):
            told = chat.data[COUNT]
            await trio.sleep(1000)
        await chat.send(f"{told}")
        await chat.ask("Again?")
        await chat.send(f"{told} still")

    await taken_by_a_dead_process(bot, store, ["hi"], "seven")
    store.kept[CHAT, COUNT.name] = "[1,40]"
    async with open_town(bot, store=store) as town:
        await trio.sleep(100)
        assert town.sent() == ["40", "Again?"]
    store.kept[CHAT, COUNT.name] = "[1,50]"
    async with open_town(bot, store=store) as town:
        await town.says("no")
        await trio.sleep(100)
        assert town.sent() == ["40 still"]


async def test_what_others_write_while_a_turn_lasts_comes_after_it(autojump_clock: MockClock) -> None:
    """In the store as in the conversation's own view, whoever wrote first by the clock."""
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
        assert store.kept == {(CHAT, COUNT.name): "[1,40]"}
        await town.says("go on")
        await trio.sleep(20)
        assert seen == [40]
        assert store.kept == {(CHAT, COUNT.name): "[1,41]"}


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


@attrs.frozen
class Size:
    """What an older version of the bot made of an answer."""

    number: int


async def test_an_answer_that_new_code_cannot_read_parks_its_conversation(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came of it has been seen: nobody may go on from there as something else."""
    bot, store = Router(), FakeStore()

    @bot.conversation
    async def ask(chat: Chat) -> None:
        await chat.send("Size?")
        await chat.receive(Filter(lambda event, _: Size(len(event.content)), "size"))  # type: ignore[union-attr]
        await chat.send("Ordered.")
        await chat.receive(text())

    await taken_by_a_dead_process(bot, store, ["hi"], "three")
    for row in list(store.rows.values()):
        store.rows[row.seq] = attrs.evolve(row, begun=(row.begun or "").replace("Size", "Gone"))
    async with open_town(bot, store=store) as town:
        await town.rest()
        assert town.sent() == [TEXTS.parked]
        assert [alarm.kind for alarm in town.alarms] == ["conversation_parked"]
    assert store.rows == {}


async def test_an_event_that_new_code_cannot_read_parks_its_conversation(autojump_clock: MockClock) -> None:
    """As with a value."""
    store = FakeStore()
    await taken_by_a_dead_process(asking_bot(), store, ["hi"], "Ali")
    for row in list(store.rows.values()):
        store.rows[row.seq] = attrs.evolve(row, body=b"?", content_type="x/y")
    async with open_town(asking_bot(), store=store) as town:
        await town.rest()
        assert [alarm.kind for alarm in town.alarms] == ["conversation_parked"]
    assert store.rows == {}


async def test_nothing_is_taken_at_once_while_what_the_chat_keeps_is_not_stored(
    autojump_clock: MockClock,
) -> None:
    """Its turn may be told of what another one wrote, and a crash takes back."""
    store = FakeStore()
    async with open_town(asking_bot(), store=store) as town:
        await town.says("hi")
        now, message = town.services.clock.now(), Message(CHAT, "Ali", ALI)
        store.latency = 5
        async with trio.open_nursery() as nursery:
            nursery.start_soon(town.dispatcher.keeping.put, CHAT, COUNT.name, "[1,7]")
            await trio.sleep(1)
            assert town.dispatcher.claims.claim(message, now) is None
            await trio.sleep(20)
            assert town.dispatcher.claims.claim(message, now) is not None


async def test_who_looks_into_a_running_bot_sees_what_stands(autojump_clock: MockClock) -> None:
    """A row whose event went the common way after all says what didn't happen."""
    bot, store = Router(), FakeStore()

    @bot.conversation
    async def ask(chat: Chat) -> None:
        await chat.send("Go on.")
        with chat.move_on_after(100):
            await chat.receive(text())
        await chat.step(trio.sleep, 100)

    async with open_town(bot, store=store) as town:
        await town.says("hi")
        await trio.sleep(98)
        store.commit_lag = 5
        async with trio.open_nursery() as nursery:
            nursery.start_soon(town.says, "late")
        (row,) = store.rows.values()
        assert row.begun is not None
        assert not town.dispatcher.claims.stands(row)
        store.commit_lag = 0
        await town.says("hi", 6)
        town.outbox.hold()
        await town.says("in time", 6)
        (_, other) = store.rows.values()
        assert town.dispatcher.claims.stands(other)
        assert town.dispatcher.claims.stands(attrs.evolve(other, chat_id=ChatId(7)))


async def test_a_full_disk_makes_a_start_wait(autojump_clock: MockClock) -> None:
    """Nothing may happen before what was under way is written out; an operator hears of it."""
    store, got = FakeStore(), list[object]()
    await taken_by_a_dead_process(asking_bot(got), store, ["hi"], "Ali")
    store.full = 3
    town = Town(asking_bot(got), FakeOutbox(), store, TEXTS, username=None)
    with trio.fail_after(60):
        await town.dispatcher.claims.write_out()
    assert {alarm.kind for alarm in town.alarms} == {"store_unwritable"}
    assert store.rows == {}


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
        accept = store.accept

        async def accept_and_die(*what: object, **how: object) -> object:
            how["on_commit"] = lambda _: None
            accepted = await accept(*what, **how)  # type: ignore[arg-type]
            nursery.start_soon(run.cut)
            await trio.sleep_forever()
            return accepted

        store.accept = accept_and_die  # type: ignore[method-assign, assignment]
        await run.ended.wait()
        store.accept = accept  # type: ignore[method-assign]
    async with open_town(bot, store=store) as town:
        await trio.sleep(20)
        assert town.sent() == ["Really?", "7: two."]
        assert store.rows == {}
    assert await store.conversations(CHAT) == []
