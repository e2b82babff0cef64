"""Dry runs: a journal is run again under the present code, to see where that stands then.

Nothing is performed, recorded or taken. What the code does between its operations is done once more. Where
two runs over one journal stand apart (`difference`), a restart would go another way than the live
run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import final

import attrs
import trio

from triobot.engine.core import End, Evicted, Operation
from triobot.engine.host import Host, RunOwner
from triobot.engine.records import ABSENT, Absent, Codec, Id, Node, Record, times_of
from triobot.engine.run import Run
from triobot.errors import NondeterminismError

from .plain import JSON


@final
@attrs.frozen
class OpenOperation:
    """An operation that a branch is in."""

    id: Id
    kind: str
    print: str
    due: int | None


@final
@attrs.frozen
class OpenBranch:
    """A branch, and the operation that it is in."""

    path: str
    operation: OpenOperation | None


@final
@attrs.frozen
class Snapshot:
    """The state of a run at one moment.

    Attributes:
        given: number of turns of the journal that were given to the code.
        live: whether the code was given all turns of the journal.
        branches: parents before their children.
        blocks: id, deadline and whether the block is ending; the outermost first.
    """

    given: int
    live: bool
    branches: Sequence[OpenBranch]
    blocks: Sequence[tuple[Id, int | None, bool]]
    interrupted: bool


def describe(run: Run) -> Snapshot:
    """Return a run's state, which must be the same in two incarnations over one journal."""
    resting = {op.branch: OpenOperation(op.id, op.kind, op.print, op.due) for op in run.resting}
    return Snapshot(
        run.journal.given,
        run.journal.live,
        [OpenBranch(branch.path, resting.get(branch)) for branch in run.branches],
        [(block.id, block.due, block.cancel_called) for block in run.blocks],
        run.interrupted,
    )


@final
@attrs.frozen
class Replayed:
    """Where a dry run came to.

    Attributes:
        snapshot: where it stood at its journal's end.
        rested: it came to rest; otherwise it awaits something else than an operation.
        beyond: what it would have recorded after the journal's end, beside its operations.
        reworded: operations that have other arguments than their records.
        stuck: why the code doesn't fit the journal.
        end: how it came to its end, if it did.
    """

    snapshot: Snapshot
    rested: bool
    beyond: Sequence[Record] = attrs.field(repr=False)
    reworded: Sequence[Id]
    diverged: NondeterminismError | None
    end: End | None


class DryHost(Host, RunOwner):
    """The host of a dry run: it stands still at one time.

    Args:
        data: reads shared data, which a turn that ran before may ask for anew.
        jumped: by how much the clock has been set.
    """

    def __init__(
        self, now: int, data: Callable[[str], Node | Absent] | None = None, *, jumped: int = 0
    ) -> None:
        self.rested = trio.Event()
        self.reworded_at: list[Id] = []
        self._now = now
        self._jumped = jumped
        self._data = data

    def now(self) -> int:
        return self._now

    def jumped(self) -> int:
        return self._jumped

    def append(self, record: Record, rows: Sequence[int] = (), write: object = None) -> None:
        raise AssertionError("a dry run records nothing")

    async def commit(self) -> None:
        raise AssertionError("a dry run performs nothing")

    def rests(self, wake: int | None) -> None:
        self.rested.set()

    def read(self, key: str) -> Node | Absent:
        return ABSENT if self._data is None else self._data(key)

    def parting(self, record: Record, op: Operation) -> str | None:
        if record[4] != op.print:
            self.reworded_at.append(op.id)
        return None


async def replay(
    records: Sequence[Record],
    main: Callable[..., Awaitable[object]],
    *,
    codec: Codec = JSON,
    data: Callable[[str], Node | Absent] | None = None,
    seconds: float = 10,
) -> Replayed:
    """Run a journal again, dry.

    Args:
        seconds: after which it is left, if it awaits something else than an operation.
    """
    time, jumped, unseen = times_of(records)
    host = DryHost(time, data, jumped=jumped - unseen)
    run = Run(host, records, codec, host, dry=True)
    ends: list[End] = []

    async def lives() -> None:
        ends.append(await run.run(main))
        host.rested.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lives)
        try:
            with trio.move_on_after(seconds):
                await host.rested.wait()
            snapshot, rested = describe(run), host.rested.is_set()
        finally:
            run.evict()
    return Replayed(
        snapshot,
        rested,
        tuple(run.beyond),
        tuple(host.reworded_at),
        run.diverged,
        next((end for end in ends if not isinstance(end, Evicted)), None),
    )


def difference(one: Snapshot, other: Snapshot) -> str | None:
    """Return in words where two runs over one journal stand apart; None if they don't."""
    for what, mine, theirs in (
        ("interrupted", one.interrupted, other.interrupted),
        ("branches", [branch.path for branch in one.branches], [branch.path for branch in other.branches]),
        ("blocks", one.blocks, other.blocks),
    ):
        if mine != theirs:
            return f"{what}: {mine} and {theirs}"
    for branch, twin in zip(one.branches, other.branches, strict=True):
        here, there = branch.operation, twin.operation
        if (here is None) is not (there is None):
            return f"branch {branch.path!r} is {_words(here)} and {_words(there)}"
        if here is not None and there is not None:
            if (here.id, here.kind, here.due) != (there.id, there.kind, there.due):
                return f"branch {branch.path!r} is {_words(here)} and {_words(there)}"
            if here.print != there.print:
                return f"{here.kind} {here.id} has other arguments"
    return None


def _words(operation: OpenOperation | None) -> str:
    return "in no operation" if operation is None else f"in {operation.kind} {operation.id}"
