"""The fuzzer can fail: it finds each defect that is planted into the engine's text."""

from __future__ import annotations

import pytest

from tests.samples import sample

from . import mutants
from .mutants import MUTANTS, planted


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", sample([name for name, one in MUTANTS.items() if one[3] == "directed"], every=3)
)
def test_directed_programs_find_it(name: str) -> None:
    with planted(name) as fuzz:
        assert next(fuzz.directed(), None) is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant[3] == "race"])
def test_random_programs_find_it(name: str) -> None:
    with planted(name) as fuzz:
        assert any(fuzz.safely(seed, "race", kills=10) for seed in range(500, 560))


def test_effects_that_wait_for_no_commit_are_found() -> None:
    """People see what a kill takes back."""
    from .fuzz import safely

    assert any(safely(seed, "race", kills=10, behind=True) for seed in range(500, 560))


def test_a_defect_that_is_no_longer_in_the_text_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mutants.MUTANTS, "stale", ("run", "text of another time", "", "race"))

    with pytest.raises(AssertionError), planted("stale"):
        pass
