"""Conversations of a real process that is killed again and again, over real sockets and a real file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.ordering import TEXTS, check, order_all
from tests.processes.process import Stack, on_both_stacks

pytestmark = pytest.mark.processes

CHATS, ORDERS = 100, 3
KILLS = {"ours": 12, "stock": 4}  # each time a start of the whole program


@on_both_stacks
async def test_kill_9_loses_no_answer_and_asks_nothing_twice_without_need(
    tmp_path: Path, stack: Stack
) -> None:
    """Every conversation ends as it should, in its order; twice came only what nobody knew to have come."""
    result = await order_all(tmp_path, CHATS, KILLS[stack], ORDERS, stack=stack)

    assert len(result.texts) == CHATS
    for chat, texts in result.texts.items():
        check(texts, chat, ORDERS)
    # Each chat has at most one text on its way when the process dies, and most have none.
    assert result.repeats <= CHATS * ORDERS * TEXTS // 4
    errors = [line for line in result.output.splitlines() if "ERROR" in line]
    # To die a dozen times soon after the start is what that alarm is for.
    assert [line for line in errors if "ALARM crash_loop: " not in line] == []
