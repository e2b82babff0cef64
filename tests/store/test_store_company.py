"""The writer's wait for company: what can wait shares a commit, and nobody who joins is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing
from sqlite_rig import opened

from tests.loopback import PATIENCE
from triobot.seams import Consume, PutSetting
from triobot.store.writer import MOST_IN_A_BATCH
from triobot.testing.stores.contract import accepted, arrival


@pytest.mark.parametrize("lazy", [1, MOST_IN_A_BATCH, MOST_IN_A_BATCH + 10])
async def test_a_crowd_that_comes_to_the_one_who_waits_is_served(lazy: int, tmp_path: Path) -> None:
    """More than a batch comes at once: whoever does not fit comes with the next one."""
    served = 0

    async with opened(tmp_path / "store") as store:
        row = await accepted(store, arrival(1))

        async def consume() -> None:
            nonlocal served
            await store.commit(Consume((row.seq,)))
            served += 1

        async def put(number: int) -> None:
            nonlocal served
            await store.commit(PutSetting("n", str(number)))
            served += 1

        crowd = 2 * MOST_IN_A_BATCH
        with trio.move_on_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                for _ in range(lazy):
                    nursery.start_soon(consume)
                await trio.testing.wait_all_tasks_blocked()
                for number in range(crowd):
                    nursery.start_soon(put, number)

    assert served == lazy + crowd
