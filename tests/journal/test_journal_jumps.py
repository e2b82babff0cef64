"""What a jump of the time of day does to a conversation: the pure part."""

from __future__ import annotations

import pytest

from triobot.journal.jumps import jump
from triobot.journal.records import Jumped


@pytest.mark.parametrize(
    ("time", "now", "known", "total", "record"),
    [
        (1_000, 900_000, 0, 0, None),
        (1_000, 900_000, -50, -50, None),
        (100_000, 96_000, 0, 0, None),  # a correction
        (100_000, 500_000, 0, 60_000, Jumped(500_000, 60_000, 60_000)),
        (100_000, 45_000, 0, -60_000, Jumped(45_000, -60_000, -60_000)),
        (100_000, 39_000, 0, -60_000, Jumped(40_000, -60_000, -60_000)),
        (100_000, 40_000, 0, 0, Jumped(40_000, -60_000, 0)),  # nobody saw it
        (100_000, 10_000, 0, -60_000, Jumped(10_000, -90_000, -60_000)),
        (100_000, 500_000, 70, 60_070, Jumped(500_000, 60_000, 60_070)),
    ],
)
def test_jumps_that_a_conversation_does_not_know_of(
    time: int, now: int, known: int, total: int, record: Jumped | None
) -> None:
    """By those its deadlines move; and its time is not earlier than its last turn's, moved with them."""
    assert jump(time, now, known, total) == record
