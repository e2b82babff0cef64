"""The rows of payments and alarms: their tables, and all SQL statements that read or write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, assert_never

import attrs

from ..base.alarm_kinds import EVENTS, AlarmKind
from ..seams.money import (
    AcknowledgeAlarms,
    AlarmRow,
    AlarmTold,
    MoneyWrite,
    PaymentMove,
    PaymentRow,
    PaymentTotal,
    PutPayment,
    RaiseAlarm,
)
from ..seams.writes import StaleRowError
from ..wire.ids import ChatId, InvoiceId, RefId
from .sql import Sql, as_text

TABLES: Final = (
    """CREATE TABLE payments (
        id TEXT PRIMARY KEY,
        revision INTEGER NOT NULL,
        state TEXT NOT NULL,
        grouped TEXT NOT NULL,
        chat_id INTEGER NOT NULL,
        amount INTEGER NOT NULL,
        made_at INTEGER NOT NULL,
        record TEXT NOT NULL,
        invoice_id TEXT,
        due_at INTEGER,
        urgent INTEGER,
        captured INTEGER,
        captured_at INTEGER
    ) WITHOUT ROWID""",
    "CREATE UNIQUE INDEX payments_invoice ON payments (invoice_id) WHERE invoice_id IS NOT NULL",
    # With two indexes, a few urgent payments are found quickly, even if a million payments are due after an
    # outage.
    "CREATE INDEX payments_urgent ON payments (urgent, due_at)"
    " WHERE urgent IS NOT NULL AND due_at IS NOT NULL",
    "CREATE INDEX payments_due ON payments (due_at) WHERE urgent IS NULL AND due_at IS NOT NULL",
    "CREATE INDEX payments_state ON payments (state, id)",
    "CREATE INDEX payments_chat ON payments (chat_id, id)",
    "CREATE INDEX payments_captured ON payments (captured_at) WHERE captured_at IS NOT NULL",
    """CREATE TABLE payment_moves (
        id TEXT NOT NULL,
        revision INTEGER NOT NULL,
        at INTEGER NOT NULL,
        fact TEXT NOT NULL,
        state TEXT NOT NULL,
        PRIMARY KEY (id, revision)
    ) WITHOUT ROWID""",
    """CREATE TABLE alarms (
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        text TEXT NOT NULL,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        count INTEGER NOT NULL,
        told INTEGER,
        acknowledged INTEGER,
        PRIMARY KEY (kind, key)
    ) WITHOUT ROWID""",
    "CREATE INDEX alarms_open ON alarms (first) WHERE acknowledged IS NULL",
)

DAY: Final = 24 * 60 * 60 * 1000

# The columns are in the order of the fields of `PaymentRow`.
_COLUMNS: Final = (
    "id, revision, state, grouped, chat_id, amount, made_at, record, invoice_id, due_at, urgent,"
    " captured, captured_at"
)
PAYMENTS: Final = f"SELECT {_COLUMNS.replace('record', as_text('record'))} FROM payments"
_ALARM_COLUMNS: Final = "kind, key, text, first, last, count, told, acknowledged"


class MoneyTables:
    """Rows of the payments and alarms in one store."""

    def __init__(self, connection: Sql) -> None:
        self._sql = connection

    def apply(self, write: MoneyWrite) -> None:
        """Apply one write.

        Raises:
            StaleRowError: the payment has changed since the caller read the row.
        """
        match write:
            case PutPayment():
                self._put(write)
            case RaiseAlarm():
                self._raise_alarm(write)
            case AcknowledgeAlarms(kinds, key, at):
                self._acknowledge(kinds, key, at)
            case AlarmTold(kind, key, at):
                self._sql.execute("UPDATE alarms SET told = ? WHERE kind = ? AND key = ?", (at, kind, key))
            case _:
                assert_never(write)

    def _put(self, write: PutPayment) -> None:
        row = write.row
        # Only a false WHERE condition of these statements raises StaleRowError. The caller can then read the
        # row again, and retry.
        if row.revision == 1:
            statement = (
                f"INSERT INTO payments ({_COLUMNS})"
                " SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13"
                " WHERE NOT EXISTS (SELECT 1 FROM payments WHERE id = ?1 OR invoice_id = ?9)"
            )
        else:
            statement = (
                "UPDATE payments SET revision = ?2, state = ?3, grouped = ?4, chat_id = ?5, amount = ?6,"
                " made_at = ?7, record = ?8, invoice_id = ?9, due_at = ?10, urgent = ?11, captured = ?12,"
                " captured_at = ?13 WHERE id = ?1 AND revision = ?2 - 1"
                " AND NOT EXISTS (SELECT 1 FROM payments WHERE invoice_id = ?9 AND id <> ?1)"
            )
        if self._sql.execute(statement, attrs.astuple(row)).rowcount != 1:
            raise StaleRowError(row.id)
        if write.folds:
            self._sql.execute("DELETE FROM payment_moves WHERE id = ?", (row.id,))
        self._sql.execute(
            "INSERT INTO payment_moves (id, revision, at, fact, state) VALUES (?, ?, ?, ?, ?)",
            (row.id, row.revision, write.at, write.fact, row.state),
        )

    def _raise_alarm(self, write: RaiseAlarm) -> None:
        self._sql.execute(
            "INSERT INTO alarms (kind, key, text, first, last, count) VALUES (?1, ?2, ?3, ?4, ?4, 1)"
            " ON CONFLICT (kind, key) DO UPDATE SET text = excluded.text, last = excluded.last,"
            " first = CASE WHEN alarms.acknowledged IS NULL THEN alarms.first ELSE excluded.first END,"
            " count = CASE WHEN alarms.acknowledged IS NULL THEN alarms.count ELSE 0 END + 1,"
            " told = CASE WHEN alarms.acknowledged IS NULL THEN alarms.told END, acknowledged = NULL",
            (write.kind, write.key, write.text, write.at),
        )

    def _acknowledge(self, kinds: Sequence[AlarmKind], key: str | None, at: int) -> None:
        names = ", ".join("?" for _ in kinds)
        self._sql.execute(
            "UPDATE alarms SET acknowledged = ? WHERE acknowledged IS NULL"
            + (" AND key = ?" if key is not None else "")
            + (f" AND kind IN ({names})" if kinds else ""),
            (at, *([] if key is None else [key]), *kinds),
        )

    # --- reading

    def get(self, id: RefId) -> PaymentRow | None:
        """Return the payment with this id, or None."""
        return self._one("id = ?", id)

    def of_invoice(self, invoice_id: InvoiceId) -> PaymentRow | None:
        """Return the payment of this invoice, or None."""
        return self._one("invoice_id = ?", invoice_id)

    def due(self, now: int, *, limit: int) -> list[PaymentRow]:
        """List payments due by `now`: first the urgent payments by priority, then the other payments by due
        time.
        """
        urgent = self._payments(
            "WHERE urgent IS NOT NULL AND due_at <= ? ORDER BY urgent, due_at LIMIT ?", (now, limit)
        )
        rest = self._payments(
            "WHERE urgent IS NULL AND due_at <= ? ORDER BY due_at LIMIT ?", (now, limit - len(urgent))
        )
        return urgent + rest

    def next_due(self) -> int | None:
        """Return the earliest due time of all payments; None if no payment has a due time."""
        row: tuple[int | None] = self._sql.execute(
            "SELECT min(due_at) FROM"
            " (SELECT min(due_at) AS due_at FROM payments WHERE urgent IS NOT NULL AND due_at IS NOT NULL"
            " UNION ALL SELECT min(due_at) FROM payments WHERE urgent IS NULL AND due_at IS NOT NULL)"
            " AS lanes"
        ).fetchone()
        return row[0]

    def find(
        self,
        *,
        states: Sequence[str] = (),
        chat_id: ChatId | None = None,
        before: int | None = None,
        after: RefId | None = None,
        limit: int,
    ) -> list[PaymentRow]:
        """List payments by id. Optional filters are states, a chat, and a time `before` which the payments
        were made.

        Args:
            after: id of the last payment of the previous page.
        """
        tests, values = ["id > ?"], [after or ""]
        if states:
            tests.append(f"state IN ({', '.join('?' for _ in states)})")
        numbers = [number for number in (chat_id, before) if number is not None]
        tests += ["chat_id = ?"] * (chat_id is not None) + ["made_at < ?"] * (before is not None)
        return self._payments(
            f"WHERE {' AND '.join(tests)} ORDER BY id LIMIT ?", (*values, *states, *numbers, limit)
        )

    def counts(self) -> dict[str, int]:
        """Return the number of payments in each state."""
        rows: list[tuple[str, int]] = self._sql.execute(
            "SELECT state, count(*) FROM payments GROUP BY state"
        ).fetchall()
        return dict(rows)

    def history(self, id: RefId) -> list[PaymentMove]:
        """List the history of one payment, oldest first."""
        rows: list[tuple[int, int, str, str]] = self._sql.execute(
            "SELECT revision, at, fact, state FROM payment_moves WHERE id = ? ORDER BY revision", (id,)
        ).fetchall()
        return [PaymentMove(*row) for row in rows]

    def totals(self, *, since: int, until: int) -> list[PaymentTotal]:
        """Sum up, by day and group, the payments that were captured at or after `since` and before
        `until`.
        """
        rows: list[tuple[int, str, int, int]] = self._sql.execute(
            f"SELECT captured_at / {DAY}, grouped, count(*), sum(captured) FROM payments"
            " WHERE captured_at >= ? AND captured_at < ? GROUP BY 1, 2 ORDER BY 1, 2",
            (since, until),
        ).fetchall()
        return [PaymentTotal(*row) for row in rows]

    def open_alarms(
        self, *, told_before: int | None = None, kinds: Sequence[AlarmKind] = (), limit: int
    ) -> list[AlarmRow]:
        """List alarms that are not acknowledged, oldest first.

        Args:
            told_before: leave out each alarm that the operator's hook has accepted at or after this time. Of
                the kinds in `triobot.base.alarm_kinds.EVENTS`, also leave out each alarm that was not raised
                again after the hook accepted the alarm.
            kinds: only these kinds; empty for all.
        """
        due = f" AND (told IS NULL OR (told < ? AND (last > told OR kind NOT IN ({_listed(EVENTS)}))))"
        return self._alarms(
            "WHERE acknowledged IS NULL"
            + (due if told_before is not None else "")
            + (f" AND kind IN ({_listed(kinds)})" if kinds else "")
            + " ORDER BY first, kind, key LIMIT ?",
            (limit,) if told_before is None else (told_before, limit),
        )

    def all_alarms(self, *, limit: int) -> list[AlarmRow]:
        """List the newest alarms, acknowledged or not."""
        return self._alarms("ORDER BY last DESC, kind, key LIMIT ?", (limit,))

    def _one(self, where: str, value: str) -> PaymentRow | None:
        rows = self._payments(f"WHERE {where}", (value,))
        return rows[0] if rows else None

    def _payments(self, rest: str, values: Sequence[str | int]) -> list[PaymentRow]:
        rows: list[tuple[Any, ...]] = self._sql.execute(f"{PAYMENTS} {rest}", tuple(values)).fetchall()
        return [PaymentRow(*row) for row in rows]

    def _alarms(self, rest: str, values: Sequence[int]) -> list[AlarmRow]:
        rows: list[tuple[Any, ...]] = self._sql.execute(
            f"SELECT {_ALARM_COLUMNS} FROM alarms {rest}", tuple(values)
        ).fetchall()
        return [AlarmRow(*row) for row in rows]


def _listed(kinds: Iterable[AlarmKind]) -> str:
    return ", ".join(f"'{kind}'" for kind in kinds)
