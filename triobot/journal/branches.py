"""A conversation's tasks, the ids that they hand out, and the operations in which they are parked.

An id is structural: the branch's path and the branch's own counter. So it doesn't depend on which of several
tasks the scheduler ran first, and the same code gives the same ids on replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from enum import Enum
from typing import Final, NoReturn, TypeAlias, final

import attrs
import trio

from .records import Failed, OperationId, Value

RaiseCancel: TypeAlias = Callable[[], NoReturn]


class Place(Enum):
    """Where a branch is. All but the first rest: they change nothing until they are given something."""

    HOLDS = "holds"
    """It has the turn."""

    QUEUED = "queued"
    """It is to be started."""

    PARKED = "parked"
    """It is in an operation, or waits for its children."""

    WORKS = "works"
    """It runs the body of an effect or a step, outside of any turn."""


_FIRST: Final = OperationId("0")


def _is_cut(around: Sequence[trio.CancelScope]) -> bool:
    for scope in reversed(around):
        if scope.cancel_called:
            return True
        if scope.shield:
            return False
    return False


@final
@attrs.define(eq=False)
class Branch:
    """One task of a conversation.

    Attributes:
        path: empty for the coroutine itself, else the nursery's id and the child's number in it.
        key: the path as numbers, by which operations are ordered.
        around: our scopes around it, outermost first; those of its own code come and go at the end.
        count: ids handed out so far.
        turn: what its present turn gave to it.
        cut_in, cut_at: the last turn in which a block was ended by the journal, not by time, and that block.
        refused: operations refused since it was told to go.
        heedless: operations begun one after the other in blocks that had ended.
        body: around the body of an effect that it is in.
    """

    path: str = ""
    key: tuple[int, ...] = ()
    around: list[trio.CancelScope] = attrs.Factory(lambda: list[trio.CancelScope]())
    place: Place = Place.HOLDS
    count: int = 0
    turn: OperationId = _FIRST
    cut_in: OperationId | None = None
    cut_at: OperationId | None = None
    refused: int = 0
    heedless: int = 0
    body: trio.CancelScope | None = None

    def next_id(self) -> OperationId:
        """The next structural id."""
        self.count += 1
        return OperationId(f"{self.path}{self.count}")

    @property
    def cut(self) -> bool:
        """Whether one of our own scopes around it was cancelled, and no shield of ours hides that."""
        return _is_cut(self.around)

    def cuts(self, scope: trio.CancelScope) -> bool:
        """Whether this scope of its own is on its way out: it was cancelled, or one around it was."""
        return _is_cut(self.around[: self.around.index(scope) + 1])

    def let_go(self, root: trio.CancelScope) -> None:
        """Let what cancels the root be felt, by the body of an effect under anybody's shield, too."""
        for scope in self.around:
            if scope is not root:
                scope.shield = False
        if self.body is not None:
            self.body.cancel()


class Nature(Enum):
    """What completes an operation."""

    WAIT = "wait"
    """An event that the world brings."""

    SLEEP = "sleep"
    """The time."""

    EFFECT = "effect"
    """Its own body, run in the author's task: a send, a step."""

    WITHIN = "within"
    """Another branch; never recorded."""

    JOIN = "join"
    """The end of the last child; never recorded, and no cancellation cuts it short."""


@final
@attrs.frozen
class Felt:
    """The operation was cancelled; calling this raises it."""

    raise_cancel: RaiseCancel


@final
@attrs.frozen
class Passed:
    """Another branch passed this value."""

    value: object


class Signal(Enum):
    """What a parked operation may be given besides an outcome."""

    GO = "go"
    """Run the body now, outside of any turn."""

    GONE = "gone"
    """The incarnation dies: refuse."""


Given: TypeAlias = Value | Failed | Felt | Passed | Signal


@final
@attrs.define(eq=False)
class Parked:
    """An operation in which a branch is parked.

    Attributes:
        due: when a sleep ends, in wall milliseconds.
        steady: it was asked for as a length of time, and so moves with a clock that jumps.
        subject: for the world: what a wait takes.
        lane: effects of one lane start one after another, each once the one before it is recorded.
        holds: deadlines around it wait for it a little.
        in_doubt: what an effect that may have happened becomes, in place of being performed again.
        armed: it may complete by what happens now; only once the journal is exhausted.
        felt: it was cancelled.
        torn: a scope that isn't ours cancelled it.
        over: its outcome is known, and waits for its turn.
        given: what it goes on with.
        children: of a join: those that it waits for.
        asleep: its task sleeps, and has to be woken.
    """

    id: OperationId
    key: tuple[int, ...]
    kind: str
    fingerprint: str
    nature: Nature
    branch: Branch
    task: trio.lowlevel.Task
    due: int | None = None
    steady: bool = False
    subject: object = None
    lane: str | None = None
    holds: bool = False
    in_doubt: Failed | None = None
    armed: bool = False
    felt: RaiseCancel | None = None
    torn: bool = False
    over: bool = False
    given: Given | None = None
    asleep: bool = False
    children: Set[Branch] = frozenset()

    @property
    def arguments(self) -> str:
        """What tells it from the same operation with other arguments."""
        return self.fingerprint or str(self.due or "")
