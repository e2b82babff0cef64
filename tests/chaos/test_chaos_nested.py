"""Kills and stops in every nesting of blocks. Many more runs: ``python -m tests.chaos.nested``."""

from __future__ import annotations

import pytest

from triobot.conversations.revival import stored
from triobot.conversations.revival.stored import read_journal
from triobot.engine import Record
from triobot.seams.journals import Journal

from .nested import check

SEEDS = (1, 18, 20, 34, 50, 51, 61)
"""Programs that found a defect each, when there was one."""
SHOWS_SOON = 4
"""That by which a store that forgets is found out soonest."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_changes_what_a_branch_says(seed: int) -> None:
    assert check(seed) is None


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "number"), [(2054, 38), (100173, 3)])
def test_what_waited_is_there_for_a_turn_that_runs_once_more(seed: int, number: int) -> None:
    """These runs of these programs found that it was not."""
    assert check(seed, runs=[number]) is None


@pytest.mark.parametrize(("seed", "number"), [(310046, 2), (320186, 3)])
def test_who_speaks_first_after_a_death_may_be_another_conversation(seed: int, number: int) -> None:
    """It has the older wait then; an undisturbed run in which it speaks first says the same."""
    assert check(seed, runs=[number]) is None


@pytest.mark.slow
def test_what_an_event_cuts_short_may_not_have_left() -> None:
    """In this run the process died before it did, and the next event came before what followed had."""
    assert check(400257, runs=[0]) is None


def test_a_store_that_forgets_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzz can fail: a journal that is read without its end makes people hear it again."""

    def read_short(journal: Journal) -> list[Record]:
        records = read_journal(journal)
        return records[:1] + records[1:-3]

    monkeypatch.setattr(stored, "read_journal", read_short)

    assert any(_goes_wrong(seed) for seed in (SHOWS_SOON, *SEEDS))


def _goes_wrong(seed: int) -> bool:
    try:
        return check(seed) is not None
    except Exception:
        return True
