"""A frozen dataclass is accepted wherever a frozen attrs class is: here in each of these places."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from triobot import Bot, Buttons, Chat, Key, Match, Paid, Press, formerly
from triobot.filters import command, matches, paid, pressed, signal
from triobot.seams.values import decode_value, encode_value, recorded
from triobot.testing import drive


@dataclass(frozen=True)
class Take:
    """A button's key."""

    order: int


@dataclass(frozen=True)
class Details:
    """A form, and an item of an order."""

    street: str
    floor: int = 0
    sort: Literal["home", "office"] = "home"


@dataclass(frozen=True)
class Ready:
    """A signal, and a step's result."""

    order: int


@dataclass(frozen=True)
class Line:
    """What a pattern takes."""

    count: int
    what: str = "pizzas"


LAST = Key("last details", Details)


async def bake(line: Line) -> Ready:
    return Ready(line.count)


def shop() -> Bot:
    bot = Bot()

    @bot.aside(paid(Details))
    async def deliver(chat: Chat[Paid[Details]]) -> None:
        await chat.send(f"to {chat.event.item.street}")
        chat.data[LAST] = chat.event.item

    @bot.aside(pressed(Take))
    async def take(chat: Chat[Press[Take]]) -> None:
        await chat.answer("taken")
        await chat.to(chat.id).signal(Ready(chat.event.value.order))

    @bot.conversation(matches(r"(?P<count>\d+)", Line))
    async def order(chat: Chat[Match[Line]]) -> None:
        ready = await chat.step(bake, chat.event.value)
        details = await chat.fill(Details, "Where?")
        chat.data[LAST] = details
        await chat.send("An order", buttons=Buttons({Take(ready.order): "Take"}))
        told = await chat.receive(signal(Ready))
        await chat.charge(100, f"Order {told.order}", item=chat.data[LAST])

    @bot.conversation(command("last"))
    async def last(chat: Chat) -> None:
        await chat.send(str(chat.data[LAST].floor))

    return bot


async def test_a_dataclass_goes_wherever_an_attrs_class_goes(autojump_clock: object) -> None:
    """And comes back after a crash at each place."""
    async with drive(shop()) as world:
        ali = world.user("Ali", wallet=1_000)
        await ali.joins()
        await ali.says("3")
        await ali.sees("Where?")
        await world.crashes()
        await ali.submits({"street": "Main Road", "floor": "2", "sort": "office"})
        await ali.sees("An order")
        await world.crashes()
        await ali.presses("Take")
        await ali.sees("Order 3")
        await world.crashes()
        await ali.pays()
        await ali.sees("to Main Road")
        await ali.says("/last")
        await ali.sees("2")


@recorded(gone=("zip",))
@dataclass(frozen=True)
class Moved:
    """A class whose fields have changed."""

    street: str = field(metadata=formerly("road"))
    floor: int = 7


def test_a_changed_dataclass_reads_what_is_stored_as_an_attrs_class_does() -> None:
    stored = encode_value(Moved("Main Road", 1)).replace('"street"', '"road"').replace('"floor"', '"zip"')
    assert decode_value(stored) == Moved("Main Road", 7)
