"""Every kind of block in every other, killed and stopped; many more by ``python -m tests.chaos.nested``."""

from __future__ import annotations

import pytest

from triobot.journal import between
from triobot.journal.branches import Parked, Passed
from triobot.journal.turns import Turns

from .nested import check

SEEDS = (1, 18, 20, 34, 51, 61)
"""Programs that found a defect each, when there was one."""


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_changes_what_a_branch_says(seed: int) -> None:
    assert check(seed, runs=4) is None


def test_a_branch_that_is_woken_twice_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzz can fail: what is passed to a branch is given to it although it has been cancelled."""

    def passed(turns: Turns, parked: Parked, value: object) -> None:
        def give() -> None:
            if parked.id in turns.parked:
                turns.give(parked, Passed(value))

        turns.later(give)

    monkeypatch.setattr(between, "_pass", passed)

    assert "hangs" in (check(51, runs=0) or "")
