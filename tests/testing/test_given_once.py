"""What is bought is given once, whatever becomes of whoever waits for it; a developer is told of the rest."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

import attrs
import pytest
import trio

from triobot import Bot, Chat, Key, Paid
from triobot.errors import PaymentHandedOverError, StepError
from triobot.filters import command, paid, text
from triobot.testing import DrivenWorld, drive

CREDIT = Key("credit", int, default=0)


@attrs.frozen
class Month:
    """What is bought."""


Goods: TypeAlias = Callable[[Chat[Paid[Month]]], Awaitable[None]]
Rest: TypeAlias = Callable[[Chat], Awaitable[None]]


def shop(rest: Rest, goods: Goods, *, refund: bool = False) -> Bot:
    """One aside gives it, and the conversation goes on."""
    bot = Bot()

    @bot.conversation(text("buy"))
    async def buy(chat: Chat) -> None:
        await chat.charge(1_000, "A month", item=Month(), late="refund" if refund else "deliver")
        await chat.send("Thank you.")
        await rest(chat)

    @bot.interrupt(command("unsubscribe"))
    async def unsubscribe(chat: Chat) -> None:
        await chat.send("A pity.")

    bot.aside(paid(Month))(goods)
    return bot


given: list[str] = []


@pytest.fixture(autouse=True)
def nothing_given() -> None:
    given.clear()


async def give(key: str = "") -> None:
    await trio.lowlevel.checkpoint()
    given.append(key)


async def nothing_more(chat: Chat) -> None:
    """End."""


async def by_a_step(chat: Chat[Paid[Month]]) -> None:
    await chat.step(give, chat.event.key)
    await chat.send("Here is your receipt.")


async def slowly(chat: Chat[Paid[Month]]) -> None:
    await chat.sleep(5)
    await by_a_step(chat)


async def by_what_is_kept(chat: Chat[Paid[Month]]) -> None:
    chat.data[CREDIT] += 1
    await chat.send("Here is your receipt.")


async def buys(world: DrivenWorld) -> None:
    """Ali pays, and is gone a moment later."""
    ali = world.user("Ali", wallet=10_000)
    await ali.joins()
    await ali.says("buy")
    await world.waits(seconds=60)
    await ali.pays()
    await world.waits(seconds=1)
    await ali.says("/unsubscribe")
    await world.waits(minutes=30)


async def asks_on(chat: Chat) -> None:
    await chat.ask("Anything else?")


@pytest.mark.parametrize("refund", [False, True])
@pytest.mark.parametrize("goods", [by_a_step, slowly])
async def test_who_leaves_the_shop_has_been_given_once(
    autojump_clock: object, refund: bool, goods: Goods
) -> None:
    """As natural code has it: a further question, and a command there. Nobody is called."""
    async with drive(shop(asks_on, goods, refund=refund)) as world:
        await buys(world)
        transcript = await world.transcript()
        assert world.alarms == []
    assert len(given) == 1
    assert transcript.count("Here is your receipt.") == 1
    assert "A pity." in transcript
    assert ("Thank you." in transcript) is (goods is by_a_step)


async def test_what_the_bot_keeps_is_given_once(autojump_clock: object) -> None:
    """Over a crash, and a command, at the worst moments."""
    bot = shop(asks_on, by_what_is_kept)
    async with drive(bot) as world:
        ali = world.user("Ali", wallet=10_000)
        await ali.joins()
        await ali.says("buy")
        await world.waits(seconds=60)
        await ali.pays()
        await ali.sees("Here is your receipt.")
        await world.crashes()
        await ali.says("/unsubscribe")
        await ali.sees("A pity.")
        await world.crashes()
        await world.waits(minutes=30)
        assert await bot.to(ali.chat_id).get(CREDIT) == 1
        assert "unwatched" not in {alarm.kind for alarm in world.alarms}


async def test_an_aside_that_swallows_its_end_has_not_given(autojump_clock: object) -> None:
    """It was ended, and came to its end all the same: the work that was cut may have been the goods."""
    ends = list[str]()

    async def swallows(chat: Chat[Paid[Month]]) -> None:
        if not chat.event.redelivered:
            with suppress(trio.Cancelled):
                await chat.sleep(5)
            ends.append("swallowed")
            return
        await by_a_step(chat)

    bot = shop(nothing_more, swallows)

    @bot.aside(command("stop"))
    async def stop(chat: Chat) -> None:
        await chat.stop(swallows)

    async with drive(bot, replay_check=False) as world:
        ali = world.user("Ali", wallet=10_000)
        await ali.joins()
        await ali.says("buy")
        await ali.sees("A month")
        await ali.pays()
        await world.waits(seconds=1)
        await ali.says("/stop")
        await ali.sees("Here is your receipt.", within=60)
    assert (len(given), ends) == (1, ["swallowed"])


class Oven:
    """It is broken, and mended later."""

    def __init__(self) -> None:
        self.broken = True
        self.baked: list[str] = []

    async def bake(self, key: str) -> None:
        await trio.lowlevel.checkpoint()
        if self.broken:
            raise ValueError
        self.baked.append(key)


@pytest.mark.parametrize("how", ["failed", "late", "killed", "caught"])
async def test_an_aside_that_failed_has_given_nothing(autojump_clock: object, how: str) -> None:
    """It gets the money again, with the same key; but one that says that it is done is done."""
    oven, keys, heard = Oven(), list[str](), list[str]()

    async def deliver(chat: Chat[Paid[Month]]) -> None:
        keys.append(chat.event.key)
        if how == "late" and not chat.event.redelivered:
            with chat.fail_after(60):
                await chat.step(trio.sleep, 3600)
        try:
            await chat.step(oven.bake, chat.event.key)
        except StepError:
            if how != "caught":
                raise
            await chat.send("Sorry.")
            return
        await chat.send("Here it is.")

    bot = Bot()
    bot.aside(paid(Month))(deliver)

    @bot.conversation(text("buy"))
    async def buy(chat: Chat) -> None:
        try:
            await chat.charge(1_000, "A month", item=Month())
            heard.append("given")
        except PaymentHandedOverError:
            heard.append("handed over")
        oven.broken = False
        await chat.ask("Is that all?")
        await chat.send("Bye.")

    async with drive(bot, replay_check=False) as world:
        ali = world.user("Ali", wallet=1_000)
        await ali.joins()
        await ali.says("buy")
        await ali.sees("A month")
        await ali.pays()
        await ali.sees("Is that all?", within=120)
        if how == "killed":
            await world.crashes()
        if how != "caught":
            await ali.sees("Here it is.", within=120)
        await ali.says("Yes")
        await ali.sees("Bye.")
        await world.waits(hours=1)
        assert len(oven.baked) == (how != "caught")
        assert len(set(keys)) == 1
        assert set(heard) == ({"given"} if how == "caught" else {"handed over"})
        assert {alarm.kind for alarm in world.alarms} == (
            set() if how == "caught" else {"conversation_crashed"}
        )
        world.alarms.clear()


async def by_a_step_without_the_key(chat: Chat[Paid[Month]]) -> None:
    await chat.step(trio.lowlevel.checkpoint)
    await chat.step(give)


async def with_the_whole_payment(chat: Chat[Paid[Month]]) -> None:
    async def ship(bought: Paid[Month]) -> None:
        await give(bought.key)

    await chat.step(trio.lowlevel.checkpoint)
    await chat.step(ship, chat.event)


@pytest.mark.parametrize(
    ("goods", "line"),
    [
        (by_a_step, None),
        (slowly, None),
        (by_what_is_kept, None),
        (with_the_whole_payment, None),
        (by_a_step_without_the_key, 1),
    ],
)
async def test_a_developer_is_told_of_what_may_be_given_twice(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, goods: Goods, line: int | None
) -> None:
    """Another service has to know the payment's key; what the bot itself keeps needs none."""
    caplog.set_level(logging.WARNING, "triobot.development")
    async with drive(shop(nothing_more, goods)) as world:
        await buys(world)
    told = [record.getMessage() for record in caplog.records if "gets the key" in record.getMessage()]
    if line is None:
        assert told == []
    else:
        (words,) = told
        assert words.startswith(f"{__file__}:{goods.__code__.co_firstlineno + line}: ")  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(4))
