"""The process dies at each write of a broadcast, before and after it: nobody is told twice, nor lost."""

from __future__ import annotations

from collections import Counter
from contextlib import aclosing
from typing import Any

import pytest
import trio
from broadcast_rig import Noon, listed, running
from scripted_platform import ScriptedPlatform, forbidden
from trio.testing import MockClock

from triobot.outbox.broadcast_plan import WindowRules
from triobot.seams.broadcasts import Announcement
from triobot.store.memory import open_memory

RECEIVERS = 40
WINDOW = WindowRules(width=6, extra=4)


class Crashable:
    """A store whose process dies at a write: nothing is written from then on."""

    def __init__(self, store: Any, at: int, *, done: bool) -> None:
        self._store = store
        self._left = at
        self._done = done
        self.died = trio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, *writes: Any) -> None:
        self._left -= 1
        if self._left <= 0:
            if self._left == 0 and self._done:
                await self._store.commit(*writes)
            self.died.set()
            await trio.sleep_forever()
        await self._store.commit(*writes)


async def script(operation: Any) -> None:
    if operation.chat_id in (7, 8):
        raise forbidden(operation)


@pytest.mark.parametrize("done", [False, True], ids=["before the write", "after it"])
async def test_a_crash_at_any_write_tells_nobody_twice(autojump_clock: MockClock, done: bool) -> None:
    for at in range(1, 100):
        told: Counter[int] = Counter()
        async with open_memory(clock=Noon()) as store:
            mortal = Crashable(store, at, done=done)
            started: list[bool] = []

            async def begin(rig: Any, started: list[bool] = started) -> None:
                async with aclosing(listed(range(RECEIVERS))) as audience:
                    started.append(await rig.broadcasts.start("k", Announcement("hello"), audience))
                await rig.over()

            platform = ScriptedPlatform(script)
            async with trio.open_nursery() as nursery, running(mortal, platform, window=WINDOW) as rig:
                nursery.start_soon(begin, rig)
                with trio.move_on_after(60) as survived:
                    await mortal.died.wait()
                nursery.cancel_scope.cancel()
            told.update(one.chat_id for one in platform.took_effect)
            if survived.cancelled_caught:
                assert at > 10
                return
            async with running(store, ScriptedPlatform(script), window=WINDOW) as rig:
                again = await rig.start(chats=range(RECEIVERS))
                assert not (again and started)
                status = await rig.over()
                told.update(rig.told())
            assert set(told.values()) == {1}, at
            assert status.state == "done"
            assert status.left == 0
            assert status.unknown <= WINDOW.width + WINDOW.extra
            assert status.sent <= len(told) <= status.sent + status.unknown
            assert RECEIVERS - len(told) <= 2 + status.unknown
    pytest.fail("it never ended")


@pytest.mark.parametrize("on_unknown", ["count", "resend"])
async def test_a_kill_leaves_in_doubt_whose_request_was_on_its_way(
    autojump_clock: MockClock, on_unknown: Any
) -> None:
    """Whoever waits for a place on the wire is not meant yet; told again only where the author chose that."""
    announcement = Announcement("hello", on_unknown=on_unknown)

    async def silent(operation: Any) -> None:
        await trio.sleep_forever()

    async with open_memory(clock=Noon()) as store:
        mortal, platform = Crashable(store, 10**9, done=False), ScriptedPlatform(silent)
        async with trio.open_nursery() as nursery, running(mortal, platform) as rig:
            assert await rig.broadcasts.start("k", announcement, listed(range(60)))
            await trio.sleep(0.5)
            on_their_way = platform.most_in_flight
            mortal._left = 0
            nursery.cancel_scope.cancel()
        async with running(store, ScriptedPlatform()) as rig:
            status = await rig.over()
            told = rig.told()
    assert 0 < on_their_way < 60
    assert len(told) == len(set(told))
    if on_unknown == "resend":
        assert (len(told), status.sent, status.unknown) == (60, 60, 0)
    else:
        assert status.unknown == on_their_way
        assert status.sent == len(told) == 60 - on_their_way
