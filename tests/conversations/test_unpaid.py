"""How a sale ends without money, if the author doesn't ask: with a word to the user, and no alarm."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import attrs
import pytest
import trio
from town import TEXTS, Town, open_town
from trio.testing import MockClock

from triobot.conversations.charges.charging import BUTTON_LIFE
from triobot.conversations.charges.paid import Paid, paid
from triobot.conversations.chat import Chat
from triobot.conversations.routes.router import Router
from triobot.errors import PaymentDeclinedError, PaymentExpiredError
from triobot.payments.facts import PaymentAnswer, Plain
from triobot.wire.ids import RefId

PRICE = 250_000


def shop(sell: Callable[[Chat], Awaitable[object]]) -> Router:
    bot = Router()

    @bot.conversation
    async def buy(chat: Chat) -> None:
        await sell(chat)

    @bot.aside(paid(int))
    async def deliver(chat: Chat[Paid[int]]) -> None:
        """Give nothing that can be seen."""

    return bot


async def charge(chat: Chat) -> object:
    await chat.charge(PRICE, "Pizza", item=1, late="refund")
    return None


async def declined(town: Town) -> None:
    await town.pays(code=1001)


async def expired(town: Town) -> None:
    await trio.sleep(BUTTON_LIFE + 60)


async def taken_over(town: Town) -> None:
    captured = PaymentAnswer("verify", "verified", PRICE)
    await town.cashier.entries.move(RefId(town.pay_button().ref_id), Plain("restored"), captured)
    await town.rest()


@pytest.mark.parametrize(
    ("end", "count", "words"),
    [
        (declined, "declined", [TEXTS.declined]),
        (expired, "expired", [TEXTS.expired]),
        (taken_over, "handed_over", [TEXTS.handed_over]),
    ],
)
async def test_a_sale_that_fails_is_no_crash(
    end: Callable[[Town], Awaitable[None]], count: str, words: list[str], autojump_clock: MockClock
) -> None:
    """Whatever an operator should know of it, the ledger says."""
    async with open_town(shop(charge)) as town:
        await town.says("buy")
        await end(town)
        await town.rest()
        assert town.sent() == ["Pizza", *words]
        assert (town.counts.get(count), town.counts.get("crashed")) == (1, None)
        assert town.alarms == []
        await town.says("again")
        assert town.sent()[-1] == "Pizza"


async def test_a_word_may_be_left_out() -> None:
    """Then the conversation just ends."""
    async with open_town(shop(charge), texts=attrs.evolve(TEXTS, declined="")) as town:
        await town.says("buy")
        await declined(town)
        assert town.sent() == ["Pizza"]


async def test_a_failure_beside_it_is_a_crash() -> None:
    """As is any other error in its place."""

    async def sell(chat: Chat) -> None:
        try:
            await charge(chat)
        except PaymentDeclinedError as error:
            raise ExceptionGroup("both", [error, ValueError()]) from None

    async with open_town(shop(sell)) as town:
        await town.says("buy")
        await declined(town)
        assert town.sent() == ["Pizza", TEXTS.apology]
        assert {alarm.kind for alarm in town.alarms} == {"conversation_crashed"}


@pytest.mark.parametrize("kind", [trio.TooSlowError, PaymentExpiredError])
async def test_the_button_s_end_is_a_deadline_s(kind: type[Exception], autojump_clock: MockClock) -> None:
    """Both names catch it; the author's own deadline is not taken for it."""
    caught: list[Exception] = []

    async def sell(chat: Chat) -> None:
        for wait in (partial(charge, chat), partial(chat.sleep, 5)):
            try:
                with chat.fail_after(BUTTON_LIFE + 5 if not caught else 1):
                    await wait()
            except kind as error:
                caught.append(error)

    async with open_town(shop(sell)) as town:
        await town.says("buy")
        await expired(town)
        await trio.sleep(5)
        assert isinstance(caught[0], PaymentExpiredError)
        assert [type(error) for error in caught[1:]] == [trio.TooSlowError][: kind is trio.TooSlowError]
