"""Describes where a run stands: what two incarnations over one journal must agree on."""

from __future__ import annotations

from typing import final

import attrs

from .operations import Place
from .records import Id, differs


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
    place: Place
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
            if differs(here.print, there.print):
                return f"{here.kind} {here.id} has other arguments"
    return None


def _words(operation: OpenOperation | None) -> str:
    return "in no operation" if operation is None else f"in {operation.kind} {operation.id}"
