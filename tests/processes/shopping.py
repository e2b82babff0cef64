"""A bot that sells in the middle of its questions, and people who buy from it while its processes suffer."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import final

import attrs

from tests.loopback import Platform, pay_event, text_event
from tests.processes.lane import TRANSPORT
from tests.processes.ordering import Customer
from triobot import Bot, Chat, Paid
from triobot.filters import paid, text

PRICE = 200_000
OVEN = Path(os.environ.get("OVEN", "oven"))

bot = Bot(transport=TRANSPORT)


@attrs.frozen
class Meal:
    """What is bought: this chat's order of this number."""

    order: str


async def serve(key: str, order: str) -> None:
    """Every other key is one more meal."""
    with OVEN.open("a") as oven:
        oven.write(f"{key} {order}\n")


@bot.conversation(text())
async def sell(chat: Chat) -> None:
    number = getattr(chat.event, "content", "?")
    name = await chat.ask(f"{number}: Name?")
    await chat.charge(PRICE, f"{number}: Pay", item=Meal(f"{chat.id}.{number}"))
    more = await chat.ask(f"{number}: Anything else?")
    await chat.send(f"{number}: {name}, {more}.")


@bot.aside(paid(Meal))
async def give(chat: Chat[Paid[Meal]]) -> None:
    await chat.step(serve, chat.event.key, chat.event.item.order)


@final
@attrs.frozen
class Buyer(Customer):
    """Somebody who buys."""

    async def order(self, number: int) -> None:
        """One meal, from the first word to the bot's last."""
        await self.post(text_event(self.chat, f"{number}"))
        await self.sees(f"{number}: Name?")
        await self.post(text_event(self.chat, f"Buyer {number}"))
        await self.sees(f"{number}: Pay")
        # Whatever came twice is one bill.
        ref_id, bill = list(self.platform.bills[self.chat].items())[-1]
        bill.paid = True
        await self.post(pay_event(self.chat, ref_id, bill.message_id))
        await self.sees(f"{number}: Anything else?")
        await self.post(text_event(self.chat, f"no {number}"))
        await self.sees(f"{number}: Buyer")


def check_bought(platform: Platform, keys: Mapping[str, set[str]], chat: int, orders: int) -> None:
    """A chat has heard everything in order, and has paid for each meal and got it, once.

    What had begun to leave when its node stood still may come once more, late: that is counted elsewhere.
    """
    heard = list(dict.fromkeys(platform.texts[chat]))
    assert heard == [
        said
        for number in range(orders)
        for said in (
            f"{number}: Name?",
            f"{number}: Pay",
            f"{number}: Anything else?",
            f"{number}: Buyer {number}, no {number}.",
        )
    ], platform.texts[chat]
    bills = platform.bills[chat].values()
    assert len(bills) == orders
    assert all(bill.paid and bill.verified for bill in bills)
    # A process that died in the step is asked for it again, under the same key.
    assert [len(keys[f"{chat}.{number}"]) for number in range(orders)] == [1] * orders


def keys_in(oven: Path) -> Mapping[str, set[str]]:
    """The keys under which each meal was given."""
    found = defaultdict[str, set[str]](set)
    for line in oven.read_text().splitlines():
        key, order = line.split()
        found[order].add(key)
    return found
