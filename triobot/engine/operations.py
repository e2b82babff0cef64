"""Operations and branches: what a run's code is in, and which of its tasks is in it.

An id is structural, the branch's path and the branch's own counter: it doesn't depend on which of several
tasks the scheduler ran first, so the same code gives the same ids on replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from enum import Enum
from typing import Any, Final, NoReturn, TypeAlias, final

import trio
from trio.lowlevel import Task

from .records import Id


class Takes(Enum):
    """The type of `LEFT`."""

    LEFT = "left"


LEFT: Final = Takes.LEFT
"""What a filter returns for an event that it doesn't take."""

Filter: TypeAlias = Callable[[Any], object]
"""Looks at an event; returns as what it is taken, or `LEFT`. Must not raise. None takes all as it is."""


class Nature(Enum):
    """What completes an operation."""

    WAIT = "an event, or the time"
    EFFECT = "its own body"
    WITHIN = "another branch; never recorded"
    JOIN = "the end of the last child; never recorded, and never cancelled"


class Where(Enum):
    """Where a branch is."""

    HOLDS = "it has the turn"
    QUEUED = "it is to be started"
    RESTS = "in an operation, or waiting for its children"
    WORKS = "in an effect's body, outside of any turn"


class Signalled(Enum):
    """What a resting operation may be given besides an outcome."""

    GO = "run the effect's body now"
    GONE = "the run dies: refuse"
    FELT = "a block around it was ended"


GO: Final = Signalled.GO
GONE: Final = Signalled.GONE
FELT: Final = Signalled.FELT


@final
@final
class Branch:
    """One task of a run.

    Attributes:
        path: empty for the main branch; a child's is its nursery's id and its number there.
        key: the path as numbers.
        around: our scopes around it, the outermost first.
        count: ids that it has handed out.
        turn: the operation whose outcome began its present turn.
        heedless: operations begun one after the other in a block that had ended.
        outside: around the body of the effect that it is in: Trio's innermost scope.
    """

    __slots__ = ("around", "count", "heedless", "key", "outside", "path", "place", "task", "turn")

    def __init__(self, path: str, key: tuple[int, ...], around: list[trio.CancelScope]) -> None:
        self.path = path
        self.key = key
        self.around = around
        self.count = self.heedless = 0
        self.turn: Id = f"{path}0" if path else 0
        self.place = Where.QUEUED
        self.task: Task | None = None
        self.outside: object = None

    def next(self) -> Id:
        """Hand out the next id."""
        self.count += 1
        return f"{self.path}{self.count}" if self.path else self.count

    @property
    def cut(self) -> bool:
        """Return whether a scope of ours around it was cancelled, and no shield of ours hides that."""
        return is_cut(self.around)


@final
class Operation:
    """An operation in which a branch rests.

    Attributes:
        key: its id as numbers, by which operations are ordered.
        takes: which events a wait takes.
        due: when a sleep ends; None for what no time ends.
        steady: it lasts a length of time: its end moves with a clock that is set.
        lane: effects of one lane begin one after the other.
        holds: milliseconds that deadlines around it wait for it.
        in_doubt: what it raises in place of a repeat.
        armed: what happens now may complete it.
        over: its outcome is known, and waits for its turn.
        felt: raises the cancellation that reached it.
        torn: a scope that isn't ours cancelled it.
        given: what it goes on with: a record, ``(value,)``, an error or a signal.
        children: those that a join waits for.
    """

    __slots__ = (
        "armed",
        "asleep",
        "branch",
        "children",
        "due",
        "felt",
        "given",
        "holds",
        "id",
        "in_doubt",
        "key",
        "kind",
        "lane",
        "nature",
        "over",
        "print",
        "steady",
        "takes",
        "task",
        "torn",
    )

    branch: Branch

    def __init__(self, id: Id, kind: str, nature: Nature, print: str, task: Task) -> None:
        self.id = id
        self.kind = kind
        self.nature = nature
        self.print = print
        self.task = task
        self.key: tuple[int, ...] = ()
        self.takes: Filter | None = None
        self.due: int | None = None
        self.lane = ""
        self.holds = 0
        self.in_doubt: Exception | None = None
        self.armed = self.asleep = self.over = self.torn = self.steady = False
        self.felt: Callable[[], NoReturn] | None = None
        self.given: Any = None
        self.children: Set[Branch] = frozenset()


def is_cut(around: Sequence[trio.CancelScope]) -> bool:
    """Return whether one of these scopes was cancelled, with no shield inside of it."""
    for scope in reversed(around):
        if scope.cancel_called:
            return True
        if scope.shield:
            return False
    return False
