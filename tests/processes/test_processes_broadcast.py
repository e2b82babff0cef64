"""A broadcast in a real process, over real sockets, killed in the middle."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.announcement import announce
from tests.processes.process import Stack
from triobot.outbox.broadcast_plan import WindowRules

pytestmark = pytest.mark.processes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stack", "receivers", "kills"), [("ours", 600, 2), pytest.param("stock", 300, 1, marks=pytest.mark.long)]
)
async def test_kill_9_in_a_broadcast_tells_nobody_twice(
    tmp_path: Path, stack: Stack, receivers: int, kills: int
) -> None:
    """Everybody is told once or counted as unknown; who talks to the bot meanwhile is answered at once."""
    result = await announce(tmp_path, receivers, kills, stack)

    assert set(result.told.values()) == {1}
    assert result.status.state == "done"
    assert (result.status.total, result.status.left) == (receivers, 0)
    assert result.status.gone == result.status.failed == 0
    assert result.status.unknown <= kills * WindowRules().width
    assert result.status.sent <= len(result.told)
    assert receivers - len(result.told) <= result.status.unknown
    # A reply waits for its journal and for a place on the wire, and never for the queue.
    assert len(result.between) == 3 * kills
    assert sorted(result.between)[len(result.between) // 2] <= 128
