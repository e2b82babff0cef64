"""Bots that are driven in virtual time, with stores that each restart copies to another number of shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import cycle
from typing import final

import pytest

from triobot.nodes.copied_settings import divided_settings
from triobot.store import MemoryRows
from triobot.store.copying.copier import Copier
from triobot.store.schema import COPY_OF, get_meta, put_meta
from triobot.store.sql import Sql
from triobot.store.statements import Tables
from triobot.testing import process


@final
class MemoryEnd:
    """Rows in memory as an end of a copy; `triobot.store.copying.ends.CopyEnd`."""

    name = "memory"

    def __init__(self, rows: MemoryRows) -> None:
        self._rows = rows

    @property
    def boot(self) -> int:
        return int(get_meta(self.sql, "boot") or 0)

    @property
    def sql(self) -> Sql:
        return self._rows.sql

    def put(self, work: Callable[[], object]) -> None:
        self.sql.execute("BEGIN IMMEDIATE")
        work()
        self.sql.execute("COMMIT")

    def reading(self) -> AbstractContextManager[None]:
        return nullcontext()

    def number_from(self, last: int) -> None:
        self._rows.number_from(last)

    def problems(self) -> Sequence[str]:
        return ()

    def close(self) -> None:
        """Leave it as it is."""


def copied(rows: Sequence[MemoryRows], shards: int) -> Sequence[MemoryRows]:
    """The same in so many shards."""
    made = [MemoryRows() for _ in range(shards)]
    for one in made:
        put_meta(one.sql, COPY_OF, "")
        put_meta(one.sql, "clean", "0")  # as of a store that only tools have opened
    for one in rows:
        # What a visit does when it opens a store that a killed process has left.
        Tables(one.sql).catch_up(one.notes.answered_left(), (), 0)
    ends = [[MemoryEnd(one) for one in some] for some in (rows, made)]
    counts = Copier(*ends, "another", divided_settings, lambda text: None).run()
    assert all(count.expected == count.found for count in counts)
    return made


def copy_at_each_start(patch: pytest.MonkeyPatch, counts: Iterable[int] = (1, 3, 2, 4)) -> None:
    """Have each process that starts after another find its store in another number of shards."""
    start, following = process.DrivenProcess.start, cycle(counts)

    async def start_on_a_copy(self: process.DrivenProcess) -> None:
        if self._stopped.is_set() and self._has_run():
            self._rows = copied(self._rows, next(one for one in following if one != len(self._rows)))
        await start(self)

    def has_run(self: process.DrivenProcess) -> bool:
        return any(get_meta(rows.sql, "opened_at") is not None for rows in self._rows)

    patch.setattr(process.DrivenProcess, "_has_run", has_run, raising=False)
    patch.setattr(process.DrivenProcess, "start", start_on_a_copy)
