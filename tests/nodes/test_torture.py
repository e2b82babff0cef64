"""Processes that share a store suffer while chats talk and buy: each event is answered once, in its order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.nodes.torture import (
    FAULTS,
    PAIRED,
    Fault,
    Suffered,
    clock_of_a_standby,
    cut,
    disk_full,
    freeze_long,
    kill,
    stop,
    suffer,
    terminate,
)
from tests.postgres import run_pair, run_server, why_not

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(why_not() is not None, reason=f"{why_not()}"),
]


@pytest.mark.slow
async def test_nothing_is_lost_nor_twice_nor_out_of_order(tmp_path: Path) -> None:
    await check(tmp_path, [kill, terminate, cut, stop, freeze_long, disk_full, clock_of_a_standby])


@pytest.mark.long
async def test_whatever_happens(tmp_path: Path) -> None:
    await check(tmp_path, FAULTS)


@pytest.mark.long
async def test_whatever_happens_to_a_pair_of_servers(tmp_path: Path) -> None:
    with run_pair(synchronous=True) as (server, spare):
        held(await suffer(tmp_path, server, PAIRED, spare=spare, chats=12))


async def check(folder: Path, faults: Sequence[Fault]) -> None:
    """Suffer these."""
    with run_server() as server:
        held(await suffer(folder, server, faults, chats=12))


def held(suffered: Suffered) -> None:
    """Nothing was found that must not be, and of each fault somebody said what it was."""
    assert suffered.events > 12
    assert {what: times for what, times in suffered.found.items() if times} == {}
    assert suffered.complaints == []
    assert suffered.untold == []
