"""Buttons that live as long as their message."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from town import ALI, CHAT, SARA, TEXTS, open_town

from tests.samples import examples
from triobot.conversations.chat import Chat
from triobot.conversations.questions.buttons import Buttons
from triobot.conversations.questions.keys import decode_key, encode_key
from triobot.conversations.routes.filters import Setting, pressed, text
from triobot.conversations.routes.router import Router
from triobot.errors import ConfigError, LocalProtocolError
from triobot.wire.events import Press
from triobot.wire.results import Sent


class Size(Enum):
    SMALL = 1
    LARGE = 2


class Word(StrEnum):
    YES = "yes"


class Number(IntEnum):
    ONE = 1


@attrs.frozen
class Take:
    order: int
    size: Size = Size.SMALL
    notes: tuple[str, ...] = ()


@attrs.frozen
class Visit:
    day: dt.date
    hour: dt.time | None
    length: dt.timedelta
    asked: dt.datetime


@attrs.frozen
class Take2:
    order: int
    size: Size = Size.SMALL
    notes: tuple[str, ...] = ()


@attrs.frozen
class Picky:
    order: int = attrs.field(validator=attrs.validators.ge(1))


KEYS = (
    st.text()
    | st.integers()
    | st.booleans()
    | st.sampled_from([*Size, *Word, *Number])
    | st.dates()
    | st.datetimes(timezones=st.none() | st.just(dt.UTC))
    | st.times()
    | st.timedeltas()
    | st.builds(Take, st.integers(-(2**60), 2**60), st.sampled_from(Size), st.tuples(st.text()))
    | st.builds(Visit, st.dates(), st.none() | st.times(), st.timedeltas(), st.datetimes())
)


@given(KEYS)
@settings(max_examples=examples(200))
def test_a_key_comes_back_as_the_same_value(key: object) -> None:
    """Of the same class, too: a bool is no int, and an IntEnum neither."""
    back = decode_key(type(key), encode_key(key))
    assert back == key
    assert type(back) is type(key)


@given(
    KEYS,
    st.sampled_from(
        [str, int, bool, dt.date, dt.datetime, dt.time, dt.timedelta, Size, Word, Number, Take, Take2]
    ),
)
@settings(max_examples=examples(200))
def test_a_key_is_no_key_of_another_class(key: object, other: type) -> None:
    if other is not type(key):
        assert decode_key(other, encode_key(key)) is None


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (Take, "vTake{}"),
        (Take, 'vTake{"order":"1","size":1,"notes":[]}'),
        (Take, 'vTake{"order":1,"size":3,"notes":[]}'),
        (Take, 'vTake{"order":1,"size":1,"notes":[],"more":1}'),
        (Take, 'vTake{"order":1,"size":1,"notes":[]} '),
        (Take, 'vTake{"notes":[],"order":1,"size":1}'),
        (Take, "vTake"),
        (Take, "vTake" + "[" * 100_000),
        (Picky, 'vPicky{"order":0}'),
        (Size, "eSize.HUGE"),
        (Size, "eSMALL"),
        (dt.date, "d20260101"),
        (dt.date, "d2026-02-30"),
        (dt.date, "m2026-01-01T00:00:00"),
        (dt.datetime, "d2026-01-01"),
        (dt.datetime, "m2026-01-01 00:00:00"),
        (dt.datetime, "m2026-01-01"),
        (dt.time, "h25:00:00"),
        (dt.timedelta, "p1.5"),
        (dt.timedelta, "p" + "9" * 40),
        (int, "i01"),
        (int, "i"),
        (int, "i" + "9" * 10_000),
        (int, "i١"),
        (bool, "t2"),
        (str, ""),
    ],
)
def test_what_the_key_would_not_say_is_no_key(kind: type, data: str) -> None:
    """It is forged, or from another version."""
    assert decode_key(kind, data) is None


def test_a_class_that_is_no_key_is_refused_at_once() -> None:
    for kind in (float, dict, bytes, 3):
        with pytest.raises(ConfigError):
            pressed(kind)  # type: ignore[type-var]


def test_data_of_others_is_not_taken() -> None:
    """Of questions, and of whoever else sends with this bot's token."""
    taken = pressed(str)
    for value in ("sx", "b", "b.", "qabcdefgh.sx", "c.sx", "", "b.ix"):
        assert (
            taken.look(Press(CHAT, value, 1, "c1") if value else Press(CHAT, "x", 1, "c"), Setting()) is None
        )
    found = taken.look(Press(CHAT, "b.sa.b", 1, "c1"), Setting())
    assert found is not None
    assert found.value == "a.b"


