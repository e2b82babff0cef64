"""What is asked of a shard whose store is away for a moment."""

from __future__ import annotations

from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from triobot.errors import StoreAwayError, StoreFullError
from triobot.nodes.doors import Doors
from triobot.nodes.frames import ReadBroadcast
from triobot.nodes.owners import Owner
from triobot.seams import BroadcastStatus, LeaseLostError


@attrs.define
class Broadcasts:
    """Fails so many times."""

    failures: list[Exception]

    async def status(self, key: str) -> BroadcastStatus:
        await trio.lowlevel.checkpoint()
        if self.failures:
            raise self.failures.pop(0)
        return BroadcastStatus("none")


@attrs.define
class Work:
    broadcasts: Broadcasts
    dispatcher: Any = attrs.Factory(lambda: cast("Any", _Dispatcher()))
    store: Any = None


@attrs.define
class _Dispatcher:
    elsewhere: Any = None
    keeping: Any = None


async def test_what_is_asked_of_a_shard_whose_store_is_away_waits_for_it(autojump_clock: MockClock) -> None:
    """A conversation that asks another shard must not fail because a server was away for a moment."""
    async with trio.open_nursery() as nursery:
        owner = Owner(cast("Any", None), nursery)
        doors = Doors(1, {0: owner})
        owner.begin(cast("Any", Work(Broadcasts([StoreAwayError("away"), LeaseLostError("taken over")]))))
        assert await doors.ask(0, ReadBroadcast("news")) == BroadcastStatus("none")
        # A disk without room is no passing thing.
        owner.begin(cast("Any", Work(Broadcasts([StoreFullError("full")]))))
        with pytest.raises(StoreFullError, match="full"):
            await doors.ask(0, ReadBroadcast("news"))


async def test_nothing_is_asked_for_a_shard_that_another_process_may_have(autojump_clock: MockClock) -> None:
    """It may have done the same for the conversation, and have had that settled: it would be done twice."""
    async with trio.open_nursery() as nursery:
        owner = Owner(cast("Any", None), nursery)
        broadcasts = Broadcasts([StoreAwayError("away")])
        owner.begin(cast("Any", Work(broadcasts)))
        held = iter([False, True, False, False, True])
        assert await Doors(1, {0: owner}).ask(0, ReadBroadcast("news"), held.__next__) == BroadcastStatus(
            "none"
        )
        assert list(held) == []
