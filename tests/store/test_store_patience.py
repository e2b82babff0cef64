"""Who waits for a store that is away, and is cut where it is lost for good."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from triobot.errors import StoreAwayError, StoreCorruptError, StoreError
from triobot.seams.patience import await_store
from triobot.seams.writes import LeaseLostError


async def test_what_is_away_is_waited_for(autojump_clock: MockClock) -> None:
    answers = iter([StoreAwayError("away"), StoreAwayError("away"), None])

    async def read() -> str:
        if (error := next(answers)) is not None:
            raise error
        return "here"

    assert await await_store(read) == "here"


@pytest.mark.parametrize("error", [LeaseLostError("another's"), StoreCorruptError("broken")])
async def test_of_what_is_lost_the_cut_comes_first(error: StoreError, autojump_clock: MockClock) -> None:
    """Else a conversation that another process goes on with would fail here, and alarm somebody."""

    async def read() -> None:
        raise error

    with trio.CancelScope() as work:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(await_store, read)
            await trio.sleep(0.5)
            work.cancel()
    assert work.cancelled_caught
    with pytest.raises(type(error)):
        await await_store(read)
