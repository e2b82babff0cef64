"""What a process believes of its lease, at each moment of its clock."""

from __future__ import annotations

import attrs
import pytest

from triobot.store.belief import RENEWED_EVERY, REPEATED_AFTER, SECONDS, LeaseBelief

MILLISECONDS = int(SECONDS * 1000)


@attrs.define
class Clock:
    """A machine's clock."""

    at: int = 50_000

    def __call__(self) -> int:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_lease_is_believed_in_from_before_it_was_asked_for(clock: Clock) -> None:
    asked = clock.at
    clock.at += 700  # the answer takes so long
    belief = LeaseBelief(asked, clock)
    clock.at = asked + MILLISECONDS - 1
    assert belief.held()
    clock.at = asked + MILLISECONDS
    assert not belief.held()


def test_a_renewal_counts_from_before_it_was_asked_for(clock: Clock) -> None:
    belief = LeaseBelief(clock.at, clock)
    clock.at += 1000
    asked = belief.before()
    clock.at += 1900
    belief.renewed(asked)
    clock.at = asked + MILLISECONDS - 1
    assert belief.held()
    clock.at += 1
    assert not belief.held()
    assert not belief.lost  # it may be had again
    belief.renewed(belief.before())
    assert belief.held()


def test_a_renewal_without_an_answer_is_repeated_soon_and_changes_nothing(clock: Clock) -> None:
    belief = LeaseBelief(clock.at, clock)
    assert belief.pause == RENEWED_EVERY
    belief.unanswered()
    assert (belief.pause, bool(belief.held()), belief.lost) == (REPEATED_AFTER, True, False)
    belief.renewed(belief.before())
    assert belief.pause == RENEWED_EVERY


def test_a_lease_that_is_lost_is_told_once_to_those_that_listen(clock: Clock) -> None:
    belief, told = LeaseBelief(clock.at, clock), list[str]()
    listeners = {name: lambda name=name: told.append(name) for name in ("one", "two")}
    for lost in listeners.values():
        belief.listen(lost)
    belief.forget(listeners["two"])
    belief.lose()
    assert (told, bool(belief.held()), belief.lost) == (["one"], False, True)
    belief.listen(listeners["two"])
    assert told == ["one", "two"]
