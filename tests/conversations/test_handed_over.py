"""Money that an aside had, and an operator has: a step gives nothing for it, and who waits hears it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs
import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import CHAT, TEXTS, Town, open_town
from trio.testing import MockClock

from triobot.conversations.charges.paid import Paid, paid
from triobot.conversations.chat import Chat
from triobot.conversations.data import Key
from triobot.conversations.routes.filters import command, text
from triobot.conversations.routes.router import Router
from triobot.errors import PaymentHandedOverError, StoreAwayError
from triobot.payments.facts import Plain, PlainName
from triobot.seams.money import PaymentRow
from triobot.store import ReadPayments
from triobot.wire.ids import ChatId, RefId
from triobot.wire.operations import InquirePayment, VerifyPayment
from triobot.wire.results import PaymentState

PRICE = 250_000
YES = PaymentState(True, PRICE)

How: TypeAlias = Literal["step", "data"]

BAKED = Key("handed_over.baked", int, default=0)


@attrs.frozen
class Pizza:
    """What is bought."""


class Shop:
    """Its aside asks where to, and only then gives: by a step, or by what the chat keeps; its buyer waits.

    Attributes:
        baked: for each pizza that a step gave, whether its money was marked as given out before, perhaps.
        heard: what the charge came to.
    """

    def __init__(self, how: How = "step") -> None:
        self.how: How = how
        self.baked: list[bool] = []
        self.heard: list[str] = []

    async def bake(self, uncertain: bool) -> None:
        """Give a pizza."""
        await trio.lowlevel.checkpoint()
        self.baked.append(uncertain)

    def bot(self, *, mended: bool = True) -> Router:
        """Its code; with ``mended=False``, an aside that can't go on with what was recorded."""
        bot = Router()

        @bot.conversation(text("buy"), name="buy")
        async def buy(chat: Chat) -> None:
            try:
                await chat.charge(PRICE, "Pizza", item=Pizza())
            except PaymentHandedOverError:
                await chat.send("By hand, then.")
                self.heard.append("handed over")
            else:
                self.heard.append("given")
            await chat.ask("Anything else?")

        @bot.interrupt(command("cancel"))
        async def cancel(chat: Chat) -> None:
            await chat.send("Cancelled.")

        @bot.aside(paid(Pizza), name="deliver")
        async def deliver(chat: Chat[Paid[Pizza]]) -> None:
            if not mended:
                await chat.sleep(1)
            if not chat.event.redelivered:
                await chat.ask("Where to?")
            if self.how == "step":
                await chat.step(self.bake, chat.event.uncertain)
            else:
                chat.data[BAKED] += 1

        return bot


async def buys(town: Town) -> PaymentRow:
    """Pay, up to the aside's question; returns the payment."""
    await town.says("buy")
    assert isinstance(town.outbox, FakeOutbox)
    town.outbox.reply(YES, lambda op: isinstance(op, VerifyPayment | InquirePayment))
    await town.pays()
    assert town.sent()[-1] == "Where to?"
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
        await town.cashier.entries.move(row.id, Plain("restored"))
        assert await alarms(town) == {"granted_before_maybe"}
        await town.says("home")
        assert (shop.baked, shop.heard) == ([], ["handed over"])
        assert (await row_of(town)).state == "verified"
        assert await alarms(town) == {"granted_before_maybe"}
    # Refused once, it stays refused, and is the operator's.
    async with open_town(shop.bot(), store=store, outbox=outbox) as town:
        await trio.sleep(3600)
        assert shop.baked == []
        await town.cashier.entries.move(row.id, Plain("operator_redeliver"))
        await trio.sleep(1)
        assert shop.baked == [True]
        assert ((await row_of(town)).state, await alarms(town)) == ("settled", set())


async def test_after_a_restored_backup_what_is_given_all_the_same_is_settled(
    autojump_clock: MockClock,
) -> None:
    """What the chat keeps was in the backup, too, and no step asks first: it is given once."""
    shop = Shop("data")
    async with open_town(shop.bot()) as town:
        row = await buys(town)
        await town.cashier.entries.move(row.id, Plain("restored"))
        await town.says("home")
        assert await town.store.data(CHAT) == {BAKED.name: "[1,1]"}
        assert shop.heard == ["given"]
        assert ((await row_of(town)).state, await alarms(town)) == ("settled", set())
        again = await town.cashier.entries.move(row.id, Plain("operator_redeliver"), may_fail=True)
        assert again is None


@pytest.mark.parametrize(
    ("fact", "given"), [("operator_settled", 0), ("operator_resolved", 0), ("operator_redeliver", 1)]
)
async def test_mended_code_gives_nothing_that_an_operator_has_dealt_with(
    fact: PlainName, given: int, autojump_clock: MockClock
) -> None:
    """The operator does what the alarm says, which who waits hears; and only then the code is mended."""
    shop, store, outbox = Shop(), FakeStore(), FakeOutbox()
    async with open_town(shop.bot(), store=store, outbox=outbox) as town:
        row = await buys(town)
    async with open_town(shop.bot(mended=False), store=store, outbox=outbox) as town:
        await trio.sleep(1)
        assert "captured_but_parked" in await alarms(town)
        assert shop.heard == []
        await town.cashier.entries.move(row.id, Plain(fact))
        await trio.sleep(1)
        assert (shop.baked, shop.heard) == ([], ["handed over"])
    async with open_town(shop.bot(), store=store, outbox=outbox) as town:
        # It goes on with the question that it has asked; the buyer's own is open as well, and newer.
        await town.says("home")
        await town.says("home")
        await trio.sleep(60)
        assert len(shop.baked) == given
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
            await chat.step(self.bake, chat.event.uncertain)

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
        await town.cashier.entries.move(row.id, Plain("restored"))
        await town.says("home")
        await trio.sleep(3600)
        assert shop.baked == []
        assert town.sent()[-1] == TEXTS.handed_over
        assert ((await row_of(town)).state, await alarms(town)) == ("verified", {"granted_before_maybe"})
        await town.cashier.entries.move(row.id, Plain("operator_redeliver"))
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
        await town.cashier.entries.move(row.id, Plain("restored"))
        await town.cashier.entries.move(row.id, Plain("operator_redeliver"))
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
        await town.cashier.entries.move(row.id, Plain(fact))
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
        await town.dispatcher.chat_calls.order(there, end=True, say="")
        await trio.sleep(60)
        assert shop.baked == [False]
        assert ((await row_of(town)).state, await alarms(town)) == ("settled", set())


async def test_a_store_that_is_away_for_a_moment_fails_no_step(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger is asked before the step; else what was paid for would be given by another run, or never."""
    shop, get = Shop(), ReadPayments.get
    away = [StoreAwayError("away"), StoreAwayError("away")]

    async def asked(rows: ReadPayments, id: RefId) -> PaymentRow | None:
        if away:
            raise away.pop()
        return await get(rows, id)

    async with open_town(shop.bot()) as town:
        await buys(town)
        monkeypatch.setattr(ReadPayments, "get", asked)
        await town.says("home")
        await trio.sleep(10)
        assert (away, shop.baked, shop.heard) == ([], [False], ["given"])
        assert ((await row_of(town)).state, await alarms(town)) == ("settled", set())
