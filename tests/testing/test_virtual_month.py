"""A month of virtual time costs what happens in it: nothing looks at the clock again and again."""

from __future__ import annotations

from datetime import timedelta
from types import FunctionType

import pytest
import trio
from trio.testing import MockClock

from triobot import Bot, Chat, Room, Tick
from triobot.filters import signal, text
from triobot.testing import DrivenWorld, drive

DAY = 24 * 3600
SLEEPERS = 100
FEW = 30
"""Task steps; a look a day would be more, and a minute's look was 43,200."""

bot = Bot()


@bot.conversation
async def remind(chat: Chat) -> None:
    with chat.move_on_after(40 * DAY):
        await chat.ask("When?")
    await chat.send("Never, then.")


@bot.aside(text("wait"))
async def wait(chat: Chat) -> None:
    await chat.sleep(50 * DAY)


@bot.aside(text("fail"))
async def fail(chat: Chat) -> None:
    raise ValueError


class Steps(trio.abc.Instrument):
    """Counts how often a task goes on."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


async def steps_of_a_month(world: DrivenWorld) -> int:
    # What is left of the acts before is no part of it.
    await world.waits(minutes=1)
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    await world.waits(days=30)
    trio.lowlevel.remove_instrument(steps)
    return steps.count


@pytest.mark.slow
@pytest.mark.parametrize("where", ["in memory", "in the store"])
async def test_it_wakes_no_one_before_their_time(autojump_clock: MockClock, where: str) -> None:
    async with drive(bot, replay_check=False) as world:
        for number in range(SLEEPERS):
            person = world.user(f"Person {number}")
            await person.joins()
            await person.sees("When?")
            await person.says("wait")
        if where == "in the store":
            await world.restarts()

        assert await steps_of_a_month(world) <= FEW

        # They were there all the time.
        await world.waits(days=11)
        assert (await world.transcript()).count("Never, then.") == SLEEPERS


async def test_jobs_and_rooms_wait_for_nothing(autojump_clock: MockClock) -> None:
    """Ten jobs that are not due in that month, and fifty rooms that hear nothing."""
    waiting = Bot()

    @waiting.room(signal(str))
    async def match(room: Room[str]) -> None:
        await room.receive(signal(str))

    async def job(job: Room[Tick]) -> None: ...

    for number in range(10):
        declared = FunctionType(job.__code__, globals(), f"job{number}")
        waiting.every(timedelta(days=400 + number), name=f"job {number}")(declared)

    async with drive(waiting, replay_check=False) as world:
        for number in range(50):
            await waiting.to(match, number).signal("begin")
        assert await steps_of_a_month(world) <= FEW


async def test_an_alarm_that_was_told_is_not_looked_at(autojump_clock: MockClock) -> None:
    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("When?")
        await sara.says("fail")
        await sara.sees("Something went wrong here. Please start again.")

        assert await steps_of_a_month(world) <= FEW

        world.takes_alarm("conversation_crashed")
