"""The clock of the bot's machine is set while it runs, or while it is down: an hour stays an hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

import attrs
import pytest
import trio
from trio.testing import MockClock

from triobot import Bot, Chat, Key, Paid
from triobot.errors import PaymentExpiredError
from triobot.filters import join, paid
from triobot.testing import DrivenWorld, Person, drive
from triobot.testing.virtual import MORNING

HOURS = [2, -2]

GIVEN = Key("given", int, default=0)


async def joins(world: DrivenWorld) -> Person:
    sara = world.user("Sara")
    await sara.joins()
    return sara


async def heard(person: Person) -> list[str]:
    return [seen.text for seen in await person.history() if seen.from_bot]


def told(world: DrivenWorld) -> None:
    """One alarm, however many look at the clock."""
    world.takes_alarm("clock_jumped")
    assert world.alarms == []


@pytest.mark.parametrize("hours", HOURS)
async def test_a_sleep_lasts_as_long_as_it_was_to(autojump_clock: MockClock, hours: int) -> None:
    bot = Bot()

    @bot.conversation
    async def nap(chat: Chat) -> None:
        await chat.sleep(3600)
        await chat.send("Good morning.")

    async with drive(bot) as world:
        sara = await joins(world)
        await world.waits(minutes=30)
        await world.clock_jumps(hours=hours)
        await world.waits(minutes=29)
        assert await heard(sara) == []
        await world.waits(minutes=2)
        assert await heard(sara) == ["Good morning."]
        told(world)


@pytest.mark.parametrize("hours", HOURS)
async def test_a_timeout_over_questions_does_too(autojump_clock: MockClock, hours: int) -> None:
    """Of one that is already open, and of one that begins after the jump, before anybody saw it."""
    bot = Bot()

    @bot.conversation
    async def order(chat: Chat) -> None:
        for size in ("first", "second"):
            with chat.move_on_after(3600):
                await chat.ask(f"{size}?")
            await chat.send(f"{size} over")

    async with drive(bot) as world:
        sara = await joins(world)
        await sara.sees("first?")
        await world.waits(minutes=30)
        await world.clock_jumps(hours=hours)
        await sara.says("tea")
        await sara.sees("second?")
        await world.waits(minutes=59)
        assert "second over" not in await heard(sara)
        await world.waits(minutes=2)
        assert "second over" in await heard(sara)
        told(world)


@pytest.mark.parametrize("hours", HOURS)
@pytest.mark.parametrize("restart", ["crashes", "restarts"])
async def test_after_a_restart_it_still_does(autojump_clock: MockClock, hours: int, restart: str) -> None:
    """The jump is part of the journal: replay puts the deadlines where they were."""
    bot = Bot()

    @bot.conversation
    async def nap(chat: Chat) -> None:
        with chat.move_on_after(2 * 3600):
            await chat.sleep(3600)
            await chat.send("Good morning.")
            await chat.sleep(3 * 3600)
        await chat.send("Enough.")

    async with drive(bot) as world:
        sara = await joins(world)
        await world.waits(minutes=30)
        await world.clock_jumps(hours=hours)
        await world.waits(minutes=5)
        await getattr(world, restart)()
        await world.waits(minutes=24)
        assert await heard(sara) == []
        await world.waits(minutes=2)
        assert await heard(sara) == ["Good morning."]
        await getattr(world, restart)()
        await world.waits(minutes=57)
        assert await heard(sara) == ["Good morning."]
        await world.waits(minutes=3)
        assert await heard(sara) == ["Good morning.", "Enough."]
        told(world)


@pytest.mark.parametrize("hours", HOURS)
async def test_whoever_is_in_the_store_only_comes_back_in_time(autojump_clock: MockClock, hours: int) -> None:
    """After a restart nobody is in memory who waits for a time alone."""
    bot = Bot()

    @bot.conversation
    async def nap(chat: Chat) -> None:
        await chat.sleep(24 * 3600)
        await chat.send("Good morning.")

    async with drive(bot) as world:
        sara = await joins(world)
        await world.waits(hours=1)
        await world.restarts()
        await world.waits(hours=1)
        await world.clock_jumps(hours=hours)
        ali = world.user("Ali")
        await ali.joins()  # somebody looks at the clock
        await world.waits(hours=1)
        await world.restarts()
        await world.waits(hours=20, minutes=59)
        assert await heard(sara) == []
        await world.waits(minutes=2)
        assert await heard(sara) == ["Good morning."]
        assert await heard(ali) == []
        await world.waits(hours=2)
        assert await heard(ali) == ["Good morning."]
        told(world)


@pytest.mark.parametrize("kind", ["conversation", "interrupt"])
async def test_a_conversation_after_a_jump_counts_it_once(
    autojump_clock: MockClock, kind: Literal["conversation", "interrupt"]
) -> None:
    """It began by the new time, with its event or after it: a later restart must not move it."""
    bot = Bot()

    @(bot.conversation if kind == "conversation" else bot.interrupt(join()))
    async def nap(chat: Chat) -> None:
        await chat.sleep(3600)
        await chat.send("Good morning.")

    async with drive(bot) as world:
        await joins(world)
        await world.clock_jumps(hours=5)
        await world.waits(hours=2)
        ali = world.user("Ali")
        await ali.joins()
        await world.waits(minutes=10)
        await world.crashes()
        await world.waits(minutes=49)
        assert await heard(ali) == []
        await world.waits(minutes=2)
        assert await heard(ali) == ["Good morning."]
        told(world)


@pytest.mark.parametrize(("hours", "minutes"), [(2, 0), (-2, 3 * 60)])
async def test_what_waits_for_a_time_of_day_goes_by_the_new_one(
    autojump_clock: MockClock, hours: int, minutes: int
) -> None:
    bot = Bot()
    ten = datetime.fromtimestamp(MORNING / 1000, UTC) + timedelta(hours=1)

    @bot.conversation
    async def nap(chat: Chat) -> None:
        with chat.move_on_at(ten):
            await chat.ask("Coffee?")
        await chat.send(f"It is ten, {chat.now():%H:%M}.")

    async with drive(bot) as world:
        sara = await joins(world)
        await sara.sees("Coffee?")
        await world.clock_jumps(hours=hours)
        await world.waits(minutes=max(minutes - 1, 0))
        assert len(await heard(sara)) == 1
        await world.waits(minutes=2)
        assert len(await heard(sara)) == 2
        told(world)


async def test_the_time_that_code_sees_is_the_new_one(autojump_clock: MockClock) -> None:
    """It may go back; on replay it is what it was."""
    bot, seen = Bot(), list[datetime]()

    @bot.conversation
    async def clock(chat: Chat) -> None:
        for _ in range(3):
            seen.append(chat.now())
            await chat.ask("And now?")
        await chat.send("Enough.")

    async with drive(bot, replay_check=False) as world:
        sara = await joins(world)
        await sara.sees("And now?")
        await world.waits(hours=1)
        await world.clock_jumps(hours=-2)
        await sara.says("later")
        await world.waits(minutes=1)
        first, second = seen
        assert first - second == timedelta(hours=1)
        await world.crashes()
        await sara.says("later")
        await world.waits(minutes=1)
        assert seen[2:4] == [first, second]
        assert seen[4] - second == timedelta(minutes=1)
        told(world)


async def test_a_machine_whose_clock_was_wrong_at_the_start(autojump_clock: MockClock) -> None:
    """Without a battery it begins in another year."""
    bot = Bot()

    @bot.conversation
    async def nap(chat: Chat) -> None:
        await chat.sleep(60)
        await chat.send("Good morning.")

    async with drive(bot) as world:
        await world.clock_jumps(days=-365)
        sara = await joins(world)
        await world.waits(seconds=1)
        await world.clock_jumps(days=365)
        await world.waits(seconds=57)
        assert await heard(sara) == []
        await world.waits(seconds=4)
        assert await heard(sara) == ["Good morning."]
        told(world)


async def test_the_store_knows_that_it_was_later_once(autojump_clock: MockClock) -> None:
    """So a clock that was set back while the bot was down delays nobody who is in the store only."""
    bot = Bot()

    @bot.conversation
    async def nap(chat: Chat) -> None:
        await chat.sleep(24 * 3600)
        await chat.send("Good morning.")

    async with drive(bot) as world:
        sara = await joins(world)
        await world.waits(hours=1)
        await world.restarts()
        await world.clock_jumps(hours=-2)
        await world.crashes()
        await world.waits(hours=22, minutes=59)
        assert await heard(sara) == []
        await world.waits(minutes=2)
        assert await heard(sara) == ["Good morning."]
        # The process that died may have seen it, and told of it, and written nothing down.
        assert {alarm.kind for alarm in world.alarms} == {"clock_jumped"}
        world.alarms.clear()


async def test_a_journal_knows_that_it_was_later_once(autojump_clock: MockClock) -> None:
    """If the store doesn't."""
    bot = Bot()

    @bot.conversation
    async def nap(chat: Chat) -> None:
        while True:
            with chat.move_on_after(3600) as limit:
                await chat.ask("Well?")
            if limit.cancelled_caught:
                break
        await chat.send("Good night.")

    async with drive(bot) as world:
        sara = await joins(world)
        await sara.sees("Well?")
        await world.waits(minutes=30)
        await sara.says("yes")
        # The next question is under way: the next process looks into the journal at once.
        await world.clock_jumps(minutes=-29)
        await world.crashes()
        await world.waits(minutes=59)
        assert "Good night." not in await heard(sara)
        await world.waits(minutes=3)
        assert "Good night." in await heard(sara)
        # The process that died may have seen it, and told of it, and has written nothing down.
        assert {alarm.kind for alarm in world.alarms} <= {"clock_jumped"}
        world.alarms.clear()


