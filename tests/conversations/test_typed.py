"""What phones and keyboards make of a command, a word and a number is that command, word and number."""

from __future__ import annotations

import ast
import enum
import json
import re
import sys
import unicodedata
import uuid
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from ipaddress import ip_address
from typing import Final
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from town import TEXTS, open_town

from triobot import Chat, Router
from triobot.conversations.questions.forms import FormOf, Unreadable
from triobot.conversations.routes.filters import Setting, command, text
from triobot.conversations.routes.matching import matches
from triobot.conversations.routes.typed import fold, read_command, read_number, seen
from triobot.wire.events import Message

CF: Final = [sign for sign in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(sign) == "Cf"]
SETTING: Final = Setting("shop_bot")

COMMANDS: Final = (
    *(
        f"{mark}/cancel"
        for mark in "\u200f\u200e\u061c\ufeff\u200b\u2066\u2067\u2068\u202a\u202b\u200c\u00ad"
    ),
    *(
        "\u2067/cancel\u2069",
        "\u202b/cancel\u202c",
        "\u200f /cancel",
        " \u200f\u2067 /cancel",
        "\n\ufeff/cancel",
    ),
    *("/\u200fcancel", "/can\u200bcel", "/can\u00adcel", "/cancel\u200f", "/cancel\ufeff ", "/cancel \u2069"),
    *(
        "/CANCEL",
        "/Cancel",
        "／cancel",
        "/ｃａｎｃｅｌ",
        "/cancel@shop_bot",
        "/cancel@Shop_\u200fBot",
        "\u200e/cancel@shop_bot",
    ),
)
YES: Final = (
    *("yes", "YES", " yes ", "Yes\u200f", "\u200eyes", "\u2067yes\u2069", "\u202ayes\u202c", "y\u00ades"),
    *("\ufeffyes", "ye\u200bs", "ｙｅｓ", "𝐲𝐞𝐬", "ye\u2060s\u3000"),
)
YES_IN_PERSIAN: Final = ("بله", "\u202bبله\u202c", "\u2067بله\u2069", "\ufeffبله", "بـله", "بل\u200cه", "ﺑﻠﻪ")
TWELVE_FIFTY: Final = (
    *(
        "1250",
        " 1250 ",
        "۱۲۵۰",
        "١٢٥٠",
        "１２５０",
        "۱٬۲۵۰",
        "١٬٢٥٠",
        "1٬250",
        "1,250",
        "۱،۲۵۰",
        "+1250",
        "𝟏𝟐𝟓𝟎",
    ),
    *(
        "\u202b۱۲۵۰\u202c",
        "\u2066۱۲۵۰\u2069",
        "\u2068۱٬۲۵۰\u2069",
        "\ufeff۱۲۵۰",
        "۱۲۵۰\u200b",
        "۱۲\u200c۵۰",
        "\u061c۱۲۵۰",
    ),
    *("\u200e+۱۲۵۰", "001250"),
)
NO_NUMBERS: Final = (
    *(
        "10²",
        "¹",
        "10₂",
        "①",
        "1½",
        "⑩",
        "1⁵",
        "½",
        "🄁",
        "",
        "-",
        "--1",
        "1_2",
        "nan",
        "inf",
        "1e5",
        "1 250",
        "۱۲٬۵",
    ),
    *("٬۲۵۰", "1250٬", "1٬٬250", "1,25", "12,5", "many", "1٫", "٫5", "0x10", "1250 t", "Ⅷ", "㉈", "五"),
)


def said(words: str) -> Message[str]:
    return Message(5, words)


def test_there_are_sixty_spellings() -> None:
    assert len({*COMMANDS, *YES, *YES_IN_PERSIAN, *TWELVE_FIFTY}) >= 60


@pytest.mark.parametrize("spelled", COMMANDS, ids=ascii)
def test_a_command_is_one_whatever_is_around_and_within(spelled: str) -> None:
    found = command("cancel").look(said(spelled), SETTING)
    assert found is not None
    assert (found.name, found.rest) == ("cancel", "")
    found = command("cancel").look(said(f"{spelled} Order 7\u2069 "), SETTING)
    assert (found is not None) and (found.name, found.rest) == ("cancel", "Order 7")


