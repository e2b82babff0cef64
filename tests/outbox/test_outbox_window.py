"""How many receivers of a broadcast may be on their way."""

from __future__ import annotations

from triobot.outbox.broadcast_plan import NEVER, Window, WindowRules
from triobot.seams.broadcasts import Outcome

RULES = WindowRules(width=4, extra=2, quiet=1.0, first_pause=1.0, longest_pause=3.0)


def test_as_many_as_the_width_while_all_goes_well() -> None:
    window = Window(RULES)
    assert window.room(0) == 4
    window.went(4, 0)
    assert window.room(0.5) == 0
    window.came(Outcome.SENT, 0.5)
    window.came(Outcome.GONE, 0.5)
    assert window.room(0.5) == 2


def test_one_more_a_second_when_nothing_comes_back_and_never_without_end() -> None:
    window = Window(RULES)
    window.went(4, 0)
    for now in (1.0, 2.0):
        assert window.look_again(now - 0.5) == now
        assert window.room(now - 0.1) == 0
        assert window.room(now) == 1
        window.went(1, now)
    assert window.room(100) == 0
    assert window.look_again(100) == NEVER


def test_an_unknown_outcome_lets_one_go_at_a_time() -> None:
    window = Window(RULES)
    window.went(4, 0)
    for _ in range(4):
        window.came(Outcome.UNKNOWN, 1)
    pauses: list[float] = []
    now = 1.0
    for _ in range(3):
        again = window.look_again(now)
        pauses.append(again - now)
        assert window.room(again - 0.1) == 0
        assert window.room(again) == 1
        window.went(1, again)
        assert window.room(again + 0.5) == 0
        now = again + 0.5
        window.came(Outcome.UNKNOWN, now)
    assert pauses == [1.0, 2.0, 3.0]
    now = window.look_again(now)
    window.went(1, now)
    window.came(Outcome.SENT, now)
    assert window.room(now) == 4
