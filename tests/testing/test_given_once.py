"""Who was paid, gives, and is interrupted, gives once; and a developer is told where that isn't so."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import attrs
import pytest
import trio

from triobot import Bot, Chat, Key, Paid
from triobot.filters import command, paid, text
from triobot.testing import DrivenWorld, drive

CREDIT = Key("credit", int, default=0)


@attrs.frozen
class Month:
    """What is bought."""


Goods = Callable[[Chat, Paid[Month]], Awaitable[None]]


def shop(goods: Goods, given: list[str], *, refund: bool = False) -> Bot:
    """It gives, and says so; whoever pays late gets it from the aside."""
    bot = Bot()

    async def give() -> None:
        await trio.lowlevel.checkpoint()
        given.append("late")

    @bot.conversation(text("buy"))
    async def buy(chat: Chat) -> None:
        await goods(
            chat, await chat.charge(1_000, "A month", item=Month(), late="refund" if refund else "deliver")
        )

    @bot.interrupt(command("unsubscribe"))
    async def unsubscribe(chat: Chat) -> None:
        await chat.send("A pity.")

    if not refund:

        @bot.aside(paid(Month))
        async def late(chat: Chat[Paid[Month]]) -> None:
            await chat.step(give, paid=chat.event)
            await chat.send("Late, but here.")

    return bot


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


@pytest.mark.parametrize("refund", [False, True])
async def test_who_comes_to_the_end_in_spite_of_an_interrupt_has_given(
    autojump_clock: object, refund: bool
) -> None:
    """Nobody is called, and nothing is given again."""
    given: list[str] = []

    async def give() -> None:
        await trio.lowlevel.checkpoint()
        given.append("in time")

    async def goods(chat: Chat, money: Paid[Month]) -> None:
        with chat.shield():
            await chat.sleep(5)
            await chat.step(give)
            await chat.send("Here is your receipt.")

    async with drive(shop(goods, given, refund=refund)) as world:
        await buys(world)
    assert given == ["in time"]


async def test_who_swallows_an_interrupt_has_not_given(autojump_clock: object) -> None:
    """It came to its end, and the work that was cut may have been the goods."""
    given: list[str] = []

    async def goods(chat: Chat, money: Paid[Month]) -> None:
        with suppress(trio.Cancelled):
            await chat.sleep(5)

    async with drive(shop(goods, given)) as world:
        await buys(world)
    assert given == ["late"]


async def nothing() -> None:
    await trio.lowlevel.checkpoint()


async def by_a_step(chat: Chat, money: Paid[Month]) -> None:
    await chat.step(nothing)
    await chat.send("Thank you!")
    await chat.ask("Anything else?")


async def by_what_is_kept(chat: Chat, money: Paid[Month]) -> None:
    chat.data[CREDIT] += 1
    await chat.sleep(10)


async def and_settles(chat: Chat, money: Paid[Month]) -> None:
    await chat.step(nothing)
    await money.settle()
    await chat.ask("Anything else?")


async def by_a_step_that_takes_it(chat: Chat, money: Paid[Month]) -> None:
    await chat.step(nothing, paid=money)
    await chat.ask("Anything else?")


async def after_a_question(chat: Chat, money: Paid[Month]) -> None:
    await chat.ask("Where to?")
    await chat.step(nothing)
    await chat.send("Thank you!")


@pytest.mark.parametrize(
    ("goods", "line"),
    [
        (by_a_step, 3),
        (by_what_is_kept, 2),
        (and_settles, None),
        (by_a_step_that_takes_it, None),
        (after_a_question, None),
    ],
)
async def test_a_developer_is_told_of_what_would_be_given_again(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, goods: Goods, line: int | None
) -> None:
    """Where the conversation waits with money that it has given for and not settled."""
    caplog.set_level(logging.WARNING, "triobot.development")
    async with drive(shop(goods, [])) as world:
        await buys(world)
    told = [record.getMessage() for record in caplog.records if "has not settled" in record.getMessage()]
    if line is None:
        assert told == []
    else:
        (words,) = told
        assert words.startswith(f"{__file__}:{goods.__code__.co_firstlineno + line}: ")  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(4))
async def test_half_an_hour_without_the_bot_has_one_alarm(autojump_clock: object, seed: int) -> None:
    """That nobody watched, by name; not also that nothing was heard, before it has asked."""

    async def settle(chat: Chat, paid: Paid[Month]) -> None:
        await paid.settle()

    async with drive(shop(settle, []), seed=seed) as world:
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
