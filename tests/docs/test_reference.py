"""docs/reference.md names what there is, with its arguments, and nothing else."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import attrs
import pytest

import triobot.errors
import triobot.filters
import triobot.testing
import triobot.widgets
from tests.docs.signatures import names_in
from triobot import (
    Board,
    Bot,
    Broadcast,
    Buttons,
    Chat,
    ChatChannel,
    ChatEvent,
    ChatNursery,
    ChatRef,
    Live,
    Room,
    RoomRef,
    Router,
    Scope,
    Texts,
)
from triobot.testing import DrivenWorld, Person

FACE: Final = Path(inspect.getfile(triobot)).parent / "surface.py"
PAGE: Final = (Path(__file__).parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")
CLASSES: Final = (
    Board,
    Bot,
    Broadcast,
    Buttons,
    Chat,
    ChatChannel,
    ChatEvent,
    ChatNursery,
    ChatRef,
    DrivenWorld,
    Live,
    Person,
    Room,
    RoomRef,
    Router,
    Scope,
    Texts,
)
MODULES: Final = (triobot, triobot.filters, triobot.errors, triobot.testing, triobot.widgets)
SUBJECTS: Final = {
    **{cls.__name__: cls for cls in CLASSES},
    **{module.__name__: module for module in MODULES},
}
MARKS: Final = {"R", "E", "P", "L"}


def sections() -> Iterator[tuple[str, str]]:
    """The name that a heading ends with, and what follows until the next such heading."""
    found = re.split(r"(?m)^#+ .*: `([\w.]+)`\n", PAGE)
    yield from zip(found[1::2], found[2::2], strict=True)


def rows(text: str) -> list[tuple[list[str], str, str]]:
    """The code of the first cell, the meaning and the mark of each row."""
    lines = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| `")]
    return [(re.findall(r"`([^`]+)`", cells[0]), cells[1].strip(), cells[2].strip()) for cells in lines]


def documented(subject: str) -> dict[str, str]:
    """The arguments by name, as the page has them; empty for what takes none."""
    [section] = [text for name, text in sections() if name == subject]
    named = [code.partition("(") for row in rows(section) for code in row[0]]
    assert len({name for name, _, _ in named}) == len(named), "a name is documented twice"
    return {name: arguments for name, _, arguments in named}


def public(subject: object) -> dict[str, object]:
    """What is there, by name."""
    if isinstance(subject, ModuleType):
        named = vars(subject).items()
        own = subject is triobot.errors
        return {
            name: value
            for name, value in named
            if not name.startswith("_")
            and not isinstance(value, ModuleType)
            and type(value).__name__ != "_Feature"
            and (not own or getattr(value, "__module__", "") == subject.__name__)
        }
    assert isinstance(subject, type)
    fields = [field.name for field in attrs.fields(subject)] if attrs.has(subject) else []
    names = {*(name for name in dir(subject) if not name.startswith("_")), *fields}
    return {name: getattr(subject, name, None) for name in names if not name.startswith("_")}


def arguments(value: object) -> str:
    """The names of the arguments, as they must be given."""
    given: list[str] = []
    for parameter in inspect.signature(value).parameters.values():  # type: ignore[arg-type]
        if parameter.kind is parameter.KEYWORD_ONLY and not any(name.startswith("*") for name in given):
            given.append("*")
        if parameter.name != "self":
            given.append("*" * (parameter.kind is parameter.VAR_POSITIONAL) + parameter.name)
    return ", ".join(given) + ")"


def expected(subject: str) -> set[str]:
    """The names that a section has to have."""
    names = set(public(SUBJECTS[subject]))
    if subject == "triobot":
        return names - {cls.__name__ for cls in CLASSES}
    if subject == "Bot":
        return names - set(public(Router)) | {"Bot"}
    if subject == "Chat":
        # What takes other arguments than a room's has a row of its own.
        return names - set(public(Room)) | {"continue_as"}
    if subject == "ChatRef":
        return names - set(public(RoomRef))
    if subject == "Texts":
        return {"english", "persian", "translated"}
    own = {
        "Router": {"Router"},
        "Buttons": {"Buttons"},
        "Live": {"sent"},
        "DrivenWorld": {"alarms", "exchange"},
    }
    own["Person"] = {"id", "name", "phone", "chat_id"}
    return names | own.get(subject, set())


@pytest.mark.parametrize("subject", SUBJECTS)
def test_all_that_is_public_is_documented_and_nothing_else(subject: str) -> None:
    assert set(documented(subject)) == expected(subject)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_arguments_are_named_as_they_are(subject: str) -> None:
    there = public(SUBJECTS[subject])
    written = {name: given for name, given in documented(subject).items() if given}
    for name, given in written.items():
        value = SUBJECTS[subject] if name == subject else there[name]
        assert f"{name}({given}" == f"{name}({arguments(value)}"


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if cls is not Texts], ids=lambda cls: cls.__name__)
def test_methods_are_documented_as_such(cls: type) -> None:
    """What is called has its arguments, what isn't has none."""
    for name, given in documented(cls.__name__).items():
        if name != cls.__name__:
            assert bool(given) is inspect.isfunction(inspect.getattr_static(cls, name, None)), name


def test_every_row_has_a_meaning_and_a_mark() -> None:
    found = [row for _, text in sections() for row in rows(text)]

    assert len(found) > 150
    assert [codes for codes, meaning, mark in found if not meaning or mark not in MARKS] == []


def test_classes_without_a_row_of_their_own_have_a_section() -> None:
    [text] = re.findall(r"The classes (.*?) have\nsections of their own", PAGE, re.DOTALL)
    of_authors = {cls.__name__ for cls in CLASSES} - {"DrivenWorld", "Person"}

    assert set(re.findall(r"`(\w+)`", text)) == of_authors


def test_a_star_brings_the_authors_surface_and_nothing_else() -> None:
    """The names are loaded on first use, and completion asks for them first."""
    brought: dict[str, object] = {}
    exec("from triobot import *", brought)

    names = sorted(names_in(FACE))
    assert sorted(set(brought) - {"__builtins__"}) == names
    assert dir(triobot) == names
