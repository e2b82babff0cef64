"""Journals of bots that are driven, and passes over them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, final

import attrs
import pytest
import trio

from tests.passing import folded, notches_of
from triobot.conversations.inspection import checking
from triobot.conversations.inspection.checking import Checked
from triobot.conversations.inspection.rerun import Divergence, dry_services
from triobot.conversations.revival.stored import Stored
from triobot.conversations.routes.declarations import Table
from triobot.conversations.services import Services
from triobot.conversations.shared import Shared
from triobot.studio.travel.passes import Passed, run_pass
from triobot.studio.travel.path import paths_of


@final
@attrs.define
class Kept:
    """The newest journal of each conversation, by its route."""

    journals: dict[str, tuple[Services, Table, Stored]] = attrs.field(factory=dict)

    async def passed(self, name: str, **options: Any) -> Passed:
        """A pass over the journal of this function's newest conversation."""
        return await run_pass(*self.found(name), **options)

    async def lines(self, name: str, file: str) -> list[list[int]]:
        """The lines of this file that ran in each turn; in a task of its own, since all are traced."""
        told: list[list[int]] = []

        async def run() -> None:
            paths = await paths_of(*self.found(name), {file: 0}.get)
            told.extend([line for _, line in path] for path in paths)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
        return told

    def stored(self, name: str) -> Stored:
        return self.found(name)[2]

    def found(self, name: str) -> tuple[Services, Table, Stored]:
        """What a pass over the journal of this function's newest conversation needs."""
        (found,) = [kept for route, kept in self.journals.items() if route.rpartition(".")[2] == name]
        return found


@contextmanager
def journals(monkeypatch: pytest.MonkeyPatch) -> Generator[Kept]:
    """Keep the journals of all that is driven in the block."""
    kept, compare = Kept(), checking.compare

    async def keeping(there: Shared, checked: Checked) -> Divergence | None:
        live, row = there.services, checked.stored.row
        dry = dry_services(live.texts, live.resources, row.updated_at, live.charge_hosts)
        kept.journals[row.route] = dry, there.table, checked.stored
        return await compare(there, checked)

    monkeypatch.setattr(checking, "compare", keeping)
    yield kept
    monkeypatch.undo()


def states(passed: Passed) -> list[dict[str, Any]]:
    """Each notch as a whole."""
    found: list[dict[str, Any]] = []
    state: dict[str, Any] = {}
    for notch in notches_of(passed):
        state = folded(state, notch)
        found.append(state)
    return found
