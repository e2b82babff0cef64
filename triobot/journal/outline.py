"""Where a conversation's tasks are now, for whoever looks on. Pure: it reads, and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import attrs
import trio

from .branches import Branch, Place
from .records import OperationId
from .turns import Turns


@final
@attrs.frozen
class OpenOperation:
    """An operation in which a task is.

    Attributes:
        due: when it ends by itself, in wall milliseconds.
    """

    id: OperationId
    kind: str
    due: int | None


@final
@attrs.frozen
class BranchOutline:
    """One task.

    Attributes:
        path: empty for the coroutine itself; a child's begins with its parent's.
        operation: None while its own code runs, or while it waits for its children.
        task: None while it is yet to be started.
    """

    path: str
    place: Place
    operation: OpenOperation | None
    task: trio.lowlevel.Task | None = attrs.field(repr=False)


@final
@attrs.frozen
class ScopeOutline:
    """An open block that its deadline or an event may end."""

    id: OperationId
    due: int | None
    cancelled: bool


@final
@attrs.frozen
class Outline:
    """A conversation's tasks, parents before their children, and its open blocks, outermost first."""

    branches: tuple[BranchOutline, ...]
    scopes: tuple[ScopeOutline, ...]
    replaying: bool


def outline(turns: Turns, tasks: Mapping[trio.lowlevel.Task, Branch]) -> Outline:
    """Look at one incarnation."""
    task_of = {branch: task for task, branch in tasks.items()}
    operations = {
        parked.branch: OpenOperation(parked.id, parked.kind, parked.due) for parked in turns.parked.values()
    }
    return Outline(
        tuple(
            BranchOutline(branch.path, branch.place, operations.get(branch), task_of.get(branch))
            for branch in sorted(turns.branches, key=lambda branch: branch.key)
        ),
        tuple(
            ScopeOutline(scope.id, scope.due, scope.scope.cancel_called) for scope in turns.scopes.values()
        ),
        not turns.history.exhausted,
    )
