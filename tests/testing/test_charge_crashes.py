"""A charge outlives the process, whenever that is killed: paid once, given, settled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio

from triobot import Bot, Chat
from triobot.conversations.paid import Paid, paid
from triobot.emulator.faults import Fault
from triobot.filters import command, text
from triobot.seams import Write
from triobot.testing import DrivenWorld, drive
from triobot.testing.mortal import MortalStore, MortalTransport

PRICE = 200_000


@attrs.frozen
class Pizza:
    """What is sold."""

    size: int = 1


class Pizzeria:
    """A bot that sells one pizza, and what its oven was told."""

    def __init__(self) -> None:
        self.bot = Bot()
        self.baked: list[str] = []
        self.late: list[str] = []
        self.redelivered: list[bool] = []
        self.given = 0

        @self.bot.interrupt(command("cancel"))
        async def cancel(chat: Chat) -> None:
            await chat.send("Cancelled.")

        @self.bot.aside(paid(Pizza))
        async def late(chat: Chat[Paid[Pizza]]) -> None:
            self.late.append(chat.event.key)
            self.redelivered.append(chat.event.redelivered)
            await chat.step(self.bake, chat.event.key)
            await chat.send("Late, but here.")

        @self.bot.conversation(text("buy"))
        async def buy(chat: Chat) -> None:
            money = await chat.charge(PRICE, "Pizza", item=Pizza(), options={"no": "No, thanks"})
            if not isinstance(money, Paid):
                return await chat.send("Another time.")
            await chat.step(self.bake, money.key)
            await chat.send("Here it is.")
            return None

    async def bake(self, key: str) -> None:
        await trio.lowlevel.checkpoint()
        self.baked.append(key)


class Killer:
    """Kills the process at the nth thing that it does to its store or to the platform."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int) -> None:
        self.at = at
        self.count = 0
        self.world: DrivenWorld | None = None
        self.nursery: trio.Nursery | None = None
        commit, request = MortalStore.commit, MortalTransport.handle_async_request

        async def commit_and_die(store: MortalStore, *writes: Write) -> None:
            await commit(store, *writes)
            self.acted(store._mortal)

        async def ask_and_die(transport: MortalTransport, asked: Any) -> Any:
            self.acted(transport._mortal)
            answer = await request(transport, asked)
            self.acted(transport._mortal)
            if transport._mortal.dead:
                await trio.sleep_forever()
            return answer

        patch.setattr(MortalStore, "commit", commit_and_die)
        patch.setattr(MortalTransport, "handle_async_request", ask_and_die)

    def acted(self, mortal: Any) -> None:
        if self.nursery is None or self.world is None or mortal.dead:
            return
        self.count += 1
        if self.count == self.at:
            mortal.die()
            self.nursery.start_soon(self.world.crashes)


Scene = Callable[[DrivenWorld, Any], Awaitable[None]]

# How many acts a scene has differs by a few: commits that come together become one, and threads say which do.
# Each scene is killed at every act up to its most, and must have had its fewest.


async def play(pizzeria: Pizzeria, patch: pytest.MonkeyPatch, at: int, scene: Scene) -> tuple[int, list[str]]:
    """Play a scene with a crash at its nth act; returns how many acts it had, and the payments' states."""
    killer = Killer(patch, at)
    async with drive(pizzeria.bot, attempts=100) as world:
        ali = world.user("Ali", wallet=10 * PRICE)
        await ali.joins()
        await world.waits(seconds=5)
        async with trio.open_nursery() as nursery:
            killer.world, killer.nursery = world, nursery
            await scene(world, ali)
            await world.waits(hours=3)
            killer.nursery = None
        rows = await world._process._intake.store.payments.find(limit=9)  # type: ignore[union-attr]
        pizzeria.given = (await world.transcript()).count("but here.")
        wallet = (await ali.wallet())["IRR"]
        assert wallet == 10 * PRICE - PRICE * len(set(pizzeria.baked))
        world.alarms.clear()
        return killer.count, [row.state for row in rows]


async def buys(world: DrivenWorld, ali: Any) -> None:
    """Ali buys, and pays a minute later."""
    await ali.says("buy")
    await world.waits(seconds=60)
    await ali.pays()
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


@pytest.mark.parametrize("at", range(1, 28))
async def test_what_is_bought_is_given_whenever_the_process_is_killed(
    at: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    pizzeria = Pizzeria()
    count, states = await play(pizzeria, monkeypatch, at, buys)
    assert count >= min(at, 22)
    assert len(set(pizzeria.baked)) == 1
    assert states == ["settled"]
    assert pizzeria.late == []


@pytest.mark.parametrize("at", range(1, 52))
async def test_money_that_comes_late_is_given_by_the_aside_whenever_the_process_is_killed(
    at: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    pizzeria = Pizzeria()
    count, states = await play(pizzeria, monkeypatch, at, pays_late)
    assert count >= min(at, 40)
    assert len(set(pizzeria.baked)) == 1
    assert len(set(pizzeria.late)) <= 1
    assert states == ["settled"]
    # One crash may repeat what was in flight, and nothing else: the aside began once.
    assert len(pizzeria.baked) + pizzeria.given <= 3


@pytest.mark.parametrize("at", range(1, 20))
async def test_another_button_ends_the_charge_whenever_the_process_is_killed(
    at: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    pizzeria = Pizzeria()
    count, states = await play(pizzeria, monkeypatch, at, declines)
    assert count >= min(at, 15)
    assert pizzeria.baked == []
    assert states == ["lapsed"]


@pytest.mark.parametrize("at", range(1, 34))
async def test_a_top_up_on_the_way_whenever_the_process_is_killed(
    at: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    pizzeria = Pizzeria()
    count, states = await play(pizzeria, monkeypatch, at, tops_up)
    assert count >= min(at, 27)
    assert len(set(pizzeria.baked)) == 1
    assert states == ["settled"]
    assert pizzeria.late == []


async def test_what_is_paid_while_the_process_is_down_is_given(autojump_clock: object) -> None:
    pizzeria = Pizzeria()
    async with drive(pizzeria.bot, attempts=5) as world:
        ali = world.user("Ali", wallet=PRICE)
        await ali.joins()
        await ali.says("buy")
        await ali.sees("Pizza")
        await world._process.kill()
        await ali.pays()
        await world.waits(minutes=10)  # the platform has stopped telling
        assert pizzeria.baked == []
        await world._process.start()
        await ali.sees("Here it is.")
        assert len(pizzeria.baked) == 1
        assert pizzeria.late == []


async def test_what_a_conversation_had_that_does_not_survive_is_for_the_aside(autojump_clock: object) -> None:
    """With the same key, and the mark that it may have been given."""
    pizzeria, had = Pizzeria(), list[str]()

    @pizzeria.bot.conversation(text("quick"), durable=False)
    async def quick(chat: Chat) -> None:
        money = await chat.charge(PRICE, "Pizza", item=Pizza())
        had.append(money.key)
        await chat.sleep(3600)

    # It counts what the code does between its operations.
    async with drive(pizzeria.bot, replay_check=False) as world:
        ali = world.user("Ali", wallet=PRICE)
        await ali.joins()
        await ali.says("quick")
        await ali.sees("Pizza")
        await ali.pays()
        await world.waits(seconds=10)
        assert len(had) == 1
        await world.crashes()
        await ali.sees("Late, but here.")
        assert pizzeria.baked == had
        assert pizzeria.redelivered == [True]
