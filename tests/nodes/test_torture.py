"""Processes that share a store suffer while chats talk and buy: each event is answered once, in its order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.nodes.torture import FAULTS, Fault, cut, freeze_long, kill, stop, suffer, terminate
from tests.postgres import run_server, why_not

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(why_not() is not None, reason=f"{why_not()}"),
]


@pytest.mark.slow
async def test_nothing_is_lost_nor_twice_nor_out_of_order(tmp_path: Path) -> None:
    await check(tmp_path, [kill, terminate, cut, stop, freeze_long])


@pytest.mark.long
async def test_whatever_happens(tmp_path: Path) -> None:
    await check(tmp_path, FAULTS)


async def check(folder: Path, faults: Sequence[Fault]) -> None:
    """Suffer these."""
    with run_server() as server:
        suffered = await suffer(folder, server, faults, chats=12)
    assert suffered.events > 12
    assert {what: times for what, times in suffered.found.items() if times} == {}
    assert suffered.complaints == []
