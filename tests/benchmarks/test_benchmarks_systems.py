"""That systems with a database are asked as the others are; their figures are judged by nobody here."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.benchmarks.echo import compare
from tests.benchmarks.systems import ASKING
from tests.postgres import why_not

pytestmark = pytest.mark.processes


@pytest.fixture
def all_cores() -> Iterator[None]:
    """What is measured keeps to a core; the tests behind it don't."""
    cores = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, cores)


@pytest.mark.slow
@pytest.mark.skipif(why_not() is not None, reason="PostgreSQL is not here")
def test_a_file_and_a_database_with_one_node_and_two(all_cores: None) -> None:
    table = compare(ASKING[:3], connections=2, rounds=1, events=8, peers=None, strangers=256)

    assert [*table] == ["triobot", "triobot, PostgreSQL", "triobot, PostgreSQL, two nodes"]
    assert all(figures["cpu"][0] > 0 and "waiting" in figures for figures in table.values())
    assert ["database" in figures for figures in table.values()] == [False, True, True]
