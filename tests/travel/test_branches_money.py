"""A branch in the middle of a charge: its ledger and its platform know what was asked for, and paid."""

from __future__ import annotations

import attrs
import pytest
from journals import library
from trio.testing import MockClock

from triobot import Bot, Chat, Paid
from triobot.conversations.revival.stored import Stored
from triobot.engine.records import DONE, time_of
from triobot.errors import PaymentDeclinedError
from triobot.filters import join, paid, text
from triobot.studio.travel.branches import LiveBranch, open_branch
from triobot.studio.travel.past import notch_starts
from triobot.testing import drive


@attrs.frozen
class Cake:
    size: int


@attrs.frozen
class Slow:
    size: int


def a_shop(kind: str = "button") -> Bot:
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
        await chat.ask("How was it?")

    @bot.aside(paid(Cake), name="bake")
    async def bake(chat: Chat[Paid[Cake]]) -> None:
        oven = await chat.step(warm, chat.event.key)
        await chat.send(f"Your cake of {chat.event.item.size} comes from oven {oven}.")

    async def warm(key: str) -> int:
        return 7

    return bot


async def sold(
    bot: Bot, *, code: int | None = None, kind: str = "button", ended: bool = False
) -> list[Stored]:
    """The journals of a sale, the order's first; with a code, of one that was declined so."""
    with library(ended=ended) as kept:
        async with drive(bot) as world:
            sara = world.user("Sara", wallet=50_000)
            await sara.joins()
            await sara.says("three")
            if code is not None:
                await sara.pays(code=code, invoice=kind == "invoice")
            if code != 1001:
                await world.waits(seconds=10)
                await sara.pays(invoice=kind == "invoice")
            await sara.sees("How was it?")
            await world.waits(seconds=1)
            world.alarms.clear()
    return list(kept.all().values())


def notch_of(stored: Stored, *what: str) -> int:
    """The notch of the last of these operations, each behind the one before."""
    place = 0
    for kind in what:
        found = (at for at in range(place + 1, len(stored.records)) if _is(stored.records[at], kind))
        place = next(found)
    return notch_starts(stored.records).index(place)


def _is(record: list[object], kind: str) -> bool:
    return record[0] == DONE and record[3] == kind


def early(aside: Stored, order: Stored, notch: int) -> Stored:
    """The journal of an aside that had begun a moment before this notch."""
    at = time_of(order.records[notch_starts(order.records)[notch]])
    first = aside.records[0]
    return attrs.evolve(aside, records=[[first[0], at - 1, *first[2:]], *aside.records[1:]])


def said(branch: LiveBranch) -> list[str]:
    lines = [line for line in branch.chat() if line["kind"] == "message" and line["new"] and line["from_bot"]]
    return [str(line["content"]["text"]) for line in lines]


GIVEN = ["Your cake of 3 comes from oven 7.", "How was it?"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["button", "invoice"])
async def test_a_charge_that_is_open_can_be_paid_or_declined(kind: str, autojump_clock: MockClock) -> None:
    order, *others = await sold(bot := a_shop(kind), kind=kind)
    on_screen = notch_of(order, "charge", "charge")
    async with open_branch(bot, order, on_screen, beside=others) as branch:
        assert [charge.sent for charge in branch.past.charges] == [True]
        await branch.pays()
        assert said(branch) == GIVEN
        assert [line["what"] for line in branch.chat() if line["kind"] == "money"] == ["paid", "captured"]
    async with open_branch(bot, order, on_screen, beside=others) as branch:
        await branch.waits(25 * 3600)
        assert said(branch)[-1] != "How was it?"
        assert branch.ended  # nobody paid in time


async def test_a_charge_is_declined_in_the_branch(autojump_clock: MockClock) -> None:
    order, *others = await sold(bot := a_shop())
    async with open_branch(bot, order, notch_of(order, "charge", "charge"), beside=others) as branch:
        await branch.pays(code=1001)

        assert said(branch) == ["Declined: 1001", "How was it?"]


@pytest.mark.parametrize("kind", ["button", "invoice"])
async def test_a_charge_whose_message_had_not_left_is_sent(kind: str, autojump_clock: MockClock) -> None:
    order, *others = await sold(bot := a_shop(kind), kind=kind)
    async with open_branch(bot, order, notch_of(order, "charge"), beside=others) as branch:
        assert [charge.sent for charge in branch.past.charges] == [False]
        shown = ["A cake"] if kind == "button" else []
        assert said(branch) == shown
        await branch.pays()
        assert said(branch)[len(shown) :] == GIVEN


