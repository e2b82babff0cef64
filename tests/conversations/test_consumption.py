"""What conversations leave behind: units, each stored whole or not at all, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing
from doubles import FakeClock

from triobot.conversations.workload import CommitQueue, Refusal, Workload
from triobot.errors import StoreFullError
from triobot.seams.journals import AppendRecords, ConversationId
from triobot.seams.money import Decided, MovePayment, PaymentRow, PutPayment
from triobot.seams.writes import Consume, PutSetting, StaleRowError, Write
from triobot.store import Store
from triobot.store.memory import open_memory
from triobot.wire.ids import ChatId, RefId

ROW = PaymentRow(RefId("1111"), 1, "open", "button IRR", ChatId(7), 500, 1, "{}")


@attrs.define(eq=False)
class Author:
    """Who writes units, and what it was told."""

    lost: int = 0
    told: list[str] = attrs.field(factory=list[str])

    def refused(self, error: Refusal) -> None:
        self.told.append(type(error).__name__)


@attrs.define(eq=False)
class Pending(Author):
    """Who adds a unit when asked to."""

    queue: CommitQueue = attrs.field(kw_only=True)
    setting: str = attrs.field(kw_only=True)

    def flush(self) -> int:
        return self.queue.add([PutSetting(self.setting, "1")])


def never(row: PaymentRow | None) -> Sequence[Decided]:
    raise StaleRowError("1111")


REFUSED: dict[str, Write] = {
    "StaleRowError": MovePayment(RefId("1111"), never, lambda: None),
    "JournalConflictError": AppendRecords(ConversationId(5), 0, ("{}",)),
    "LocalProtocolError": PutPayment(attrs.evolve(ROW, amount=-1), "made", 1),
}


@asynccontextmanager
async def consuming() -> AsyncGenerator[tuple[Store, CommitQueue]]:
    async with open_memory(clock=FakeClock()) as store, trio.open_nursery() as nursery:
        consumption = CommitQueue(store, lambda alarm: None)
        nursery.start_soon(consumption.keep_flushing)
        yield store, consumption
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("why", REFUSED)
async def test_a_unit_that_is_refused_takes_nobody_elses_with_it(why: str) -> None:
    """Those of the same writer before it are stored, and none behind it."""
    one, other = Author(), Author()
    async with consuming() as (store, consumption):
        consumption.add([PutSetting("other before", "1")], other)
        consumption.add([PutSetting("one before", "1")], one)
        consumption.add([PutSetting("refused", "1"), REFUSED[why]], one)
        consumption.add([PutSetting("one behind", "1")], one)
        consumption.add([PutSetting("nobody's", "1")])
        await consumption.wait_for(consumption.add([PutSetting("other behind", "1")], other))
        await consumption.wait_for(consumption.add([PutSetting("one later", "1")], one))

        assert (one.told, other.told) == ([why], [])
        for name in ("other before", "one before", "nobody's", "other behind"):
            assert await store.setting(name) == "1"
        for name in ("refused", "one behind", "one later"):
            assert await store.setting(name) is None


async def test_who_asks_is_told_once_what_was_added_by_then_is_written() -> None:
    """What is added later in the same step, and what is looked for just before the writing, is among it."""
    told: list[str] = []
    async with consuming() as (store, consumption):
        consumption.when_written(lambda: told.append(f"written: {consumption.written >= 3}"))
        consumption.before_writing(Pending(queue=consumption, setting="looked for"))
        consumption.add([PutSetting("one", "1")])
        await consumption.wait_for(consumption.add([PutSetting("two", "1")]))
        assert told == ["written: True"]
        assert await store.setting("looked for") == "1"
        consumption.when_written(lambda: told.append("nothing to write"))
        await trio.testing.wait_all_tasks_blocked()
        assert told[1:] == ["nothing to write"]
    consumption.when_written(lambda: told.append("over"))
    await consumption.flush_at_the_end()
    assert told[2:] == ["over"]


async def test_a_step_that_leaves_nothing_to_store_wakes_no_task() -> None:
    """Who asked in the step is told at its end; what the step leaves is stored as ever."""
    told: list[str] = []
    async with consuming() as (store, consumption):
        await trio.testing.wait_all_tasks_blocked()
        consumption.in_step = True
        consumption.before_writing(pending := Pending(queue=consumption, setting="looked for"))
        consumption.when_written(lambda: told.append("nothing left"))
        del consumption.pending[pending]
        consumption.end_step()
        assert told == ["nothing left"]

        consumption.in_step = True
        consumption.add([PutSetting("one", "1")])
        consumption.when_written(lambda: told.append(f"written: {consumption.written >= 1}"))
        await trio.testing.wait_all_tasks_blocked()
        consumption.end_step()
        assert told[1:] == []
        await trio.testing.wait_all_tasks_blocked()
        assert told[1:] == ["written: True"]
        assert await store.setting("one") == "1"


async def test_who_wrote_it_is_told_before_anybody_goes_on() -> None:
    """What waits for its unit must find out that it was refused, and not that it was written."""
    order: list[str] = []

    class Teller:
        lost = 0

        def refused(self, error: Refusal) -> None:
            order.append("refused")

    async with consuming() as (_, consumption):
        added = consumption.add([REFUSED["StaleRowError"]], Teller())
        await consumption.wait_for(added)
        order.append("went on")

    assert order == ["refused", "went on"]


@pytest.mark.parametrize("why", REFUSED)
async def test_nothing_behind_a_refused_unit_is_stored_once_there_is_room(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the disk was full all of them waited, and none was known to be wrong."""
    one = Author()
    async with open_memory(clock=FakeClock()) as store:
        commit, full = store.commit, [True]

        async def commit_once_there_is_room(*writes: Write) -> None:
            if full.pop() if full else False:
                raise StoreFullError("no room")
            await commit(*writes)

        monkeypatch.setattr(type(store), "commit", staticmethod(commit_once_there_is_room))
        consumption = CommitQueue(store, lambda alarm: None)
        consumption.add([PutSetting("before", "1")], one)
        consumption.add([PutSetting("refused", "1"), REFUSED[why]], one)
        consumption.add([PutSetting("behind", "1")], one)
        for _ in range(2):
            await consumption._flush()
        assert one.told == [why]
        assert [await store.setting(name) for name in ("before", "refused", "behind")] == ["1", None, None]


