"""Replay-check: a test fails where a restart would not bring a conversation back."""

from __future__ import annotations

import itertools
import random
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
import trio

from triobot import Bot, Chat
from triobot.conversations.inspection import rerun
from triobot.errors import NondeterminismError
from triobot.testing import drive


def at(error: pytest.ExceptionInfo[NondeterminismError]) -> str:
    """What was said, with the lines of this file made shorter."""
    return str(error.value).replace(__file__, "HERE")


def line(mark: str) -> str:
    """Where this is written at the end of a line."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return f"HERE:{next(n for n, text in enumerate(lines, 1) if text.endswith(f'  {mark}'))}"


async def talk(bot: Bot, *, replay_check: bool = True, waits: float = 5) -> None:
    """Let somebody say something, and wait for nothing that is answered."""
    async with drive(bot, replay_check=replay_check) as world:
        ali = world.user("Ali")
        await ali.joins()
        for word in "one", "two":
            await world.waits(seconds=1)  # it is looked at where it waits
            await ali.says(word)
        await world.waits(seconds=waits)


async def test_a_variable_that_differs_fails_the_test(autojump_clock: object) -> None:
    """Though the conversation goes the same way, and nobody waits for anything."""
    bot, count = Bot(), itertools.count()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        number = next(count)
        await chat.ask("Name?")  # the first
        await chat.send(str(number > 100))

    with pytest.raises(NondeterminismError) as caught:
        await talk(bot)
    assert "hello.number" in at(caught)
    assert line("# the first") in at(caught)
    await talk(bot, replay_check=False)


async def test_another_operation_fails_the_test(autojump_clock: object) -> None:
    """Both sides are named, and the line of what is there now."""
    bot, count = Bot(), itertools.count()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        if next(count):
            await chat.sleep(1)  # instead
        else:
            await chat.ask("Name?")
        await chat.ask("More?")

    with pytest.raises(NondeterminismError) as caught:
        await talk(bot)
    assert "send" in at(caught)
    assert "sleep" in at(caught)
    assert line("# instead") in at(caught)


async def test_another_text_fails_the_test(autojump_clock: object) -> None:
    """A restart would give what was answered to another question."""
    bot = Bot()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        await chat.ask(f"Name? {random.random()}")
        await chat.ask("More?")

    with pytest.raises(NondeterminismError, match="other arguments"):
        await talk(bot)


async def test_a_forgotten_await_is_named(autojump_clock: object) -> None:
    """The text differs only since it shows where in memory the coroutine is."""
    bot, unawaited = Bot(), list[Coroutine[object, object, object]]()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        unawaited.append(chat.ask("Name?"))
        await chat.ask(f"Hello, {unawaited[-1]}. More?")  # shows it

    with pytest.raises(NondeterminismError, match=r"write await in front of ask\(\)") as caught:
        await talk(bot)
    assert line("# shows it") in at(caught)
    for one in unawaited:
        one.close()  # else Python warns of it


async def test_another_line_fails_the_test(autojump_clock: object) -> None:
    """The same operations may be another branch of the code."""
    bot, count = Bot(), itertools.count()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        if next(count):
            await chat.ask("Name?")
        else:
            await chat.ask("Name?")

    with pytest.raises(NondeterminismError, match="it waited at"):
        await talk(bot)


async def test_an_error_that_is_only_there_the_second_time(autojump_clock: object) -> None:
    """It is named by its class and its line."""
    bot, count = Bot(), itertools.count()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        await chat.ask("Name?")
        if next(count):
            raise KeyError("secret")  # fails
        await chat.ask("More?")

    with pytest.raises(NondeterminismError) as caught:
        await talk(bot)
    assert "KeyError" in at(caught)
    assert line("# fails") in at(caught)
    assert "secret" not in at(caught)


async def test_what_goes_through_the_chat_repeats_itself(autojump_clock: object) -> None:
    """Chance, time, children, timeouts, steps; over a crash as well."""
    bot = Bot()

    async def dice() -> float:
        await trio.lowlevel.checkpoint()
        return random.random()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        luck, now = chat.random().random(), chat.now()
        rolled = await chat.step(dice)
        with chat.move_on_after(1):
            await chat.sleep(2)
        heard: list[str] = []

        async def hear() -> None:
            heard.append(await chat.ask("And?"))

        async with chat.open_nursery() as nursery:
            nursery.start_soon(hear)
            await chat.sleep(3)
        await chat.send(f"{luck} {now} {rolled} {heard}")
        raise ValueError

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await world.waits(seconds=2)
        await world.crashes()
        await ali.says("one")
        await world.waits(seconds=5)
        world.takes_alarm("conversation_crashed")


@pytest.mark.parametrize("how", ["sleeps", "spins", "swallows", "shields"])
async def test_what_does_not_end_is_left(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Whatever the code does when it is run again, the test ends, and names the line."""
    monkeypatch.setattr(rerun, "SECONDS", 0.5)
    bot, count = Bot(), itertools.count()

    async def astray() -> None:
        while True:
            match how:
                case "sleeps":
                    await trio.sleep_forever()
                case "spins":
                    await trio.lowlevel.checkpoint()
                case "swallows":
                    with suppress(BaseException):
                        await trio.sleep_forever()
                case _:
                    with trio.CancelScope(shield=True):
                        await trio.sleep_forever()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        if next(count):
            await astray()
        await chat.ask("Name?")
        await chat.ask("More?")

    with pytest.raises(NondeterminismError, match="doesn't end now") as caught:
        await talk(bot)
    assert "HERE" in at(caught)


async def test_a_run_that_lets_nothing_go(autojump_clock: object) -> None:
    """It catches every refusal of an operation, and is left."""
    bot, count = Bot(), itertools.count()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        again = next(count)
        while True:
            try:
                await chat.ask("Name?")
            except BaseException:
                if not again:
                    raise

    with pytest.raises(NondeterminismError, match=r"hello\.again"):
        await talk(bot)


async def test_a_step_with_another_key_fails_the_test(autojump_clock: object) -> None:
    """The other side would not know the second call for the first: though its result is recorded."""
    bot = Bot()

    async def book(key: str) -> None:
        await trio.lowlevel.checkpoint()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        await chat.step(book, uuid4().hex)  # books
        await chat.ask("Name?")

    with pytest.raises(NondeterminismError, match="a step has other arguments") as caught:
        await talk(bot)
    assert line("# books") in at(caught)


async def test_a_sleep_of_another_length_fails_the_test(autojump_clock: object) -> None:
    """Nothing of it is recorded until it is over; but it would be over at another time."""
    bot = Bot()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        await chat.sleep(60 + random.random())  # sleeps

    with pytest.raises(NondeterminismError, match="a sleep has other arguments") as caught:
        await talk(bot)
    assert line("# sleeps") in at(caught)


async def test_a_step_may_be_given_what_the_world_changes(autojump_clock: object) -> None:
    """A handle is not a value: what is behind it is the step's business."""
    bot, orders = Bot(), dict[str, int]()

    async def order(orders: dict[str, int], name: str) -> int:
        await trio.lowlevel.checkpoint()
        orders[name] = len(orders)
        return len(orders)

    @bot.conversation
    async def hello(chat: Chat) -> None:
        for number in range(3):
            await chat.step(order, orders, str(number))
            await chat.ask("More?")

    await talk(bot)
    assert orders
