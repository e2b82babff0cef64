"""How long the status of a bot in shards waits for shards that don't answer."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from triobot import Settings
from triobot.cli import status


async def test_shards_that_give_no_answer_take_five_seconds_together(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(*_: object) -> bool:
        await trio.sleep_forever()

    monkeypatch.setattr(status, "ask_running", silent)
    shards = [Settings(store=f"postgresql:?shards=8&shard={shard}") for shard in range(8)]
    began = trio.current_time()
    checked = await status._check_all(shards)

    assert trio.current_time() - began == pytest.approx(5)
    assert {code for code, _, _ in checked} == {status.UNKNOWN}
    assert [line.partition(":")[0] for _, line, _ in checked] == [f"shard {shard}" for shard in range(8)]
