"""Conversations of a real process that is killed again and again, over real sockets and a real file."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest
import trio

from tests.loopback import Users, open_platform, text_event
from tests.processes.bots import TIMEOUTS
from tests.processes.ordering import order_all
from tests.processes.process import SECRET, Stack, listen, on_both_stacks_when_long, start_bot

pytestmark = pytest.mark.processes

CHATS, FEW_CHATS, ORDERS = 100, 40, 3
KILLS, MANY_KILLS = 4, 12  # each time a start of the whole program


@on_both_stacks_when_long
async def test_kill_9_loses_no_answer_and_asks_nothing_twice_without_need(
    tmp_path: Path, stack: Stack, long: bool
) -> None:
    """Every conversation ends as it should, in its order; twice came only what nobody knew to have come."""
    chats, kills = FEW_CHATS, KILLS
    if long:
        chats, kills = CHATS, MANY_KILLS if stack == "ours" else KILLS
    result = await order_all(tmp_path, chats, kills, ORDERS, stack=stack)
    result.check(chats, ORDERS)


@pytest.mark.slow
@on_both_stacks_when_long
@pytest.mark.cold
async def test_three_blocks_one_of_which_ends_while_nobody_runs(tmp_path: Path, stack: Stack) -> None:
    """Killed between the first and the second: each has ended once, in order, and not before its time."""
    store = tmp_path / "bot.db"
    async with open_platform() as platform:
        with listen() as sock:
            users, texts = Users(sock.getsockname()[1], f"/{SECRET}"), platform.texts[7]
            process = await start_bot("timed", stack=stack, platform=platform.url, store=store, sock=sock)
            try:
                async with users.connect() as line:
                    assert await users.post(line, text_event(7, "hi"), close=True) == 200
                await platform.wait_until(lambda: any(text.startswith("inner") for text in texts))
                await process.kill()
                await trio.sleep(TIMEOUTS["middle"])
                process = await start_bot("timed", stack=stack, platform=platform.url, store=store, sock=sock)
                await platform.wait_until(lambda: any(text.startswith("outer") for text in texts))
                assert await process.stop() == 0
            finally:
                process.popen.kill()
                process.popen.wait()

    # What was on its way when the process died may have come twice.
    heard = [text for text, _ in groupby(texts)]
    assert [text.split()[0] for text in heard] == ["begun", "inner", "middle", "outer"]
    for text in heard[1:]:
        name, caught, after = text.split()
        assert caught == "True"
        assert int(after) >= TIMEOUTS[name] * 1000