@pytest.mark.parametrize("hours", HOURS)
async def test_a_block_around_something_else_ends_in_time(autojump_clock: MockClock, hours: int) -> None:
    """Its deadline is felt at the next operation, and moves while the code awaits what isn't the chat's."""
    bot = Bot()

    @bot.conversation
    async def odd(chat: Chat) -> None:
        with chat.move_on_after(3600):
            await trio.sleep(45 * 60)
            await chat.ask("Well?")
        await chat.send("Over.")

    async with drive(bot, replay_check=False) as world:
        sara = await joins(world)
        await world.waits(minutes=30)
        await world.clock_jumps(hours=hours)
        await world.waits(minutes=29)
        assert await heard(sara) == ["Well?"]
        await world.waits(minutes=2)
        assert await heard(sara) == ["Well?", "Over."]
        told(world)


async def test_an_event_goes_to_the_newest_wait_by_any_clock(autojump_clock: MockClock) -> None:
    """Which of two waits is newer is known by the time of its turn, which a clock set back makes smaller."""
    bot = Bot()

    @bot.conversation
    async def two(chat: Chat) -> None:
        async def older() -> None:
            await chat.ask("Older?")
            await chat.send("older got it")

        with chat.cancel_scope() as both:
            async with chat.open_nursery() as nursery:
                nursery.start_soon(older)
                await chat.sleep(60)
                await chat.ask("Newer?")
                await chat.send("newer got it")
                both.cancel()

    async with drive(bot) as world:
        sara = await joins(world)
        await sara.sees("Older?")
        await world.clock_jumps(hours=-2)
        await world.waits(minutes=2)
        await sara.sees("Newer?")
        await sara.says("hi")
        await sara.sees("newer got it")
        told(world)


