"""What is kept beyond a chat: of a person, of the bot, of another chat; and a process that is killed."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import groupby
from typing import Any

import pytest
import trio
from crash_scenes import Killer, write_one_by_one

from tests.samples import sample
from triobot import Bot, Chat, ChatId, Key
from triobot.errors import ConfigError, UnrecordableError
from triobot.filters import command
from triobot.seams.writes import Write
from triobot.testing import drive
from triobot.testing.process import CrashableStore

TOTAL = Key("total", int, default=0)
SEATS = Key("seats", dict[int, ChatId], default={})
VISITS = Key("visits", int, default=0)
WORD = Key("word", str, default="none")


def add(old: int, more: int) -> int:
    return old + more


def seat(taken: dict[int, ChatId], number: int, who: ChatId) -> dict[int, ChatId]:
    return taken if number in taken else {**taken, number: who}


def a_counter() -> Bot:
    """Count what is said: in one line, in a block, and in two children."""
    bot = Bot()

    async def count(chat: Chat, more: int) -> None:
        await chat.shared.update(TOTAL, add, more)

    @bot.conversation(command("count"))
    async def counts(chat: Chat) -> None:
        assert chat.sender is not None
        await count(chat, 1)
        with chat.move_on_after(60):
            await count(chat, 10)
            async with chat.open_nursery() as nursery:
                nursery.start_soon(count, chat, 100)
                nursery.start_soon(count, chat, 1000)
        visits = await chat.person(chat.sender.id).update(VISITS, add, 1)
        await chat.to(chat.id).update(VISITS, add, 1)
        chat.data[VISITS] += 10
        await chat.send(f"Visit {visits}, {chat.data[VISITS]}")

    @bot.aside(command("seat"))
    async def sit(chat: Chat) -> None:
        taken = await chat.shared.update(SEATS, seat, 7, chat.id)
        await chat.send("Yours." if taken[7] == chat.id else "Taken.")

    @bot.aside(command("word"))
    async def word(chat: Chat) -> None:
        await chat.shared.set(WORD, "set")
        await chat.send("It is set.")

    @bot.aside(command("other"))
    async def other(chat: Chat) -> None:
        while await chat.shared.get(WORD) == "none":
            await chat.sleep(0.01)
        await chat.shared.set(WORD, "changed")
        await chat.shared.clear(TOTAL)
        await chat.send("It is changed.")

    return bot


@pytest.mark.parametrize("at", sample(range(121)))
async def test_whenever_the_process_is_killed_each_update_is_made_once(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    write_one_by_one(monkeypatch)
    bot, killer = a_counter(), Killer(monkeypatch, at)
    async with drive(bot, attempts=100, replay_check=not at) as world:
        people = [world.user(name) for name in ("Ali", "Sara", "Reza")]
        for person in people:
            await person.joins()
        await world.waits(seconds=5)
        async with trio.open_nursery() as nursery:
            killer.world, killer.nursery = world, nursery
            for times in range(2):
                for person in people:
                    await person.says("/count")
                    if times:
                        await person.says("/seat")
            await world.waits(minutes=5)
            killer.nursery = None
        assert await bot.shared.get(TOTAL) == 6 * 1111
        for person in people:
            assert await bot.person(person.id).get(VISITS) == 2
            assert await bot.to(person.chat_id).get(VISITS) == 22
        heard = [{seen.text for seen in await person.history() if seen.from_bot} for person in people]
    for said in heard:
        assert {"Visit 1, 11", "Visit 2, 22"} <= said
    assert Counter("Yours." in said for said in heard) == {True: 1, False: 2}
    assert Counter("Taken." in said for said in heard) == {True: 2, False: 1}
    assert killer.count >= 80


@pytest.mark.parametrize("at", sample(range(19)))
async def test_whenever_the_process_is_killed_nothing_is_set_again_over_what_came_later(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    bot, killer = a_counter(), Killer(monkeypatch, at)
    commit = CrashableStore.commit

    async def commit_slowly(store: CrashableStore, *writes: Write) -> None:
        await trio.sleep(0.02)
        await commit(store, *writes)

    monkeypatch.setattr(CrashableStore, "commit", commit_slowly)
    async with drive(bot, attempts=100, replay_check=not at) as world:
        ali, sara = world.user("Ali"), world.user("Sara")
        for person in (ali, sara):
            await person.joins()
        await world.waits(seconds=5)
        async with trio.open_nursery() as nursery:
            killer.world, killer.nursery = world, nursery
            await sara.says("/other")
            await ali.says("/word")
            await world.waits(minutes=5)
            killer.nursery = None
        assert await bot.shared.get(WORD) == "changed"
        said = [seen.text for seen in await sara.history() if seen.from_bot]
    assert [text for text, _ in groupby(said)] == ["It is changed."]


@pytest.mark.slow
@pytest.mark.parametrize("seed", sample(range(6)))
async def test_two_hundred_chats_update_one_value_and_the_process_is_killed(
    autojump_clock: object, seed: int
) -> None:
    bot, chance = Bot(), random.Random(seed)

    @bot.conversation
    async def counts(chat: Chat) -> None:
        for _ in range(3):
            await chat.sleep(chat.random().random())
            await chat.shared.update(TOTAL, add, 1)
        await chat.send("Done.")

    async with drive(bot, attempts=100, replay_check=False) as world:
        people = [world.user(f"Person {number}") for number in range(200)]
        for person in people:
            await person.joins()
        for _ in range(8):
            await world.waits(seconds=chance.uniform(0.05, 0.4))
            await world.crashes()
        await world.waits(minutes=2)
        assert await bot.shared.get(TOTAL) == 600


async def test_outside_of_conversations_it_is_updated_as_well(autojump_clock: object) -> None:
    bot = Bot()

    @bot.conversation
    async def tells(chat: Chat) -> None:
        assert chat.sender is not None
        own = await chat.person(chat.sender.id).get(VISITS)
        await chat.send(f"{await chat.shared.get(TOTAL)}, {own}, {chat.data[VISITS]}")

    async with drive(bot) as world:
        ali = world.user("Ali")
        assert await bot.shared.update(TOTAL, add, 5) == 5
        assert await bot.person(ali.id).update(VISITS, add, 2) == 2
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(bot.to(ali.chat_id).update, VISITS, add, 1)
        await ali.joins()
        await ali.sees("5, 2, 20")
        await world.crashes()
        assert await bot.shared.update(TOTAL, add, 1) == 6
        assert [chat_id async for chat_id, _ in bot.each(VISITS)] == [ali.chat_id]


@pytest.mark.slow
@pytest.mark.parametrize("seed", sample(range(9)))
async def test_nothing_from_elsewhere_comes_between_what_a_chat_reads_and_writes(
    autojump_clock: object, seed: int
) -> None:
    """Each counts what it keeps itself, while others count there as well; and the process is killed."""
    bot, chance = Bot(), random.Random(seed)

    @bot.conversation
    async def counts(chat: Chat) -> None:
        for _ in range(20):
            await chat.sleep(chat.random().random() / 10)
            before = chat.data[VISITS]
            chat.data[WORD] = f"{before} visits"
            chat.data[VISITS] = before + 1
        await chat.send("Done.")

    @bot.aside(command("help"))
    async def helps(chat: Chat) -> None:
        for _ in range(20):
            await chat.sleep(chat.random().random() / 10)
            await chat.to(chat.random().choice(ids)).update(VISITS, add, 100)

    async with drive(bot, attempts=100, replay_check=False) as world:
        people = [world.user(f"Person {number}") for number in range(5)]
        ids = [person.chat_id for person in people]
        for person in people:
            await person.joins()
            await person.says("/help")
        for _ in range(6):
            await world.waits(seconds=chance.uniform(0.02, 0.3))
            await world.crashes()
        await world.waits(minutes=2)
        kept = [await bot.to(chat_id).get(VISITS) for chat_id in ids]
    assert [value % 100 for value in kept] == [20] * 5
    assert sum(kept) == 5 * 20 + 5 * 20 * 100


async def plus_one_later(old: int) -> int:
    return old + 1


def plus_one_lost(old: int) -> None:
    old += 1


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (5, ConfigError, r"update\(\) takes a function of the old value, not a value: int"),
        (plus_one_later, ConfigError, ".* a plain function, .* plus_one_later is none"),
        (plus_one_lost, UnrecordableError, "value is a NoneType, .* holds another class: int"),
    ],
)
async def test_what_update_cannot_use_is_the_fault_of_its_function(
    change: Any, error: type[Exception], words: str, autojump_clock: object
) -> None:
    bot, caught = Bot(), list[str]()

    @bot.conversation
    async def count(chat: Chat) -> None:
        try:
            await chat.shared.update(TOTAL, change)
        except error as wrong:
            caught.append(str(wrong))
            await chat.send("wrong")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("wrong")
    assert re.fullmatch(words, caught[0])
