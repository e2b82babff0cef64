"""Changed code under open conversations, in the runtime itself; the dry run and the revival say the same."""

from __future__ import annotations

import pytest
from changes_of_form import FORMS
from changes_of_more import MORE
from changes_of_values import VALUES
from deployed import deploy, only
from trio.testing import MockClock

from tests.exact.changes import CHANGES, Change

REAL = [*(change for change in CHANGES if change.name[:3] != "d09"), *MORE, *VALUES, *FORMS]
"""A step's function has no former names."""


@pytest.mark.slow
@pytest.mark.parametrize("change", REAL, ids=lambda change: change.name)
async def test_each_person_goes_on_with_what_was_meant_or_is_parked(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    only(monkeypatch)
    found = await deploy(change)
    told = [(one.verdict, str(one.parting), one.parked) for one in found]
    expected = change.expect[: len(found)]
    assert found
    assert "".join(one.verdict for one in found) == expected, told
    for letter, one in zip(expected, found, strict=True):
        assert one.parked is (letter == "P"), told


def test_there_are_changes_enough() -> None:
    """At most a tenth of those that are free for a reader park anybody."""
    free = [change for change in REAL if "P" not in (change.truth or change.expect)]
    assert len(REAL) >= 140
    assert sum("P" in change.expect for change in free) * 10 <= len(free)
