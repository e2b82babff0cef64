"""Interrupts and leaves under random schedules: what came later is seen, what came before is not."""

from __future__ import annotations

from random import Random

import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import CHAT, open_town
from trio.testing import MockClock

from tests.samples import sample
from triobot.conversations import chat_actor, inbox_reader, mailbox
from triobot.conversations.chat import Chat
from triobot.conversations.revival import reviving
from triobot.conversations.routes.filters import command, leave
from triobot.conversations.routes.router import Router


@pytest.mark.parametrize("seed", sample(range(120)))
async def test_nothing_is_lost_behind_the_last_interrupt(
    seed: int, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing of before it is said after it."""
    random = Random(seed)
    monkeypatch.setattr(inbox_reader, "CHANNEL", random.choice([1, 1024]))
    monkeypatch.setattr(reviving, "PAGE", random.choice([1, 3, 256]))
    monkeypatch.setattr(mailbox, "MAILBOX", random.choice([1, 3, 16]))
    monkeypatch.setattr(chat_actor, "ASIDES", random.choice([1, 64]))
    bot = Router()
    seen: list[int] = []
    interrupted: list[int] = []
    beside: list[int] = []

    async def work(chat: Chat) -> None:
        for _ in range(random.randrange(4)):
            with chat.move_on_after(random.choice([0.1, 1.0, 5.0])):
                match random.randrange(5):
                    case 0:
                        await chat.sleep(random.choice([0.0, 0.3, 2.0]))
                    case 1:
                        with chat.shield(), chat.move_on_after(1):
                            seen.append(int(await chat.ask("?")))
                    case 2:
                        async with chat.open_nursery() as nursery:
                            nursery.start_soon(chat.sleep, 0.5)
                            nursery.start_soon(chat.send, "!")
                    case _:
                        seen.append(int(await chat.ask("?")))

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        interrupted.append(int(chat.event.rest))  # type: ignore[attr-defined]
        await work(chat)

    @bot.aside(command("aside"))
    async def aside(chat: Chat) -> None:
        beside.append(int(chat.event.rest))  # type: ignore[attr-defined]
        await chat.sleep(random.choice([0.0, 1.0, 3.0]))

    @bot.aside(leave())
    async def left(chat: Chat) -> None:
        beside.append(-1)

    @bot.conversation
    async def listen(chat: Chat) -> None:
        seen.append(int(chat.event.content))  # type: ignore[attr-defined]
        await work(chat)

    said: list[tuple[str, int]] = []
    store = FakeStore(latency=random.choice([0.0, 0.05]))
    outbox = FakeOutbox(latency=random.choice([0.0, 0.2]))
    async with open_town(bot, store=store, outbox=outbox) as town:
        for number in range(1, random.choice([10, 40, 80])):
            kind = random.choices(["say", "cancel", "aside", "leave"], [10, 1, 2, 0.4])[0]
            said.append((kind, number))
            match kind:
                case "say":
                    await town.says(str(number), wait=False)
                case "leave":
                    await town.leaves(wait=False)
                case _:
                    await town.says(f"/{kind} {number}", wait=False)
            if random.random() < 0.4:
                await trio.sleep(random.choice([0.0, 0.1, 1.0]))
        await trio.sleep(5000)
        assert seen == sorted(set(seen))
        assert interrupted == sorted(set(interrupted))
        ends = [number for kind, number in said if kind in ("cancel", "leave")]
        last = max(ends, default=0)
        after = [number for kind, number in said if kind == "say" and number > last]
        assert [number for number in seen if number > last] == after
        if said[-1][0] == "cancel" or (ends and [k for k, n in said if n == last] == ["cancel"]):
            assert interrupted[-1:] == [last]
        asides = {number for kind, number in said if kind == "aside"}
        lost = asides - set(beside)
        assert all(any(k == "leave" and n > number for k, n in said) for number in lost)
        assert len([number for number in beside if number > 0]) == len({n for n in beside if n > 0})
        leaves = sum(kind == "leave" for kind, _ in said)
        # One that still waits for its turn when the next comes is covered by that one.
        assert min(leaves, 1) <= beside.count(-1) <= leaves
        assert town.store.rows == {}
        assert town.left_over() == {}
        assert town.dispatcher.work.busy == 0
        assert CHAT not in town.dispatcher.chats.actors