async def test_an_end_behind_nothing_is_noted_at_once() -> None:
    """Behind something that isn't written, or of a writer whose unit was refused, it waits as all else."""
    end = Consume((1,))
    async with consuming() as (_, consumption):
        assert consumption.add([end], Author()) == consumption.written
        assert consumption.added - consumption.written == 0
        consumption.add([PutSetting("one", "1")])
        assert consumption.add([end]) > consumption.written
        assert consumption.added - consumption.written == 2
        await consumption.wait_for()
        assert consumption.add([end], Author(lost=1)) > consumption.written
        assert consumption.added - consumption.written == 1
        await consumption.wait_for()
        # What it has led to may be looked for yet.
        consumption.before_writing(Pending(queue=consumption, setting="two"))
        assert consumption.add([end]) > consumption.written


async def test_tasks_that_rest_end_with_their_nursery() -> None:
    """One whose scope was cancelled too late for what it did ends before, and takes none along."""
    tasks: list[trio.lowlevel.Task] = []

    async def live(scope: trio.CancelScope) -> None:
        tasks.append(trio.lowlevel.current_task())
        if len(tasks) == 3:
            scope.cancel()

    async with open_memory(clock=FakeClock()) as store, trio.open_nursery() as nursery:
        work = Workload(CommitQueue(store, lambda alarm: None), FakeClock())
        work.nursery = nursery
        nursery.start_soon(work.keep_tasks)
        await trio.testing.wait_all_tasks_blocked()
        for names in ("ab", "c", "d", "e"):
            for name in names:
                work.start(live, name)
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert len(set(tasks[:2])) == 2
    assert tasks[2] in tasks[:2]
    assert tasks[2] not in tasks[3:]
    assert set(tasks[3:]) < set(tasks[:2])
