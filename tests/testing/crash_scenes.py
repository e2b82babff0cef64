"""A shop whose process is killed at any act, and scenes to be played in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio

from triobot import Bot, Chat
from triobot.conversations.charges.paid import Paid, paid
from triobot.errors import DeliveryUnknownError, PaymentDeclinedError
from triobot.filters import command, text
from triobot.seams import Write
from triobot.testing import DrivenWorld, drive
from triobot.testing.process import CrashableStore, CrashableTransport

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
        self.said = ""

        @self.bot.interrupt(command("cancel"))
        async def cancel(chat: Chat) -> None:
            await chat.send("Cancelled.")

        @self.bot.aside(paid(Pizza))
        async def late(chat: Chat[Paid[Pizza]]) -> None:
            self.late.append(chat.event.key)
            self.redelivered.append(chat.event.redelivered)
            await chat.step(self.bake, chat.event.key)
            await chat.send("Late, but here.")

        @self.bot.conversation(text("bill"))
        async def bill(chat: Chat) -> None:
            try:
                money = await chat.invoice(PRICE, "Pizza", item=Pizza(), expires=1800)
            except DeliveryUnknownError:
                return await chat.send("Perhaps.")
            await chat.step(self.bake, money.key)
            await chat.send("Here it is.")
            return None

        @self.bot.conversation(text("buy"))
        async def buy(chat: Chat) -> None:
            try:
                money = await chat.charge(PRICE, "Pizza", item=Pizza(), options={"no": "No, thanks"})
            except PaymentDeclinedError:
                return await chat.send("Declined.")
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
        commit, request = CrashableStore.commit, CrashableTransport.handle_async_request
        accept = CrashableStore.accept

        async def commit_and_die(store: CrashableStore, *writes: Write) -> None:
            await commit(store, *writes)
            self.acted(store._mortal)

        async def accept_and_die(store: CrashableStore, *args: Any, **rest: Any) -> Any:
            accepted = await accept(store, *args, **rest)
            if rest.get("also"):  # the platform's own events are acts of the people in the scene
                self.acted(store._mortal)
            return accepted

        async def ask_and_die(transport: CrashableTransport, asked: Any) -> Any:
            self.acted(transport._mortal)
            answer = await request(transport, asked)
            self.acted(transport._mortal)
            if transport._mortal.dead:
                await trio.sleep_forever()
            return answer

        patch.setattr(CrashableStore, "commit", commit_and_die)
        patch.setattr(CrashableStore, "accept", accept_and_die)
        patch.setattr(CrashableTransport, "handle_async_request", ask_and_die)

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
        # What may be on the screen twice is watched for a day longer.
        await world.waits(hours=24)
        rows = await world._process._intake.store.payments.find(limit=9)  # type: ignore[union-attr]
        pizzeria.said = await world.transcript()
        pizzeria.given = pizzeria.said.count("but here.")
        wallet = (await ali.wallet())["IRR"]
        assert wallet == 10 * PRICE - PRICE * len(set(pizzeria.baked))
        world.alarms.clear()
        return killer.count, [row.state for row in rows]
