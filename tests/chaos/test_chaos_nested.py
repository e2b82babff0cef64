"""Every kind of block in every other, killed and stopped; many more by ``python -m tests.chaos.nested``."""

from __future__ import annotations

import pytest

from triobot.journal.branches import Branch

from .nested import check

SEEDS = (1, 18, 20, 34, 51, 61)
"""Programs that found a defect each, when there was one."""


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_changes_what_a_branch_says(seed: int) -> None:
    assert check(seed, runs=4) is None


def test_a_block_that_takes_again_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzz can fail: a block on its way out takes events as if it were not."""
    monkeypatch.setattr(Branch, "cuts", lambda branch, scope: False)

    assert any(check(seed, runs=4) is not None for seed in SEEDS)
