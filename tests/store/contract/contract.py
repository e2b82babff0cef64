"""What all parts of the suite share: the store under test, its clock, and what is written most."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from triobot.seams.inbox import Arrival, InboxRow, Quota
from triobot.store import Store
from triobot.store.rules import RETENTION, Retention
from triobot.wire.ids import ChatId, SenderId

NOON = 1_800_000_000_000
SECOND = 1000
MINUTE = 60 * SECOND
DAY = 24 * 60 * MINUTE

ROOMY = Quota()
ALI, SARA = SenderId(501), SenderId(502)


@attrs.define
class SettableClock:
    """A wall clock that stands where it is put."""

    time: int = NOON

    def now(self) -> int:
        return self.time


def arrival(chat: int = 1, **changes: Any) -> Arrival:
    """Make an arrival, with what the test cares about changed."""
    plain = Arrival(
        chat_id=ChatId(chat),
        sender_id=None,
        at=NOON,
        content_type="application/json",
        body=b'{"type":"message"}',
    )
    return attrs.evolve(plain, **changes)


async def accepted(store: Store, an_arrival: Arrival, **rest: Any) -> InboxRow:
    """Accept an arrival that must be accepted; return its row."""
    answer = await store.accept(an_arrival, quota=ROOMY, **rest)
    assert isinstance(answer, InboxRow)
    return answer


class Contract:
    """A part of the suite. `clock` is the time of day for the store under test."""

    pytestmark = pytest.mark.trio

    def opened(
        self, clock: SettableClock, folder: Path, retention: Retention = RETENTION
    ) -> AbstractAsyncContextManager[Store]:
        """Open the store of this folder: empty at first, and the same one when a test opens it again."""
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> SettableClock:
        return SettableClock()

    @pytest.fixture
    async def store(self, clock: SettableClock, tmp_path: Path) -> AsyncIterator[Store]:
        async with self.opened(clock, tmp_path) as store:
            yield store


@asynccontextmanager
async def gathering(store: Store) -> AsyncGenerator[trio.Nursery]:
    """Let what the store is given wait for the end of the block, and be one batch then."""
    end = threading.Event()

    def wait(_: object) -> str:
        end.wait()
        return "words"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(store.accept, arrival(99), quota=ROOMY, beginning=wait))
        await wait_all_tasks_blocked()
        try:
            yield nursery
        finally:
            end.set()
