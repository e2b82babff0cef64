"""Money that the bot's code had, and an operator has by now: a step that takes it gives nothing."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs
import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import TEXTS, Town, open_town
from trio.testing import MockClock

from triobot.conversations.charges.paid import Paid, paid
from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import command, text
from triobot.conversations.routes.router import Router
from triobot.errors import PaymentHandedOverError
from triobot.money import PaymentRow
from triobot.payments.facts import Plain, PlainName
from triobot.wire.ids import ChatId
from triobot.wire.operations import InquirePayment, VerifyPayment
from triobot.wire.results import PaymentState

PRICE = 250_000
YES = PaymentState(True, PRICE)

How: TypeAlias = Literal["step", "settle", "end"]


@attrs.frozen
class Pizza:
    """What is bought."""


class Shop:
    """Sells a pizza, asks where to, and only then gives it: by a step that takes the money, or otherwise.

    Attributes:
        baked: the keys under which a pizza was given.
        refused: how often the conversation was told that another has its money.
    """

    def __init__(self, how: How = "step") -> None:
        self.how: How = how
        self.baked: list[str] = []
        self.refused = 0

    async def bake(self, key: str) -> None:
        """Give a pizza."""
        await trio.lowlevel.checkpoint()
        self.baked.append(key)

    def bot(self, *, mended: bool = True) -> Router:
        """Its code; with ``mended=False``, code that can't go on with what was recorded."""
        bot = Router()

        @bot.conversation(text("buy"), name="buy")
        async def buy(chat: Chat) -> None:
            if not mended:
                await chat.sleep(1)
            bought = await chat.charge(PRICE, "Pizza", item=Pizza())
            assert isinstance(bought, Paid)
            await chat.ask("Where to?")
            try:
                await chat.step(self.bake, bought.key, paid=bought if self.how == "step" else None)
            except PaymentHandedOverError:
                self.refused += 1
                await chat.ask("Anything else?")
                return
            if self.how == "settle":
                await bought.settle()
                await chat.ask("Anything else?")

        @bot.aside(paid(Pizza))
        async def late(chat: Chat[Paid[Pizza]]) -> None:
            await chat.step(self.bake, chat.event.key, paid=chat.event)

        return bot


async def buys(town: Town) -> PaymentRow:
    """Pay, up to the question; returns the payment."""
    await town.says("buy")
    assert isinstance(town.outbox, FakeOutbox)
    town.outbox.reply(YES, lambda op: isinstance(op, VerifyPayment | InquirePayment))
    await town.pays()
    return await row_of(town)


async def row_of(town: Town) -> PaymentRow:
    """The only payment."""
    (row,) = await town.store.payments.find(limit=9)
    assert row.state != "verified" or row.captured == PRICE
    return row


async def alarms(town: Town) -> set[str]:
    """The kinds of the ledger's open alarms."""
    return {alarm.kind for alarm in await town.store.alarms.open(limit=9)}


async def test_after_a_restored_backup_a_step_gives_nothing_that_was_paid_before(
    autojump_clock: MockClock,
) -> None:
    """The goods may have been given since the backup: an operator says so, or has them given, once."""
    shop, store, outbox = Shop(), FakeStore(), FakeOutbox()
    async with open_town(shop.bot(), store=store, outbox=outbox) as town:
        row = await buys(town)
        await town.cashier.books.move(row.id, Plain("restored"))
        assert await alarms(town) == {"granted_before_maybe"}
        await town.says("home")
        assert (shop.baked, shop.refused) == ([], 1)
        assert await alarms(town) == {"granted_before_maybe"}
    # Refused once, it stays refused; and its end leaves the payment to the operator.
    async with open_town(shop.bot(), store=store, outbox=outbox) as town:
        await town.says("no")
        assert (shop.baked, shop.refused) == ([], 2)
        assert (await row_of(town)).state == "verified"
        assert await alarms(town) == {"granted_before_maybe"}
        await town.cashier.books.move(row.id, Plain("operator_redeliver"))
        await trio.sleep(1)
        assert shop.baked == [f"button-{row.id}"]
        assert ((await row_of(town)).state, await alarms(town)) == ("settled", set())


@pytest.mark.parametrize("how", ["settle", "end"])
async def test_after_a_restored_backup_what_is_given_all_the_same_is_settled(
    how: How, autojump_clock: MockClock
) -> None:
    """Without a step that takes it nothing asks first: then at least it isn't handed out once more."""
    shop = Shop(how)
    async with open_town(shop.bot()) as town:
        row = await buys(town)
        await town.cashier.books.move(row.id, Plain("restored"))
        await town.says("home")
        assert shop.baked == [f"button-{row.id}"]
        assert ((await row_of(town)).state, await alarms(town)) == ("settled", set())
        again = await town.cashier.books.move(row.id, Plain("operator_redeliver"), may_fail=True)
        assert again is not None
        assert not again.moved


@pytest.mark.parametrize(
    ("fact", "given"), [("operator_settled", 0), ("operator_resolved", 0), ("operator_redeliver", 1)]
)
async def test_mended_code_gives_nothing_that_an_operator_has_dealt_with(
    fact: PlainName, given: int, autojump_clock: MockClock
) -> None:
    """The operator does what the alarm says, and only then the code is mended that had the money."""
    shop, store, outbox = Shop(), FakeStore(), FakeOutbox()
    async with open_town(shop.bot(), store=store, outbox=outbox) as town:
        row = await buys(town)
    async with open_town(shop.bot(mended=False), store=store, outbox=outbox) as town:
        await town.says("home")
        assert "captured_but_parked" in await alarms(town)
        await town.cashier.books.move(row.id, Plain(fact))
        await trio.sleep(1)
        assert len(shop.baked) == given
    async with open_town(shop.bot(), store=store, outbox=outbox) as town:
        await town.says("hello")
        await town.rest()
        assert (len(shop.baked), shop.refused) == (given, 1)
        assert (await row_of(town)).state == ("resolved" if fact == "operator_resolved" else "settled")
    async with open_town(shop.bot(), store=store, outbox=outbox) as town:
        await town.says("no")
        assert (len(shop.baked), shop.refused) == (given, 2)
        assert (await row_of(town)).state == ("resolved" if fact == "operator_resolved" else "settled")


