"""Order and completeness under random schedules: nothing lost, nothing twice, nothing out of its order."""

from __future__ import annotations

from random import Random

import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import TEXTS, Town, open_town, start
from trio.testing import MockClock

from tests.samples import sample
from triobot.conversations import inbox_reader, workload
from triobot.conversations.chat import Chat
from triobot.conversations.revival import reviving
from triobot.conversations.routes.filters import command, text
from triobot.conversations.routes.router import Router
from triobot.conversations.routes.routing import Otherwise


class Log:
    """A bot that writes down what it was given, chat by chat, in several ways of asking."""

    def __init__(self, random: Random) -> None:
        self.seen: dict[int, list[int]] = {}
        self.helped: dict[int, list[int]] = {}
        self.bot = Router()
        self.random = random

        @self.bot.aside(command("help"))
        async def help(chat: Chat) -> None:
            self.helped.setdefault(chat.id, []).append(int(chat.event.rest))  # type: ignore[attr-defined]
            await chat.send("help")
            if random.random() < 0.3:
                with chat.move_on_after(random.choice([0.0, 1.0])):
                    await chat.receive(text("never"), otherwise=Otherwise.KEEP)

        @self.bot.conversation
        async def listen(chat: Chat) -> None:
            self.note(chat, chat.event.content)  # type: ignore[attr-defined]
            for _ in range(random.randrange(6)):
                with chat.move_on_after(random.choice([0.0, 0.1, 1.0, 50.0])):
                    await self.one(chat)

    def note(self, chat: Chat, content: object) -> None:
        self.seen.setdefault(chat.id, []).append(int(str(content)))

    async def one(self, chat: Chat) -> None:
        match self.random.randrange(6):
            case 0:
                self.note(chat, await chat.ask("?"))
            case 1:
                self.note(chat, (await chat.receive(text(), otherwise=Otherwise.KEEP)).content)
            case 2:
                await chat.sleep(self.random.choice([0.0, 0.1, 2.0]))
            case 3:
                await chat.send("!")
            case 4:
                for event in chat.drain():
                    self.note(chat, event.content)  # type: ignore[attr-defined]
            case _:
                async with chat.open_nursery() as nursery:
                    nursery.start_soon(chat.sleep, 0.1)
                    self.note(chat, await chat.ask("??"))
                    nursery.cancel()


@pytest.mark.parametrize("seed", sample(range(120)))
async def test_each_message_is_seen_once_and_in_order(
    seed: int, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With tiny channels and pages, slow stores, timeouts at every moment, and a clean stop or two."""
    random = Random(seed)
    monkeypatch.setattr(inbox_reader, "CHANNEL", random.choice([1, 3, 1024]))
    monkeypatch.setattr(reviving, "PAGE", random.choice([1, 3, 256]))
    monkeypatch.setattr(workload, "BUSY", random.choice([1, 10_000]))
    log = Log(random)
    store = FakeStore(latency=random.choice([0.0, 0.05]), commit_lag=random.choice([0.0, 0.02]))
    outbox = FakeOutbox(latency=random.choice([0.0, 0.1, 0.7]))
    expected: dict[int, list[int]] = {}
    helps: dict[int, list[int]] = {}
    number = 0
    async with open_town(log.bot, store=store, outbox=outbox) as town:
        for _ in range(random.choice([20, 60, 120])):
            number += 1
            chat = random.choice([5, 5, 5, 6])
            if random.random() < 0.1:
                await town.says(f"/help {number}", chat, wait=False)
                helps.setdefault(chat, []).append(number)
            else:
                await town.says(str(number), chat, wait=False)
                expected.setdefault(chat, []).append(number)
            if random.random() < 0.3:
                await trio.sleep(random.choice([0.0, 0.01, 0.1, 1.0, 3.0]))
        # Every conversation is over or parked on a question: whatever is left is asked for.
        await trio.sleep(20_000)
        assert log.seen == expected
        assert {chat: sorted(seen) for chat, seen in log.helped.items()} == helps
        assert town.store.rows == {}
        assert town.left_over() == {}
        assert town.dispatcher.work.busy == 0
        with trio.fail_after(1):
            await town.dispatcher.drain()


@pytest.mark.parametrize("seed", sample(range(50)))
async def test_a_clean_stop_loses_and_repeats_nothing_that_was_at_rest(
    seed: int, autojump_clock: MockClock
) -> None:
    """After a drain each row is either dealt with, or there for the next run."""
    random = Random(seed)
    seen: list[int] = []
    bot = Router()

    @bot.conversation
    async def once(chat: Chat) -> None:
        await chat.send("!")
        seen.append(int(chat.event.content))  # type: ignore[attr-defined]

    store = FakeStore(latency=random.choice([0.0, 0.05]))
    outbox = FakeOutbox(latency=random.choice([0.0, 0.1]))
    town: Town | None = None
    number = 0
    for _ in range(3):
        async with trio.open_nursery() as nursery:
            if town is None:
                town = Town(bot, outbox, store, TEXTS, username=None)
            else:
                town.new_dispatcher()
            run = await start(nursery, town)
            for _ in range(random.randrange(12)):
                number += 1
                await town.says(str(number), random.choice([5, 6]), wait=False)
                if random.random() < 0.3:
                    await trio.sleep(random.choice([0.0, 0.05, 0.3]))
            await town.dispatcher.drain()
            number += 1
            await town.says(str(number), wait=False)
            await run.cut()
    assert town is not None
    town.new_dispatcher()
    async with trio.open_nursery() as nursery:
        run = await start(nursery, town)
        await trio.sleep(100)
        await run.cut()
    assert sorted(seen) == list(range(1, number + 1))
    assert store.rows == {}
