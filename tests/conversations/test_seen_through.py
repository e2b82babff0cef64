"""What is seen through goes on when its caller doesn't, and says to the caller what came of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from doubles import FakeClock
from trio.testing import MockClock

from triobot.conversations.workload import CommitQueue, Workload
from triobot.store.memory import open_memory


@asynccontextmanager
async def working() -> AsyncGenerator[Workload]:
    async with open_memory(clock=FakeClock()) as store, trio.open_nursery() as nursery:
        work = Workload(CommitQueue(store, lambda alarm: None), FakeClock())
        work.nursery = nursery
        yield work


async def test_its_caller_gets_what_it_returns(autojump_clock: MockClock) -> None:
    async def answer() -> int:
        await trio.sleep(1)
        return 42

    async with working() as work:
        assert await work.see_through(answer) == 42
        assert work.busy == 0


async def test_its_caller_gets_what_it_raises(autojump_clock: MockClock) -> None:
    async def fail() -> None:
        await trio.sleep(1)
        raise LookupError("lost")

    async with working() as work:
        with pytest.raises(LookupError, match="lost"):
            await work.see_through(fail)


@pytest.mark.parametrize("fails", [False, True])
async def test_it_goes_on_without_its_caller(autojump_clock: MockClock, fails: bool) -> None:
    """What it raises then is told to nobody: it is its own business to say how it ended."""
    ended = list[float]()

    async def last() -> None:
        await trio.sleep(10)
        ended.append(trio.current_time())
        if fails:
            raise LookupError("lost")

    async with working() as work:
        began = trio.current_time()
        with trio.move_on_after(1) as limit:
            await work.see_through(last)
        assert limit.cancelled_caught
        assert work.busy == 1
    assert ended == [began + 10]
