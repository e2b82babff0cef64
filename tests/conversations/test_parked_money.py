"""Money of a conversation that can't go on with new code: not locked up with it."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import TEXTS, open_town
from trio.testing import MockClock

from triobot.conversations.charges.paid import Paid, paid
from triobot.conversations.chat import Chat
from triobot.conversations.data import Key
from triobot.conversations.routes.filters import command, text
from triobot.conversations.routes.router import Router
from triobot.errors import PaymentHandedOverError
from triobot.seams.values import formerly, register
from triobot.wire.ids import ChatId
from triobot.wire.operations import InquirePayment, VerifyPayment
from triobot.wire.results import PaymentState

PRICE = 250_000
YES = PaymentState(True, PRICE)


@attrs.frozen
class Pizza:
    """What is bought."""


SOLD = Key("sold", int, default=0)


def shop(*, mended: bool, given: list[str], had: list[object]) -> Router:
    """Its code asks for money; or, by mistake, for something else in its place."""
    bot = Router()

    @bot.conversation(text("buy"))
    async def buy(chat: Chat) -> None:
        if not mended:
            await chat.ask("How many?")
        try:
            had.append(await chat.charge(PRICE, "Pizza", item=Pizza()))
        except PaymentHandedOverError as error:
            had.append(error)

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    @bot.aside(paid(Pizza))
    async def delivers(chat: Chat[Paid[Pizza]]) -> None:
        given.append(chat.event.key)
        chat.data[SOLD] += 1
        await chat.send("Here it is.")

    return bot


async def test_what_is_paid_to_a_parked_conversation_is_given_at_once(autojump_clock: MockClock) -> None:
    """It isn't needed for that; mended later, it gets what it was paid for, and nothing is given again."""
    store, outbox = FakeStore(), FakeOutbox()
    given: list[str] = []
    had: list[object] = []
    async with open_town(shop(mended=True, given=given, had=had), store=store, outbox=outbox) as town:
        await town.says("buy")
    async with open_town(shop(mended=False, given=given, had=had), store=store, outbox=outbox) as town:
        (before,) = await store.payments.find(limit=9)
        outbox.reply(YES, lambda op: isinstance(op, VerifyPayment | InquirePayment))
        await town.pays(ref_id=before.id)
        assert {alarm.kind for alarm in town.alarms} == {"conversation_parked"}
        await trio.sleep(1)
        (row,) = await store.payments.find(limit=9)
        assert (given, row.state) == ([f"button-{row.id}"], "settled")
        assert TEXTS.parked in town.sent()
        assert await store.alarms.all(limit=9) == []
    async with open_town(shop(mended=True, given=given, had=had), store=store, outbox=outbox) as town:
        await town.says("hello")
        await town.rest()
        assert had == [None]
        assert len(given) == 1


async def test_an_interrupt_takes_nothing_from_the_aside(autojump_clock: MockClock) -> None:
    """It ends the conversation that can't go on, before the goods are given or after."""
    store, outbox = FakeStore(), FakeOutbox()
    given: list[str] = []
    had: list[object] = []
    async with open_town(shop(mended=True, given=given, had=had), store=store, outbox=outbox) as town:
        await town.says("buy")
    async with open_town(shop(mended=False, given=given, had=had), store=store, outbox=outbox) as town:
        (row,) = await store.payments.find(limit=9)
        outbox.reply(YES, lambda op: isinstance(op, VerifyPayment | InquirePayment))
        await town.pays(ref_id=row.id)
        await town.says("/cancel")
        await trio.sleep(1)
        assert given == [f"button-{row.id}"]
        assert had == []


async def test_an_operators_end_takes_nothing_from_the_aside(autojump_clock: MockClock) -> None:
    """What was paid is given; a button that nobody has pressed goes."""
    store, outbox = FakeStore(), FakeOutbox()
    given: list[str] = []
    had: list[object] = []
    async with open_town(shop(mended=True, given=given, had=had), store=store, outbox=outbox) as town:
        await town.says("buy")
        await town.says("buy", 7)
    async with open_town(shop(mended=False, given=given, had=had), store=store, outbox=outbox) as town:
        (row,) = await store.payments.find(chat_id=ChatId(5), limit=9)
        outbox.reply(YES, lambda op: isinstance(op, VerifyPayment | InquirePayment) and op.ref_id == row.id)
        await town.pays(ref_id=row.id)
        await town.says("hello", 7)
        for chat in (5, 7):
            (there,) = store.journals.conversations(ChatId(chat))
            await town.dispatcher.chat_calls.order(there, end=True, say="Sorry.")
        await trio.sleep(1)
        assert given == [f"button-{row.id}"]
        assert had == []
        assert "Sorry." in town.sent(5) and "Sorry." in town.sent(7)
        (other,) = await store.payments.find(chat_id=ChatId(7), limit=9)
        assert other.state in ("closing", "check")


