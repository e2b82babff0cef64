"""Jobs by the clock: each due time begins one run at most, whatever dies."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import trio
from crash_scenes import Killer

from tests.samples import sample
from triobot import Bot, Chat, Key, Room, Tick
from triobot.conversations.jobs import SETTING
from triobot.conversations.routes.router import table_of
from triobot.errors import ConfigError
from triobot.filters import signal, text
from triobot.testing import drive

MINUTE = timedelta(minutes=1)
TEHRAN = ZoneInfo("Asia/Tehran")
RUNS = Key("runs", int, default=0)


async def test_a_job_runs_when_it_is_due(autojump_clock: object) -> None:
    """In the zone of its expression; it sends to chats and keeps what is the bot's."""
    bot, ticks = Bot(), list[Tick]()

    @bot.conversation(text())
    async def hello(chat: Chat) -> None:
        await chat.send("Hello.")

    @bot.every("30 9 * * *", tz=TEHRAN)
    async def daily(job: Room[Tick]) -> None:
        job.data[RUNS] += 1
        if not job.replaying:
            ticks.append(job.event)
        await job.to(chat_id).send(f"Day {job.data[RUNS]}.")

    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        chat_id = sara.chat_id
        await world.waits(days=3)
        assert await bot.shared.get(RUNS) == 3
        assert [seen.text for seen in await sara.history()] == ["Day 1.", "Day 2.", "Day 3."]
    assert len(ticks) == 3
    assert {(tick.due.hour, tick.due.minute, str(tick.due.tzinfo)) for tick in ticks} == {
        (9, 30, "Asia/Tehran")
    }
    assert {later.due - tick.due for tick, later in pairwise(ticks)} == {timedelta(days=1)}
    assert not any(tick.missed for tick in ticks)