@pytest.mark.parametrize(
    "words",
    ["cancel", "\u200fcancel", "a /cancel", "/ cancel", "/", "\u200f/\u200f", "/@shop_bot", "/cancel@other"],
)
def test_what_is_no_command_is_none(words: str) -> None:
    assert command("cancel").look(said(words), SETTING) is None
    assert command().look(said(words), SETTING) is None


@pytest.mark.parametrize("spelled", YES, ids=ascii)
def test_a_word_is_one_in_all_spellings(spelled: str) -> None:
    assert text("yes").look(said(spelled), SETTING) is not None
    assert text(spelled).look(said("yes"), SETTING) is not None


@pytest.mark.parametrize("spelled", YES_IN_PERSIAN, ids=ascii)
def test_a_persian_word_is_one_in_all_spellings(spelled: str) -> None:
    assert text("بله").look(said(spelled), SETTING) is not None


@pytest.mark.parametrize("spelled", TWELVE_FIFTY, ids=ascii)
def test_a_number_is_one_in_all_spellings(spelled: str) -> None:
    assert read_number(int, spelled) == 1250


@pytest.mark.parametrize("kind", [int, float, Decimal])
@pytest.mark.parametrize("words", NO_NUMBERS, ids=ascii)
def test_what_is_no_number_is_none(words: str, kind: type[int] | type[float] | type[Decimal]) -> None:
    with pytest.raises(ValueError):  # without words: those are the bot's
        read_number(kind, words)


@pytest.mark.parametrize(
    ("words", "value"),
    [("۱۲٫۵", "12.5"), ("۱٬۲۵۰٫۷۵", "1250.75"), ("\u2067-۰٫۱۰\u2069", "-0.10"), ("3", "3")],
)
def test_fractions_are_read_exactly(words: str, value: str) -> None:
    assert str(read_number(Decimal, words)) == value
    assert read_number(float, words) == float(value)


@pytest.mark.parametrize("words", ["1,250", "1,5", "۱،۲۵۰"])
def test_a_comma_is_not_guessed_at_where_there_may_be_a_fraction(words: str) -> None:
    for kind in (float, Decimal):
        with pytest.raises(ValueError):
            read_number(kind, words)


# --- what nobody sees


def test_no_character_of_the_category_is_seen() -> None:
    """By the data of this Python."""
    assert len(CF) > 150
    assert [sign for sign in CF if seen(f"a{sign}b") != "ab"] == []
    assert [sign for sign in CF if fold(f"{sign}۱{sign}۲{sign}") != "12"] == []
    assert [sign for sign in CF if read_command(f"{sign}/{sign}go{sign} on") != ("go", "on")] == []


def test_only_that_category_is_unseen() -> None:
    """So no letter of any language goes with the marks."""
    every = (chr(code) for code in range(sys.maxunicode + 1))
    assert {unicodedata.category(sign) for sign in every if not seen(sign)} <= {"Cf", "Cn"}


@pytest.mark.parametrize(
    "emoji",
    [
        "👨‍👩‍👧",
        "🏳️‍🌈",
        "🏴‍☠️",
        "👩🏽‍⚕️",
        "❤️‍🔥",
        "🧑‍🦰",
        "🙂‍↔️",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    ],
)
def test_an_emoji_stays_the_one_it_is(emoji: str) -> None:
    assert fold(emoji) == emoji
    assert fold(f"\u2067{emoji}\u200f{emoji}\u2069") == emoji * 2


def test_joiners_and_tags_that_make_no_emoji_are_unseen() -> None:
    assert fold("a\u200db") == "ab"
    assert fold("👨\u200d") == "👨"
    assert fold("👨\u200d\u200d👩") == "👨👩"
    assert fold("x\U000e0067\U000e007f") == "x"
    assert fold("🏴\U000e0067") == "🏴"


def test_nothing_but_a_digit_becomes_one() -> None:
    """Whatever normalization makes of it."""
    for code in range(sys.maxunicode + 1):
        sign = chr(code)
        if not sign.isdecimal():
            assert not fold(f"1{sign}").isdecimal() or fold(f"1{sign}") == "1"


