"""One answer of the answers of several shards."""

from __future__ import annotations

from triobot.cli.status import _state
from triobot.operator.merging import merged_status
from triobot.operator.requests import Told

WORKS: Told = {
    "running": True,
    "working": True,
    "opened_at": 2_000,
    "states": {"store": "ok", "conversations": "working"},
    "risk": None,
    "node": "number 7 on one",
}
"""A shard at a process."""
GONE: Told = {"running": False, "opened_at": 1_000, "risk": None}
"""A shard whose process has died, and that no other one has yet."""


def test_a_bot_of_which_one_process_has_died_runs_and_says_what_is_missing() -> None:
    told = merged_status([WORKS, GONE, {**WORKS, "opened_at": 3_000}])

    assert (told["running"], told["working"], told["opened_at"]) == (True, False, 2_000)
    assert _state(told) == "DOES NOT WORK (shard 1 at no process)"


def test_a_bot_runs_and_works_if_all_of_it_does_and_ends_with_the_last() -> None:
    works = merged_status([WORKS, WORKS])
    ended = merged_status([GONE, {**GONE, "opened_at": None}])

    assert (works["running"], works["working"], _state(works)) == (True, True, "works")
    assert (ended["running"], ended["opened_at"]) == (False, 1_000)
