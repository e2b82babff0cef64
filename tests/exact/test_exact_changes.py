"""The table of changes: nobody goes on with another meaning, and few are parked who could have gone on."""

from __future__ import annotations

import pytest

from tests.exact import fuzz
from tests.exact.changes import CHANGES, Change
from tests.exact.small import Outcome, deploy, record

LETTERS = {"same": "S", "reworded": "R", "again": "A", "parked": "P"}


def outcome(change: Change, stand: int) -> Outcome:
    """What becomes of who has given so many answers."""
    with_source = change.with_source
    world, journal = record(change.old, change.route, change.answers[:stand], with_source=with_source)
    if change.between is not None:
        text, more = change.between
        deploy(world, {"shop": text}, journal, answers=more)
    return deploy(world, change.new, journal, change.formerly, change.accepted, with_source=with_source)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_each_person_goes_on_with_what_was_meant_or_is_parked_with_both_lines(change: Change) -> None:
    outcomes = [outcome(change, stand) for stand in range(len(change.expect))]
    found = "".join(LETTERS[one.verdict] for one in outcomes)
    told = [one.parting for one in outcomes if one.parting is not None]
    assert found == change.expect, told
    for truth, one in zip(change.truth or change.expect, found, strict=True):
        assert one == "P" or truth != "P"
    if change.lines:
        assert change.lines[0] in str(told[0].was)
        assert change.lines[1] in str(told[0].now)


@pytest.mark.slow
def test_no_random_edit_gives_a_value_to_another_operation() -> None:
    count = fuzz.run(range(100))
    assert not count["WRONGLY ACCEPTED"]
    assert min(count[verdict] for verdict in ("same", "reworded", "parked")) > 10


def test_at_most_a_tenth_of_the_free_changes_park_somebody() -> None:
    wrongly = [change.name for change in CHANGES if change.truth]
    free = [change for change in CHANGES if "P" not in (change.truth or change.expect)]
    assert len(wrongly) * 10 <= len(free), wrongly
