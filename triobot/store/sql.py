"""What the tables need of a database: the few methods that SQLite's own connection has, and others imitate.

The statements are written so that SQLite and PostgreSQL both run them: with ``ON CONFLICT`` and not ``OR
REPLACE``; without two-argument ``max``; a number that stands for a truth is compared with 1; a column that is
read in ``DO UPDATE`` is named with its table. The rest is translated in `triobot.store.postgres.dialect`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol


class Cursor(Protocol):
    """What came of a statement."""

    @property
    def rowcount(self) -> int:
        """Return how many rows it changed."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""
        ...


class Sql(Protocol):
    """Runs statements, with ``?`` or ``?1`` where values stand."""

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Cursor:
        """Run one statement."""
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> Cursor:
        """Run one statement for each row; `Cursor.rowcount` is their sum."""
        ...


def as_text(columns: str) -> str:
    """Return what reads these columns as texts, whatever a damaged row has there."""
    return ", ".join(f"CAST({column} AS TEXT)" for column in columns.split(", "))


def listed(numbers: Collection[int]) -> str:
    """Return these numbers as a statement takes them."""
    return json.dumps(list(numbers))
