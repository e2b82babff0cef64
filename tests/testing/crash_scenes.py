"""A shop whose process is killed at any act, and scenes to be played in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs
import pytest
import trio

from tests.stores import payments_of
from triobot import Bot, Chat, Key
from triobot.conversations.charges.paid import Paid, paid
from triobot.conversations.workload import CommitQueue
from triobot.errors import DeliveryUnknownError, PaymentDeclinedError
from triobot.filters import command, text
from triobot.seams.writes import Write
from triobot.testing import DrivenWorld, drive
from triobot.testing.process import CrashableStore, CrashableTransport

PRICE = 200_000
PIZZAS = Key("pizzas", int, default=0)


@attrs.frozen
class Pizza:
    """What is sold; the large one is asked about."""

    size: int = 1


class Pizzeria:
    """A bot that sells one pizza, and what its oven was told.

    Attributes:
        baked: the keys that the oven got.
        redelivered: whether one of them was marked so.
        kept: how many pizzas the chat keeps.
        alarms: the kinds of all alarms.
    """

    def __init__(self) -> None:
        self.bot = Bot()
        self.baked: list[str] = []
        self.redelivered = False
        self.kept = 0
        self.said = ""
        self.alarms: set[str] = set()

        @self.bot.interrupt(command("cancel"))
        async def cancel(chat: Chat) -> None:
            await chat.send("Cancelled.")

        @self.bot.aside(paid(Pizza))
        async def deliver(chat: Chat[Paid[Pizza]]) -> None:
            self.redelivered |= chat.event.redelivered
            if chat.event.item.size > 1:
                await chat.ask("Where to?")
            await chat.step(self.bake, chat.event.key)
            chat.data[PIZZAS] += 1
            await chat.send("Here it is.")

        @self.bot.conversation(text("bill"))
        async def bill(chat: Chat) -> None:
            try:
                await chat.invoice(PRICE, "Pizza", item=Pizza(), expires=1800)
            except DeliveryUnknownError:
                return await chat.send("Perhaps.")
            await chat.send("Thank you.")
            return None

        @self.bot.conversation(text("large"))
        async def large(chat: Chat) -> None:
            await chat.charge(PRICE, "Pizza", item=Pizza(2))
            await chat.ask("Anything else?")
            await chat.send("Bye.")

        @self.bot.conversation(text("hurry"))
        async def hurry(chat: Chat) -> None:
            with chat.move_on_after(61) as limit:
                await chat.charge(PRICE, "Pizza", item=Pizza(), late="refund")
                await chat.ask("Anything else?")
            await chat.send("Too late." if limit.cancelled_caught else "In time.")

        @self.bot.conversation(text("buy"))
        async def buy(chat: Chat) -> None:
            try:
                no = await chat.charge(PRICE, "Pizza", item=Pizza(), options={"no": "No, thanks"})
            except PaymentDeclinedError:
                return await chat.send("Declined.")
            if no:
                return await chat.send("Another time.")
            await chat.send("Thank you.")
            return None

    async def bake(self, key: str) -> None:
        await trio.lowlevel.checkpoint()
        self.baked.append(key)


def write_one_by_one(patch: pytest.MonkeyPatch) -> None:
    """Store each unit by itself, as is done where one of them is refused."""
    commit = CommitQueue._commit

    async def commit_each(queue: CommitQueue, units: Sequence[Any]) -> None:
        for unit in units:
            await commit(queue, [unit])

    patch.setattr(CommitQueue, "_commit", commit_each)


class Killer:
    """Kills the process at the nth thing that it does to its store or to the platform.

    Args:
        told: what code tells other places counts as well.
    """

    def __init__(self, patch: pytest.MonkeyPatch, at: int, *, told: bool = False) -> None:
        self.at = at
        self.count = 0
        self.world: DrivenWorld | None = None
        self.nursery: trio.Nursery | None = None
        commit, request = CrashableStore.commit, CrashableTransport.handle_async_request
        accept, note_consumed = CrashableStore.accept, CrashableStore.note_consumed

        def die_and_note(store: CrashableStore, seqs: Sequence[int]) -> bool:
            self.acted(store._mortal)
            return note_consumed(store, seqs)

        async def commit_and_die(store: CrashableStore, *writes: Write) -> None:
            await commit(store, *writes)
            self.acted(store._mortal)

        async def accept_and_die(store: CrashableStore, *args: Any, **rest: Any) -> Any:
            accepted = await accept(store, *args, **rest)
            # The platform's own events are acts of the people in the scene.
            if rest.get("also") or (told and args[0].content_type.startswith("triobot/")):
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
        patch.setattr(CrashableStore, "note_consumed", die_and_note)
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
        rows = await payments_of(world)
        pizzeria.said = await world.transcript()
        pizzeria.kept = await pizzeria.bot.to(ali.chat_id).get(PIZZAS)
        pizzeria.alarms = {alarm.kind for alarm in world.alarms}
        wallet = (await ali.wallet())["IRR"]
        assert wallet == 10 * PRICE - PRICE * len(set(pizzeria.baked))
        # The oven knows the key; what the bot itself keeps is given once, without one.
        assert pizzeria.kept == len(set(pizzeria.baked))
        assert not pizzeria.redelivered
        assert not any(kind.startswith(("captured", "handler", "granted")) for kind in pizzeria.alarms)
        world.alarms.clear()
        return killer.count, [row.state for row in rows]
