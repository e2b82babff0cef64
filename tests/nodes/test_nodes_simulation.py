"""Nodes that freeze, die and are cut off keep what the bot promises; a fault that is planted is found."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.nodes.simulation.faults import FAULTS
from tests.nodes.simulation.world import simulate

# These two bring all of it about where they are tried; with another version of Trio chance takes other ways.
FIRST = (7, 8)
MOST, MANY = 12, 100
# What must have happened, or the simulation proves nothing.
HAPPENS = {
    "shard taken over",
    "lease lost",
    "event held",
    "write refused by the fence",
    "lost answer, stored",
    "lost answer, not stored",
}


def test_no_promise_is_broken_whatever_befalls_the_nodes(long: bool) -> None:
    counts = Counter[str]()
    for number, seed in enumerate((*FIRST, *range(MANY if long else MOST)), 1):
        found = simulate(seed)
        assert found.broken == [], f"python -m tests.nodes.simulation {seed}-{seed}"
        counts.update(found.counts)
        if not long and number >= len(FIRST) and counts.keys() >= HAPPENS:
            break
    assert HAPPENS - counts.keys() == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    fault = FAULTS[name]
    for seed in (fault.seed, *range(20)):
        found = simulate(seed, fault.plant, fault.troubles)
        if found.broken:
            assert fault.says in found.broken[0]
            return
    raise AssertionError
