"""The writer's queue: what can wait shares a commit, what is handed over is stored, none is forgotten."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from sqlite_rig import opened

from tests.loopback import PATIENCE
from tests.store.contract.contract import ROOMY, accepted, arrival
from triobot.seams.inbox import Redelivered
from triobot.seams.writes import PutSetting
from triobot.store import Store
from triobot.store.writer import MOST_IN_A_BATCH, Job, Transactions


@pytest.mark.parametrize("noted", [0, 1, 10])
async def test_a_crowd_is_served_behind_what_was_noted(noted: int, tmp_path: Path) -> None:
    """Whoever does not fit comes with the next batch, and what is noted meanwhile keeps its place."""
    served = 0

    async with opened(tmp_path / "store") as store:
        rows = [await accepted(store, arrival(1)) for _ in range(noted)]
        last = await accepted(store, arrival(2))

        async def put(number: int) -> None:
            nonlocal served
            await store.commit(PutSetting("n", str(number)))
            served += 1
            if not number:
                assert store.note_consumed([last.seq])

        crowd = 2 * MOST_IN_A_BATCH
        with trio.move_on_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                for row in rows:
                    assert store.note_consumed([row.seq])
                for number in range(crowd):
                    nursery.start_soon(put, number)
            assert await store.backlog(after=0, limit=20) == []

    assert served == crowd


def hold_batches(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let the batches from now on wait until the event is set."""
    go, run = threading.Event(), Transactions.run

    def run_then(self: Transactions, batch: Sequence[Job[Any]]) -> list[Exception | None]:
        go.wait(PATIENCE)
        return run(self, batch)

    monkeypatch.setattr(Transactions, "run", run_then)
    return go


async def test_one_who_comes_alone_is_served_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody came with the last one; where some did, what comes in the same pass of the loop comes along."""
    sizes: list[int] = []
    run = Transactions.run

    def count(self: Transactions, batch: Sequence[Job[Any]]) -> list[Exception | None]:
        sizes.append(len(batch))
        return run(self, batch)

    async with opened(tmp_path / "store") as store:

        async def come(many: int) -> list[int]:
            sizes.clear()
            async with trio.open_nursery() as nursery:
                for _ in range(many):
                    nursery.start_soon(store.setting, "colour")
            return list(sizes)

        monkeypatch.setattr(Transactions, "run", count)
        assert await come(1) == [1]
        assert await come(3) == [1, 2]
        assert await come(3) == [3]
        assert await come(1) == [1]
        assert await come(2) == [1, 1]


class Queue:
    """A store whose thread is busy, with as many behind it as it takes, and those who had to stay outside."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.announced: list[int] = []
        self.ends: Counter[str] = Counter()

    async def come(self, chat: int, scope: trio.CancelScope) -> None:
        with scope:
            try:
                await self.store.accept(
                    arrival(chat), quota=ROOMY, on_commit=lambda row: self.announced.append(row.chat_id)
                )
            except trio.ClosedResourceError:
                self.ends["closed"] += 1
            else:
                self.ends["stored"] += 1
        self.ends["cancelled"] += scope.cancelled_caught


async def test_what_is_cancelled_is_stored_if_it_was_handed_over_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One batch is under way, one waits behind it, the rest is outside; some of each are cancelled."""
    crowd = MOST_IN_A_BATCH + 9
    async with opened(tmp_path / "store") as store:
        queue, scopes = Queue(store), [trio.CancelScope() for _ in range(crowd)]
        go = hold_batches(monkeypatch)
        async with trio.open_nursery() as nursery:
            for chat in range(crowd):
                nursery.start_soon(queue.come, chat, scopes[chat])
                await trio.testing.wait_all_tasks_blocked()
            for chat in (0, 1, 7, MOST_IN_A_BATCH, MOST_IN_A_BATCH + 1, MOST_IN_A_BATCH + 5):
                scopes[chat].cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert queue.ends == {"cancelled": 6}
            go.set()
        outside = {MOST_IN_A_BATCH + 1, MOST_IN_A_BATCH + 5}
        handed_over = [chat for chat in range(crowd) if chat not in outside]
        assert queue.announced == handed_over
        assert queue.ends == {"cancelled": 6, "stored": len(handed_over) - 4}
        assert [row.chat_id for row in await store.backlog(after=0, limit=2_000)] == handed_over


async def test_what_arrived_before_an_answer_does_not_see_it_however_late_its_turn_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The platform repeated what it had no answer to: the answer that comes now is late."""
    answers: list[object] = []
    async with opened(tmp_path / "store") as store:

        async def come_again() -> None:
            answers.append(await store.accept(arrival(key="word"), quota=ROOMY))

        await accepted(store, arrival(key="word"))
        go = hold_batches(monkeypatch)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.setting, "any")
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(come_again)
            await trio.testing.wait_all_tasks_blocked()
            store.note_answered("word")
            go.set()
        await accepted(store, arrival(key="word"))
    assert answers == [Redelivered()]


async def test_those_outside_are_told_when_it_closes_and_nothing_of_them_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was handed over is stored although the block is being left."""
    crowd, path = MOST_IN_A_BATCH + 9, tmp_path / "store"

    async def go_when_all_wait(go: threading.Event) -> None:
        await trio.testing.wait_all_tasks_blocked()
        go.set()

    async with trio.open_nursery() as nursery, opened(path) as store:
        queue = Queue(store)
        go = hold_batches(monkeypatch)
        for chat in range(crowd):
            nursery.start_soon(queue.come, chat, trio.CancelScope())
            await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(go_when_all_wait, go)
    assert queue.ends == {"stored": MOST_IN_A_BATCH + 1, "closed": 8, "cancelled": 0}
    assert queue.announced == list(range(MOST_IN_A_BATCH + 1))
    async with opened(path) as store:
        assert store.statistics().inbox == MOST_IN_A_BATCH + 1
    with pytest.raises(trio.ClosedResourceError):
        await queue.store.setting("colour")
