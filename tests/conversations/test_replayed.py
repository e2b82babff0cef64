"""What a conversation is given without a record is the same after a restart; so is who waits for whom."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta, timezone
from typing import Any

import attrs
import pytest
import trio
from doubles import EPOCH, FakeOutbox, FakeStore
from town import CHAT, open_town
from trio.testing import MockClock

from triobot.conversations.chat import Chat
from triobot.conversations.questions.buttons import Buttons, Keyboard, keyboard_of
from triobot.conversations.routes.filters import text
from triobot.conversations.routes.router import Router
from triobot.conversations.running.branches import fingerprint, prints_of
from triobot.conversations.texts import Texts
from triobot.errors import ConversationEndedError, ForeignTaskError
from triobot.exact.verdicts import differs
from triobot.wire.content import Content, Image
from triobot.wire.ids import ChatId, MessageId
from triobot.wire.operations import EditMessage, SendMessage

TEHRAN = timezone(timedelta(hours=3.5))


async def both(work: Callable[[Chat], Awaitable[None]], *words: str) -> FakeStore:
    """Run this, say the first of the words, restart, and say the others."""
    router, store = Router(), FakeStore()
    router.conversation(text())(work)
    async with open_town(router, store=store) as town:
        await town.says("hi")
        await town.says(words[0])
        await trio.sleep(10)
    async with open_town(router, store=store) as town:
        for word in words[1:]:
            await town.says(word)
        await trio.sleep(10)
        assert "parked" not in town.counts
        assert "crashed" not in town.counts
    return store


async def test_time_and_chance_are_the_same_on_replay(autojump_clock: MockClock) -> None:
    """And no two draws are alike."""
    runs: list[list[object]] = []

    async def work(chat: Chat) -> None:
        drawn: list[object] = []
        runs.append(drawn)
        for _ in range(2):
            drawn.append(chat.now())
            drawn += [chat.random().random(), chat.random().random(), chat.uuid(), chat.uuid()]
            await chat.receive(text())
            await chat.sleep(3)
        drawn.append(chat.now(TEHRAN))

    await both(work, "one", "two")
    first, second = runs
    assert len(first) == 10
    assert second[:10] == first
    assert len(set(second)) == 11
    begun, later, end = second[0], second[5], second[10]
    assert begun.timestamp() * 1000 == EPOCH  # type: ignore[attr-defined]
    assert (later - begun).total_seconds() == 3  # type: ignore[operator]
    assert end.utcoffset() == timedelta(hours=3.5)  # type: ignore[attr-defined]


async def test_old_conversations_go_the_old_way(autojump_clock: MockClock) -> None:
    """Where they went it before the change; new ones go the new way, and keep to it."""
    router, store, outbox = Router(), FakeStore(), FakeOutbox()
    changed = False

    @router.conversation(text())
    async def work(chat: Chat) -> None:
        if changed and chat.patched("polite"):
            await chat.send("Dear friend.")
        await chat.receive(text())
        await chat.receive(text())
        if changed and chat.patched("polite"):
            await chat.send("Dear friend, goodbye.")
        else:
            await chat.send("Bye.")

    async with open_town(router, store=store, outbox=outbox) as town:
        await town.says("hi")
        await town.says("more")
    changed = True
    async with open_town(router, store=store, outbox=outbox) as town:
        await town.says("hi", 7)
        await town.says("more", 7)
    async with open_town(router, store=store, outbox=outbox) as town:
        await town.says("bye")
        await town.says("bye", 7)
        assert "parked" not in town.counts
    assert town.sent() == ["Bye."]
    assert town.sent(7) == ["Dear friend.", "Dear friend, goodbye."]


@pytest.mark.parametrize(
    ("before", "now", "reworded"),
    [
        (Image.open("/old/home/pizza.jpg", "Hot."), Image.open("/new/pizza.jpg", "Hot."), 0),
        (Image.open("/home/pizza.jpg", "Hot."), Image.open("/home/pizza.jpg", "Cold."), 1),
        (Image.open("/home/pizza.jpg"), Image.open("/home/pasta.jpg"), 1),
        (Image.open("/home/pizza.jpg"), Image.open("/home/pizza.jpg", filename="p.jpg"), 1),
        (Image.open("/home/pizza.jpg", "Hot."), "Hot.", 1),
        ("Hot.", Image.open("/home/pizza.jpg", "Hot."), 1),
        ("Hot.", "Cold.", 1),
        (Image.from_bytes(b"1", "a.jpg"), Image.from_bytes(b"2", "a.jpg"), 1),
    ],
)
async def test_a_file_may_lie_elsewhere_by_now(
    autojump_clock: MockClock, before: Content, now: Content, reworded: int
) -> None:
    """A bot that has moved sends the same file; all else of what is sent counts."""
    assert await count_reworded(await leave_behind(before), now) == reworded


@pytest.mark.parametrize(
    ("before", "now", "reworded"),
    [
        (Image.open("/home/pizza.jpg", "Hot."), Image.open("/home/pizza.jpg", "Hot."), 0),
        (Image.open("/old/home/pizza.jpg"), Image.open("/new/pizza.jpg"), 0),
        (Image.from_bytes(b"1", "a.jpg"), Image.from_bytes(b"1", "a.jpg"), 0),
        ("Hot.", "Hot.", 0),
        ("Hot.", "Cold.", 1),
    ],
)
async def test_journals_with_folders_in_them_go_on(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, before: Content, now: Content, reworded: int
) -> None:
    """Earlier versions digested all that is sent, the path of a file too."""

    def as_before(operation: Any) -> str:
        return hashlib.blake2b(repr(attrs.asdict(operation)).encode(), digest_size=8).hexdigest()

    with monkeypatch.context() as patch:
        patch.setattr("triobot.conversations.operations.fingerprint", as_before)
        store = await leave_behind(before)
    assert await count_reworded(store, now) == reworded


@pytest.mark.parametrize(
    "operation",
    [
        SendMessage(ChatId(7), "before"),
        SendMessage(ChatId(7), "before", inline_keyboard=keyboard_of(Buttons({"k": "any text"}))),
        EditMessage(ChatId(7), MessageId(5), "before"),
    ],
)
def test_a_text_is_tried_as_if_it_were_the_content(operation: SendMessage | EditMessage) -> None:
    for said in ("What?", "any text", 'it\'s "both"\n', "\u200c{}", "content"):
        assert prints_of(operation)(said) == fingerprint(attrs.evolve(operation, content=said))


async def leave_behind(content: Content) -> FakeStore:
    """Let a conversation send this, and wait; return what it has left."""
    store = FakeStore()
    async with open_town(sending(content), store=store) as town:
        await town.says("hi")
    return store


async def count_reworded(store: FakeStore, now: Content) -> int:
    """Let it go on with code that sends this; count what says something else than was recorded."""
    recorded, present = [print_in(one) for one in (store, await leave_behind(now))]
    async with open_town(sending(now), store=store) as town:
        await town.says("more")
        assert "parked" not in town.counts
    return int(differs(recorded, present))


def print_in(store: FakeStore) -> str:
    """Return the fingerprint of what the only conversation has sent."""
    (row,) = store.journals.conversations(CHAT)
    journal = store.journals.journal(row.id)
    assert journal is not None
    return str(json.loads(journal.records[1])[4])


def sending(content: Content) -> Router:
    router = Router()

    @router.conversation(text())
    async def work(chat: Chat) -> None:
        await chat.send(content)
        await chat.receive(text())

    return router


async def test_a_replay_goes_by_questions_and_their_answers(autojump_clock: MockClock) -> None:
    """Nothing is said again, whatever stands between two questions; and the next answer is taken as ever."""
    router, store, outbox, runs = Router(), FakeStore(), FakeOutbox(), list[list[object]]()

    @router.conversation(text())
    async def work(chat: Chat) -> None:
        heard: list[object] = []
        runs.append(heard)
        while True:
            heard.append(await chat.ask(f"Text {len(heard)}?"))
            heard.append(await chat.ask("Number?", int))
            heard.append(await chat.ask("Key?", keyboard=Keyboard({"yes": "Yes", "no": "No"})))
            with chat.move_on_after(5):
                heard.append(await chat.ask("Soon?"))
            heard.append(await chat.ask("Sure?", otherwise="Say it."))

    answers = ["so", "3", "yes", "now", "sure"]
    async with open_town(router, store=store, outbox=outbox) as town:
        await town.says("hi")
        for _ in range(20):
            for answer in answers:
                await town.says(answer)
    told = town.sent()
    async with open_town(router, store=store, outbox=outbox) as town:
        await town.says("four")
        await town.says("x")
        await town.says("4")
        assert not {"parked", "crashed", "possible_repeat"} & town.counts.keys()

    assert len(told) == 101
    assert runs == [["so", 3, "yes", "now", "sure"] * 20, [*["so", 3, "yes", "now", "sure"] * 20, "four", 4]]
    assert town.sent() == [*told, "Number?", Texts.english().want_number, "Key?"]


async def test_of_a_question_with_other_words_the_record_counts(autojump_clock: MockClock) -> None:
    """So does all that comes after it."""
    store, runs = FakeStore(), list[list[object]]()

    def asking(words: str) -> Router:
        router = Router()

        @router.conversation(text())
        async def work(chat: Chat) -> None:
            runs.append(heard := [])
            for number in range(4):
                heard.append(await chat.ask(f"{words} {number % 2}?"))

        return router

    async with open_town(asking("Text"), store=store) as town:
        for word in ("hi", "one", "two"):
            await town.says(word)
    async with open_town(asking("Word"), store=store) as town:
        await town.says("three")
        assert "parked" not in town.counts
    assert runs == [["one", "two"], ["one", "two", "three"]]


async def test_a_revived_conversation_keeps_no_journal(autojump_clock: MockClock) -> None:
    """It has been read when it goes on, and may be longer than all else of the chat."""
    router, store = Router(), FakeStore()

    @router.conversation(text())
    async def work(chat: Chat) -> None:
        while True:
            await chat.ask("And?")

    async with open_town(router, store=store) as town:
        for _ in range(4):
            await town.says("hi")
    async with open_town(router, store=store) as town:
        await town.says("more")
        actor = town.dispatcher.chats.actors.get(CHAT)
        assert actor is not None
        there = actor.running.live[None]
        assert there.replay is not None
        assert there.run is not None
        assert (there.replay.stored.records, there.run.journal.turns) == ((), ())


async def test_children_wait_for_one_another(autojump_clock: MockClock) -> None:
    """In an order that a restart repeats."""
    runs: list[list[object]] = []

    async def work(chat: Chat) -> None:
        heard: list[object] = []
        runs.append(heard)
        ready, numbers = chat.open_event(), chat.open_channel(int, 1)

        async def produce() -> None:
            await ready.wait()
            for number in range(4):
                await numbers.send(number)
                await chat.receive(text())
            numbers.close()

        async def consume() -> None:
            while True:
                try:
                    heard.append(await numbers.receive())
                except trio.EndOfChannel:
                    return

        async with chat.open_nursery() as nursery:
            nursery.start_soon(produce)
            nursery.start_soon(consume)
            ready.set()
            assert ready.is_set()
        heard.append("end")

    store = await both(work, "one", "two", "three", "four")
    assert runs == [[0, 1], [0, 1, 2, 3, "end"]]
    assert store.rows == {}


async def test_none_of_it_is_for_strangers() -> None:
    """Nor for whom comes too late."""
    router, kept = Router(), list[Chat[Any]]()
    calls: tuple[Callable[[Chat[Any]], object], ...] = (
        lambda chat: chat.now(),
        lambda chat: chat.random(),
        lambda chat: chat.uuid(),
        lambda chat: chat.patched("x"),
        lambda chat: chat.open_event(),
        lambda chat: chat.open_channel(int),
    )

    @router.conversation(text())
    async def work(chat: Chat) -> None:
        kept.append(chat)
        await chat.receive(text())

    async with open_town(router) as town:
        await town.says("hi")
        for call in calls:
            with pytest.raises(ForeignTaskError, match=r"test_replayed\.py"):
                call(kept[0])
        await town.says("bye")
        for call in calls:
            with pytest.raises(ConversationEndedError):
                call(kept[0])
