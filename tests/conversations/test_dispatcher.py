"""One cursor: each chat gets its events exactly once, in the order of acceptance, however far behind we are.

The schedules are random but seeded; time is virtual. Channel, pages and mailboxes are tiny, so that every
way through the dispatcher is taken many times.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict

import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import TEXTS, Town, open_town, start
from trio.testing import MockClock

from tests.samples import sample
from triobot.conversations import chat_actor as actor_module
from triobot.conversations import inbox_reader, mailbox, workload
from triobot.conversations.chat import Chat
from triobot.conversations.questions import cleanup
from triobot.conversations.revival import reviving
from triobot.conversations.routes.filters import command, message, text
from triobot.conversations.routes.router import Router
from triobot.seams.inbox import InboxRow
from triobot.wire.events import Message
from triobot.wire.ids import ChatId
from triobot.wire.operations import SendMessage

SEEDS = int(os.environ.get("SEEDS", "8"))


@pytest.fixture(autouse=True)
def reproducible(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Trio's own dice and the chats' are cast by the test's name, so that a failure comes back."""
    dice = random.Random(request.node.name)
    monkeypatch.setattr("secrets.token_hex", lambda size: dice.randbytes(size).hex())
    monkeypatch.setattr("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True)
    monkeypatch.setattr("trio._core._run._r", random.Random(request.node.name))


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything overflows."""
    monkeypatch.setattr(inbox_reader, "CHANNEL", 3)
    monkeypatch.setattr(reviving, "PAGE", 4)
    monkeypatch.setattr(workload, "BUSY", 2)
    monkeypatch.setattr(mailbox, "MAILBOX", 2)
    monkeypatch.setattr(actor_module, "ASIDES", 2)


class UnevenStore(FakeStore):
    """Reads and writes take a random time; a row may be read before it is offered."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self._dice = dice

    def disk_seconds(self) -> float:
        return self._dice.choice((0, 0, 0.001, 0.01, 0.1))

    async def accept(self, *args: object, **kwargs: object) -> object:
        self.commit_lag = self._dice.choice((0, 0, 0.001, 0.02))
        return await super().accept(*args, **kwargs)  # type: ignore[arg-type]


class Listeners:
    """A bot whose conversations take every message, dawdle, and end when they like."""

    def __init__(self) -> None:
        self.heard: dict[int, list[int]] = defaultdict(list)
        self.helped: dict[int, list[int]] = defaultdict(list)
        self.bot = Router()

        @self.bot.interrupt(command("cancel"))
        async def cancel(chat: Chat) -> None:
            await self.hear(chat, int(chat.event.rest))
            await self.listen(chat)

        @self.bot.aside(command("help"))
        async def help_(chat: Chat) -> None:
            self.helped[chat.id].append(int(chat.event.rest))
            await self.dawdle(chat)

        @self.bot.conversation(message())
        async def listen(chat: Chat[Message]) -> None:
            await self.hear(chat, int(chat.event.content))
            await self.listen(chat)

    async def listen(self, chat: Chat) -> None:
        while chat.random().random() > 0.1:
            if chat.random().random() < 0.2:
                # All of them before the next wait: that is what says that they have been dealt with.
                self.heard[chat.id].extend(int(event.content) for event in chat.drain())
                await self.dawdle(chat)
            elif chat.random().random() < 0.5:
                await self.hear(chat, await chat.ask("?", int))
            else:
                await self.hear(chat, int((await chat.receive(text())).content))

    async def hear(self, chat: Chat, number: int) -> None:
        self.heard[chat.id].append(number)
        await self.dawdle(chat)

    async def dawdle(self, chat: Chat) -> None:
        match chat.random().randrange(5):
            case 0:
                await chat.send("well")
            case 1:
                await chat.step(trio.sleep, chat.random().choice((0.001, 0.01, 0.1, 1)))
            case 2:
                await chat.sleep(chat.random().choice((0, 0.01, 0.3)))
            case _:
                pass


async def talk(town: Town, dice: random.Random, count: int, words: tuple[str, ...] = ("",)) -> None:
    """People say numbers, in bursts."""
    chats = [dice.randrange(1, 9) for _ in range(count)]
    for number, chat in enumerate(chats):
        if dice.random() < 0.3:
            chat = 1  # somebody floods
        word = dice.choice(words)
        await town.says(f"{word} {number}" if word else str(number), chat, wait=False)
        if dice.random() < 0.1:
            await trio.sleep(dice.choice((0, 0.01, 0.1, 2, 40)))


def spoken(town: Town) -> dict[int, list[int]]:
    """What was accepted, by chat."""
    said: dict[int, list[int]] = defaultdict(list)
    for _, event in sorted(town.accepted, key=lambda pair: pair[0]):
        said[event.chat_id].append(int(str(event.content).split()[-1]))
    return said


@pytest.mark.parametrize("seed", sample(range(SEEDS)))
async def test_each_chat_hears_everything_once_and_in_order(seed: int, autojump_clock: MockClock) -> None:
    """A thousand events over eight chats; one floods. Nothing is remembered at the end."""
    dice = random.Random(seed)
    listeners = Listeners()
    store = UnevenStore(dice)
    async with open_town(listeners.bot, store=store, outbox=FakeOutbox(latency=0.005)) as town:
        await trio.sleep(1)
        await talk(town, dice, 1000)
        await trio.sleep(10**5)
        assert listeners.heard == spoken(town)
        assert store.rows == {}
        rows = [row for (row, taken), _ in town.accepted if not taken]
        assert len(store.consumed) == len(set(store.consumed)) == len(rows)
        assert len(town.accepted) == 1000
        assert (len(rows) < 1000) == (town.door is not None), "some are taken before they are stored"
        assert town.counts["fell_behind"] > 0
        for chat in range(1, 9):
            await town.leaves(chat)
        await trio.sleep(10)
        assert town.left_over() == {}
        assert await town.dispatcher.oldest() is None


# In 37 a turn that runs again drains a mailbox, as its journal knows, while other events wait.
@pytest.mark.slow
@pytest.mark.parametrize("seed", [*sample(range(SEEDS)), 37])
async def test_a_restart_loses_nothing_and_skips_nothing(seed: int, autojump_clock: MockClock) -> None:
    """Cut at any moment: conversations go on where they were, with the next event, chat by chat."""
    dice = random.Random(seed)
    store = UnevenStore(dice)
    listeners = Listeners()
    revived = 0
    town = Town(listeners.bot, FakeOutbox(latency=0.005), store, TEXTS, username=None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(talk, town, dice, 600)
        for last in (False, False, False, False, True):
            town.new_dispatcher()
            run = await start(nursery, town)
            await trio.sleep(10**5 if last else dice.choice((0.05, 0.5, 3)))
            await run.cut()
            revived += town.counts.get("revived", 0)
            assert "parked" not in town.counts
    # A replay hears again what was heard, and then what is new.
    heard = {chat: list(dict.fromkeys(numbers)) for chat, numbers in listeners.heard.items()}
    assert heard == spoken(town)
    assert revived > 0
    assert store.rows == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", sample(range(SEEDS)))
async def test_interrupts_and_asides_overtake_and_nothing_is_lost(
    seed: int, autojump_clock: MockClock
) -> None:
    """Each event is heard, or helped with, or dropped by an interrupt that came after it; never twice."""
    dice = random.Random(seed)
    listeners = Listeners()
    store = UnevenStore(dice)
    async with open_town(listeners.bot, store=store, outbox=FakeOutbox(latency=0.005)) as town:
        await talk(town, dice, 800, ("", "", "", "", "", "/help", "/cancel"))
        await trio.sleep(10**5)
        said = spoken(town)
        helps = {int(e.content.split()[1]) for _, e in town.accepted if e.content.startswith("/help")}
        cancels = {int(e.content.split()[1]) for _, e in town.accepted if e.content.startswith("/cancel")}
        dropped = 0
        for chat, numbers in said.items():
            heard = listeners.heard[chat]
            assert sorted(listeners.helped[chat]) == [number for number in numbers if number in helps]
            assert heard == sorted(set(heard))
            missing = [n for n in numbers if n not in helps and n not in heard]
            last_cancel = max((n for n in numbers if n in cancels), default=-1)
            assert all(number < last_cancel for number in missing)
            dropped += len(missing)
        assert dropped > 0
        assert town.counts["interrupted"] <= dropped
        assert store.rows == {}
        assert len(store.consumed) == len(set(store.consumed))
        for chat in range(1, 9):
            await town.leaves(chat)
        await trio.sleep(10)
        assert town.left_over() == {}


async def test_a_repeated_turn_and_the_next_take_what_waits_in_order(autojump_clock: MockClock) -> None:
    """The next turn is later than the repeated one, and sees an event that came after the queued ones."""
    heard: list[str] = []
    router = Router()

    @router.conversation(message())
    async def listen(chat: Chat[Message]) -> None:
        while True:
            heard.append((await chat.receive(text())).content)

    town = Town(router, FakeOutbox(), FakeStore(), TEXTS, username=None)
    async with trio.open_nursery() as nursery:
        town.new_dispatcher()
        run = await start(nursery, town)
        await town.says("hello")
        await run.cut()
        await town.says("one", wait=False)
        await town.says("two", wait=False)
        await trio.sleep(1)
        await town.says("three", wait=False)
        town.new_dispatcher()
        run = await start(nursery, town)
        await trio.sleep(10)
        await run.cut()
    assert heard == ["one", "two", "three"]


async def test_a_blocked_chat_delays_no_other(autojump_clock: MockClock) -> None:
    """Its events wait in the inbox; the rest of the town goes on."""
    dice = random.Random(0)
    listeners = Listeners()
    outbox = FakeOutbox()
    outbox.hold(lambda op: isinstance(op, SendMessage) and op.chat_id == 1)
    async with open_town(listeners.bot, outbox=outbox, store=UnevenStore(dice)) as town:
        for number in range(300):
            await town.says(str(number), 1, wait=False)
        for number in range(50):
            await town.says(str(number), 2, wait=False)
        await trio.sleep(1000)
        assert listeners.heard[2] == list(range(50))
        assert len(listeners.heard[1]) < 100
        assert await town.dispatcher.oldest() is None


async def test_a_row_that_is_read_before_it_is_offered_is_handled_once(autojump_clock: MockClock) -> None:
    """Committed and visible, while its offer is still on the way."""
    bot = Router()
    got: list[str] = []

    @bot.conversation(message())
    async def echo(chat: Chat[Message]) -> None:
        got.append(chat.event.content)

    store = FakeStore(commit_lag=5)
    town = Town(bot, FakeOutbox(), store, TEXTS, username=None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(town.says, "early")
        await trio.sleep(1)
        run = await start(nursery, town)
        await trio.sleep(1)
        assert got == ["early"]
        assert store.rows == {}
        await trio.sleep(10)
        await run.cut()
    assert got == ["early"]


async def test_no_more_conversations_work_at_once_than_we_can_bear(autojump_clock: MockClock) -> None:
    """The others wait in the inbox; parked ones don't count."""
    bot = Router()
    working, most = 0, 0

    async def work() -> None:
        nonlocal working, most
        working += 1
        most = max(most, working)
        await trio.sleep(1)
        working -= 1

    @bot.conversation(message())
    async def busy(chat: Chat) -> None:
        await chat.step(work)
        await chat.ask("?")

    async with open_town(bot, store=FakeStore(latency=0.01)) as town:
        await trio.sleep(1)
        for chat in range(1, 41):
            await town.says("hi", chat, wait=False)
        await trio.sleep(100)
        assert len(town.dispatcher.tasks.running) == 40
    assert most == workload.BUSY + 1


async def test_an_unreadable_row_is_counted_and_gone(autojump_clock: MockClock) -> None:
    """Also in the inbox of a chat that is behind."""
    bot = Router()
    got: list[str] = []

    @bot.conversation(message())
    async def listen(chat: Chat[Message]) -> None:
        await chat.send("busy")
        for event in chat.drain():
            got.append(event.content)
        while True:
            got.append((await chat.receive(text())).content)

    store = FakeStore()
    outbox = FakeOutbox()
    held = outbox.hold()
    async with open_town(bot, store=store, outbox=outbox) as town:
        for words in ("a", "b", "c", "d", "e"):
            await town.says(words)
        row = store.rows[4]
        store.rows[4] = InboxRow(4, row.chat_id, 0, "application/json", b"{")
        held.release()
        await town.rest()
        assert got == ["b", "c", "e"]
        assert store.rows == {}
    store.rows[7] = InboxRow(7, ChatId(5), 0, "application/json", b"{")
    async with open_town(bot, store=store) as town:
        await town.rest()
        assert town.counts["unreadable"] == 1
        assert store.rows == {}


async def test_the_words_beside_conversations_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of stale forms harms only itself."""
    monkeypatch.setattr(cleanup, "CLEANUPS", 3)
    monkeypatch.setattr(workload, "BUSY", 5)
    bot = Router()

    @bot.conversation(message())
    async def never(chat: Chat) -> None:
        """Nobody writes."""

    outbox = FakeOutbox()
    held = outbox.hold()
    async with open_town(bot, outbox=outbox) as town:
        for number in range(10):
            await town.submits({"a": "b"}, on=number)
        assert town.counts["left_untidy"] == 7
        held.release()
        await town.rest()
        assert town.sent() == [TEXTS.expired] * 3
        assert town.left_over() == {}
        assert town.store.rows == {}


async def test_what_was_answered_is_remembered_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for ever."""
    monkeypatch.setattr(cleanup, "ANSWERED", 2)
    bot = Router()

    @bot.conversation
    async def ask(chat: Chat) -> None:
        await chat.choose("Which?", {1: "One"})

    async with open_town(bot) as town:
        ids = []
        for _ in range(3):
            await town.says("hi")
            ids.append(town.messages()[-1][0])
            await town.presses("One")
        for id in ids:
            await town.presses("One", on=id)
        said = [said for what, _, said in town.outbox.presses if what == "refused"]
        assert said == [TEXTS.expired, "", ""]