async def test_whose_item_has_changed_is_parked_with_its_money(autojump_clock: MockClock) -> None:
    """It was paid before the deploy: neither the money nor what was said is lost."""
    store, outbox, had = FakeStore(), FakeOutbox(), list[object]()

    def selling(cls: type[Any]) -> Router:
        bot = Router()
        register(cls, name="parked_money.Item")

        @bot.conversation(text("buy"), name="buy")
        async def buy(chat: Chat) -> None:
            await chat.charge(PRICE, "An item", item=cls())

        @bot.aside(paid(cls), name="deliver")
        async def deliver(chat: Chat[Paid[object]]) -> None:
            await chat.ask("Where to?")
            had.append(chat.event.item)
            chat.data[SOLD] += 1

        return bot

    was = attrs.make_class("Item", {"size": attrs.field(default=1)}, frozen=True)
    is_now = attrs.make_class("Item", {"width": attrs.field(default=2)}, frozen=True)
    mended = attrs.make_class(
        "Item", {"width": attrs.field(default=0, metadata=formerly("size"))}, frozen=True
    )
    async with open_town(selling(was), store=store, outbox=outbox) as town:
        outbox.reply(YES, lambda op: isinstance(op, VerifyPayment | InquirePayment))
        await town.says("buy")
        await town.pays()
        assert town.sent()[-1] == "Where to?"
    async with open_town(selling(is_now), store=store, outbox=outbox) as town:
        await town.says("Valiasr")
        assert "crashed" not in town.counts
        assert "has no field 'size'" in town.alarms[0].text
    async with open_town(selling(mended), store=store, outbox=outbox) as town:
        await town.rest()
        assert had == [mended(1)]
        (row,) = await store.payments.find(limit=9)
        assert row.state == "settled"


def questioning(*, mended: bool) -> Router:
    """The aside that has the money asks something; or, by mistake, something else in its place."""
    bot = Router()

    @bot.conversation(text("buy"))
    async def buy(chat: Chat) -> None:
        await chat.charge(PRICE, "Pizza", item=Pizza())
        await chat.send("Thank you.")

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    @bot.aside(paid(Pizza))
    async def delivers(chat: Chat[Paid[Pizza]]) -> None:
        if mended:
            await chat.ask("Where to?")
        else:
            await chat.sleep(60)

    return bot


@pytest.mark.parametrize("late", [False, True])
async def test_an_aside_that_has_the_money_and_cannot_go_on_is_named_at_once(
    autojump_clock: MockClock, late: bool
) -> None:
    """By the payment's number, until it is settled; who waits for the goods waits on."""
    store, outbox = FakeStore(), FakeOutbox()
    outbox.reply(YES, lambda op: isinstance(op, VerifyPayment | InquirePayment))
    async with open_town(questioning(mended=True), store=store, outbox=outbox) as town:
        await town.says("buy")
        (row,) = await store.payments.find(limit=9)
        if late:
            await town.says("/cancel")
        await town.pays(ref_id=row.id)
        await trio.sleep(1)
        (row,) = await store.payments.find(limit=9)
        assert row.state == "delivered"
        assert await store.alarms.open(limit=9) == []
    async with open_town(questioning(mended=False), store=store, outbox=outbox) as town:
        await town.says("hello")
        await town.rest()
        (alarm,) = await store.alarms.open(limit=9)
        assert (alarm.kind, alarm.key) == ("captured_but_parked", row.id)
        assert "250,000 IRR" in alarm.text
        assert "Thank you." not in town.sent()
    async with open_town(questioning(mended=True), store=store, outbox=outbox) as town:
        await town.says("home")
        await town.rest()
        (row,) = await store.payments.find(limit=9)
        assert row.state == "settled"
        assert await store.alarms.open(limit=9) == []
        assert ("Thank you." in town.sent()) is not late
