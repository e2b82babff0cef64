"""A bot on four shards in one process, in virtual time: what crosses shards does so once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from triobot import Bot, Chat, Key, Paid, Room
from triobot.emulator.faults import Fault
from triobot.filters import join, paid, signal, text
from triobot.rooms import SHARED
from triobot.seams import BroadcastStatus
from triobot.shards import home_of, shard_of, shard_of_number
from triobot.testing import DrivenWorld, Person, drive, driving
from triobot.wire.ids import ChatId

SHARDS = 4
COUNTED = Key("nodes.counted", int, default=0)
SUBSCRIBED = Key("nodes.subscribed", bool)

GIVEN = Key("given", int, default=0)


@pytest.fixture(autouse=True)
def in_shards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(driving, "_shards", SHARDS)
    yield


def add(old: int, more: int) -> int:
    return old + more


async def people(world: DrivenWorld, many: int) -> list[Person]:
    """So many people, who have joined; they are in all shards."""
    found = [world.user(f"P{number}") for number in range(many)]
    for person in found:
        await person.joins()
    assert {shard_of(ChatId(person.chat_id), SHARDS) for person in found} == set(range(SHARDS))
    return found


def greeting(bot: Bot) -> None:
    @bot.conversation(join(), name="greet")
    async def greet(chat: Chat) -> None:
        await chat.send("Welcome.")


@pytest.mark.slow
async def test_chats_of_all_shards_update_one_value_once_each_whatever_crashes(
    autojump_clock: MockClock,
) -> None:
    bot = Bot()
    greeting(bot)

    @bot.conversation(text("count"), name="count")
    async def count(chat: Chat) -> None:
        for _ in range(3):
            there = await chat.shared.update(COUNTED, add, 1)
            await chat.sleep(0.05)
        await chat.send(f"at least {there}")

    async with drive(bot, replay_check=False) as world:
        crowd = await people(world, 24)
        async with trio.open_nursery() as nursery:
            for person in crowd:
                nursery.start_soon(person.says, "count")
            for pause in (0.003, 0.02, 0.07):
                await trio.sleep(pause)
                await world.crashes()
        await world.waits(minutes=1)
        assert await bot.shared.get(COUNTED) == 3 * len(crowd)
        # Nothing is left of the notes by which the owner has known what it had done.
        work = bot._work
        assert work is not None and work.neighbours is not None
        stored = await work.neighbours._works[shard_of(SHARED, SHARDS)].store.data(SHARED)  # type: ignore[attr-defined]
        assert [name for name in stored if name.startswith("triobot.once.")] == []


async def test_values_and_signals_reach_chats_of_other_shards(autojump_clock: MockClock) -> None:
    bot = Bot()
    greeting(bot)

    @bot.conversation(text("wait"), name="wait")
    async def wait(chat: Chat) -> None:
        while True:
            got = await chat.receive(signal(str))
            await chat.send(f"got {got}, keeps {chat.data[COUNTED]}")

    @bot.conversation(text("tell"), name="tell")
    async def tell(chat: Chat) -> None:
        for person in crowd:
            other = chat.to(person.chat_id)
            await other.set(COUNTED, 7)
            assert await other.get(COUNTED) == 7
            await other.clear(COUNTED)
            await other.set(COUNTED, 8)
            await other.signal("hello")
        await chat.send("told")

    async with drive(bot, replay_check=False) as world:
        teller, *crowd = await people(world, 12)
        for person in crowd:
            await person.says("wait")
        await teller.says("tell")
        await teller.sees("told")
        for person in crowd:
            await person.sees("got hello, keeps 8")
        # From outside, too; a key makes the second one the same.
        for person in crowd:
            for _ in range(2):
                await bot.to(person.chat_id).signal("again", key="once")
        for person in crowd:
            await person.sees("got again, keeps 8")
            assert await bot.to(person.chat_id).update(COUNTED, add, 1) == 9
            await person.sees_nothing(within=1)


async def test_values_of_chats_in_other_shards_are_taken_away_whatever_crashes(
    autojump_clock: MockClock,
) -> None:
    bot = Bot()
    greeting(bot)

    @bot.conversation(text("clear"), name="clear")
    async def clear(chat: Chat) -> None:
        others = await chat.step(numbers)
        for number in others:
            await chat.to(number).clear(COUNTED)
        await chat.ask("Cleared. Sure?")
        await chat.send("Sure.")

    async with drive(bot) as world:
        found = await people(world, 12)

        async def numbers() -> list[int]:
            return [person.chat_id for person in found]

        for person in found:
            await bot.to(person.chat_id).set(COUNTED, 7)
        for person in found[:6]:
            await bot.to(person.chat_id).clear(COUNTED)
            assert await bot.to(person.chat_id).get(COUNTED) == 0
        await found[0].says("clear")
        await found[0].sees("Cleared. Sure?")
        await world.crashes()
        await found[0].says("yes")
        await found[0].sees("Sure.")
        assert [await bot.to(person.chat_id).get(COUNTED) for person in found] == [0] * 12


async def test_routes_are_started_and_stopped_in_chats_of_other_shards(autojump_clock: MockClock) -> None:
    bot = Bot()
    greeting(bot)

    @bot.aside(name="visit")
    async def visit(chat: Chat, guest: str) -> None:
        await chat.send(f"{guest} is here")
        await chat.sleep(3600)

    async with drive(bot, replay_check=False) as world:
        crowd = await people(world, 10)
        for person in crowd:
            there = bot.to(person.chat_id)
            assert await there.start(visit, "Ali", key="ali")
            assert not await there.start(visit, "Ali", key="ali")
        for person in crowd:
            await person.sees("Ali is here")
            assert await bot.to(person.chat_id).stop(visit, key="ali")
        await world.waits(seconds=5)
        for person in crowd:
            assert not await bot.to(person.chat_id).stop(visit, key="ali")


async def test_a_broadcast_reaches_everybody_once_and_its_status_is_the_sum(
    autojump_clock: MockClock,
) -> None:
    bot = Bot()

    @bot.conversation(join(), name="subscribe")
    async def subscribe(chat: Chat) -> None:
        chat.data[SUBSCRIBED] = True
        await chat.send("Welcome.")

    @bot.conversation(text("news"), name="news")
    async def news(chat: Chat) -> None:
        began = await chat.broadcast("news").start("News!", SUBSCRIBED)
        await chat.send(f"began {began}")

    async with drive(bot, replay_check=False) as world:
        crowd = await people(world, 40)
        await world.waits(seconds=1)  # what they keep is stored
        assert [chat async for chat, _ in bot.each(SUBSCRIBED)] == sorted(one.chat_id for one in crowd)
        await crowd[0].leaves()
        await crowd[1].says("news")
        await world.crashes()
        await crowd[1].sees("began True")
        await world.waits(minutes=5)
        for person in crowd[1:]:
            assert sum(seen.is_what("News!") for seen in await person.history()) == 1
        status = await bot.broadcast("news").status()
        assert status == BroadcastStatus("done", 40, status.sent, status.gone, 0, status.unknown)
        assert status.sent + status.unknown == 39 and status.gone == 1
        assert [chat async for chat in bot.broadcast("news").gone()] == [crowd[0].chat_id]
        assert not await bot.broadcast("news").start("News!", SUBSCRIBED)
        assert not await bot.broadcast("news").stop()
        assert await bot.broadcast("never").status() == BroadcastStatus("none")


async def test_two_starts_of_one_broadcast_are_one(autojump_clock: MockClock) -> None:
    bot = Bot()
    greeting(bot)
    async with drive(bot, replay_check=False) as world:
        chats = [person.chat_id for person in await people(world, 30)]
        began: list[bool] = []

        async def start() -> None:
            began.append(await bot.broadcast("both").start("Hi.", chats))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(start)
        await world.waits(minutes=1)
        assert sorted(began) == [False, False, True]
        assert (await bot.broadcast("both").status()).sent == 30


async def test_a_start_whose_audience_fails_leaves_nothing(autojump_clock: MockClock) -> None:
    bot = Bot()
    greeting(bot)
    async with drive(bot, replay_check=False) as world:
        chats = [person.chat_id for person in await people(world, 30)]

        def failing() -> Iterator[int]:
            yield from chats
            raise ValueError("the cursor is gone")

        with pytest.raises(ValueError, match="cursor"):
            await bot.broadcast("news").start("News!", failing())
        await world.waits(minutes=1)
        assert await bot.broadcast("news").status() == BroadcastStatus("none")
        assert await bot.broadcast("news").start("News!", chats)
        await world.waits(minutes=1)
        assert (await bot.broadcast("news").status()).sent == 30


async def test_numbers_of_conversations_are_unique_and_say_their_shard(autojump_clock: MockClock) -> None:
    bot, seen = Bot(), dict[int, int]()

    @bot.conversation(join(), name="talk")
    async def talk(chat: Chat) -> None:
        seen[chat._conversation.seq] = chat.id
        await chat.ask("Well?")

    async with drive(bot, replay_check=False) as world:
        crowd = await people(world, 40)
        for person in crowd:
            await person.sees("Well?")
        assert len(seen) == len(crowd)
        for number, chat in seen.items():
            assert shard_of_number(number) == shard_of(ChatId(chat), SHARDS)
        await world.waits(seconds=1)
        assert bot.statistics().store.conversations == 40
        assert bot.statistics().live == 40


async def test_a_room_is_in_one_shard_and_hears_all(autojump_clock: MockClock) -> None:
    bot = Bot()
    greeting(bot)

    @bot.room(signal(int), name="desk")
    async def desk(room: Room[int]) -> None:
        while True:
            room.data[COUNTED] += 1
            await room.receive(signal(int))

    @bot.conversation(text("ring"), name="ring")
    async def ring(chat: Chat) -> None:
        await chat.to(desk).signal(1)

    async with drive(bot, replay_check=False) as world:
        crowd = await people(world, 16)
        for person in crowd:
            await person.says("ring")
        await world.waits(seconds=5)
        assert await bot.to(desk).get(COUNTED) == 16


@pytest.mark.slow
async def test_everybody_pays_in_a_shard_and_is_given_once_whatever_crashes(
    autojump_clock: MockClock,
) -> None:
    """The platform's callback goes to the shard that knows the payment's number."""
    bot = Bot()

    @bot.conversation(join(), name="sell")
    async def sell(chat: Chat) -> None:
        await chat.charge(1000, "Tea", item="tea", late="refund")
        await chat.send("Thank you.")

    @bot.aside(paid(str), name="deliver")
    async def deliver(chat: Chat[Paid[str]]) -> None:
        await chat.send(f"Here is your {chat.event.item}.")
        chat.data[GIVEN] += 1

    async with drive(bot) as world:
        found = [world.user(f"P{number}", wallet=10_000) for number in range(12)]
        for person in found:
            await person.joins()
        assert {shard_of(ChatId(person.chat_id), SHARDS) for person in found} == set(range(SHARDS))
        for number, person in enumerate(found):
            await person.sees("Tea")
            await person.pays()
            if number == 5:
                await world.waits(seconds=1)
                await world.crashes()
        for person in found:
            await person.sees("Thank you.", within=3600)
        for person in found:
            said = [seen.text for seen in await person.history() if seen.from_bot]
            assert said.count("Here is your tea.") == 1


@pytest.mark.parametrize("hours", [-2, 2])
async def test_a_jump_of_the_clock_is_one_alarm_and_all_shards_hear_of_it(
    autojump_clock: MockClock, hours: int
) -> None:
    bot = Bot()

    @bot.conversation(join(), name="nap")
    async def nap(chat: Chat) -> None:
        await chat.sleep(3600)
        await chat.send("Good morning.")

    async def morning(person: Person) -> bool:
        return "Good morning." in [said.text for said in await person.history()]

    async with drive(bot) as world:
        crowd = await people(world, 24)
        await world.clock_jumps(hours=hours)
        await world.waits(minutes=59)
        assert [await morning(person) for person in crowd] == [False] * len(crowd)
        await world.waits(minutes=2)
        assert [await morning(person) for person in crowd] == [True] * len(crowd)
        world.takes_alarm("clock_jumped")
        assert world.alarms == []


async def test_a_refused_token_is_one_alarm_whichever_shards_find_it(autojump_clock: MockClock) -> None:
    bot = Bot()

    @bot.conversation(join(), name="greet")
    async def greet(chat: Chat) -> None:
        await chat.send("Welcome.")

    async with drive(bot) as world:
        world.faults.add(Fault(status=401))
        await people(world, 24)
        await world.waits(minutes=1)
        world.takes_alarm("token_refused")
        assert world.alarms == []
        works = bot._work.neighbours._works  # type: ignore[union-attr]
        home = home_of(SHARDS)
        kept = {shard: list(await work.store.alarms.open(limit=9)) for shard, work in works.items()}
        assert {shard: [alarm.kind for alarm in alarms] for shard, alarms in kept.items()} == {
            shard: ["token_refused"] if shard == home else [] for shard in range(SHARDS)
        }
        assert all(work.outbox.statistics().token_refused for work in works.values())
