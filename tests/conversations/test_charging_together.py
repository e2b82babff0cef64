"""What a conversation does to its payment is durable together with what it records of it, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
import trio
from doubles import FakeStore
from test_charging import Shop, verifies
from town import open_town
from trio.testing import MockClock

from tests.payments.plain_money import all_decided
from triobot.conversations.charges.paid import Paid, paid
from triobot.conversations.chat import Chat
from triobot.conversations.data import Key
from triobot.conversations.routes.router import Router
from triobot.conversations.workload import CommitQueue, UnitWriter
from triobot.seams.inbox import Acceptance, Arrival, InboxRow, Quota
from triobot.seams.journals import AppendRecords, ContinueConversation, EndConversation, KeepResult
from triobot.seams.money import PutPayment
from triobot.seams.writes import Consume, Write
from triobot.wire.results import PaymentState

PRICE = 250_000

SOLD = Key("sold", int, default=0)


class Watched(FakeStore):
    """A store that remembers which moves of payments go with what, even if others share the commit."""

    def __init__(self) -> None:
        super().__init__()
        self.together: dict[str, set[str]] = {}
        self.answered: dict[str, str] = {}

    def note(self, writes: Sequence[Write], *also: str) -> None:
        whole = all_decided(writes, self.money.get)
        others = {type(write).__name__ for write in whole if not isinstance(write, PutPayment)} | {*also}
        for write in whole:
            if isinstance(write, PutPayment):
                self.together.setdefault(write.fact, others)
                lines = [line for one in whole if isinstance(one, AppendRecords) for line in one.records]
                # What a wait has taken; what an aside records at its end isn't among that.
                self.answered.setdefault(
                    write.fact, " ".join(line for line in lines if "PaymentNews" in line)
                )

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
    add = CommitQueue.add

    def noted(consumption: CommitQueue, writes: Sequence[Write], writer: UnitWriter | None = None) -> int:
        store = cast("object", consumption._store)
        assert isinstance(store, Watched)
        store.note(writes)
        return add(consumption, writes, writer)

    monkeypatch.setattr(CommitQueue, "add", noted)


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
        assert has(store, "delivered", InboxRow)
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

        assert len(shop.given) == 1
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


async def test_the_answer_of_the_charge_goes_with_the_end_of_its_aside(autojump_clock: MockClock) -> None:
    """The settlement, the aside's end and what the charge returns are one commit."""
    store, shop = Watched(), Shop()
    shop.slow = 10
    async with open_town(shop.bot, store=store) as town:
        town.outbox.reply(PaymentState(True, PRICE), verifies)
        await town.says("buy")
        await town.pays()
        await trio.sleep(20)

        assert len(shop.outcomes) == 1
        assert has(store, "delivered", InboxRow)
        assert has(store, "settled", EndConversation)
        assert "given" in store.answered["settled"]


async def test_so_does_its_failure(autojump_clock: MockClock) -> None:
    store, shop = Watched(), Shop()
    shop.failing = 1
    async with open_town(shop.bot, store=store) as town:
        town.outbox.reply(PaymentState(True, PRICE), verifies)
        await town.says("buy")
        await town.pays()

        assert len(shop.outcomes) == 1
        assert has(store, "handler_failed", EndConversation)
        assert "handed_over" in store.answered["handler_failed"]


async def test_continue_as_settles_with_what_hands_over(autojump_clock: MockClock) -> None:
    """The end of the aside and the beginning of what goes on in its place are one unit, and the charge's."""
    store, bot = Watched(), Router()

    @bot.aside(paid(int))
    async def deliver(chat: Chat[Paid[int]]) -> None:
        chat.data[SOLD] += 1
        await chat.continue_as(goes_on)

    @bot.aside
    async def goes_on(chat: Chat[Paid[int]]) -> None:
        await chat.ask(f"More than {chat.event.item}?")

    @bot.conversation
    async def sell(chat: Chat) -> None:
        await chat.charge(PRICE, "Pizza", item=1)
        await chat.send("Here is 1.")

    async with open_town(bot, store=store) as town:
        town.outbox.reply(PaymentState(True, PRICE), verifies)
        await town.says("sell")
        await town.pays()

        assert has(store, "settled", ContinueConversation)
        assert "given" in store.answered["settled"]
        assert sorted(map(str, town.sent()))[:2] == ["Here is 1.", "More than 1?"]
        await town.says("no")
        assert town.alarms == []
        assert town.left_over() == {}
