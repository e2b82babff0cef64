"""An event that finds its chat at rest begins its conversation with the row in which it is stored."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import ALI, CHAT, SARA, TEXTS, Town, open_town, start
from trio.testing import MockClock, wait_all_tasks_blocked

from triobot import Chat, Key, Router
from triobot.conversations import data as slots
from triobot.conversations.early import Coming
from triobot.conversations.inbox_reader import CHANNEL
from triobot.filters import flooding
from triobot.seams.inbox import Arrival, Quota
from triobot.seams.journals import AppendRecords, BeginConversation, PutStanding
from triobot.seams.writes import Consume, Write
from triobot.wire.events import Message
from triobot.wire.ids import ChatId
from triobot.wire.platform_side import encode_event

KEPT = Key("claims_kept", int, default=0)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_declared", set())


@pytest.fixture
def keys(no_keys: None) -> None:
    """A program that has a key."""
    slots._declared.add(KEPT.name)


class Commits(FakeStore):
    """Remembers what was committed by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.alone: list[Write] = []

    async def commit(self, *writes: Write) -> None:
        self.alone += writes
        await super().commit(*writes)

    def note_consumed(self, seqs: Sequence[int]) -> bool:
        self.alone.append(Consume(tuple(seqs)))
        return super().note_consumed(seqs)


def echo_bot() -> Router:
    bot = Router()

    @bot.conversation
    async def echo(chat: Chat) -> None:
        await chat.send("heard")
        await chat.sleep(60)
        await chat.send("later")

    return bot


async def test_what_ends_well_leaves_nothing_but_the_end_of_its_row(autojump_clock: MockClock) -> None:
    """Nothing is written before the first send leaves, and what began is in the event's own row."""
    bot, store, outbox = Router(), Commits(), FakeOutbox()

    @bot.conversation
    async def echo(chat: Chat) -> None:
        await chat.send("heard")

    async with open_town(bot, store=store, outbox=outbox) as town:
        await town.rest()
        store.alone.clear()
        held = outbox.hold()
        seq = await town.says("hi")
        assert town.counts["taken_at_once"] == 1
        assert store.alone == []
        assert store.rows[seq].begun is not None
        held.release()
        await town.rest()
        assert town.sent() == ["heard"]
        assert store.alone == [Consume((seq,))]
        assert store.rows == {}


async def test_what_comes_to_rest_is_written_out(autojump_clock: MockClock) -> None:
    """Its row goes in the same commit; then it goes on as any other."""
    store = Commits()
    async with open_town(echo_bot(), store=store) as town:
        await town.rest()
        store.alone.clear()
        seq = await town.says("hi")
        assert town.counts["taken_at_once"] == 1
        assert town.sent() == ["heard"]
        assert [type(write) for write in store.alone] == [
            BeginConversation,
            AppendRecords,
            Consume,
            AppendRecords,
            PutStanding,
        ]
        assert store.rows == {}
        (row,) = await store.conversations(CHAT)
        assert row.id == seq
        await trio.sleep(100)
        assert town.sent() == ["heard", "later"]
    assert await store.conversations(CHAT) == []


async def test_what_was_being_said_at_a_crash_is_said_again_word_for_word(autojump_clock: MockClock) -> None:
    """Chance, too, falls as it fell; and the repeat is counted."""
    bot, store, outbox, first = Router(), FakeStore(), FakeOutbox(), FakeOutbox()
    said = list[str]()

    @bot.conversation
    async def draw(chat: Chat) -> None:
        said.append(f"{chat.uuid()} {chat.now()} {chat.event.sender}")
        await chat.send(said[-1])

    first.hold()
    async with trio.open_nursery() as nursery:
        town = Town(bot, first, store, TEXTS, username=None)
        run = await start(nursery, town)
        await town.rest()
        await town.says("hi")
        await run.cut()
    assert [row.begun is not None for row in store.rows.values()] == [True]
    await trio.sleep(5)
    async with open_town(bot, store=store, outbox=outbox) as town:
        await town.rest()
        assert town.counts["possible_repeat"] == 1
        assert town.counts["revived"] == 1
    assert len(said) == 2
    assert said[0] == said[1] == outbox.left[0].content
    assert store.rows == {}


async def test_a_row_whose_beginning_cannot_be_read_is_an_event_as_any(autojump_clock: MockClock) -> None:
    """Another version's words, or none at all: nobody is left without an answer."""
    store, now = FakeStore(), 1_700_000_000_000
    for chat, begun in enumerate(
        ("nonsense", "[]", '[99, "echo", "conversation", 1, null, 5, "a", null]'), 1
    ):
        said = encode_event(Message(ChatId(chat), "hi", ALI))
        arrival = Arrival(ChatId(chat), ALI.id, now, said.content_type, said.data)
        await store.accept(arrival, quota=Quota(), beginning=lambda chat, begun=begun: begun)  # type: ignore[misc]
    async with open_town(echo_bot(), store=store) as town:
        await town.rest()
        assert [town.sent(chat) for chat in (1, 2, 3)] == [["heard"]] * 3


