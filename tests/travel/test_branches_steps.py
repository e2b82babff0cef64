"""Steps in a branch: as recorded, or as the developer says; none runs by itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import Enum

import attrs
import pytest
import trio
from journals import library
from trio.testing import MockClock

from triobot import Bot, Chat
from triobot.conversations.revival.stored import Stored
from triobot.errors import LocalProtocolError, StepError
from triobot.filters import join
from triobot.runtime.settings import Settings
from triobot.studio.travel.branches import LiveBranch, open_branch
from triobot.studio.travel.past import before_failure, notch_starts
from triobot.testing import drive


class Oven(Enum):
    HOT = 1
    COLD = 2


@attrs.frozen
class Baked:
    minutes: int
    oven: Oven = Oven.HOT


class NoFlourError(Exception):
    pass


def a_kitchen() -> tuple[Bot, list[str]]:
    bot, calls = Bot(), list[str]()

    async def bake(what: str) -> Baked:
        calls.append(what)
        await trio.sleep(0.01)
        return Baked(len(what))

    async def buy(what: str) -> int:
        calls.append(f"buy {what}")
        await trio.lowlevel.checkpoint()
        raise NoFlourError("none left")

    @attrs.define
    class Stove:
        heat: int

        async def warm(self, by: int) -> int:
            calls.append(f"warm {by}")
            await trio.lowlevel.checkpoint()
            return self.heat + by

    @bot.resource
    @asynccontextmanager
    async def stove() -> AsyncGenerator[Stove]:
        calls.append("open")
        yield Stove(200)
        calls.append("close")

    @bot.conversation(join(), name="order")
    async def order(chat: Chat) -> None:
        what = await chat.ask("What?")
        baked = await chat.step(bake, what)
        try:
            await chat.step(buy, what, raises=NoFlourError)
        except NoFlourError as error:
            await chat.send(f"No flour: {error}")
        heat = await chat.step(chat.use(stove).warm, 5)
        await chat.send(f"{what}: {baked.minutes} {baked.oven.name} {heat}")
        await chat.ask("Again?")

    return bot, calls


async def ordered(bot: Bot) -> Stored:
    with library() as kept:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.says("bread")
            await sara.sees("bread: 5 HOT 205")
            await sara.sees("Again?")
    [stored] = kept.all().values()
    return stored


def asked_first(stored: Stored) -> int:
    """The notch at which the first question is on the screen."""
    begins = enumerate(notch_starts(stored.records))
    return next(n for n, place in begins if stored.records[place][3] == "send sendMessage")


def said(branch: LiveBranch) -> list[str]:
    lines = [line for line in branch.chat() if line["kind"] == "message" and line["new"] and line["from_bot"]]
    return [str(line["content"]["text"]) for line in lines]


async def test_a_step_that_was_done_gives_its_recorded_result(autojump_clock: MockClock) -> None:
    bot, calls = a_kitchen()
    stored = await ordered(bot)
    calls.clear()
    async with open_branch(bot, stored, asked_first(stored)) as branch:
        await branch.act("say", {"text": "bread"})

        # A recorded error is not given again unasked: its cause may be mended.
        [asked] = branch.asked
        assert asked.name.endswith("buy")
        assert repr(asked.recorded) == "NoFlourError('none left')"
        await branch.raises("NoFlourError", "none left")
        assert said(branch) == ["No flour: none left", "bread: 5 HOT 205", "Again?"]
        assert [step.how for step in branch.steps] == ["recorded", "raised", "recorded"]
        assert branch.steps[0].name.endswith("bake")
        assert branch.asked == []
    assert calls == []  # nothing was opened, either


async def test_a_recorded_result_is_asked_for_where_that_is_wanted(autojump_clock: MockClock) -> None:
    bot, calls = a_kitchen()
    stored = await ordered(bot)
    async with open_branch(bot, stored, asked_first(stored)) as branch:
        await branch.act("say", {"text": "bread"})
        bake = branch.steps[0].name
    calls.clear()
    async with open_branch(bot, stored, asked_first(stored), asks=[bake]) as branch:
        await branch.act("say", {"text": "bread"})
        assert [asked.name for asked in branch.asked] == [bake]
        await branch.runs()
        assert calls == ["bread"]
        assert branch.asked[0].name.endswith("buy")


@pytest.mark.parametrize("notch", [2, 3, 4])
async def test_a_branch_at_a_crash_begins_before_the_step_that_failed(
    autojump_clock: MockClock, notch: int
) -> None:
    """From the error on, and from the end; one step before, the branch begins where it was opened."""
    bot, prices = Bot(), {"tea": 5}

    async def price_of(what: str) -> int:
        await trio.lowlevel.checkpoint()
        return prices[what]

    @bot.conversation(join(), name="order")
    async def order(chat: Chat) -> None:
        price = await chat.step(price_of, await chat.ask("What?"))
        await chat.send(f"It costs {price}.")

    with library(ended=True) as kept:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.sees("What?")
            await sara.says("milk")
            await sara.sees()
            world.takes_alarm("conversation_crashed")
    [stored] = kept.all().values()
    prices["milk"] = 7
    begins = await before_failure(bot, stored, notch, settings=Settings(), group=False)
    async with open_branch(bot, stored, begins) as branch:
        assert branch.failures == []
        assert repr(branch.asked[0].recorded) == "StepError('KeyError', \"'milk'\")"
        await branch.runs()
        assert said(branch) == ["It costs 7."]


async def test_a_branch_at_a_crash_begins_before_what_the_mended_code_says_otherwise(
    autojump_clock: MockClock,
) -> None:
    """The mend is at a question that was answered turns before the line that failed."""
    bot, least = Bot(), [0]

    @bot.conversation(join(), name="order")
    async def order(chat: Chat) -> None:
        guests = await chat.ask("How many?", int)
        while guests < least[0]:
            guests = await chat.ask("At least one.", int)
        await chat.send("Noted.")
        await chat.send(f"{12 // guests} each.")

    with library(ended=True) as kept:
        async with drive(bot) as world:
            sara = world.user("Sara")
            await sara.joins()
            await sara.says("0")
            await sara.sees("Noted.")
            await sara.sees()
            world.takes_alarm("conversation_crashed")
    [stored] = kept.all().values()
    least[0] = 1
    last = len(notch_starts(stored.records)) - 1
    begins = await before_failure(bot, stored, last, settings=Settings(), group=False)
    async with open_branch(bot, stored, begins) as branch:
        await branch.act("say", {"text": "3"})
        assert said(branch) == ["At least one.", "Noted.", "4 each."]
        assert (branch.failures, branch.alarms) == ([], [])


async def test_a_step_with_other_arguments_asks(autojump_clock: MockClock) -> None:
    bot, calls = a_kitchen()
    stored = await ordered(bot)
    calls.clear()
    async with open_branch(bot, stored, asked_first(stored)) as branch:
        await branch.act("say", {"text": "cake"})
        [asked] = branch.asked
        assert (asked.args, asked.conversation) == (("'cake'",), stored.row.id)
        await branch.waits(60)
        assert said(branch) == []

        with pytest.raises(LocalProtocolError, match="can't be recorded"):
            await branch.returns(object())
        await branch.returns(Baked(9, Oven.COLD))
        assert [asked.name.rpartition(".")[2] for asked in branch.asked] == ["buy"]
        await branch.raises("NoFlourError", "shut")
        assert said(branch) == ["No flour: shut", "cake: 9 COLD 205", "Again?"]
        assert [step.how for step in branch.steps] == ["returned", "raised", "recorded"]
        with pytest.raises(LocalProtocolError, match="waits for nothing"):
            await branch.returns(1)
    assert calls == []


async def test_an_error_of_any_other_class_comes_as_any_failed_step(autojump_clock: MockClock) -> None:
    bot, _ = a_kitchen()
    stored = await ordered(bot)
    async with open_branch(bot, stored, asked_first(stored)) as branch:
        await branch.act("say", {"text": "cake"})
        await branch.raises("OvenOnFire", "very")

        [broke] = branch.failures
        assert isinstance(broke.error, StepError)
        assert "OvenOnFire: very" in broke.text


async def test_a_step_runs_only_by_choice_and_each_time_anew(autojump_clock: MockClock) -> None:
    bot, calls = a_kitchen()
    stored = await ordered(bot)
    records = [one for one in stored.records if one[3] != "step"]
    bare = attrs.evolve(stored, records=[*records[:3], *(one for one in records[3:] if one[0] != "D")])
    calls.clear()
    async with open_branch(bot, bare, asked_first(bare)) as branch:
        await branch.act("say", {"text": "bread"})
        await branch.runs()
        await branch.runs()
        await branch.runs()

        assert said(branch)[:2] == ["No flour: none left", "bread: 5 HOT 205"]
        # Only while it runs is a resource open.
        assert calls == ["bread", "buy bread", "open", "warm 5", "close"]
        assert branch.now - branch.past.at < 5_000


async def test_time_passes_as_outside_while_a_step_runs(autojump_clock: MockClock) -> None:
    bot, calls = a_kitchen()
    stored = await ordered(bot)
    async with open_branch(bot, stored, asked_first(stored)) as branch:
        await branch.act("say", {"text": "cake"})
        calls.clear()
        await branch.runs()

        assert calls == ["cake"]
    assert autojump_clock.rate == 0
    assert autojump_clock.autojump_threshold == 0
