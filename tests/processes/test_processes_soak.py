"""A minute of the soak; ``python -m tests.processes.soak`` is the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.process import Stack, on_both_stacks
from tests.processes.soak import check, soak

pytestmark = [pytest.mark.processes, pytest.mark.long, pytest.mark.first]


@on_both_stacks
async def test_a_bot_is_soaked_for_a_minute(tmp_path: Path, stack: Stack) -> None:
    """Nothing waits, grows or alarms, though a tenth of the senders and of the platform is broken."""
    soaked = await soak(tmp_path, seconds=60, seed=1, stack=stack)

    assert sum(map(len, soaked.said.values())) == 1200
    assert sum(soaked.faults.values()) > 60
    check(soaked)
