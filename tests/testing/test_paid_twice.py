"""One bill that is paid, or said to be paid, more than once; two at a time."""

from __future__ import annotations

from contextlib import suppress

import attrs
import pytest
import trio

from triobot import Bot, Chat, Key, Paid
from triobot.emulator.person import AppError
from triobot.filters import paid, text
from triobot.testing import DrivenWorld, EventFault, Fault, Person, Switches, drive

PRICE, WALLET = 1_000, 5_000
GIVEN = Key("given", int, default=0)


@attrs.frozen
class Cake:
    name: str


def bakery() -> Bot:
    bot = Bot()

    @bot.aside(text())
    async def sell(chat: Chat) -> None:
        name = str(chat.event.content)
        ask = chat.invoice if name == "tart" else chat.charge
        await ask(PRICE, name, item=Cake(name))

    @bot.aside(paid(Cake))
    async def give(chat: Chat[Paid[Cake]]) -> None:
        chat.data[GIVEN] += 1
        await chat.send(f"Your {chat.event.item.name}.")

    return bot


async def asks(world: DrivenWorld, *names: str) -> Person:
    """Somebody who is asked to pay for each of these; for a tart by an invoice."""
    sara = world.user("Sara", wallet=WALLET)
    await sara.joins()
    for name in names:
        await sara.says(name)
    await trio.sleep(1)
    return sara


def captures(world: DrivenWorld) -> list[int]:
    """How often each bill was captured."""
    bills = world.exchange.world.bills
    return [sum(taking.captured_at is not None for taking in bill.takings) for bill in bills]


async def given(sara: Person) -> list[str]:
    return [seen.text for seen in await sara.history() if seen.from_bot and seen.text.startswith("Your")]


@pytest.mark.parametrize("gap", [0.2, 0.4])
@pytest.mark.parametrize("sees", [False, True])
async def test_a_lost_verify_is_not_repeated_while_somebody_can_pay_again(
    sees: bool, gap: float, autojump_clock: object
) -> None:
    """The inquiry comes at once, and the verify right behind it: nobody pays in between."""
    async with drive(bakery(), switches=Switches(pay_twice=True, inquiry_sees_paid=sees)) as world:
        sara = await asks(world, "cake")
        world.faults.add(Fault(operation="payment/verify", drop="after", times=1))
        await sara.pays()
        await trio.sleep(gap)
        with suppress(AppError):  # the button is gone
            await sara.pays(within=0)
        await world.waits(hours=2)
        assert captures(world) == [1]
        assert await given(sara) == ["Your cake."]
        assert await sara.wallet() == {"IRR": WALLET - PRICE, "coin": 0}


@pytest.mark.parametrize("code", [None, 1001, 1004])
async def test_who_pays_twice_before_that_is_named(code: int | None, autojump_clock: object) -> None:
    """No verify can be told from the next: what both took, an operator hears, whatever the callback said."""
    async with drive(bakery(), switches=Switches(pay_twice=True)) as world:
        sara = await asks(world, "cake")
        world.faults.add(Fault(operation="payment/verify", drop="after", times=1))
        await sara.pays()
        await sara.pays(code=code, taken=code is not None, within=0)
        await world.waits(hours=2)
        assert captures(world) == [2]
        assert await given(sara) == ["Your cake."]
        alarm = world.takes_alarm("maybe_paid_again")
        assert alarm.text.startswith(f"payment {alarm.key} of chat {sara.chat_id}, 1,000 IRR: ")
        assert "pay one back by hand" in alarm.text
        assert "whose answer was lost, may have taken one payment, and another was taken by" in alarm.text
        if code == 1001:
            world.takes_alarm("declined_by_code")


@pytest.mark.parametrize("code", [1000, 1003])
async def test_who_is_told_that_nothing_was_taken_has_paid_once(code: int, autojump_clock: object) -> None:
    async with drive(bakery()) as world:
        sara = await asks(world, "cake")
        world.faults.add(Fault(operation="payment/verify", drop="after", times=1))
        await sara.pays()
        await sara.pays(code=code, within=0)
        await world.waits(hours=2)
        assert captures(world) == [1]


@pytest.mark.parametrize("delay", [0.5, 3])
async def test_whose_button_was_sent_twice_has_paid_once(delay: float, autojump_clock: object) -> None:
    """A kill lost the first message's id; the next start captures before the callback names that message."""
    async with drive(bakery()) as world:
        sara = await asks(world)
        world.faults.add(Fault(operation="sendMessage", drop="after", times=1))
        world.faults.add(EventFault(type="payCallback", delay=delay, times=1))
        await sara.says("cake")
        await sara.pays()
        await world.crashes()
        await world.waits(hours=2)
        assert captures(world) == [1]
        assert await given(sara) == ["Your cake."]


async def test_a_payment_of_a_bill_that_is_settled_goes_back(autojump_clock: object) -> None:
    async with drive(bakery(), switches=Switches(pay_twice=True)) as world:
        world.faults.add(Fault(operation="editMessage", status=503))  # its button can't be removed
        sara = await asks(world, "cake")
        await sara.pays()
        await sara.sees("Your cake.")
        await sara.pays()
        assert (await sara.wallet())["IRR"] == WALLET - 2 * PRICE
        await world.waits(hours=2)
        assert (captures(world), await given(sara)) == ([1], ["Your cake."])
        assert (await sara.wallet())["IRR"] == WALLET - PRICE
        world.takes_alarm("button_still_live")


async def test_two_bills_at_once_are_two(autojump_clock: object) -> None:
    """What is in doubt of the one is none of the other's."""
    async with drive(bakery(), switches=Switches(pay_twice=True)) as world:
        sara = await asks(world, "cake", "tart")
        world.faults.add(Fault(operation="payment/verify", drop="after", times=1))
        world.faults.add(Fault(operation="invoice/verify", drop="after", times=1))
        await sara.pays()
        await sara.pays(invoice=True)
        await world.waits(hours=2)
        assert captures(world) == [1, 1]
        assert sorted(await given(sara)) == ["Your cake.", "Your tart."]
        assert (await sara.wallet())["IRR"] == WALLET - 2 * PRICE
