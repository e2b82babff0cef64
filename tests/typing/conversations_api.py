"""Never run, only type-checked: what the author's API promises to mypy and pyright.

Where a line must be an error, an ignore says so; a type checker that finds nothing there complains of it.
"""

# pyright: strict

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Literal, assert_type
from uuid import UUID

import attrs

from triobot.conversations.chat import Chat, Room
from triobot.conversations.questions.buttons import Buttons
from triobot.conversations.routes.filters import Command, Filter, command, join, message, pressed, text, when
from triobot.conversations.routes.router import Router, Tick
from triobot.wire.content import Contact, Content, File, Image, Location
from triobot.wire.events import Event, Join, Message, Press
from triobot.wire.results import Sent

bot = Router()


class Size(Enum):
    """A key of buttons."""

    SMALL = "s"
    LARGE = "l"


@attrs.frozen
class Order:
    """An item, and a form."""

    name: str
    size: Literal["s", "l"]


def parse_size(words: str) -> Size:
    return Size(words)


# --- filters carry the type of what they take


assert_type(command("start"), Filter[Command])
assert_type(message(), Filter[Message[Content]])
assert_type(message(File), Filter[Message[File]])
assert_type(text("back"), Filter[Message[str]])
assert_type(pressed(), Filter[Press[str]])
assert_type(command("start") | join(), Filter[Command | Join])
assert_type(text() & when(lambda event: event.sender is None), Filter[Message[str]])
assert_type(~text(), Filter[Event])


# --- a route's coroutine takes a Chat of its filter's type


@bot.conversation
async def bare(chat: Chat) -> None:
    """Plain `Chat` fits every filter."""


@bot.conversation(command("start"))
async def plain(chat: Chat) -> None:
    """Here, too."""


@bot.conversation(command("start"))
async def started(chat: Chat[Command]) -> None:
    assert_type(chat.event, Command)
    assert_type(chat.event.rest, str)


@bot.interrupt(command("cancel") | join())
async def either(chat: Chat[Command | Join]) -> None:
    assert_type(chat.event, Command | Join)


@bot.aside(message(File))
async def filed(chat: Chat[Message[File]]) -> None:
    assert_type(chat.event.content, File)


@bot.aside(message(File))
async def wider(chat: Chat[Message[Content]]) -> None:
    """What takes any message takes one with a file."""


@bot.conversation(command("start"))  # type: ignore[arg-type]
async def wrong_event(chat: Chat[Join]) -> None:
    """A command is no join."""


@bot.conversation(command("start") | join())  # type: ignore[arg-type]
async def too_narrow(chat: Chat[Join]) -> None:
    """It may be a command."""


@bot.conversation  # type: ignore[arg-type]
async def no_chat() -> None:
    """A conversation has a chat."""


# The decorated function comes back as it was: it can be awaited as a part of another.
async def outer(chat: Chat) -> None:
    await plain(chat)
    await bare(chat)


# --- asking


@bot.around
async def around(room: Room, call: Callable[[], Awaitable[None]]) -> None:
    assert_type(room.replaying, bool)
    assert_type(room.route, str)
    await call()


@bot.every("0 9 * * SAT", tz=UTC)
async def weekly(job: Room[Tick]) -> None:
    assert_type(job.event, Tick)
    assert_type(job.event.due, datetime)


@bot.every(timedelta(hours=1), missed="skip")
async def hourly(job: Room) -> None:
    """A job may leave its tick alone."""


@bot.every(timedelta(hours=1))  # type: ignore[arg-type]
async def of_a_join(job: Room[Join]) -> None:
    """A job begins by a tick."""


@bot.around  # type: ignore[arg-type]
async def of_one_event(chat: Chat[Join], call: Callable[[], Awaitable[None]]) -> None:
    """A hook is around routes of all events."""


@bot.around  # type: ignore[arg-type]
async def without_call(chat: Chat) -> None:
    """A hook gets `call`."""


async def asks(chat: Chat) -> None:
    assert_type(await chat.send("hi"), Sent)
    assert_type(await chat.ask("Name?"), str)
    assert_type(await chat.ask("Name?", str), str)
    assert_type(await chat.ask("Age?", int), int)
    assert_type(await chat.ask("Weight?", float), float)
    assert_type(await chat.ask("Size?", parse_size), Size)
    assert_type(await chat.ask("Where?", Location), Location)
    assert_type(await chat.ask("Picture?", Image), Image)
    assert_type(await chat.ask("Phone?", Contact), Contact)
    await chat.ask("Sure?", timeout=5)  # type: ignore[call-overload]


async def chooses(chat: Chat) -> None:
    assert_type(await chat.choose("?", {"s": "Small"}), str)
    assert_type(await chat.choose("?", {1: "One"}), int)
    assert_type(await chat.choose("?", {True: "Yes", False: "No"}), bool)
    assert_type(await chat.choose("?", {Size.SMALL: "Small", Size.LARGE: "Large"}), Size)
    mixed = Buttons({Size.SMALL: "Small"}) + Buttons({0: "Back"}).link("Site", "https://a.example")
    assert_type(await chat.choose("?", mixed), Size | int)
    await chat.choose("?", ["Small"])  # type: ignore[arg-type]


async def receives(chat: Chat) -> None:
    assert_type(await chat.receive(command("go") | join()), Command | Join)
    assert_type(await chat.receive(message(File)), Message[File])
    assert_type(chat.drain(), Sequence[Event])
    assert_type(await chat.fill(Order), Order)


async def charges(chat: Chat) -> None:
    order = Order("Ali", "s")
    assert_type(await chat.charge(1000, "Pizza", item=order, options={"no": "Not now"}), str | None)
    paid = await chat.charge(1000, "Pizza", item=order)  # type: ignore[func-returns-value]
    paid = await chat.invoice(1000, "Pizza", item=7)  # type: ignore[func-returns-value]
    assert_type(paid, None)
    await chat.charge(1000, "Pizza")  # type: ignore[call-arg]
    await chat.charge(1000, "Pizza", item=1, currency="USD")  # type: ignore[arg-type]


# --- time, steps and branches


async def book(number: int, name: str) -> Order:
    return Order(name, "s")


async def works(chat: Chat) -> None:
    assert_type(await chat.step(book, 1, "Ali"), Order)
    assert_type(await chat.step(book, 1, "Ali", raises=ValueError), Order)
    await chat.step(book, "one", "Ali")  # type: ignore[arg-type]
    await chat.step(book, 1)  # type: ignore[arg-type]
    with chat.fail_after(10) as scope:
        name = await chat.ask("Name?")
    assert_type(name, str)
    assert_type(scope.cancelled_caught, bool)
    with chat.move_on_after(10) as limit:
        pass
    assert_type(limit.cancelled_caught, bool)
    async with chat.open_nursery() as nursery:
        nursery.start_soon(asks, chat)
        nursery.start_soon(book, 1, "Ali")
        nursery.start_soon(book, "one", "Ali")  # type: ignore[arg-type]
    values = chat.open_channel(int, 3)
    await values.send(1)
    await values.send("one")  # type: ignore[arg-type]
    assert_type(await values.receive(), int)
    assert_type(await chat.open_channel(int | None).receive(), int | None)
    assert_type(chat.open_event().is_set(), bool)


async def replays(chat: Chat) -> None:
    assert_type(chat.now(), datetime)
    assert_type(chat.random().random(), float)
    assert_type(chat.uuid(), UUID)
    assert_type(chat.patched("prices"), bool)
