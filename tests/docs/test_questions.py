"""26 questions from others' threads: each answer stands where the list says, and its words lead there."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.docs.questions import QUESTIONS, Question

DOCS: Final = Path(__file__).parents[2] / "docs"
WORD: Final = re.compile(r"[\w/]+")
# Words that every page has, or that say nothing of what is sought.
EMPTY: Final = {
    *(
        "a",
        "an",
        "and",
        "are",
        "at",
        "be",
        "bot",
        "by",
        "each",
        "for",
        "from",
        "has",
        "in",
        "is",
        "it",
        "its",
    ),
    *("of", "on", "or", "out", "s", "set", "t", "tell", "that", "the", "to"),
}


def text_of(page: str, heading: str) -> str:
    """What stands under a heading, up to the next one; code in it is no heading."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    fenced = re.sub(r"(?ms)^```.*?^```", lambda code: code[0].replace("\n#", "\n "), text)
    parts = re.split(r"(?m)^#+ (.*)$", fenced)
    [found] = [below for title, below in zip(parts[1::2], parts[2::2], strict=True) if title == heading]
    return found


def stems(text: str) -> Counter[str]:
    """The words by their beginnings, which is about how a search compares them."""
    return Counter(word[:5] for word in WORD.findall(text.casefold()) if word not in EMPTY)


def test_there_are_26_from_different_threads() -> None:
    assert len(QUESTIONS) == len({one.thread for one in QUESTIONS}) == 26
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", one.thread) for one in QUESTIONS)


@pytest.mark.parametrize("one", QUESTIONS, ids=lambda one: one.asked)
def test_the_answer_stands_there(one: Question) -> None:
    assert one.answer in " ".join(text_of(one.page, one.heading).split())


@pytest.mark.parametrize("one", QUESTIONS, ids=lambda one: one.asked)
def test_the_question_s_words_lead_to_the_page(one: Question) -> None:
    """At least two of three stand on it, as a reader who searches would type them."""
    asked = stems(one.asked)
    there = stems((DOCS / f"{one.page}.md").read_text(encoding="utf-8"))
    assert 3 * len(asked.keys() & there.keys()) >= 2 * len(asked), asked.keys() - there.keys()
