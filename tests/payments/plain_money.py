"""Payments and alarms in dictionaries: a plain model of the store's tables, and what is compared with them.

Simulated worlds run on it, since there are thousands of them and each move of SQLite's takes twice as long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import assert_never, final

import attrs

from triobot.base.alarm_kinds import EVENTS, AlarmKind
from triobot.seams.money import (
    AcknowledgeAlarms,
    AlarmRow,
    AlarmTold,
    MoneyWrite,
    MovePayment,
    PaymentMove,
    PaymentRow,
    PaymentTotal,
    PutPayment,
    RaiseAlarm,
)
from triobot.seams.writes import PlainWrite, StaleRowError, Write
from triobot.store.admission import decided
from triobot.store.payment_rows import DAY
from triobot.wire.ids import ChatId, InvoiceId, RefId


@final
class PlainMoney:
    """What `payment_rows.MoneyTables` promises, without regard for anything else."""

    def __init__(self) -> None:
        self._payments: dict[RefId, PaymentRow] = {}
        self._moves: dict[RefId, list[PaymentMove]] = {}
        self._alarms: dict[tuple[AlarmKind, str], AlarmRow] = {}

    def check(self, writes: Iterable[object]) -> None:
        """Refuse the whole of these writes if one of them is stale; nothing is done yet.

        Raises:
            StaleRowError: a payment has moved meanwhile.
        """
        rows = dict(self._payments)
        for write in writes:
            if isinstance(write, PutPayment):
                row, known = write.row, rows.pop(write.row.id, None)
                revision = 0 if known is None else known.revision
                if row.revision != revision + 1 or _with_invoice(rows, row.invoice_id):
                    raise StaleRowError(row.id)
                rows[row.id] = row

    def apply(self, write: MoneyWrite) -> None:
        """Do one write that `check` has passed."""
        match write:
            case PutPayment(row, fact, at, folds):
                self._payments[row.id] = row
                before = [] if folds else self._moves.get(row.id, [])
                self._moves[row.id] = [*before, PaymentMove(row.revision, at, fact, row.state)]
            case RaiseAlarm():
                self._raise_alarm(write)
            case AcknowledgeAlarms(kinds, key, at):
                for alarm in [alarm for alarm in self._alarms.values() if alarm.acknowledged is None]:
                    if (not kinds or alarm.kind in kinds) and key in (None, alarm.key):
                        self._alarms[alarm.kind, alarm.key] = attrs.evolve(alarm, acknowledged=at)
            case AlarmTold(kind, key, at):
                if (kind, key) in self._alarms:
                    self._alarms[kind, key] = attrs.evolve(self._alarms[kind, key], told=at)
            case _:
                assert_never(write)

    def _raise_alarm(self, write: RaiseAlarm) -> None:
        known = self._alarms.get((write.kind, write.key))
        if known is None or known.acknowledged is not None:
            row = AlarmRow(write.kind, write.key, write.text, write.at, write.at, 1)
        else:
            row = attrs.evolve(known, text=write.text, last=write.at, count=known.count + 1)
        self._alarms[write.kind, write.key] = row

    # --- reading

    def get(self, id: RefId) -> PaymentRow | None:
        return self._payments.get(id)

    def of_invoice(self, invoice_id: InvoiceId) -> PaymentRow | None:
        return _with_invoice(self._payments, invoice_id)

    def due(self, now: int, *, limit: int) -> list[PaymentRow]:
        due = [row for row in self._payments.values() if row.due_at is not None and row.due_at <= now]
        return sorted(due, key=lambda row: (row.urgent is None, row.urgent or 0, row.due_at, row.id))[:limit]

    def next_due(self) -> int | None:
        return min((row.due_at for row in self._payments.values() if row.due_at is not None), default=None)

    def find(
        self,
        *,
        states: Sequence[str] = (),
        chat_id: ChatId | None = None,
        before: int | None = None,
        after: RefId | None = None,
        limit: int,
    ) -> list[PaymentRow]:
        found = (self._payments[id_] for id_ in sorted(self._payments) if after is None or id_ > after)
        fitting = (
            row
            for row in found
            if (not states or row.state in states)
            and chat_id in (None, row.chat_id)
            and (before is None or row.made_at < before)
        )
        return list(islice(fitting, limit))

    def counts(self) -> dict[str, int]:
        return dict(Counter(row.state for row in self._payments.values()))

    def history(self, id: RefId) -> list[PaymentMove]:
        return list(self._moves.get(id, ()))

    def totals(self, *, since: int, until: int) -> list[PaymentTotal]:
        found: dict[tuple[int, str], list[int]] = {}
        for row in self._payments.values():
            if row.captured is not None and row.captured_at is not None and since <= row.captured_at < until:
                found.setdefault((row.captured_at // DAY, row.group), []).append(row.captured)
        return [
            PaymentTotal(day, group, len(sums), sum(sums)) for (day, group), sums in sorted(found.items())
        ]

    def open_alarms(
        self, *, told_before: int | None = None, kinds: Sequence[AlarmKind] = (), limit: int
    ) -> list[AlarmRow]:
        rows = sorted(self._alarms.values(), key=lambda row: (row.first, row.kind, row.key))
        return [
            row
            for row in rows
            if row.acknowledged is None
            and (not kinds or row.kind in kinds)
            and (
                told_before is None
                or row.told is None
                or (row.told < told_before and (row.kind not in EVENTS or row.last > row.told))
            )
        ][:limit]

    def all_alarms(self, *, limit: int) -> list[AlarmRow]:
        return sorted(self._alarms.values(), key=lambda row: (-row.last, row.kind, row.key))[:limit]


def _with_invoice(rows: dict[RefId, PaymentRow], invoice_id: InvoiceId | None) -> PaymentRow | None:
    found = (row for row in rows.values() if row.invoice_id == invoice_id is not None)
    return next(found, None)


def all_decided(writes: Sequence[Write], row_of: Callable[[RefId], PaymentRow | None]) -> list[PlainWrite]:
    """The writes with what each move of a payment comes to in its place.

    Args:
        row_of: a payment before this transaction.
    """
    rows, whole = dict[RefId, PaymentRow](), list[PlainWrite]()
    for write in writes:
        comes: Sequence[PlainWrite]
        if isinstance(write, MovePayment):
            comes = decided(write, rows.get(write.id) or row_of(write.id))
        else:
            comes = (write,)
        rows |= {one.row.id: one.row for one in comes if isinstance(one, PutPayment)}
        whole += comes
    return whole
