"""Outbox and client before a platform on loopback that fails at random, or never answers some chats."""

from __future__ import annotations

import pytest

from tests.benchmarks.faults import at_random, carry

pytestmark = pytest.mark.virtual_time


@pytest.mark.slow
@pytest.mark.parametrize("mixed", [False, True])
async def test_random_faults_leave_the_pace_alone(mixed: bool) -> None:
    carried = await carry(at_random(0.09 if mixed else 0.05, mixed=mixed), sends=600, within=60)
    assert carried.share == 1
    assert carried.statistics is not None
    assert carried.statistics.retries > 0
    assert carried.statistics.rate is None


async def test_more_silent_chats_than_places_stop_nobody() -> None:
    """Everybody else is answered before the first of them is given up."""
    carried = await carry(at_random(0, mixed=False), sends=200, silent=60, within=25)
    assert carried.share == 1
    assert carried.statistics is not None
    assert (carried.silent, carried.statistics.retries) == (60, 0)
