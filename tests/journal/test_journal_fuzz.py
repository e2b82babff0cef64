"""Random programs, killed at random moments; many more by ``python -m tests.journal.fuzz``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from triobot.journal import operations
from triobot.journal.branches import Parked
from triobot.journal.turns import Turns
from triobot.values import decode_value

from .fuzz import check

SEEDS = range(120)


@pytest.mark.parametrize("race", [False, True], ids=["equal", "race"])
def test_no_crash_changes_a_conversation(race: bool) -> None:
    """What is replayed is what was, and what comes after it is one of the things that could have come."""
    assert [(seed, wrong) for seed in SEEDS if (wrong := check(seed, race=race))] == []


def test_without_output_commit_people_see_what_never_was() -> None:
    """The fuzz can fail: an effect that leaves before what led to it is durable is found out."""
    found = [seed for seed in range(60) if check(seed, race=True, write_behind=True)]

    assert found


def test_a_turn_that_does_not_wait_for_the_one_before_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzz can fail: records given one upon the other make another conversation."""
    begin, rest = Turns._begin_turn, Turns.park

    def begin_and_let_go(self: Turns, branch: object, id: object) -> None:
        begin(self, branch, id)  # type: ignore[arg-type]
        if not self.live:
            self.holder = None

    def park(self: Turns, parked: Parked) -> None:
        self.holder = parked.branch
        rest(self, parked)

    monkeypatch.setattr(Turns, "_begin_turn", begin_and_let_go)
    monkeypatch.setattr(Turns, "_check_that_all_rest", lambda self: None)
    monkeypatch.setattr(Turns, "park", park)

    assert any(_goes_wrong(seed) for seed in range(40))


def _goes_wrong(seed: int) -> bool:
    try:
        return check(seed, race=False) is not None
    except BaseException:
        return True


def test_values_that_are_not_copied_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The codec is in the way live as well: see `test_incarnation` for what would go wrong."""
    seen: list[str] = []

    def decode(text: str) -> object:
        seen.append(text)
        return decode_value(text)

    monkeypatch.setattr(operations, "decode_value", decode)
    check(3, race=False)

    assert seen


def test_the_command_runs() -> None:
    """The same from the command line."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.journal.fuzz", "--seeds", "2", "--first", "500"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert "4 runs, 0 failures" in done.stdout