@given(
    st.text(
        st.sampled_from(
            [
                "a",
                "é",
                "²",
                "ﷺ",
                "👨",
                "Ⓐ",
                "ي",
                "ـ",
                " ",
                "/",
                "🏴",
                *"\u200d\u200c\u200f\ufe0f",
                "\U000e0067",
                "\U000e007f",
            ]
        )
    )
)
def test_folding_is_done_once(words: str) -> None:
    assert fold(fold(words)) == fold(words)


# --- patterns


@attrs.frozen
class Track:
    order: int


@pytest.mark.parametrize(
    "words", ["track 12", "\u200ftrack ۱۲\u200f", "\u2067track \u2068۱۲\u2069\u2069", "tr\u200back 12"]
)
def test_a_pattern_sees_what_people_see(words: str) -> None:
    found = matches(r"track (?P<order>.+)", Track).look(said(words), SETTING)
    assert found is not None
    assert (found.value, found.content) == (Track(12), words)


def test_what_a_pattern_takes_stays_as_it_was_typed() -> None:
    @attrs.frozen
    class Named:
        name: str

    found = matches(r"نام (?P<name>.+)", Named).look(said("\u2067نام می\u200cروم\u2069"), SETTING)
    assert found is not None
    assert found.value == Named("می\u200cروم")
    assert matches("می\u200cروم", Track0).look(said("می\u200cروم"), SETTING) is not None


@attrs.frozen
class Track0:
    """Has nothing in it."""


@attrs.frozen
class Priced:
    price: Decimal
    kept: int = attrs.field(default=1, converter={1: 1}.__getitem__)


@pytest.mark.parametrize("words", ["price abc", "price 1 kept 2"])
def test_a_pattern_takes_nothing_that_its_class_refuses(words: str) -> None:
    found = matches(r"price (?P<price>\S+)( kept (?P<kept>\d))?", Priced)
    assert found.look(said(words), SETTING) is None


# --- parsers


class Size(enum.Enum):
    SMALL = "s"


BUILTIN: Final[dict[str, tuple[Callable[[str], object], str, str]]] = {
    "int-within": (lambda words: int(words) + 1, "many", "1"),
    "uuid": (uuid.UUID, "abc", "0" * 32),
    "fraction": (Fraction, "1/0", "1/2"),
    "fraction-of-words": (Fraction, "abc", "1/2"),
    "zone": (ZoneInfo, "Mars", "UTC"),
    "enum": (Size, "x", "s"),
    "enum-by-name": (Size.__getitem__, "x", "SMALL"),
    "dict": ({"tea": 5}.__getitem__, "milk", "tea"),
    "dict-within": (lambda words: {"tea": 5}[words], "milk", "tea"),
    "list": (lambda words: [1, 2][int(words)], "7", "1"),
    "unpacking": (lambda words: dict([words.split("=")]), "a", "a=b"),
    "timedelta": (lambda words: timedelta(days=int(words)), "9" * 12, "1"),
    "division": (lambda words: 1 / int(words), "0", "1"),
    "pattern": (re.compile, "(", "a"),
    "pattern-within": (lambda words: re.compile(words), "*", "a"),
    "date": (date.fromisoformat, "tomorrow", "2024-01-01"),
    "json": (json.loads, "{", "{}"),
    "ascii": (lambda words: words.encode("ascii"), "é", "e"),
    "address": (ip_address, "here", "::1"),
    "decimal-within": (lambda words: Decimal(words) * 2, "abc", "1"),
}


@pytest.mark.parametrize(("parser", "wrong", "right"), BUILTIN.values(), ids=BUILTIN)
async def test_whatever_is_typed_a_question_survives_it(
    parser: Callable[[str], object], wrong: str, right: str
) -> None:
    """Python's words are for programmers: people get the bot's."""
    got = await answers(parser, [wrong, right])
    assert got == [TEXTS.want_text]


class OutOfStock(LookupError):
    def __str__(self) -> str:
        return "That is sold out."