class LateShop:
    """Its conversation is cancelled before it is paid; its aside asks where to, and then gives.

    Attributes:
        baked: for each pizza that was given, whether its money was marked as given out before, perhaps.
    """

    def __init__(self) -> None:
        self.baked: list[bool] = []

    async def bake(self, uncertain: bool) -> None:
        """Give a pizza."""
        await trio.lowlevel.checkpoint()
        self.baked.append(uncertain)

    def bot(self, *, mended: bool = True) -> Router:
        """Its code; with ``mended=False``, code that can't go on with what was recorded."""
        bot = Router()

        @bot.conversation(text("buy"))
        async def buy(chat: Chat) -> None:
            await chat.charge(PRICE, "Pizza", item=Pizza())

        @bot.interrupt(command("cancel"))
        async def cancel(chat: Chat) -> None:
            await chat.send("Cancelled.")

        @bot.aside(paid(Pizza))
        async def late(chat: Chat[Paid[Pizza]]) -> None:
            if not mended:
                await chat.sleep(1)
            if not chat.event.redelivered:
                await chat.ask("Where to?")
            await chat.step(self.bake, chat.event.uncertain, paid=chat.event)

        return bot


async def pays_late(town: Town) -> PaymentRow:
    """Pay what nobody waits for any more, up to the aside's question; returns the payment."""
    assert isinstance(town.outbox, FakeOutbox)
    town.outbox.reply(YES, lambda op: isinstance(op, VerifyPayment | InquirePayment))
    await town.says("buy")
    row = await row_of(town)
    await town.says("/cancel")
    await town.pays(ref_id=row.id)
    await trio.sleep(1)
    assert (await row_of(town)).state == "delivered"
    return row


async def test_after_a_restored_backup_an_aside_gives_once_an_operator_says_so_and_marked(
    autojump_clock: MockClock,
) -> None:
    """Its user hears that the payment is dealt with, and then gets the goods."""
    shop = LateShop()
    async with open_town(shop.bot()) as town:
        row = await pays_late(town)
        await town.cashier.books.move(row.id, Plain("restored"))
        await town.says("home")
        await trio.sleep(3600)
        assert shop.baked == []
        assert town.sent()[-1] == TEXTS.handed_over
        assert ((await row_of(town)).state, await alarms(town)) == ("verified", {"granted_before_maybe"})
        await town.cashier.books.move(row.id, Plain("operator_redeliver"))
        await trio.sleep(1)
        assert shop.baked == [True]
        assert ((await row_of(town)).state, await alarms(town)) == ("settled", set())


async def test_what_an_operator_hands_out_after_a_restored_backup_is_marked_whoever_has_it(
    autojump_clock: MockClock,
) -> None:
    """The aside that asks its question meanwhile knows nothing of the backup: another gives."""
    shop = LateShop()
    async with open_town(shop.bot()) as town:
        row = await pays_late(town)
        await town.cashier.books.move(row.id, Plain("restored"))
        await town.cashier.books.move(row.id, Plain("operator_redeliver"))
        await trio.sleep(1)
        await town.says("home")
        await trio.sleep(60)
        assert shop.baked == [True]
        assert ((await row_of(town)).state, await alarms(town)) == ("settled", set())


@pytest.mark.parametrize(
    ("fact", "given", "end"),
    [
        ("operator_settled", 0, "settled"),
        ("operator_resolved", 0, "resolved"),
        ("operator_redeliver", 1, "settled"),
    ],
)
async def test_a_mended_aside_gives_once_what_an_operator_has_handed_out_again(
    fact: PlainName, given: int, end: str, autojump_clock: MockClock
) -> None:
    """As long as one has it that can't go on, no other begins; and what was dealt with it doesn't give."""
    shop, store, outbox = LateShop(), FakeStore(), FakeOutbox()
    async with open_town(shop.bot(), store=store, outbox=outbox) as town:
        row = await pays_late(town)
    async with open_town(shop.bot(mended=False), store=store, outbox=outbox) as town:
        await town.says("home")
        await town.cashier.books.move(row.id, Plain(fact))
        await trio.sleep(1)
        assert shop.baked == []
    async with open_town(shop.bot(), store=store, outbox=outbox) as town:
        await town.says("home")
        await trio.sleep(60)
        assert len(shop.baked) == given
        assert (await row_of(town)).state == end


async def test_the_end_of_an_aside_that_cannot_go_on_lets_another_begin(autojump_clock: MockClock) -> None:
    """That is how an operator has goods given that an aside is stuck with."""
    shop, store, outbox = LateShop(), FakeStore(), FakeOutbox()
    async with open_town(shop.bot(), store=store, outbox=outbox) as town:
        await pays_late(town)
    async with open_town(shop.bot(mended=False), store=store, outbox=outbox) as town:
        await town.says("home")
        (there,) = store.journals.conversations(ChatId(5))
        await town.dispatcher.elsewhere.order(there, end=True, say="")
        await trio.sleep(60)
        assert shop.baked == [False]
        assert ((await row_of(town)).state, await alarms(town)) == ("settled", set())