@pytest.mark.parametrize("missed", ["once", "all", "skip"])
async def test_what_was_due_while_the_bot_was_down(autojump_clock: object, missed: Any) -> None:
    bot, ticks = Bot(), list[tuple[int, int]]()
    began = list[datetime]()

    @bot.every(timedelta(hours=1), missed=missed)
    async def hourly(job: Room[Tick]) -> None:
        began[:] = began or [job.event.due]
        ticks.append(((job.event.due - began[0]) // timedelta(hours=1), job.event.missed))

    async with drive(bot, replay_check=False) as world:
        await world.waits(hours=1.5)
        await world._process.stop()
        await world.waits(hours=4)
        await world._process.start()
        await world.waits(hours=2)
    assert (
        ticks
        == {
            "once": [(0, 0), (4, 3), (5, 0), (6, 0)],
            "all": [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)],
            "skip": [(0, 0), (5, 4), (6, 0)],
        }[missed]
    )


async def test_a_run_that_takes_long_is_the_only_one(autojump_clock: object) -> None:
    bot, ticks, at_once = Bot(), list[tuple[datetime, int]](), [0, 0]

    @bot.every(MINUTE)
    async def slow(job: Room[Tick]) -> None:
        at_once[0] += 1
        at_once[1] = max(at_once)
        ticks.append((job.event.due, job.event.missed))
        await job.sleep(150)
        at_once[0] -= 1

    async with drive(bot, replay_check=False) as world:
        await world.waits(minutes=10)
    assert at_once[1] == 1
    assert len(ticks) > 3
    for (due, _), (later, missed) in pairwise(ticks):
        assert later - due == (missed + 1) * MINUTE
        assert missed


@pytest.mark.slow
async def test_a_minute_job_through_a_day_of_kills(autojump_clock: object, long: bool) -> None:
    """None of its 1,440 due times begins twice, and what was missed is told; or of 360 in a plain run."""
    bot, chance, hours = Bot(), random.Random(5), 24 if long else 6
    begun, missed = list[datetime](), list[int]()

    async def note(due: datetime, left_out: int) -> None:
        await trio.lowlevel.checkpoint()

    @bot.every(MINUTE)
    async def poll(job: Room[Tick]) -> None:
        await job.step(note, job.event.due, job.event.missed)
        begun.append(job.event.due)
        missed.append(job.event.missed)
        job.data[RUNS] += 1 + job.event.missed

    async with drive(bot, replay_check=False) as world:
        start = world.exchange.clock.now()
        async with trio.open_nursery() as nursery:

            async def kill() -> None:
                while True:
                    await trio.sleep(chance.expovariate(1 / 1200))
                    for _ in range(chance.randint(0, 30)):
                        await trio.lowlevel.checkpoint()
                    await world.crashes()

            nursery.start_soon(kill)
            await world.waits(hours=hours)
            nursery.cancel_scope.cancel()
        await world.waits(seconds=5)
        counted = await bot.shared.get(RUNS)
        world.alarms.clear()
        end = world.exchange.clock.now()
    due = end // 60_000 - start // 60_000
    assert due in (60 * hours, 60 * hours + 1)
    # A run whose end was not stored runs its lines again; its due time is the same.
    assert counted == due
    assert len(set(begun)) + sum(dict(zip(begun, missed, strict=True)).values()) == due


@pytest.mark.parametrize("at", sample(range(1, 26)))
async def test_a_kill_at_any_act_begins_no_run_twice(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Compared with what nothing disturbs: the same due times, each counted once, its step under one key."""
    bot, keys = Bot(), list[tuple[datetime, str]]()

    async def report(due: datetime, key: str) -> None:
        await trio.lowlevel.checkpoint()
        keys.append((due, key))

    @bot.every(timedelta(minutes=10))
    async def report_all(job: Room[Tick]) -> None:
        job.data[RUNS] += 1
        await job.step(report, job.event.due, str(job.uuid()))
        await job.sleep(60)
        job.data[RUNS] += 1

    killer = Killer(monkeypatch, at, told=True)
    async with drive(bot, replay_check=False) as world:
        async with trio.open_nursery() as nursery:
            killer.world, killer.nursery = world, nursery
            await world.waits(minutes=55)
            killer.nursery = None
        await world.waits(minutes=3)
        assert killer.count >= min(at, 20)
        assert await bot.shared.get(RUNS) == 10
        world.alarms.clear()
    dues = sorted({due for due, _ in keys})
    assert len(dues) == len({key for _, key in keys}) == 5
    assert {later - due for due, later in pairwise(dues)} == {timedelta(minutes=10)}


async def test_a_failed_run_is_told_and_the_next_one_comes(autojump_clock: object) -> None:
    bot, told = Bot(), list[str]()

    @bot.on_error
    async def tell(failure: Any) -> None:
        told.append(failure.route)

    @bot.every(timedelta(hours=1), name="hourly")
    async def hourly(job: Room[Tick]) -> None:
        raise ValueError

    async with drive(bot, replay_check=False) as world:
        await world.waits(hours=3.5)
        assert {alarm.kind for alarm in world.alarms} == {"job_failed"}
        world.alarms.clear()
    assert told == ["hourly"] * 3


async def test_what_waits_in_a_run_goes_on_after_a_crash(autojump_clock: object) -> None:
    bot, steps = Bot(), list[datetime]()

    async def report(due: datetime) -> None:
        await trio.lowlevel.checkpoint()
        steps.append(due)

    @bot.every(timedelta(days=1))
    async def nightly(job: Room[Tick]) -> None:
        await job.sleep(3600)
        await job.step(report, job.event.due)

    async with drive(bot) as world:
        await world.waits(days=1)
        await world.crashes()
        await world.waits(hours=1)
        await world.crashes()
        await world.waits(hours=1)
    assert len(steps) == 1
    assert steps[0].tzinfo is UTC


async def test_the_clock_is_set(autojump_clock: object) -> None:
    """Back: nothing is due twice. Forward: what was due in between is missed."""
    bot, ticks = Bot(), list[tuple[datetime, int]]()

    @bot.every(timedelta(hours=1))
    async def hourly(job: Room[Tick]) -> None:
        ticks.append((job.event.due, job.event.missed))

    async with drive(bot, replay_check=False) as world:
        await world.waits(hours=2.5)
        await world.clock_jumps(hours=-2)
        await world.waits(hours=2)
        assert len(ticks) == 2
        await world.waits(hours=1)
        await world.clock_jumps(hours=5)
        await world.waits(hours=1)
        world.alarms.clear()
    dues = [due for due, _ in ticks]
    assert dues == sorted(set(dues))
    assert [missed for _, missed in ticks[:3]] == [0, 0, 0]
    assert sum(missed for _, missed in ticks[3:]) >= 4


async def deployed(*bots: Bot) -> list[dict[str, Any]]:
    """Run one bot after the other over one store, a good two hours each; return what it knows of jobs."""
    known = list[dict[str, Any]]()
    async with drive(bots[0], replay_check=False) as world:
        for bot in bots:
            if known:
                await world._process.stop()
                await world.waits(hours=2)
            world._process._bot = bot
            await world.restarts()
            await world.waits(hours=2.4)
            assert bot._work is not None
            text = await bot._work.store.setting(SETTING)
            known.append(dict(json.loads(text or "{}").items()))
    return known


def hourly(ran: list[int], when: timedelta = timedelta(hours=1), **names: Any) -> Bot:
    bot = Bot()

    @bot.every(when, **names)
    async def work(job: Room[Tick]) -> None:
        ran.append(job.event.missed)

    return bot


async def test_a_job_is_known_by_its_name_over_deploys(autojump_clock: object) -> None:
    ran = list[int]()
    first, second = await deployed(hourly(ran, name="old"), hourly(ran, name="new", formerly=("old",)))
    assert list(first) == list(second) == ["old"]
    # What was due between the two is missed.
    assert max(ran) >= 1


async def test_another_schedule_is_due_from_now_on(autojump_clock: object) -> None:
    ran = list[int]()
    await deployed(hourly(ran, name="work"), hourly(ran, timedelta(minutes=30), name="work"))
    assert max(ran) == 0


async def test_a_job_that_is_taken_away_is_forgotten(autojump_clock: object) -> None:
    ran = list[int]()
    first, second, third = await deployed(
        hourly(ran, name="one"), hourly(ran, name="two"), hourly(ran, name="one")
    )
    assert list(first) == ["one"]
    assert list(second) == ["two"]
    assert list(third) == ["one"]
    assert max(ran) == 0


async def test_a_tick_of_a_job_that_is_gone_is_dropped(autojump_clock: object) -> None:
    """It was stored a moment before the deploy that took the job away; nobody is called."""
    ran = list[int]()
    first, second = hourly(ran, name="one"), hourly(ran, name="two")
    async with drive(first, replay_check=False) as world:
        await world.waits(hours=1)
        assert first._work is not None
        first._work.dispatcher.work.stopping = True  # accepted, and not routed any more
        await world.waits(hours=1)
        world._process._bot = second
        await world.crashes()
        await world.waits(hours=1.5)
        assert second.statistics().counts["tick_of_gone_job"] == 1
        assert second.statistics().store.inbox == 0


async def test_hooks_are_around_jobs_too(autojump_clock: object) -> None:
    bot, told = Bot(), list[str]()

    @bot.around
    async def around(room: Room, call: Any) -> None:
        told.append(f"<{room.route}")
        await call()
        told.append(">")

    @bot.every(timedelta(hours=1), name="hourly")
    async def hourly(job: Room[Tick]) -> None:
        told.append("run")

    async with drive(bot, replay_check=False) as world:
        await world.waits(hours=1.5)
    assert told[:3] == ["<hourly", "run", ">"]


async def test_a_job_asks_a_person_through_a_conversation(autojump_clock: object) -> None:
    bot, heard = Bot(), list[int]()

    @bot.aside
    async def ask(chat: Chat) -> None:
        await chat.shared.signal(await chat.ask("How many?", int))

    @bot.every(timedelta(hours=1))
    async def hourly(job: Room[Tick]) -> None:
        await job.to(chat_id).start(ask)
        with job.move_on_after(600):
            heard.append(await job.receive(signal(int)))

    async with drive(bot, replay_check=False) as world:
        sara = world.user("Sara")
        await sara.joins()
        chat_id = sara.chat_id
        await world.waits(hours=1)
        await sara.sees("How many?")
        await world.crashes()
        await sara.says("7")
        await world.waits(seconds=5)
    assert heard == [7]


async def test_a_job_goes_on_as_itself(autojump_clock: object) -> None:
    """One that takes long keeps its journal short; it is the same run."""
    bot, told = Bot(), list[datetime]()

    @bot.every(timedelta(hours=1), name="hourly")
    async def hourly(job: Room[Tick]) -> None:
        told.append(job.event.due)
        await job.sleep(20 * 60)
        if len(told) % 2:
            await job.continue_as(hourly)

    async with drive(bot, replay_check=False) as world:
        await world.waits(hours=2.9)
    assert len(told) == 4
    assert told[0] == told[1] < told[2] == told[3]


async def test_what_went_on_as_itself_outlives_a_crash(autojump_clock: object) -> None:
    """It is one run still: the job begins no other beside it."""
    bot, again, ended = Bot(), Key("again", bool, default=False), list[datetime]()

    async def note(due: datetime) -> None:
        await trio.lowlevel.checkpoint()
        ended.append(due)

    @bot.every(timedelta(hours=1), name="hourly")
    async def hourly(job: Room[Tick]) -> None:
        if not job.data[again]:
            job.data[again] = True
            await job.continue_as(hourly)
        await job.sleep(50 * 60)
        job.data[again] = False
        await job.step(note, job.event.due)

    async with drive(bot) as world:
        await world.waits(hours=1.2)
        await world.crashes()
        await world.waits(hours=1)
        await world.crashes()
        await world.waits(hours=0.8)
    assert len(ended) == 2
    assert ended[1] - ended[0] == timedelta(hours=1)


def test_code_does_not_start_a_job() -> None:
    bot = Bot()

    @bot.every(MINUTE, name="poll")
    async def poll(job: Room[Tick]) -> None: ...

    with pytest.raises(ConfigError, match="poll is a job: the clock starts it"):
        table_of(bot).route_of(poll, (), "bot.py:7: start()")


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda bot: bot.every("0 9 * * SAT"), "needs its zone"),
        (lambda bot: bot.every("@daily", tz=UTC), "five fields"),
        (lambda bot: bot.every("* * * * * *", tz=UTC), "five fields"),
        (lambda bot: bot.every("0 9 30 2 *", tz=UTC), "never due"),
        (lambda bot: bot.every("61 * * * *", tz=UTC), "no cron expression"),
        (lambda bot: bot.every(timedelta(seconds=9)), "10 seconds at least"),
        (lambda bot: bot.every(MINUTE, tz=UTC), "the same length in every zone"),
        (lambda bot: bot.every(MINUTE, missed="never"), '"once", "all" or "skip"'),
        (lambda bot: bot.every(7), "takes a cron expression"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(declare: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        declare(Bot())


async def test_a_run_whose_job_the_bot_has_no_more_is_parked(autojump_clock: object) -> None:
    """The others are served, at each start."""
    first, second = Bot(), Bot()

    @first.every(timedelta(hours=1), name="long")
    async def long(job: Room[Tick]) -> None:
        await job.sleep(3 * 3600)

    @first.conversation(name="talk")
    @second.conversation(name="talk")
    async def talk(chat: Chat) -> None:
        await chat.send("hi")

    async with drive(first, replay_check=False) as world:
        await world.waits(hours=1.5)
        world._process._bot = second
        for name in ("Sara", "Omid"):
            await world.restarts()
            await world.waits(hours=4)
            person = world.user(name)
            await person.joins()
            await person.sees("hi")
        world.takes_alarm("conversation_parked")