async def test_what_has_begun_is_not_begun_again_from_the_inbox(autojump_clock: MockClock) -> None:
    """When the dispatcher falls behind, it reads the rows of conversations that are under way, too."""
    store, outbox = FakeStore(), FakeOutbox()
    async with open_town(echo_bot(), store=store, outbox=outbox) as town:
        await town.rest()
        held = outbox.hold()
        for chat in range(3):
            await town.says("hi", 10 + chat)
        town.at_once = False
        seq = await town.says("hi", 20)
        row = attrs.evolve(store.rows[min(store.rows)], seq=seq, begun=None)
        for _ in range(CHANNEL + 2):
            town.dispatcher.inbox.offer(row, Message(row.chat_id, "hi", ALI))
        await town.says("hi", 30)
        assert town.counts["fell_behind"]
        assert len(store.rows) >= 3
        held.release()
        await town.rest()
        assert sorted(op.chat_id for op in outbox.left) == [10, 11, 12, 20, 30]


async def test_what_waits_first_keeps_its_time(autojump_clock: MockClock) -> None:
    """A beginning that rests at once, with a deadline, is woken for it after a crash."""
    bot = Router()

    @bot.conversation
    async def remind(chat: Chat) -> None:
        await chat.sleep(60)
        await chat.send("now")

    store = FakeStore()
    async with trio.open_nursery() as nursery:
        town = Town(bot, FakeOutbox(), store, TEXTS, username=None)
        run = await start(nursery, town)
        await town.rest()
        await town.says("hi")
        assert town.counts["taken_at_once"] == 1
        (row,) = await store.conversations(CHAT)
        assert not row.unfinished
        assert row.wake_at is not None
        await run.cut()
        town.new_dispatcher()
        run = await start(nursery, town)
        await trio.sleep(100)
        assert town.sent() == ["now"]
        await run.cut()


async def test_a_beginning_that_nobody_ran_is_revived(autojump_clock: MockClock) -> None:
    """As by a crash between the commit and the first step."""
    store = FakeStore()
    async with trio.open_nursery() as nursery:
        town = Town(echo_bot(), FakeOutbox(), store, TEXTS, username=None)
        run = await start(nursery, town)
        await wait_all_tasks_blocked()
        claim = looked_at(town)
        town.at_once = False
        store.commit_lag = 1
        nursery.start_soon(accept_without_word, town, claim.beginning)
        await trio.sleep(2)
        await run.cut()
        assert len(store.rows) == 1
        town.new_dispatcher()
        run = await start(nursery, town)
        await trio.sleep(1)
        assert town.sent() == ["heard"]
        assert store.rows == {}
        await run.cut()


async def accept_without_word(town: Town, beginning: object) -> None:
    """The process dies before anybody is told that it is stored."""
    said = encode_event(Message(CHAT, "hi", ALI))
    arrival = Arrival(CHAT, ALI.id, town.services.clock.now(), said.content_type, said.data)
    await town.store.accept(arrival, quota=Quota(), beginning=beginning)  # type: ignore[arg-type]


def looked_at(town: Town) -> Coming:
    """What becomes of an event that comes now, before it is stored."""
    said = encode_event(Message(CHAT, "hi", ALI))
    assert town.door is not None
    arrival = Arrival(CHAT, ALI.id, town.services.clock.now(), said.content_type, said.data)
    coming = town.door.accept(Message(CHAT, "hi", ALI), arrival)
    assert isinstance(coming, Coming)
    return coming


@pytest.mark.parametrize("known", [True, False])
async def test_who_gives_up_first_takes_the_beginning_along(known: bool, autojump_clock: MockClock) -> None:
    """Then the event is accepted like every other, and the chat may be claimed anew."""
    async with open_town(echo_bot()) as town:
        await town.rest()
        claim = looked_at(town)
        assert claim.beginning(dict) is not None
        second = looked_at(town)
        assert second.beginning(dict) is None
        assert town.door is not None
        town.door.over(second, known=True)
        town.door.over(claim, known=known)
        await town.rest()
        await town.says("hi")
        assert town.counts["taken_at_once"] == 1


