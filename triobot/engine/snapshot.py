"""Describes where a run stands."""

from __future__ import annotations

from typing import final

import attrs

from .core import Operation, Where
from .records import Id


@final
@attrs.frozen
class OpenOperation:
    """An operation in which a branch is.

    Attributes:
        due: when it ends by itself, in wall milliseconds.
    """

    id: Id
    kind: str
    print: str = ""
    due: int | None = None


@final
@attrs.frozen
class OpenBranch:
    """One task.

    Attributes:
        path: empty for the main branch.
        operation: None while its own code runs, or while it waits for its children.
    """

    path: str
    place: Where
    operation: OpenOperation | None


@final
@attrs.frozen
class OpenBlock:
    """An open block.

    Attributes:
        ended: it is on its way out.
    """

    id: Id
    due: int | None
    ended: bool


@final
@attrs.frozen
class Snapshot:
    """Where a run stands.

    Attributes:
        given: turns of the journal that it has been given.
        live: that is all of them.
        branches: parents before their children; empty if it has not begun, or is over.
        blocks: the outermost first.
    """

    given: int
    live: bool
    branches: tuple[OpenBranch, ...]
    blocks: tuple[OpenBlock, ...]
    interrupted: bool = False


def open_operation(op: Operation) -> OpenOperation:
    """Return what is told of an operation."""
    return OpenOperation(op.id, op.kind, op.print, op.due)
