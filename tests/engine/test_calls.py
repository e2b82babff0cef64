"""The engine's room in calls, which need no clock: those beside what Trio and the driver make."""

from __future__ import annotations

import trio

from .measure import Bare, Long, New, calls, echoes, turns


def test_a_turn_of_ask_has_so_many_calls() -> None:
    """An answer is taken, and the next question sent: 50, and up to 52 where other tests ran before."""
    assert trio.run(calls, turns, New, "ask") - trio.run(calls, turns, Bare, "ask") <= 53


def test_an_echo_of_a_fresh_run_has_so_many_calls() -> None:
    assert trio.run(calls, echoes, New, "echo") - trio.run(calls, echoes, Bare, "echo") <= 90


def test_the_count_sees_what_is_called() -> None:
    """A count of nothing would prove nothing."""
    assert 50 < trio.run(calls, turns, Bare, "ask") < trio.run(calls, turns, Long, "ask")
