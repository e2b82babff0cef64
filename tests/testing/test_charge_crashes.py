"""A charge outlives the process, whenever that is killed: paid once, given, settled."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import trio
from crash_scenes import PRICE, Pizza, Pizzeria, play

from tests.samples import sample
from triobot import Bot, Chat
from triobot.conversations.charges.paid import Paid, paid
from triobot.emulator.faults import Fault
from triobot.emulator.person import AppError
from triobot.testing import DrivenWorld, drive


async def buys(world: DrivenWorld, ali: Any) -> None:
    """Ali buys, and pays a minute later."""
    await ali.says("buy")
    await world.waits(seconds=60)
    await ali.pays()
    await world.waits(seconds=60)


async def says_where_to(world: DrivenWorld, ali: Any) -> None:
    """Ali buys what the aside asks about, and takes some time for the answers."""
    await ali.says("large")
    await world.waits(seconds=60)
    await ali.pays()
    await world.waits(seconds=60)
    await ali.says("Valiasr")
    await world.waits(seconds=60)
    await ali.says("No")
    await world.waits(seconds=60)


async def walks_away(world: DrivenWorld, ali: Any) -> None:
    """Ali pays, and cancels in the next moment; what the aside wants to know is said all the same."""
    await ali.says("large")
    await world.waits(seconds=60)
    await ali.pays()
    await world.waits(seconds=1)
    await ali.says("/cancel")
    await world.waits(seconds=60)
    await ali.says("Valiasr")
    await world.waits(seconds=60)


async def is_in_a_hurry(world: DrivenWorld, ali: Any) -> None:
    """Ali pays when the time is nearly over."""
    await ali.says("hurry")
    await world.waits(seconds=60)
    with suppress(AppError):
        await ali.pays(within=0)
    await world.waits(seconds=60)


async def pays_late(world: DrivenWorld, ali: Any) -> None:
    """Ali cancels, and pays in spite of it: the button can't be taken away."""
    world.faults.add(Fault(operation="editMessage", status=500))
    await ali.says("buy")
    await world.waits(seconds=60)
    await ali.says("/cancel")
    await world.waits(seconds=10)
    await ali.pays()
    world.faults.clear()
    await world.waits(seconds=60)


async def tops_up(world: DrivenWorld, ali: Any) -> None:
    """Ali has too little, and is told so."""
    await ali.says("buy")
    await world.waits(seconds=60)
    await ali.pays(code=1000)
    await world.waits(seconds=60)
    await ali.pays()
    await world.waits(seconds=60)


async def declines(world: DrivenWorld, ali: Any) -> None:
    """Ali presses the other button."""
    await ali.says("buy")
    await world.waits(seconds=60)
    await ali.presses("No, thanks")
    await world.waits(seconds=60)


async def is_refused(world: DrivenWorld, ali: Any) -> None:
    """The platform says that the button is wrong."""
    await ali.says("buy")
    await world.waits(seconds=60)
    await ali.pays(code=1002)
    await world.waits(seconds=60)


