"""That the benchmark of PostgreSQL runs; its figures are judged by nobody here."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.benchmarks.postgres import FILE, SERVER, beside, measure
from tests.benchmarks.systems import TRIOBOT
from tests.postgres import Server

pytestmark = pytest.mark.processes


@pytest.fixture
def all_cores() -> Iterator[None]:
    """What is measured keeps to a core; the tests behind it don't."""
    cores = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, cores)


@pytest.mark.slow
def test_both_stores_answer(postgres: Server, all_cores: None) -> None:
    pair = beside(TRIOBOT, postgres, "measured")
    table = measure(pair, postgres, connections=2, rounds=1, events=4, echo=True)
    assert [*table] == [FILE, SERVER]
    assert all(figures["cpu"][0] > 0 for figures in table.values())
    assert table[SERVER]["server"][0] > 0
    assert postgres.ask("SELECT count(*) FROM measured.inbox") == [(0,)]