async def test_half_an_hour_without_the_bot_has_one_alarm(autojump_clock: object, seed: int) -> None:
    """That nobody watched, by name; not also that nothing was heard, before it has asked."""
    async with drive(shop(nothing_more, by_a_step), seed=seed) as world:
        sara = world.user("Sara", wallet=5_000)
        await sara.joins()
        await sara.says("buy")
        await world.waits(seconds=5)
        await world._process.stop()
        await world.waits(minutes=30)
        await world._process.start()
        await world.waits(seconds=90)
        assert [alarm.kind for alarm in world.alarms] == ["unwatched"]
        world.alarms.clear()


async def test_what_goes_on_behind_the_goods_fails_as_any_conversation(autojump_clock: object) -> None:
    """The payment was settled by `continue_as`: nobody is told that it is given again."""
    bot = Bot()

    @bot.conversation(command("buy"))
    async def buy(chat: Chat) -> None:
        await chat.charge(1000, "a month", item=Month())

    @bot.aside
    async def address(chat: Chat) -> None:
        raise RuntimeError

    @bot.aside(paid(Month))
    async def deliver(chat: Chat[Paid[Month]]) -> None:
        chat.data[CREDIT] += 1
        await chat.continue_as(address)

    async with drive(bot) as world:
        ali = world.user("Ali", wallet=9000)
        await ali.joins()
        await ali.says("/buy")
        await world.waits(seconds=1)
        await ali.pays()
        await ali.sees("Something went wrong here. Please start again.")
        await world.waits(days=2)
        told = world.takes_alarm("conversation_crashed").text
        assert "users are told to start again" in told
        assert "given again" not in told
