"""Filters: what they take, as what, and how they join."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triobot.conversations.routes.filters import (
    Command,
    Filter,
    Setting,
    by,
    command,
    fold,
    in_chat,
    join,
    leave,
    message,
    pressed,
    starting,
    text,
    when,
)
from triobot.errors import ConfigError
from triobot.wire.content import Descriptor, File, Image, Location, Media
from triobot.wire.events import (
    Event,
    Join,
    Leave,
    Message,
    PayCallback,
    Press,
    Sender,
    Submission,
    UnknownEvent,
)

ALI = Sender(71, "Ali", "ali")
SETTING = Setting("PizzaBot", False)
IMAGE = Image(Descriptor.from_object({"path": "https://files.example/1"}))


def said(words: object, sender: Sender | None = ALI) -> Message:
    return Message(5, words, sender)


def takes(taken: Filter[object], event: Event, setting: Setting = SETTING) -> bool:
    return taken.look(event, setting) is not None


# --- commands


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("/start", Command(5, "start", "", ALI)),
        ("/START", Command(5, "start", "", ALI)),
        ("  /start  ", Command(5, "start", "", ALI)),
        ("/start  a  b ", Command(5, "start", "a  b", ALI)),
        ("/start\na\nb", Command(5, "start", "a\nb", ALI)),
        ("/start@pizzabot", Command(5, "start", "", ALI)),
        ("/start@PIZZABOT now", Command(5, "start", "now", ALI)),
        ("/start@other", None),
        ("/start@", None),
        ("start", None),
        ("/", None),
        ("/@pizzabot", None),
        ("a /start", None),
        ("", None),
        (IMAGE, None),
    ],
)
def test_a_command_is_for_us_or_for_nobody(words: object, expected: Command | None) -> None:
    """Typed or tapped, with arguments, with our name."""
    assert expected == command().look(said(words), SETTING)
    assert takes(command("start"), said(words)) is (expected is not None)
    assert not takes(command("stop"), said(words))


def test_a_bot_without_a_name_is_not_meant_by_one() -> None:
    """Whoever it is."""
    assert not takes(command("start"), said("/start@other"), Setting())
    assert not takes(command("start"), said("/start@"), Setting())
    assert takes(command("start"), said("/start"), Setting())


def test_commands_are_named_with_or_without_their_slash() -> None:
    """And folded, in any language."""
    assert takes(command("/start", "help"), said("/help"))
    assert takes(command("/start", "help"), said("/start"))
    assert takes(command("كمك"), said("/کمک"))


# --- messages


def test_messages_by_class() -> None:
    """Media is any of the five."""
    assert takes(message(), said("a"))
    assert takes(message(str), said("a"))
    assert takes(message(Image), said(IMAGE))
    assert takes(message(Media), said(IMAGE))  # type: ignore[type-var]
    assert not takes(message(File), said(IMAGE))
    assert not takes(message(Location), said("a"))
    assert not takes(message(), Join(5))
    with pytest.raises(ConfigError):
        message(int)  # type: ignore[type-var]


def test_texts_are_folded_on_both_sides() -> None:
    """Exactly these words, in any of their spellings."""
    assert takes(text(), said(""))
    assert not takes(text(), said(IMAGE))
    assert takes(text("Back"), said(" BACK "))
    assert takes(text("۱۲"), said("12"))
    assert not takes(text("back"), said("back off"))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("۱۲۳", "123"),
        ("٤٥٦", "456"),
        ("عربي", "عربی"),
        ("كتاب", "کتاب"),
        ("می‌روم", "میروم"),
        ("STRASSE", "straße"),
        ("  a\n", "a"),
        ("سـلام", "سلام"),
        ("ﻻ", "لا"),
    ],
)
def test_fold_makes_equal_what_people_take_for_equal(left: str, right: str) -> None:
    """Digits, letters, joiners, case, blanks."""
    assert fold(left) == fold(right)


@given(st.text(max_size=30))
def test_fold_is_done_once(words: str) -> None:
    """Folding what is folded changes nothing."""
    assert fold(fold(words)) == fold(words)


# --- others


def test_each_kind_of_event_has_its_filter() -> None:
    """And takes no other."""
    events = {
        join(): Join(5),
        leave(): Leave(5),
        pressed(): Press(5, "x", 1, "c"),
        message(): said("a"),
    }
    for taken, its in events.items():
        for event in events.values():
            assert takes(taken, event) is (event is its)


def test_what_starts_a_conversation_by_itself() -> None:
    """A message or a join; no goodbye, no button, no form, no payment, nothing unknown."""
    assert takes(starting(), said("a"))
    assert takes(starting(), Join(5))
    for event in (
        Leave(5),
        Press(5, "x", 1, "c"),
        Submission(5, (), 1),
        PayCallback(5, "abc"),
        UnknownEvent(5, "sticker"),
    ):
        assert not takes(starting(), event)


def test_by_whom_and_where() -> None:
    """Nobody is told of: nobody is meant."""
    assert takes(by(71, 72), said("a"))
    assert not takes(by(72), said("a"))
    assert not takes(by(71), said("a", None))
    assert takes(in_chat(5), said("a"))
    assert not takes(in_chat(6), said("a"))


def test_filters_join() -> None:
    """`&` keeps the value of the first, `|` of the one that takes it, `~` takes the rest."""
    assert (text() & by(71)).look(said("a"), SETTING) == said("a")
    assert (text() & by(72)).look(said("a"), SETTING) is None
    assert (command() & text()).look(said("/a"), SETTING) == Command(5, "a", "", ALI)
    assert (command("a") | join()).look(Join(5), SETTING) == Join(5)
    assert (command("a") | message()).look(said("/a"), SETTING) == Command(5, "a", "", ALI)
    assert (~text("a")).look(said("b"), SETTING) == said("b")
    assert (~text("a")).look(said("a"), SETTING) is None
    assert takes(when(lambda event: event.chat_id == 5), said("a"))
    assert (text("a") & ~by(71) | join()).name == "((text(a) & ~by(...)) | join())"


def test_the_second_of_two_filters_runs_only_when_it_matters() -> None:
    """So that a limit counts what it is about."""
    seen: list[Event] = []
    counting = when(lambda event: bool(seen.append(event)))
    (text("a") & counting).look(said("b"), SETTING)
    (text("b") | counting).look(said("b"), SETTING)
    assert seen == []