def _table(words: str) -> int:
    if words == "bare":
        raise ValueError
    if words == "again":
        try:
            return int(words)
        except ValueError:
            assert words
            raise
    if words == "from":
        try:
            return int(words)
        except ValueError as error:
            raise ValueError("1 to 99, please.") from error
    if words == "key":
        raise KeyError("No such table.")
    if words == "stock":
        raise OutOfStock(7)
    if words == "deep":
        return _inner()
    if words == "finally":
        try:
            raise ArithmeticError("Too many.")
        finally:
            _ = words.upper()
    if words == "more":
        raise ValueError("The first words.", "more")
    return int(words)


def _inner() -> int:
    raise IndexError("From further in.")


OWN: Final = {
    "bare": TEXTS.want_text,
    "again": TEXTS.want_text,
    "many": TEXTS.want_text,
    "from": "1 to 99, please.",
    "key": "No such table.",
    "stock": "That is sold out.",
    "deep": "From further in.",
    "finally": "Too many.",
    "more": "The first words.",
}


@pytest.mark.parametrize(("words", "told"), OWN.items())
async def test_an_author_is_heard_who_raises_with_words(words: str, told: str) -> None:
    assert await answers(_table, [words, "5"]) == [told]


def test_the_words_of_a_bot_that_is_installed_like_a_library_are_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its file lies among those of libraries, and its package says whose it is."""
    monkeypatch.setattr("triobot.conversations.running.lines._LIBRARIES", (__file__,))

    @attrs.frozen
    class Seats:
        seats: int = attrs.field(converter=lambda words: _inner())

    with pytest.raises(Unreadable, match="From further in"):
        FormOf(Seats, TEXTS).read({"seats": "1"})


@pytest.mark.parametrize(
    ("parser", "words"),
    [
        (re.compile, "(" * 3_000),
        (json.loads, "[" * 100_000),
        (ast.literal_eval, "two pizzas"),
        (lambda words: next(size for size in ("5", "6") if size == words), "4"),
    ],
)
async def test_words_that_nest_too_deep_or_are_not_found_do_not_fit(
    parser: Callable[[str], object], words: str
) -> None:
    assert await answers(parser, [words, "5"], is_right=lambda got: True) == [TEXTS.want_text]


async def test_a_price_is_asked_for_until_it_is_one() -> None:
    told = await answers(
        Decimal, ["abc", "1,5", "nan", "Infinity", "1e3", "۱۲٫۵۰"], is_right=lambda got: str(got) == "12.50"
    )
    assert told == [TEXTS.want_number] * 5


async def answers(
    parser: Callable[[str], object],
    typed: list[str],
    *,
    is_right: Callable[[object], bool] = lambda got: True,
) -> list[str]:
    """What is told of all that is typed but the last, which answers."""
    bot = Router()
    got: list[object] = []

    @bot.conversation
    async def ask(chat: Chat) -> None:
        got.append(await chat.ask("How many?", parser))

    async with open_town(bot) as town:
        await town.says("hi")
        for words in typed:
            assert got == []
            await town.says(words)
        assert len(got) == 1
        assert is_right(got[0])
        assert "crashed" not in town.counts
        told: list[str] = town.sent()[1:]
    return told


# --- forms


@pytest.mark.parametrize("spelled", TWELVE_FIFTY, ids=ascii)
def test_a_number_in_a_form_is_one_in_all_spellings(spelled: str) -> None:
    @attrs.frozen
    class Amount:
        amount: int

    assert FormOf(Amount, TEXTS).read({"amount": spelled}) == Amount(1250)
    with pytest.raises(Unreadable, match="Amount"):
        FormOf(Amount, TEXTS).read({"amount": "10²"})


@pytest.mark.parametrize("converter", [int, Decimal, uuid.UUID, {"tea": 1}.__getitem__, Size])
def test_a_form_does_not_say_pythons_words(converter: Callable[[str], object]) -> None:
    @attrs.frozen
    class Order:
        what: str = attrs.field(converter=converter)  # type: ignore[misc]

    with pytest.raises(Unreadable, match=re.escape(TEXTS.want_form)):
        FormOf(Order, TEXTS).read({"what": "milk"})
