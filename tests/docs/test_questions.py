"""Questions from others' threads: each heading stands where the list says, and its words lead there."""

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


def headings(page: str) -> list[str]:
    """Return a page's headings; code in it is no heading."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?ms)^```.*?^```", "", text))


def stems(text: str) -> Counter[str]:
    """The words by their beginnings, which is about how a search compares them."""
    return Counter(word[:5] for word in WORD.findall(text.casefold()) if word not in EMPTY)


def test_they_are_from_different_threads() -> None:
    assert len(QUESTIONS) == len({one.thread for one in QUESTIONS})
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", one.thread) for one in QUESTIONS)


@pytest.mark.parametrize("one", QUESTIONS, ids=lambda one: one.asked)
def test_its_heading_is_there(one: Question) -> None:
    assert one.heading in headings(one.page)


@pytest.mark.parametrize("one", QUESTIONS, ids=lambda one: one.asked)
def test_the_question_s_words_lead_to_the_page(one: Question) -> None:
    """At least two of three stand on it, as a reader who searches would type them."""
    asked = stems(one.asked)
    there = stems((DOCS / f"{one.page}.md").read_text(encoding="utf-8"))
    assert 3 * len(asked.keys() & there.keys()) >= 2 * len(asked), asked.keys() - there.keys()
