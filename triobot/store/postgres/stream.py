"""Streams: statements that are sent to the server one after another, without waiting for the answers.

A statement is delayed until the caller runs the next statement. If the caller reads `rowcount` before the
next statement, the delayed statement is sent at once, and `rowcount` is the expected number of rows. A
statement that is sent because of `rowcount` has a form that fails on any other number of changed rows. After
a failed statement, all later statements of the stream fail too, the COMMIT included. `fetchone` and
`fetchall` wait for the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, final

import psycopg
from psycopg.rows import TupleRow

from .dialect import surely, translated

Found: TypeAlias = psycopg.Cursor[TupleRow]


@final
class Streamed:
    """Future result of a delayed statement; implements `triobot.store.sql.Cursor`."""

    __slots__ = ("_stream", "rows", "statement")

    def __init__(self, stream: Stream, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._stream = stream
        self.statement = statement
        self.rows = rows

    @property
    def rowcount(self) -> int:
        """Number of rows that the statement must change: one row for each row of values."""
        self._stream.send(self, counted=True)
        return len(self.rows)

    def fetchone(self) -> Any:
        """Wait for the first row, and return it or None."""
        return self._stream.send(self).fetchone()

    def fetchall(self) -> list[Any]:
        """Wait for all rows."""
        return self._stream.send(self).fetchall()


@final
class Stream:
    """The statements of one batch."""

    def __init__(self, connection: psycopg.Connection[TupleRow]) -> None:
        self._connection = connection
        self._held: Streamed | None = None
        self._late: list[tuple[Found, Callable[[list[Any]], None]]] = []

    def run(self, statement: str, rows: Iterable[Sequence[Any]]) -> Streamed:
        """Delay a statement of the tables, which the server will execute once for each row of values."""
        self.send_held()
        self._held = Streamed(self, statement, list(rows))
        return self._held

    def send_held(self) -> None:
        """Send the delayed statement, if there is one."""
        if self._held is not None:
            self.send(self._held)

    def send(self, streamed: Streamed, *, counted: bool = False) -> Found:
        """Send the delayed statement.

        Args:
            counted: whether the statement must fail unless it changes one row for each row of values.
        """
        assert streamed is self._held, "the rows of a statement are counted or read before the next one"
        self._held = None
        statement = (surely if counted else translated)(streamed.statement)
        cursor = self._connection.cursor()
        if len(streamed.rows) == 1:
            return cursor.execute(statement, streamed.rows[0])
        cursor.executemany(statement, streamed.rows)
        return cursor

    def later(self, found: Streamed, take: Callable[[list[Any]], None]) -> None:
        """Send a statement. The next `take_late` calls `take` with the statement's rows."""
        self._late.append((self.send(found), take))

    def take_late(self) -> None:
        """Wait for the rows of all statements that were passed to `later`, and pass each statement's rows to
        its `take`.
        """
        late, self._late = self._late, []
        for cursor, take in late:
            take(cursor.fetchall())