@pytest.mark.parametrize("kind", ["button", "invoice"])
async def test_what_was_paid_and_not_verified_is_verified(kind: str, autojump_clock: MockClock) -> None:
    order, *others = await sold(bot := a_shop(kind), kind=kind)
    news = notch_of(order, "charge", "charge", "receive")
    async with open_branch(bot, order, news, beside=others) as branch:
        assert [charge.claimed for charge in branch.past.charges] == [True]
        assert said(branch) == GIVEN
        assert [line["what"] for line in branch.chat() if line["kind"] == "money"] == ["paid", "captured"]


async def test_what_was_verified_is_given_by_its_aside(autojump_clock: MockClock) -> None:
    order, *_ = await sold(bot := a_shop())
    async with open_branch(bot, order, notch_of(order, "verify")) as branch:
        # No journal of the aside is at hand: its step asks.
        assert len(branch.asked) == 1
        await branch.returns(9)

        assert said(branch) == ["Your cake of 3 comes from oven 9.", "How was it?"]


async def test_the_aside_itself_has_its_payment(autojump_clock: MockClock) -> None:
    journals = await sold(bot := a_shop())
    aside = next(one for one in journals if one.row.route == "bake")
    async with open_branch(bot, aside, 0) as branch:
        assert said(branch) == ["Your cake of 3 comes from oven 7."]
        assert branch.ended
        assert not branch.failures
        assert not branch.alarms


async def test_an_aside_that_has_given_does_not_give_again(autojump_clock: MockClock) -> None:
    journals = await sold(bot := a_shop(), ended=True)
    aside = next(one for one in journals if one.row.route == "bake")
    async with open_branch(bot, aside, len(notch_starts(aside.records)) - 1) as branch:
        assert branch.ended
        assert said(branch) == []
        assert list(branch.asked) == []


async def test_an_aside_that_gives_at_the_notch_goes_on(autojump_clock: MockClock) -> None:
    """Whether or not the conversation that charges has heard of the money, and beside the next one."""
    bot = Bot()

    @bot.conversation(text("slow"), name="slow")
    async def slow(chat: Chat) -> None:
        await chat.charge(5_000, "A slow cake", item=Slow(1))
        await chat.send("Enjoy.")

    @bot.aside(paid(Slow), name="bake slowly")
    async def bake_slowly(chat: Chat[Paid[Slow]]) -> None:
        await chat.sleep(60)
        await chat.step(warm_slowly, chat.event.key)
        await chat.send("Here it is.")

    async def warm_slowly(key: str) -> None:
        pass

    @bot.aside(text("hello"), name="greet")
    async def greet(chat: Chat) -> None:
        await chat.sleep(10)
        await chat.send("Hello.")

    with library() as kept:
        async with drive(bot) as world:
            sara = world.user("Sara", wallet=50_000)
            await sara.joins()
            await sara.says("slow")
            await sara.pays()
            await world.waits(seconds=20)
            await sara.says("hello")
            await world.waits(seconds=60)
            await sara.sees("Enjoy.")
    journals = {one.row.route: one for one in kept.all().values()}
    order, others = journals["slow"], list(journals.values())
    for heard in (notch_of(order, "charge", "charge", "receive"), notch_of(order, "verify")):
        # In a store the aside may stand before the turn in which the conversation hears of the money.
        begun = [early(one, order, heard) if one.row.route == "bake slowly" else one for one in others]
        async with open_branch(bot, order, heard, beside=begun) as branch:
            assert said(branch) == []
            await branch.waits(61)
            assert [done.how for done in branch.steps] == ["recorded"]
            assert said(branch) == ["Here it is.", "Enjoy."]
            assert [line["what"] for line in branch.chat() if line["kind"] == "money"] == ["paid", "captured"]
    # What another conversation of the chat is a branch of, the aside goes on beside it.
    async with open_branch(bot, journals["greet"], 0, beside=others) as branch:
        await branch.waits(61)
        assert said(branch) == ["Hello.", "Here it is.", "Enjoy."]


@pytest.mark.parametrize("code", [1000, 1001])
async def test_what_was_refused_goes_on_as_it_did(code: int, autojump_clock: MockClock) -> None:
    """Money that wasn't enough is offered to be topped up; what was declined for good ends the charge."""
    order, *others = await sold(bot := a_shop(), code=code)
    news = notch_of(order, "charge", "charge", "receive")
    async with open_branch(bot, order, news, beside=others) as branch:
        if code == 1001:
            assert said(branch) == ["Declined: 1001", "How was it?"]
        else:
            assert len(said(branch)) == 1
            assert "wallet" in said(branch)[0]
            await branch.pays()
            assert said(branch)[1:] == GIVEN