@pytest.mark.parametrize("at", sample(range(1, 25)))
async def test_what_is_bought_is_given_whenever_the_process_is_killed(
    at: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    pizzeria = Pizzeria()
    count, states = await play(pizzeria, monkeypatch, at, buys)
    assert count >= min(at, 19)
    assert len(set(pizzeria.baked)) == 1
    assert states == ["settled"]
    assert pizzeria.said.count("Thank you.") >= 1


@pytest.mark.parametrize("at", sample(range(1, 34)))
async def test_a_delivery_that_asks_is_given_whenever_the_process_is_killed(
    at: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    """And who waits for it goes on with the next question."""
    pizzeria = Pizzeria()
    count, states = await play(pizzeria, monkeypatch, at, says_where_to)
    assert count >= min(at, 24)
    assert len(set(pizzeria.baked)) == 1
    assert states == ["settled"]
    assert "Bye." in pizzeria.said


@pytest.mark.parametrize("at", sample(range(1, 34)))
async def test_who_walks_away_while_it_is_given_is_given_once_whenever_the_process_is_killed(
    at: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    """Before the goods are there, or behind a further question."""
    pizzeria = Pizzeria()
    count, states = await play(pizzeria, monkeypatch, at, walks_away)
    assert count >= min(at, 24)
    assert len(set(pizzeria.baked)) == 1
    assert states == ["settled"]
    assert "Cancelled." in pizzeria.said


@pytest.mark.parametrize("at", sample(range(1, 26)))
async def test_who_is_in_a_hurry_is_given_once_whenever_the_process_is_killed(
    at: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    """The time limit comes a moment after the payment; what comes too late for the goods goes back."""
    pizzeria = Pizzeria()
    count, states = await play(pizzeria, monkeypatch, at, is_in_a_hurry)
    assert count >= min(at, 19)
    assert states == (["settled"] if pizzeria.baked else ["lapsed"])
    assert ("Here it is." in pizzeria.said) is bool(pizzeria.baked)


@pytest.mark.parametrize("at", sample(range(1, 52)))
async def test_money_that_comes_late_is_given_by_the_aside_whenever_the_process_is_killed(
    at: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    pizzeria = Pizzeria()
    count, states = await play(pizzeria, monkeypatch, at, pays_late)
    assert count >= min(at, 37)
    assert len(set(pizzeria.baked)) == 1
    assert states == ["settled"]
    # One crash may repeat what was in flight, and nothing else: the aside began once.
    assert len(pizzeria.baked) + pizzeria.said.count("Here it is.") <= 3


@pytest.mark.slow
@pytest.mark.parametrize("at", sample(range(1, 20)))
async def test_another_button_ends_the_charge_whenever_the_process_is_killed(
    at: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    pizzeria = Pizzeria()
    count, states = await play(pizzeria, monkeypatch, at, declines)
    assert count >= min(at, 15)
    assert pizzeria.baked == []
    assert states == ["lapsed"]


@pytest.mark.parametrize("at", sample(range(1, 34)))
async def test_a_top_up_on_the_way_whenever_the_process_is_killed(
    at: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    pizzeria = Pizzeria()
    count, states = await play(pizzeria, monkeypatch, at, tops_up)
    assert count >= min(at, 27)
    assert "balance is too low" in pizzeria.said
    assert len(set(pizzeria.baked)) == 1
    assert states == ["settled"]
    assert "Thank you." in pizzeria.said


@pytest.mark.slow
@pytest.mark.parametrize("at", sample(range(1, 24)))
async def test_a_decline_is_told_whenever_the_process_is_killed(
    at: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    pizzeria = Pizzeria()
    count, states = await play(pizzeria, monkeypatch, at, is_refused)
    assert count >= min(at, 18)
    assert "Declined." in pizzeria.said
    assert pizzeria.baked == []
    assert states == ["lapsed"]


@pytest.mark.parametrize("later", [0, 2])
async def test_what_is_paid_while_the_process_is_down_is_given(later: int, autojump_clock: object) -> None:
    """At once, whether or not the process had learned before it died that its button was there."""
    pizzeria = Pizzeria()
    async with drive(pizzeria.bot, attempts=5) as world:
        ali = world.user("Ali", wallet=PRICE)
        await ali.joins()
        await ali.says("buy")
        await ali.sees("Pizza")
        await world.waits(seconds=later)
        await world._process.kill()
        await ali.pays()
        await world.waits(minutes=10)  # the platform has stopped telling
        assert pizzeria.baked == []
        await world._process.start()
        await ali.sees("Here it is.")
        await ali.sees("Thank you.")
        assert len(pizzeria.baked) == 1


@pytest.mark.slow
async def test_a_button_that_was_sent_slowly_ends_with_its_life(autojump_clock: object) -> None:
    """The ledger takes a payment from who waits longer: a restart then would say that it was handed over."""
    bot, ends = Bot(), list[tuple[str, float]]()

    @bot.aside(paid(Pizza))
    async def late(chat: Chat[Paid[Pizza]]) -> None:
        """Nobody pays."""

    @bot.conversation
    async def sells(chat: Chat) -> None:
        try:
            await chat.charge(PRICE, "Pizza", item=Pizza())
        except Exception as error:
            ends.append((type(error).__name__, round(trio.current_time())))

    async with drive(bot, replay_check=False) as world:
        sara = world.user("Sara", wallet=PRICE)
        world.refuses(seconds=600)
        await sara.joins()
        await sara.sees("Pizza", within=1200)
        await world.waits(hours=25)

    assert ends == [("PaymentExpiredError", 24 * 3600)]
