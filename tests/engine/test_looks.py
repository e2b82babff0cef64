"""A dry run is looked at before each turn that it is given, and it stands there as one that ends there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio

from triobot.engine import Record, Run
from triobot.engine.records import TURNS, times_of

from .lives import Lives
from .plain import JSON
from .replaying import DryHost, Snapshot, describe, difference, replay


async def looks(records: Sequence[Record], main: Callable[..., Awaitable[object]]) -> list[Snapshot]:
    """Where a dry run stood, each time that it was looked at."""
    host, seen = DryHost(times_of(records)[0]), list[Snapshot]()
    run = Run(host, records, JSON, host, dry=True)
    host.look = lambda: seen.append(describe(run))

    async def lives() -> None:
        await run.run(main)
        host.rested.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lives)
        await host.rested.wait()
        run.evict()
    return seen


def until(records: Sequence[Record], turns: int) -> list[Record]:
    """The journal up to this turn, with all that is beside it."""
    place = [n for n, record in enumerate(records) if record[0] in TURNS]
    return list(records[: place[turns]] if turns < len(place) else records)


async def straight(run: Run) -> None:
    for _ in range(3):
        await run.wait()
        await run.step(nothing)
        run.note("x", lambda: 1)
    await run.sleep(5)


async def nothing() -> None:
    await trio.lowlevel.checkpoint()


async def branches(run: Run) -> None:
    """Children beside a block that its deadline ends, then straight code again."""

    async def child() -> None:
        await run.wait()
        await run.sleep(1)
        await run.step(nothing)

    with run.scope(30) as limit:
        async with run.open_nursery() as nursery:
            nursery.start_soon(child)
            nursery.start_soon(child)
        await run.wait()
        await run.wait()
    assert limit.expired
    await straight(run)


async def ends_by_an_event(run: Run) -> None:
    with run.scope(takes=lambda event: event) as block:
        await run.sleep(100)
    assert block.event == "a"
    await straight(run)


@pytest.mark.parametrize("main", [straight, branches, ends_by_an_event])
async def test_each_look_stands_where_a_shorter_journal_ends(
    autojump_clock: trio.abc.Clock, main: Callable[..., Awaitable[object]]
) -> None:
    host = Lives()
    async with host.living(main):
        for event in "abcdefgh":
            await host.give(event)
            await trio.sleep(12)
    records = host.records
    turns = [record for record in records if record[0] in TURNS]

    seen = await looks(records, main)

    ended = turns[-1][0] == "Z"
    assert [one.given for one in seen] == list(range(len(turns) - 1 if ended else len(turns) + 1))
    for one in seen:
        shorter = await replay(until(records, one.given), main)
        assert difference(one, shorter.snapshot) is None


async def test_code_that_parts_from_its_journal_is_looked_at_before(
    autojump_clock: trio.abc.Clock,
) -> None:
    """The last look is where it still fits."""
    host = Lives()
    await host.live(straight, "a", "b")

    async def other(run: Run) -> None:
        await run.wait()
        await run.sleep(1)

    seen = await looks(host.records, other)

    assert [one.given for one in seen] == [0, 1]
    (branch,) = seen[-1].branches
    assert branch.operation is not None
    assert branch.operation.kind == "sleep"
