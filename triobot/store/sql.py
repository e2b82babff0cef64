"""The methods of SQLite's connection that the tables use; other databases' sessions implement the same
methods.

The statements run on both SQLite and PostgreSQL: they use ``ON CONFLICT`` and not ``OR REPLACE``, and no
two-argument ``max``. A number that stands for a boolean is compared with 1. A column that ``DO UPDATE`` reads
is qualified with its table. `triobot.store.postgres.dialect` translates the other differences.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol


class Cursor(Protocol):
    """Result of a statement."""

    @property
    def rowcount(self) -> int:
        """Number of rows that the statement changed."""
        ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]:
        """Return all remaining rows."""
        ...


class Sql(Protocol):
    """Executes statements with ``?`` or ``?1`` as placeholders."""

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Cursor: ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> Cursor:
        """Execute one statement once for each row of values; `Cursor.rowcount` is the sum over all
        executions.
        """
        ...


def as_text(columns: str) -> str:
    """Return SQL for these columns converted to texts, because a damaged row may have values of other
    types.
    """
    return ", ".join(f"CAST({column} AS TEXT)" for column in columns.split(", "))


def listed(numbers: Collection[int]) -> str:
    """Return the numbers as JSON, for ``json_each(?)``."""
    return json.dumps(list(numbers))
