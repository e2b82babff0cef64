"""Filters that narrow: texts by a pattern with typed groups, and what any filter takes by a condition."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal

import attrs
import pytest

from triobot import Bot, Chat, Match
from triobot.conversations.routes.filters import Filter, Setting, command, join, text
from triobot.conversations.routes.matching import matches
from triobot.errors import ConfigError
from triobot.filters import pressed, signal
from triobot.testing import drive
from triobot.wire.content import Image
from triobot.wire.events import Event, Join, Message, Press, Sender

ALI = Sender(71, "Ali", "ali")


class Size(enum.Enum):
    """What a pizza may be."""

    SMALL = "s"
    LARGE = "l"


def _positive(instance: object, attribute: object, value: int) -> None:
    if value <= 0:
        raise ValueError("must be positive")


@attrs.frozen
class Order:
    """What is typed in one line."""

    number: int = attrs.field(validator=_positive)
    size: Size = Size.SMALL
    price: Decimal | None = None
    where: Literal["here", "home"] = "here"
    note: str = ""


LINE = r"(?P<number>\d+) pizzas?(?: (?P<size>\w))?(?: at (?P<price>[\d.]+))?(?: (?P<where>\w+))?(?P<note>!*)"


def look(taken: Filter[Any], words: object) -> Any:
    return taken.look(Message(5, words, ALI), Setting())


@pytest.mark.parametrize(
    ("words", "order"),
    [
        ("2 pizzas", Order(2)),
        (" 1 pizza l \n", Order(1, Size.LARGE)),
        ("۱۲ pizzas at 3.50", Order(12, price=Decimal("3.50"))),
        ("2 pizzas s at 3 home!!", Order(2, Size.SMALL, Decimal(3), "home", "!!")),
        ("2 pizzas or so", None),
        ("0 pizzas", None),
        ("1 pizza x", None),
        ("1 pizza at 1.2.3", None),
        ("1 pizza there", None),
        ("pizza", None),
    ],
)
def test_groups_are_fields(words: str, order: Order | None) -> None:
    """What the pattern, a field's type or a validator refuses isn't taken."""
    taken = look(matches(LINE, Order), words)
    assert taken == (None if order is None else Match(5, words, order, ALI))


def test_only_texts_match() -> None:
    everything = matches(re.compile(".*", re.DOTALL), Nothing)
    assert look(everything, "a\nb") == Match(5, "a\nb", Nothing(), ALI)
    assert look(everything, Image.from_bytes(b"x", "a.png", "caption")) is None
    assert everything.look(Join(5), Setting()) is None


@attrs.frozen
class Nothing:
    """No group is wanted."""


@attrs.frozen
class Flagged:
    """A field of a type that no text has."""

    on: bool


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: matches("(", Nothing), "takes a regular expression"),
        (lambda: matches(3, Nothing), "takes a regular expression"),  # type: ignore[arg-type]
        (lambda: matches("a", int), "takes a frozen attrs class or dataclass, and int"),
        (lambda: matches("(?P<on>a)", Nothing), "a group is called 'on', and Nothing has no such field"),
        (lambda: matches("a", Order), "Order has a field 'number', and no group is called that"),
        (lambda: matches("(?P<on>a)", Flagged), "can't read Flagged.on: a group is a str"),
        (lambda: text().where(3), "where() takes a function"),  # type: ignore[arg-type]
        (lambda: text().where(_later), "where() takes a plain function"),  # type: ignore[arg-type]
    ],
)
def test_what_can_not_be_matched(make: Callable[[], object], says: str) -> None:
    """The error comes where the filter is made."""
    with pytest.raises(ConfigError, match=re.escape(says)):
        make()


async def _later(event: object) -> bool:
    return True


def test_a_condition_is_given_what_the_filter_makes() -> None:
    event: Event = Press(5, "b.i7", 1, "c", ALI)
    assert pressed(int).where(lambda press: press.value > 5).look(event, Setting()) is not None
    assert pressed(int).where(lambda press: press.value > 7).look(event, Setting()) is None
    late = command("at").where(lambda given: given.rest > "12")
    assert look(late, "/at 13").rest == "13"
    assert look(late, "/at 11") is None
    assert look(late | text("soon"), "soon").content == "soon"
    assert (late & join()).name == "(command(at).where(...) & join())"


async def test_a_match_outlives_the_process(autojump_clock: object) -> None:
    """What the pattern made of the text is recorded with the beginning, and with what is received."""
    bot = Bot()

    @bot.conversation(matches(LINE, Order))
    async def order(chat: Chat[Match[Order]]) -> None:
        again = await chat.receive(matches(LINE, Order).where(lambda other: other.value.number > 2))
        await chat.ask("Sure?")
        await chat.send(f"{chat.event.value.number} and {again.value.number}, {again.sender is not None}")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("2 pizzas l")
        await ali.says("1 pizza")
        await world.crashes()
        await ali.says("3 pizzas")
        await ali.sees("Sure?")
        await world.crashes()
        await ali.says("yes")
        await ali.sees("2 and 3, True")


async def test_signals_are_narrowed_by_a_field(autojump_clock: object) -> None:
    bot = Bot()

    @bot.conversation
    async def watch(chat: Chat) -> None:
        number = int(await chat.ask("Which?"))
        moved = await chat.receive(signal(Moved).where(lambda told: told.number == number))
        await chat.send(f"{moved.number} is {moved.place}")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Which?")
        await ali.says("2")
        await world.waits(seconds=1)
        for number in (1, 2):
            await bot.to(ali.chat_id).signal(Moved(number, f"at {number}"))
        await ali.sees("2 is at 2")


@attrs.frozen
class Moved:
    """Something is somewhere else now."""

    number: int
    place: str
