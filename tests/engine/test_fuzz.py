"""Random programs, killed at random; many more by ``python -m tests.engine.fuzz``."""

from __future__ import annotations

import pytest

from tests.samples import sample

from .fuzz import DIRECTED, check_directed, check_known, check_late_question, directed_plans, safely


@pytest.mark.parametrize("mode", ["equal", "race"])
def test_no_kill_changes_a_run(mode: str) -> None:
    """What is replayed is what was, and what comes after it is one of the things that could have come."""
    wrong = [
        (seed, found)
        for seed in sample(range(40), every=3)
        if (found := safely(seed, mode, kills=5)) is not None
    ]

    assert wrong == []


@pytest.mark.parametrize("number", range(len(DIRECTED)))
def test_directed_programs_in_all_their_kills(number: int) -> None:
    """With one way in which events come; the command tries them in several."""
    events = directed_plans()[number % len(directed_plans())]

    assert check_directed(DIRECTED[number], number, events) is None


def test_a_question_that_is_asked_again_is_seen() -> None:
    assert [wrong for point in range(1, 12) if (wrong := check_late_question(point)) is not None] == []


def test_what_is_known_while_another_branch_has_the_turn_is_not_forgotten() -> None:
    points = range(6, 30, 3)
    found = [check_known(seed, point) for seed in range(4) for point in points]

    assert [wrong for wrong in found if wrong is not None] == []
