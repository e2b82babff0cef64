"""A branch begins before a charge, and its charges are paid and given for inside of it."""

from __future__ import annotations

import attrs
import pytest
from journals import library
from trio.testing import MockClock

from triobot import Bot, Chat, Paid
from triobot.conversations.revival.stored import Stored
from triobot.engine.records import DONE
from triobot.errors import ConfigError, PaymentDeclinedError
from triobot.filters import join, paid, text
from triobot.runtime.settings import Settings
from triobot.studio.travel.branches import LiveBranch, open_branch
from triobot.studio.travel.past import before_failure, notch_starts
from triobot.testing import drive


@attrs.frozen
class Cake:
    size: int


def a_shop(kind: str = "button", *, breaks: bool = False) -> Bot:
    bot = Bot()

    @bot.conversation(join(), name="order")
    async def order(chat: Chat) -> None:
        await chat.ask("How large?")
        try:
            if kind == "button":
                await chat.charge(5_000, "A cake", item=Cake(3), late="refund")
            else:
                await chat.invoice(5_000, "A cake", item=Cake(3), late="refund")
        except PaymentDeclinedError as error:
            await chat.send(f"Declined: {error.code}")
        if breaks:
            raise OSError("the printer burns")
        await chat.ask("How was it?")

    @bot.aside(paid(Cake), name="bake")
    async def bake(chat: Chat[Paid[Cake]]) -> None:
        await chat.sleep(60)
        oven = await chat.step(warm, chat.event.key)
        await chat.send(f"Your cake of {chat.event.item.size} comes from oven {oven}.")

    @bot.aside(text("hello"), name="greet")
    async def greet(chat: Chat) -> None:
        await chat.sleep(10)
        await chat.send("Hello.")

    async def warm(key: str) -> int:
        return 7

    return bot


async def sold(bot: Bot, *, kind: str = "button", shown: str = "How was it?") -> dict[str, Stored]:
    """The journals of a sale, by their routes. Somebody greets while the cake is in the oven."""
    with library(ended=True) as kept:
        async with drive(bot) as world:
            sara = world.user("Sara", wallet=50_000)
            await sara.joins()
            await sara.says("three")
            await world.waits(seconds=10)
            await sara.pays(invoice=kind == "invoice")
            await sara.says("hello")
            await world.waits(seconds=90)
            await sara.sees(shown)
            world.alarms.clear()
    return {one.row.route: one for one in kept.all().values()}


def notch_of(stored: Stored, *what: str) -> int:
    """The notch of the last of these operations, each behind the one before."""
    place = 0
    for kind in what:
        found = (at for at in range(place + 1, len(stored.records)) if _is(stored.records[at], kind))
        place = next(found)
    return notch_starts(stored.records).index(place)


def _is(record: list[object], kind: str) -> bool:
    return record[0] == DONE and record[3] == kind


def said(branch: LiveBranch) -> list[str]:
    lines = [line for line in branch.chat() if line["kind"] == "message" and line["new"] and line["from_bot"]]
    return [str(line["content"]["text"]) for line in lines]


@pytest.mark.parametrize("kind", ["button", "invoice"])
async def test_before_a_charge_it_is_paid_and_given_for(kind: str, autojump_clock: MockClock) -> None:
    journals = await sold(bot := a_shop(kind), kind=kind)
    async with open_branch(bot, journals["order"], 2, beside=[*journals.values()]) as branch:
        await branch.pays()
        await branch.waits(61)
        # The key of another payment is no argument of the recorded step.
        await branch.returns(9)
        assert said(branch)[-2:] == ["Your cake of 3 comes from oven 9.", "How was it?"]
        assert [line["what"] for line in branch.chat() if line["kind"] == "money"] == ["paid", "captured"]


async def test_a_charge_is_declined_in_the_branch(autojump_clock: MockClock) -> None:
    order = (await sold(bot := a_shop()))["order"]
    async with open_branch(bot, order, 2) as branch:
        await branch.pays(code=1001)
        assert said(branch) == ["A cake", "Declined: 1001", "How was it?"]


@pytest.mark.parametrize("kind", ["button", "invoice"])
async def test_in_a_charge_it_begins_before_the_charge(kind: str, autojump_clock: MockClock) -> None:
    """A journal has no row of the ledger; what was paid then is paid anew."""
    order = (await sold(bot := a_shop(kind), kind=kind))["order"]
    steps = (("charge",), ("charge", "charge"), ("charge", "charge", "receive"), ("verify",))
    for notch in (notch_of(order, *step) for step in steps):
        async with open_branch(bot, order, notch) as branch:
            assert len(notch_starts(branch.past.stored.records)) - 1 == 2
            assert [bill.state(branch.now) for bill in branch.exchange.world.bills] == ["open"]
            await branch.pays()
            assert [line["what"] for line in branch.chat() if line["kind"] == "money"] == ["paid", "captured"]


async def test_what_was_paid_before_is_seen_and_not_given_again(autojump_clock: MockClock) -> None:
    order = (await sold(bot := a_shop()))["order"]
    async with open_branch(bot, order, len(notch_starts(order.records)) - 1) as branch:
        assert [line["what"] for line in branch.chat() if line["kind"] == "money"] == ["paid", "captured"]
        await branch.act("say", {"text": "Good."})
        assert (branch.ended, said(branch), list(branch.asked)) == (True, [], [])


async def test_what_gives_for_a_payment_is_no_branch_and_is_in_none(autojump_clock: MockClock) -> None:
    journals = await sold(bot := a_shop())
    with pytest.raises(ConfigError, match="in the conversation that charges, and pay"):
        async with open_branch(bot, journals["bake"], 0):
            pass
    async with open_branch(bot, journals["greet"], 0, beside=[*journals.values()]) as branch:
        await branch.waits(90)
        assert (said(branch), branch.alarms, branch.failures) == (["Hello."], [], [])


async def test_a_crash_behind_a_charge_is_mended_without_another_payment(autojump_clock: MockClock) -> None:
    journals = await sold(a_shop(breaks=True), shown="Something went wrong here. Please start again.")
    order, mended = journals["order"], a_shop()
    last = len(notch_starts(order.records)) - 1
    begins = await before_failure(mended, order, last, settings=Settings(), group=False)
    async with open_branch(mended, order, begins) as branch:
        assert said(branch) == ["How was it?"]


@pytest.mark.parametrize("seconds", [1, 20])
async def test_beside_what_the_present_code_can_t_run_a_branch_opens(
    seconds: int, autojump_clock: MockClock
) -> None:
    """It may be over or not; the renamed route is parked in the branch, as by the bot."""
    with library(ended=True) as kept:
        async with drive(a_shop()) as world:
            sara = world.user("Sara", wallet=50_000)
            await sara.joins()
            await sara.says("hello")
            await world.waits(seconds=seconds)
            await sara.says("three")
            await world.waits(seconds=20)
    journals = {one.row.route: one for one in kept.all().values()}
    renamed = attrs.evolve(journals["greet"], row=attrs.evolve(journals["greet"].row, route="salute"))
    async with open_branch(a_shop(), journals["order"], 2, beside=[renamed]) as branch:
        assert said(branch) == ["A cake"]
