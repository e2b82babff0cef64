"""The rate limit that the owner sets holds for the whole bot."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from trio.testing import MockClock

from triobot import Bot, Chat, Key, Settings
from triobot.errors import ConfigError
from triobot.filters import join
from triobot.runtime.settings import read_environment
from triobot.testing import drive, driving

RATE = 4.0
PEOPLE = 24


async def test_no_more_requests_a_second_than_the_owner_says(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = Bot()

    @bot.conversation(join(), name="greet")
    async def greet(chat: Chat) -> None:
        await chat.send("Hello.")

    monkeypatch.setattr(driving, "Settings", partial(Settings, rate=RATE))
    heard: list[float] = []
    async with drive(bot) as world:
        crowd = [world.user(f"P{number}") for number in range(PEOPLE)]
        began = trio.current_time()

        async def meet(number: int) -> None:
            await crowd[number].joins()
            await crowd[number].sees("Hello.", within=60)
            heard.append(trio.current_time() - began)

        async with trio.open_nursery() as nursery:
            for number in range(PEOPLE):
                nursery.start_soon(meet, number)
    # At most `RATE` people get an answer in each second, and one more person at the beginning.
    for at, seconds in enumerate(sorted(heard)):
        assert at < RATE * seconds + 1 + 1e-6
    # No person waits longer than the limit requires.
    assert max(heard) <= PEOPLE / RATE


async def test_a_stop_does_not_wait_until_a_low_rate_has_let_all_through(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What hasn't begun to leave is said after the next start, once and in order."""
    bot = Bot()

    @bot.conversation(join(), name="count")
    async def count(chat: Chat) -> None:
        for number in range(3):
            await chat.send(f"{number}")

    monkeypatch.setattr(driving, "Settings", partial(Settings, rate=1))
    async with drive(bot) as world:
        people = [world.user(f"P{number}") for number in range(10)]
        for person in people:
            await person.joins()
        await world.waits(seconds=5)
        began = trio.current_time()
        await world.restarts()
        assert trio.current_time() - began < 2
        await world.waits(seconds=40)
        for person in people:
            assert [seen.text for seen in await person.history() if seen.text in "012"] == [*"012"]


async def test_a_stop_lets_through_what_no_start_would_say_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = Bot()

    @bot.conversation(join(), name="greet")
    async def greet(chat: Chat) -> None:
        """What is said to it comes from elsewhere, and has no journal."""

    monkeypatch.setattr(driving, "Settings", partial(Settings, rate=1))
    async with drive(bot) as world:
        people = [world.user(f"P{number}") for number in range(8)]
        for person in people:
            await person.joins()
        async with trio.open_nursery() as nursery:
            for person in people:
                nursery.start_soon(bot.to(person.chat_id).send, "Hello.")
            await world.waits(seconds=2)
            await world.restarts()
        for person in people:
            assert [seen.text for seen in await person.history()].count("Hello.") == 1


@pytest.mark.parametrize("kill", [False, True])
async def test_who_waits_for_a_turn_in_a_broadcast_is_told_after_the_next_start(
    kill: bool, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop leaves nobody in doubt, and a kill those of one second."""
    bot, subscribed = Bot(), Key("subscribed", bool, default=False)

    @bot.conversation(join(), name="subscribe")
    async def subscribe(chat: Chat) -> None:
        chat.data[subscribed] = True

    monkeypatch.setattr(driving, "Settings", partial(Settings, rate=1))
    async with drive(bot) as world:
        people = [world.user(f"P{number}") for number in range(40)]
        for person in people:
            await person.joins()
        await world.waits(seconds=2)
        await bot.broadcast("news").start("News!", subscribed)
        for _ in range(3):
            await world.waits(seconds=3)
            began = trio.current_time()
            await (world.crashes() if kill else world.restarts())
            assert trio.current_time() - began < 2
        await world.waits(seconds=60)
        status = await bot.broadcast("news").status()
        assert (status.state, status.sent + status.unknown) == ("done", len(people))
        assert status.unknown <= 3 * kill
        told = [[seen.text for seen in await person.history()].count("News!") for person in people]
        assert max(told) == 1
        assert sum(told) >= status.sent


async def test_a_broadcast_that_is_stopped_leaves_in_doubt_only_what_was_in_flight(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot, subscribed = Bot(), Key("subscribed", bool, default=False)

    @bot.conversation(join(), name="subscribe")
    async def subscribe(chat: Chat) -> None:
        chat.data[subscribed] = True

    monkeypatch.setattr(driving, "Settings", partial(Settings, rate=1))
    async with drive(bot) as world:
        people = [world.user(f"P{number}") for number in range(40)]
        for person in people:
            await person.joins()
        await world.waits(seconds=2)
        await bot.broadcast("news").start("News!", subscribed)
        await world.waits(seconds=5)
        await bot.broadcast("news").stop()
        await world.waits(seconds=1)
        status = await bot.broadcast("news").status()
        told = [[seen.text for seen in await person.history()].count("News!") for person in people]
        assert (status.state, status.sent, status.unknown) == ("stopped", sum(told), 0)
        assert 0 < sum(told) < 10


def test_a_rate_is_a_number_of_requests_a_second() -> None:
    assert read_environment({"TRIOBOT_RATE": "1.5"}).rate == 1.5
    for wrong in ("0", "0.5", "-1", "inf", "1000000", "many"):
        with pytest.raises(ConfigError, match="TRIOBOT_RATE must be a number of requests a second"):
            read_environment({"TRIOBOT_RATE": wrong})
    with pytest.raises(ConfigError, match="rate must be a number of requests a second, 1 at least"):
        Settings(rate=0)
