"""What a conversation does to its payment is durable together with what it records of it, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from doubles import FakeStore
from test_charging import Shop, verifies
from town import Town, open_town
from trio.testing import MockClock

from tests.payments.plain_money import all_decided
from triobot.conversations.chat import Chat
from triobot.conversations.inbox.consumption import Consumption, UnitWriter
from triobot.conversations.routes.filters import text
from triobot.journals import AppendRecords, ContinueConversation, EndConversation, KeepResult
from triobot.money import PutPayment
from triobot.seams import Acceptance, Arrival, Consume, InboxRow, Quota, Write
from triobot.wire.results import PaymentState

PRICE = 250_000


class Watched(FakeStore):
    """A store that remembers which moves of payments go with what, even if others share the commit."""

    def __init__(self) -> None:
        super().__init__()
        self.together: dict[str, set[str]] = {}

    def note(self, writes: Sequence[Write], *also: str) -> None:
        whole = all_decided(writes, self.money.get)
        others = {type(write).__name__ for write in whole if not isinstance(write, PutPayment)} | {*also}
        for write in whole:
            if isinstance(write, PutPayment):
                self.together.setdefault(write.fact, others)

    async def commit(self, *writes: Write) -> None:
        self.note(writes)
        await super().commit(*writes)

    async def accept(
        self, arrival: Arrival, *, quota: Quota, also: Sequence[Write] = (), **rest: Any
    ) -> Acceptance:
        self.note(also, InboxRow.__name__)
        return await super().accept(arrival, quota=quota, also=also, **rest)


@pytest.fixture(autouse=True)
def units(monkeypatch: pytest.MonkeyPatch) -> None:
    """What conversations write is noted unit by unit."""
    add = Consumption.add

    def noted(consumption: Consumption, writes: Sequence[Write], writer: UnitWriter | None = None) -> int:
        store = cast("object", consumption._store)
        assert isinstance(store, Watched)
        store.note(writes)
        return add(consumption, writes, writer)

    monkeypatch.setattr(Consumption, "add", noted)


def has(store: Watched, fact: str, kind: type[object]) -> bool:
    return kind.__name__ in store.together[fact]


async def test_a_sale(autojump_clock: MockClock) -> None:
    """From the number to the end."""
    store = Watched()
    async with open_town(Shop().bot, store=store) as town:
        town.outbox.reply(PaymentState(True, PRICE), verifies)
        await town.says("buy")
        await town.pays()

        assert has(store, "made", AppendRecords)
        assert has(store, "send_begun", AppendRecords)
        assert has(store, "send_ok", KeepResult)
        assert has(store, "callback", Consume)
        assert has(store, "delivered", KeepResult)
        assert has(store, "settled", EndConversation)


async def test_a_sale_that_comes_to_nothing(autojump_clock: MockClock) -> None:
    """Who presses the other button gives the payment up with what that brings about."""
    store = Watched()
    async with open_town(Shop(options={"no": "Not now"}).bot, store=store) as town:
        await town.says("buy")
        await town.presses("Not now")

        assert has(store, "taker_gone", EndConversation)


async def test_money_that_comes_late(autojump_clock: MockClock) -> None:
    """The aside begins with it, and ends with its settling."""
    store, shop = Watched(), Shop()
    async with open_town(shop.bot, store=store) as town:
        await town.says("buy")
        await town.says("/cancel")
        town.outbox.reply(PaymentState(True, PRICE), verifies)
        await town.pays()

        assert len(shop.late) == 1
        assert has(store, "taker_gone", EndConversation)
        assert has(store, "delivered", InboxRow)
        assert has(store, "settled", EndConversation)


async def test_an_aside_that_fails(autojump_clock: MockClock) -> None:
    store, shop = Watched(), Shop()
    shop.failing = 1
    async with open_town(shop.bot, store=store) as town:
        await town.says("buy")
        await town.says("/cancel")
        town.outbox.reply(PaymentState(True, PRICE), verifies)
        await town.pays()

        assert has(store, "handler_failed", EndConversation)


def settling(how: str) -> Callable[[Chat], Any]:
    async def sell(chat: Chat) -> None:
        money = await chat.charge(PRICE, "Pizza", item=1, late="refund")
        if how == "step":
            await chat.step(nothing, paid=money)
        elif how == "settle":
            await money.settle()
        else:
            await chat.continue_as(other)
        await chat.ask("More?")

    return sell


async def nothing() -> None:
    """A step."""


async def other(chat: Chat) -> None:
    await chat.ask("More?")


async def _settles(how: str, kind: type[object]) -> None:
    store, shop = Watched(), Shop()
    shop.bot.conversation(text("sell"))(settling(how))
    shop.bot.aside(other)
    async with open_town(shop.bot, store=store) as town:
        await _sold(town)

        assert has(store, "settled", kind)
        assert town.sent()[-1] == "More?"


async def _sold(town: Town) -> None:
    town.outbox.reply(PaymentState(True, PRICE), verifies)
    await town.says("sell")
    await town.pays()


async def test_a_step_that_takes_it_settles_it_with_its_own_record(autojump_clock: MockClock) -> None:
    await _settles("step", AppendRecords)


async def test_settle_goes_with_the_turn(autojump_clock: MockClock) -> None:
    await _settles("settle", AppendRecords)


async def test_continue_as_settles_with_what_hands_over(autojump_clock: MockClock) -> None:
    """Its end and the beginning of what goes on are one unit."""
    await _settles("continue", ContinueConversation)
