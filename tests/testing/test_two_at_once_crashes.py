"""Two conversations in one chat, and a process that is killed at any act of either."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import groupby

import attrs
import pytest
import trio
from crash_scenes import Killer

from tests.samples import sample
from triobot import Bot, Chat, Key
from triobot.emulator.faults import Fault
from triobot.filters import command
from triobot.seams.writes import Write
from triobot.testing import DrivenWorld, Person, drive
from triobot.testing.process import CrashableStore

DONE = Key("done", int, default=0)


@attrs.define
class Place:
    """A bot that does two things at once in a chat, and what its steps were told."""

    bot: Bot = attrs.Factory(Bot)
    steps: list[str] = attrs.Factory(list[str])

    async def step(self, key: str) -> None:
        await trio.lowlevel.checkpoint()
        self.steps.append(key)

    async def works(self, chat: Chat, name: str) -> None:
        """A part of a conversation that leaves every kind of trace."""
        await chat.send(f"{name} begins")
        await chat.step(self.step, f"{name} {chat.uuid()}")
        chat.data[DONE] += 1
        await chat.sleep(2)
        await chat.send(f"{name} is done")


def each_member_alone() -> Place:
    place = Place()

    @place.bot.conversation(command("me"), per="sender")
    async def member(chat: Chat) -> None:
        assert chat.sender is not None
        name = chat.sender.name
        with chat.move_on_after(600):
            answer = await chat.ask(f"{name}, what?")
            await chat.send(f"{name}: {answer}")
            choice = await chat.choose(f"{name}, sure?", {"y": f"{name} is", "n": "No"})
            await chat.send(f"{name}: {choice}")
        await place.works(chat, name)

    return place


async def both_talk(world: DrivenWorld, ali: Person, sara: Person) -> Person:
    """Now the one, now the other, and both at the same time."""
    group = await world.group(ali, sara)
    here, there = ali.at(group), sara.at(group)
    await here.says("/me")
    await here.sees("Ali, what?", within=60)
    await there.says("/me")
    await there.sees("Sara, what?", within=60)
    await here.says("tea")
    await there.says("milk")
    await here.sees("Ali, sure?", within=60)
    await there.sees("Sara, sure?", within=60)
    await there.presses("Sara is")
    await here.presses("Ali is")
    return here


def a_conversation_and_an_aside() -> Place:
    place = Place()

    @place.bot.aside(command("beside"))
    async def beside(chat: Chat) -> None:
        await place.works(chat, "aside")

    @place.bot.conversation
    async def talk(chat: Chat) -> None:
        name = await chat.ask("Name?")
        await chat.send(f"Hello, {name}.")
        size = await chat.choose("Size?", {"s": "Small", "l": "Large"})
        await chat.send(f"So {size}.")
        await place.works(chat, "talk")

    return place


async def beside_the_talk(world: DrivenWorld, ali: Person, sara: Person) -> Person:
    """While it waits for an answer, and while it is at work."""
    await ali.sees("Name?", within=60)
    await ali.says("/beside")
    await ali.says("Ali")
    await ali.sees("Size?", within=60)
    await ali.presses("Small")
    return ali


Scene = Callable[[DrivenWorld, Person, Person], Awaitable[Person]]

TALKS = {
    "Ali": ["Ali, what?", "Ali: tea", "Ali, sure?", "Ali: y", "Ali begins", "Ali is done"],
    "Sara": ["Sara, what?", "Sara: milk", "Sara, sure?", "Sara: y", "Sara begins", "Sara is done"],
}
BESIDE = {
    "talk": ["Name?", "Hello, Ali.", "Size?", "So s.", "talk begins", "talk is done"],
    "aside": ["aside begins", "aside is done"],
}
# How it is made, what happens, what each says, and how many acts that has at least and at most.
SCENES: dict[str, tuple[Callable[[], Place], Scene, dict[str, list[str]], int, int]] = {
    "members": (each_member_alone, both_talk, TALKS, 40, 62),
    "beside": (a_conversation_and_an_aside, beside_the_talk, BESIDE, 20, 36),
}


@pytest.mark.parametrize(
    ("scene", "at"),
    [(name, at) for name, (*_, most) in SCENES.items() for at in sample(range(most + 1))],
)
async def test_whenever_the_process_is_killed_both_go_on(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, scene: str, at: int
) -> None:
    """Each in its own order, and none for the other; twice comes only what was on its way then."""
    make, play, expected, fewest, _ = SCENES[scene]
    killer, place = Killer(monkeypatch, at), make()
    async with drive(place.bot, attempts=100, replay_check=not at) as world:
        ali, sara = world.user("Ali"), world.user("Sara")
        await ali.joins()
        await sara.joins()
        await world.waits(seconds=5)
        async with trio.open_nursery() as nursery:
            killer.world, killer.nursery = world, nursery
            here = await play(world, ali, sara)
            await world.waits(minutes=5)
            killer.nursery = None
        said = [seen.text for seen in await here.history() if seen.from_bot]
        assert await place.bot.to(here.chat_id).get(DONE) == len(expected)
    for talk in expected.values():
        assert [text for text, _ in groupby(text for text in said if text in talk)] == talk
    assert Counter(said).keys() == {text for talk in expected.values() for text in talk}
    killed = 0 < at <= killer.count
    # One lane a chat: nothing leaves in it before it is stored what came of the text before.
    assert len(said) <= sum(map(len, expected.values())) + killed
    assert len(set(place.steps)) == 2
    assert len(place.steps) <= 2 + 2 * killed
    assert killer.count >= fewest


def two_that_wake_together() -> Place:
    place = Place()

    async def says(chat: Chat, name: str) -> None:
        await chat.sleep(1)
        await chat.send(f"{name} one")
        await chat.send(f"{name} two")

    @place.bot.aside(command("beside"))
    async def beside(chat: Chat) -> None:
        await says(chat, "aside")

    @place.bot.conversation(command("talk"))
    async def talk(chat: Chat) -> None:
        await says(chat, "talk")

    return place


@pytest.mark.parametrize("at", sample(range(33), every=3))
async def test_where_the_store_is_slow_one_text_at_most_is_in_doubt(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """What the one is told leaves once it is stored that the other was told, however long that takes."""
    commit, place = CrashableStore.commit, two_that_wake_together()

    async def commit_slowly(store: CrashableStore, *writes: Write) -> None:
        await trio.sleep(0.5)
        await commit(store, *writes)

    monkeypatch.setattr(CrashableStore, "commit", commit_slowly)
    killer = Killer(monkeypatch, at)
    async with drive(place.bot, attempts=100, replay_check=False) as world:
        ali = world.user("Ali")
        await ali.joins()
        await world.waits(seconds=5)
        async with trio.open_nursery() as nursery:
            killer.world, killer.nursery = world, nursery
            await ali.says("/talk")
            await ali.says("/beside")
            await world.waits(minutes=5)
            killer.nursery = None
        said = [seen.text for seen in await ali.history() if seen.from_bot]
    for name in ("talk", "aside"):
        assert [text for text, _ in groupby(text for text in said if text.startswith(name))] == [
            f"{name} one",
            f"{name} two",
        ]
    assert len(said) <= 4 + (0 < at <= killer.count)
    assert killer.count >= 12


@pytest.mark.parametrize("restart", ["crashes", "restarts"])
async def test_what_is_written_while_nobody_is_there_is_seen(autojump_clock: object, restart: str) -> None:
    """By whoever comes back: its own writes of before are not stored again over it."""
    bot = Bot()

    @bot.conversation
    async def count(chat: Chat) -> None:
        chat.data[DONE] += 1
        await chat.ask("One?")
        chat.data[DONE] += 1
        await chat.ask("Two?")
        chat.data[DONE] += 1
        await chat.send(f"It is {chat.data[DONE]}.")

    async with drive(bot) as world:
        ali, sara = world.user("Ali"), world.user("Sara")
        for person in (ali, sara):
            await person.joins()
            await person.sees("One?")
        await ali.says("one")
        await ali.sees("Two?")
        await world.waits(seconds=1)
        await getattr(world, restart)()
        for person in (ali, sara):
            await bot.to(person.chat_id).set(DONE, 40)
        await sara.says("one")
        await sara.sees("Two?")
        await getattr(world, restart)()
        await ali.says("two")
        await sara.says("two")
        await ali.sees("It is 41.")
        await sara.sees("It is 42.")


@pytest.mark.parametrize("restart", ["crashes", "restarts"])
async def test_what_was_not_sent_keeps_its_order(autojump_clock: object, restart: str) -> None:
    """That of each conversation's branches; which of the conversations comes first, nothing says."""
    bot = Bot()

    async def say(chat: Chat, *words: str) -> None:
        async def later(seconds: int, word: str) -> None:
            await chat.sleep(seconds)
            await chat.send(f"{word} {seconds}")

        async with chat.open_nursery() as nursery:
            for seconds, word in zip((20, 10, 15), words, strict=True):
                nursery.start_soon(later, seconds, word)

    @bot.conversation
    async def talk(chat: Chat) -> None:
        await chat.send("Hello.")
        await say(chat, "third", "first", "second")
        await chat.ask("And now?")

    @bot.aside(command("beside"))
    async def beside(chat: Chat) -> None:
        await say(chat, "beside, third", "beside, first", "beside, second")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Hello.")
        await ali.says("/beside")
        world.faults.add(Fault(status=503, times=None))
        await world.waits(seconds=40)
        world.faults.clear()
        await getattr(world, restart)()
        await ali.sees("And now?")
        await world.waits(minutes=1)
        said = [entry.content for entry in world.exchange.world.chat(ali.chat_id).entries.values()]
        world.alarms.clear()
    assert [word for word in said if "beside" not in str(word)] == [
        "Hello.",
        "first 10",
        "second 15",
        "third 20",
        "And now?",
    ]
    assert [word for word in said if "beside" in str(word)][1:] == [
        "beside, first 10",
        "beside, second 15",
        "beside, third 20",
    ]
