"""Worlds in which everything goes wrong, with each write and each question put to PostgreSQL as well."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from tests.payments.second_store import SecondStore
from tests.payments.simulation import START, run
from tests.payments.test_simulation import FEW
from tests.postgres import Server
from tests.samples import sample
from tests.store.postgres_rows import PostgresRows
from triobot.store.writer import Job


@pytest.mark.slow
@pytest.mark.parametrize("seed", sample(FEW, every=23))
def test_a_world_s_money_is_on_postgres_what_it_is_in_the_model(postgres_server: Server, seed: int) -> None:
    second = SecondStore(postgres_server, START)
    try:
        seen = run(seed, second=second)
    finally:
        second.close()
    assert seen.wrong == []
    assert (second.commits > 0) >= (seen.payments > 0)
    assert second.asked > 0


@pytest.mark.slow
def test_a_write_that_is_lost_is_noticed(postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, times = PostgresRows.run, count(1)

    def lose_one(rows: PostgresRows, job: Job[Any]) -> Exception | None:
        return None if next(times) == 20 else commit(rows, job)

    monkeypatch.setattr(PostgresRows, "run", lose_one)
    second = SecondStore(postgres_server, START)
    try:
        with pytest.raises(AssertionError):
            run(36, second=second)
    finally:
        second.close()