@attrs.frozen
class Pizza:
    """What is sold."""


@pytest.mark.parametrize("how", ["in memory", "in the store", "while it is down"])
@pytest.mark.parametrize("hours", [30, -30])
async def test_a_charge_goes_by_the_new_time(autojump_clock: MockClock, hours: int, how: str) -> None:
    """Its button's life is over, and who waits for it hears that at once; or it goes on, and can be paid."""
    bot = Bot()

    @bot.conversation
    async def sell(chat: Chat) -> None:
        try:
            await chat.charge(1_000, "Pizza", item=Pizza(), late="refund")
        except PaymentExpiredError:
            await chat.send("Too late.")
        else:
            await chat.send("Here it is.")

    @bot.aside(paid(Pizza))
    async def deliver(chat: Chat[Paid[Pizza]]) -> None:
        chat.data[GIVEN] += 1

    async with drive(bot) as world:
        sara = world.user("Sara", wallet=5_000)
        await sara.joins()
        await sara.sees("Pizza")
        await world.waits(hours=1)
        if how == "in the store":
            await world.restarts()
            await world.waits(minutes=1)
        await world.clock_jumps(hours=hours)
        if how == "while it is down":
            await world.crashes()
        await world.waits(minutes=2)
        if hours > 0:
            assert (await heard(sara))[1:] == ["Too late."]
        else:
            assert await heard(sara) == ["Pizza"]
            await sara.pays()
            await sara.sees("Here it is.")
        assert {alarm.kind for alarm in world.alarms} <= {"clock_jumped", "unwatched"}
        world.alarms.clear()


@pytest.mark.parametrize("start", [None, datetime(2024, 2, 29, 23, 59, tzinfo=UTC)])
async def test_the_clock_begins_where_a_test_says(autojump_clock: MockClock, start: datetime | None) -> None:
    """Else on a Saturday morning."""
    bot = Bot()

    @bot.conversation
    async def tell(chat: Chat) -> None:
        await chat.send(f"{chat.now():%Y-%m-%d %H:%M}")

    async with drive(bot, start=start) as world:
        sara = await joins(world)
        await sara.sees("2027-01-02 09:00" if start is None else "2024-02-29 23:59")
