"""What phones and keyboards make of a command, a word and a number is that command, word and number."""

from __future__ import annotations

import sys
import unicodedata
from decimal import Decimal
from typing import Final

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from town import TEXTS

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


# --- forms


@pytest.mark.parametrize("spelled", TWELVE_FIFTY, ids=ascii)
def test_a_number_in_a_form_is_one_in_all_spellings(spelled: str) -> None:
    @attrs.frozen
    class Amount:
        amount: int

    assert FormOf(Amount, TEXTS).read({"amount": spelled}) == Amount(1250)
    with pytest.raises(Unreadable, match="Amount"):
        FormOf(Amount, TEXTS).read({"amount": "10²"})