async def test_what_fails_when_nobody_waits_for_it_claims_no_chat(autojump_clock: MockClock) -> None:
    """The sender is gone while the disk is full: the chat begins again as any, and its deadlines are kept."""
    store = FakeStore()
    async with open_town(echo_bot(), store=store) as town:
        await town.rest()
        claim = looked_at(town)
        assert claim.beginning(dict) is not None
        assert town.door is not None
        town.door.over(claim, known=False)
        await town.rest()
        assert not town.door.coming
        await town.says("hi")
        assert town.counts["taken_at_once"] == 1


async def test_a_chat_that_is_not_at_rest_is_not_taken_at_once(autojump_clock: MockClock) -> None:
    """One that runs, a group, and two events at a time: the second goes its way behind the first."""
    store = FakeStore(commit_lag=0.1)
    async with open_town(echo_bot(), store=store) as town:
        await town.rest()
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(town.says, "hi")
        assert town.counts["taken_at_once"] == 1
        await trio.sleep(500)
        assert town.counts["started"] >= 2
        assert store.rows == {}
        before = town.counts["taken_at_once"]
        await town.says("hi", sender=SARA)
        assert town.counts["taken_at_once"] == before


async def test_filters_that_count_need_the_common_way(autojump_clock: MockClock) -> None:
    """Such a filter must know the event's number."""
    bot = echo_bot()
    bot.ignore(flooding(per_minute=1))
    async with open_town(bot) as town:
        await town.rest()
        await town.says("hi")
        assert "taken_at_once" not in town.counts
        assert town.sent() == ["heard"]


def counting_bot() -> Router:
    """Counts what is said, and tells it in the end, too."""
    bot = Router()

    @bot.conversation
    async def count(chat: Chat) -> None:
        chat.data[KEPT] += 1
        await chat.send(f"{chat.data[KEPT]}")
        await chat.send(f"{chat.data[KEPT]} in the end")

    return bot


async def test_a_beginning_holds_what_the_chat_keeps(keys: None, autojump_clock: MockClock) -> None:
    """Read in the transaction that stores it: nobody has to ask the store once more."""
    store = FakeStore()
    store.kept[CHAT, "claims_kept"] = "[1,6]"
    store.kept[CHAT, "triobot.other"] = "[1,6]"
    async with open_town(counting_bot(), store=store) as town:
        await town.rest()
        before = store.reads
        await town.says("hi")
        await town.says("hi")
        assert town.sent() == ["7", "7 in the end", "8", "8 in the end"]
        assert town.counts["taken_at_once"] == 2
        assert store.reads == before


async def test_what_is_not_written_yet_is_waited_for(keys: None, autojump_clock: MockClock) -> None:
    """The store is slow, and the next event comes before it has what the last conversation counted."""
    store = FakeStore(commit_lag=5)
    async with open_town(counting_bot(), store=store) as town:
        await trio.sleep(6)
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(town.says, "hi")
                await trio.sleep(7)
        await trio.sleep(100)
        assert town.sent()[1::2] == [f"{count} in the end" for count in (1, 2, 3, 4)]
        assert store.kept == {(CHAT, "claims_kept"): "[1,4]"}


async def test_what_is_put_while_the_beginning_is_stored_is_seen(
    keys: None, autojump_clock: MockClock
) -> None:
    """It may have been read without it: then what is in the event's row is not what begins."""
    store = FakeStore(commit_lag=5)
    async with open_town(counting_bot(), store=store) as town:
        await trio.sleep(6)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(town.says, "hi")
            await trio.sleep(1)
            nursery.start_soon(town.dispatcher.keeping.put, CHAT, "claims_kept", "[1,40]")
            await trio.sleep(60)
        assert town.counts["taken_at_once"] == 1
        assert town.sent() == ["41", "41 in the end"]
        assert store.kept == {(CHAT, "claims_kept"): "[1,41]"}
        assert store.rows == {}


async def test_what_it_began_with_comes_back_with_it(keys: None, autojump_clock: MockClock) -> None:
    """A crash while it says something: what it read then is the same, and what was put since comes later."""
    bot, store, first, second = Router(), FakeStore(), FakeOutbox(), FakeOutbox()

    @bot.conversation
    async def tell(chat: Chat) -> None:
        await chat.send(f"{chat.data[KEPT]}")
        await chat.send(f"{chat.data[KEPT]} in the end")

    store.kept[CHAT, "claims_kept"] = "[1,6]"
    first.hold()
    async with trio.open_nursery() as nursery:
        town = Town(bot, first, store, TEXTS, username=None)
        run = await start(nursery, town)
        await town.rest()
        await town.says("hi")
        await run.cut()
    store.kept[CHAT, "claims_kept"] = "[1,7]"
    assert store.rows == {}
    async with open_town(bot, store=store, outbox=second) as town:
        await town.rest()
        assert town.sent() == ["6", "7 in the end"]