async def test_a_route_takes_presses_by_the_class_of_their_key() -> None:
    """Beside the live conversation, any number of times."""
    bot = Router()

    @bot.aside(pressed(Take))
    async def take(chat: Chat[Press[Take]]) -> None:
        await chat.answer(f"Order {chat.event.value.order}.")
        await chat.edit(chat.event.on, "Taken.")

    @bot.aside(pressed(Size))
    async def size(chat: Chat[Press[Size]]) -> None:
        await chat.answer(chat.event.value.name)

    @bot.conversation
    async def offer(chat: Chat) -> None:
        buttons = Buttons({Take(7): "Take"}) + Buttons({Size.LARGE: "Large"})
        await chat.send("Offer", buttons=buttons)
        await chat.ask("What else?")

    async with open_town(bot) as town:
        await town.says("hi")
        await town.presses("Take")
        await town.presses("Large")
        await town.presses("Take")
        assert [press for press in town.outbox.presses if press[0] == "answered"] == [
            ("answered", "press1", "Order 7."),
            ("answered", "press2", "LARGE"),
            ("answered", "press3", "Order 7."),
        ]
        assert town.sent() == ["Offer", "What else?"]


async def test_many_people_press_the_buttons_of_one_message() -> None:
    """Those of another message are nobody's here, with the same keys."""
    bot = Router()
    votes: dict[str, object] = {}

    @bot.conversation(text("vote"))
    async def vote(chat: Chat) -> None:
        buttons = Buttons({1: "One", Size.LARGE: "Large"})
        await chat.send("Old", buttons=buttons)
        asked = await chat.send("New", buttons=buttons)
        while True:
            press = await chat.receive(buttons.pressed(asked))
            votes[press.sender.name if press.sender else ""] = press.value

    async with open_town(bot) as town:
        await town.says("vote")
        (old, _), (new, _) = town.messages()
        await town.presses("One", on=new, sender=ALI)
        await town.presses("Large", on=new, sender=SARA)
        await town.presses("Large", on=old, sender=ALI)
        assert votes == {"Ali": 1, "Sara": Size.LARGE}
        assert town.outbox.presses[-1] == ("refused", "press3", TEXTS.expired)


def test_buttons_take_their_own_keys_only() -> None:
    """Under that message of that chat."""
    taken = Buttons({1: "One"}).pressed(Sent(CHAT, 7))
    assert taken.look(Press(CHAT, "b.i1", 7, "c"), Setting()) == Press(CHAT, 1, 7, "c")
    for other in (Press(CHAT, "b.i2", 7, "c"), Press(CHAT, "b.i1", 8, "c"), Press(6, "b.i1", 7, "c")):
        assert taken.look(other, Setting()) is None


class Kind(NamedTuple):
    name: str
    day: dt.date


@attrs.frozen
class Slot:
    _room: int
    note: str | None = None
    shown: int = attrs.field(init=False, default=4)


@dataclass(frozen=True)
class Seat:
    row: Literal["a", 1]
    place: Path = Path("hall")


Room = NewType("Room", int)


@attrs.frozen
class Whole:
    kind: Kind
    first: Slot | Seat
    others: Sequence[Slot] = ()
    sizes: tuple[Size, ...] = ()
    pair: tuple[int, str] = (0, "")
    room: Annotated[Room, "any"] = Room(0)
    word: Word | dt.date | None = None
    share: float = 0.5
    open: Any = None


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (Take(3, Size.LARGE, ("é",)), 'vTake{"order":3,"size":2,"notes":["é"]}'),
        (
            Visit(dt.date(2026, 1, 2), dt.time(3, 4), dt.timedelta(seconds=5), dt.datetime(2026, 1, 2)),  # noqa: DTZ001
            'vVisit{"day":"2026-01-02","hour":"03:04:00","length":5000000,"asked":"2026-01-02T00:00:00"}',
        ),
        (Slot(3), 'vSlot{"_room":3,"note":null}'),
        (Seat(1), 'vSeat{"row":1,"place":"hall"}'),
        (
            Whole(
                Kind("k", dt.date(2026, 1, 2)),
                Seat("a"),
                (Slot(1, "n"),),
                (Size.SMALL,),
                (2, "p"),
                Room(9),
                Word.YES,
                1.5,
                "x",
            ),
            'vWhole{"kind":["k","2026-01-02"],"first":{"row":"a","place":"hall"},'
            '"others":[{"_room":1,"note":"n"}],"sizes":[1],"pair":[2,"p"],"room":9,"word":"yes","share":1.5,'
            '"open":"x"}',
        ),
    ],
)
def test_the_text_of_a_key_stays_the_same(key: object, text: str) -> None:
    """It stands under messages that were sent years ago, and in journals that are replayed."""
    assert encode_key(key) == text
    assert decode_key(type(key), text) == key


@attrs.frozen
class Sealed:
    secret: bytes


@attrs.frozen
class Counted:
    numbers: dict[int, str]


def test_a_value_that_its_text_would_not_tell_is_refused() -> None:
    for key in (Sealed(b"x"), Counted({1: "a"})):
        with pytest.raises(LocalProtocolError):
            encode_key(key)


def test_a_field_of_another_type_is_no_key() -> None:
    for fields in ('"_room":true,"note":null', '"_room":1.0,"note":null', '"_room":1,"note":[]'):
        assert decode_key(Slot, f"vSlot{{{fields}}}") is None
