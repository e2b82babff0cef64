"""The tables that `triobot store copy` copies, and the queries that read these tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias, final

from ...base.frozen import guarded
from ..sql import Sql

Row: TypeAlias = tuple[Any, ...]
_MOST_ROWS: Final = 2_000
_MOST_BYTES: Final = 4 * 1024 * 1024


@final
@guarded
class CopiedTable:
    """A table of a store, for a copy.

    Attributes:
        name: name of the table.
        key: columns of the primary key; the rows are read in the order of these columns.
        rest: the other columns.
        weight: SQL for the number of bytes in a row's large columns.
    """

    name: str
    key: tuple[str, ...]
    rest: tuple[str, ...]
    weight: str = "0"

    @property
    def columns(self) -> tuple[str, ...]:
        return self.key + self.rest

    def pages(self, sql: Sql) -> Iterator[Sequence[Row]]:
        """Yield all rows in the order of the primary key, in pages of limited size."""
        key, marks = ", ".join(self.key), ", ".join("?" * len(self.key))
        columns = f"SELECT {', '.join(self.columns)} FROM {self.name}"
        behind: Row = ()
        while True:
            where = f" WHERE ({key}) > ({marks})" if behind else ""
            found: list[Row] = sql.execute(
                f"SELECT {key}, {self.weight} FROM {self.name}{where} ORDER BY {key} LIMIT {_MOST_ROWS}",
                behind,
            ).fetchall()
            if not found:
                return
            until = _within(found)
            up_to = f"{where} {'AND' if behind else 'WHERE'} ({key}) <= ({marks})"
            rows: list[Row] = sql.execute(f"{columns}{up_to} ORDER BY {key}", (*behind, *until)).fetchall()
            yield rows
            behind = until

    def count(self, sql: Sql) -> int:
        """Return the number of rows."""
        return int(sql.execute(f"SELECT count(*) FROM {self.name}").fetchone()[0])

    @property
    def insert(self) -> str:
        """SQL that inserts a row."""
        marks = ", ".join("?" * len(self.columns))
        return f"INSERT INTO {self.name} ({', '.join(self.columns)}) VALUES ({marks})"


def _within(found: Sequence[Row]) -> Row:
    """Return the key of the last row that still fits into the page; the page has at least one row."""
    size = 0
    for at, row in enumerate(found):
        size += int(row[-1])
        if size > _MOST_BYTES:
            return found[max(at - 1, 0)][:-1]
    return found[-1][:-1]


TABLES: Final = (
    CopiedTable("sources", ("digest",), ("name", "text"), "length(text)"),
    CopiedTable("sites", ("id",), ("before", "digest", "function", "line", "begins", "last", "ends")),
    CopiedTable("deployed", ("at",), ("build", "seq", "sources"), "length(sources)"),
    CopiedTable("accepted", ("function", "was", "now"), ("seq",)),
    CopiedTable(
        "conversations",
        ("id",),
        (
            *("chat_id", "route", "kind", "version", "sender_id", "key", "run", "unfinished", "wake_at"),
            *("parked", "error", "in_hand", "started_at", "updated_at", "ended_at", "rests", "build"),
        ),
    ),
    CopiedTable("journal", ("conversation", "n"), ("size", "records"), "length(records)"),
    CopiedTable(
        "effects",
        ("conversation", "operation"),
        ("intended_at", "intent", "resulted_at", "result"),
        "coalesce(length(intent), 0) + coalesce(length(result), 0)",
    ),
    CopiedTable(
        "inbox",
        ("seq",),
        ("chat_id", "at", "content_type", "body", "begun"),
        "length(body) + coalesce(length(begun), 0)",
    ),
    CopiedTable("deliveries", ("key",), ("at", "once", "acknowledged")),
    CopiedTable("senders", ("chat_id",), ("first_sender", "several")),
    CopiedTable("data", ("chat_id", "key"), ("value",), "length(value)"),
    CopiedTable(
        "payments",
        ("id",),
        (
            *("revision", "state", "grouped", "chat_id", "amount", "made_at", "record", "invoice_id"),
            *("due_at", "urgent", "captured", "captured_at"),
        ),
        "length(record)",
    ),
    CopiedTable("payment_moves", ("id", "revision"), ("at", "fact", "state")),
    CopiedTable(
        "alarms", ("kind", "key"), ("text", "first", "last", "count", "told", "acknowledged"), "length(text)"
    ),
    CopiedTable(
        "broadcasts",
        ("n",),
        (
            *("key", "at", "state", "content", "meant", "last"),
            *("total", "sent", "gone", "failed", "unknown"),
        ),
        "length(content)",
    ),
    CopiedTable("receivers", ("n", "position"), ("chat_id", "gone")),
    CopiedTable("raw", ("n",), ("at", "reason", "content_type", "body"), "length(body)"),
)
"""The copier copies the tables in this order, to find an unreadable row early."""
