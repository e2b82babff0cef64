"""What a store keeps of payments and alarms: rows, the writes that move them, and what can be read.

Part of the protocols through which the packages meet (`triobot.seams`). A store knows nothing of what a
payment's states mean: it keeps the columns by which rows are found, a record that only the ledger reads, and
each row's history. A row moves only from the revision that the mover has read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, final

import attrs

from .alarm_kinds import AlarmKind
from .wire.ids import ChatId, InvoiceId, RefId


@final
@attrs.frozen
class PaymentRow:
    """One payment, as a store sees it.

    Attributes:
        id: a button's ``ref_id``, or the number that we gave an invoice.
        revision: 1 when it is written first, one more with each move.
        state: the ledger's word.
        group: what nobody mixes in a total, such as ``button IRR``.
        made_at: when it was written first.
        due_at: when it has to be looked at again; None for never.
        urgent: goes before all that have none, the smaller the earlier.
        captured: what the platform took, and when; both or neither.
        record: everything else, for the ledger alone.
    """

    id: RefId
    revision: int
    state: str
    group: str
    chat_id: ChatId
    amount: int
    made_at: int
    record: str = attrs.field(repr=False)
    invoice_id: InvoiceId | None = None
    due_at: int | None = None
    urgent: int | None = None
    captured: int | None = None
    captured_at: int | None = None


@final
@attrs.frozen
class PutPayment:
    """Move a payment, or write it first.

    The store refuses the whole commit with StaleRowError if the stored revision isn't the one before
    `row.revision`, if a new row's id exists, or if another row has its invoice's id.

    Attributes:
        fact: what happened, for the history.
        at: when, in wall milliseconds.
    """

    row: PaymentRow
    fact: str
    at: int


@final
@attrs.frozen
class PaymentMove:
    """A line of a payment's history."""

    revision: int
    at: int
    fact: str
    state: str


@final
@attrs.frozen
class PaymentTotal:
    """What was captured on one day (in UTC) in one group.

    Attributes:
        day: days since 1970.
        amount: the sum of what the platform took, in the group's currency.
    """

    day: int
    group: str
    count: int
    amount: int


class PaymentRows(Protocol):
    """What can be asked of the payments in a store. Raises as `triobot.seams.Store`."""

    async def get(self, id: RefId) -> PaymentRow | None:
        """One payment."""
        ...

    async def of_invoice(self, invoice_id: InvoiceId) -> PaymentRow | None:
        """The payment of this invoice."""
        ...

    async def due(self, now: int, *, limit: int) -> Sequence[PaymentRow]:
        """What has to be looked at by now: the urgent first, then what has waited longest."""
        ...

    async def next_due(self) -> int | None:
        """The moment at which the next payment has to be looked at."""
        ...

    async def find(
        self,
        *,
        states: Sequence[str] = (),
        chat_id: ChatId | None = None,
        before: int | None = None,
        after: RefId | None = None,
        limit: int,
    ) -> Sequence[PaymentRow]:
        """Payments by the order of their ids: in these states, of this chat, made before a moment."""
        ...

    async def counts(self) -> Mapping[str, int]:
        """How many there are, by state."""
        ...

    async def history(self, id: RefId) -> Sequence[PaymentMove]:
        """What happened to one, oldest first."""
        ...

    async def totals(self, *, since: int, until: int) -> Sequence[PaymentTotal]:
        """What was captured from `since` to before `until`, by day and group."""
        ...


# --- alarms


@final
@attrs.frozen
class RaiseAlarm:
    """Note that something is wrong: one row a kind and key, however often it is raised.

    Raised again after it was acknowledged, it is news again.
    """

    kind: AlarmKind
    key: str
    text: str
    at: int


@final
@attrs.frozen
class AcknowledgeAlarms:
    """An operator has seen these, or what they warned of is over; they are told no more.

    Attributes:
        kinds: which; empty for all.
        key: of one thing; None for all.
    """

    kinds: tuple[AlarmKind, ...]
    key: str | None
    at: int


@final
@attrs.frozen
class AlarmTold:
    """The operator's hook has taken this alarm."""

    kind: AlarmKind
    key: str
    at: int


@final
@attrs.frozen
class AlarmRow:
    """An alarm in the store.

    Attributes:
        first, last: when it was raised, first and last; after an acknowledgement it begins anew.
        count: how often.
        told: when the hook took it last; None for not yet.
        acknowledged: when an operator had seen it; None while it is open.
    """

    kind: AlarmKind
    key: str
    text: str
    first: int
    last: int
    count: int
    told: int | None = None
    acknowledged: int | None = None


class AlarmRows(Protocol):
    """What can be asked of the alarms in a store. Raises as `triobot.seams.Store`."""

    async def open(self, *, told_before: int | None = None, limit: int) -> Sequence[AlarmRow]:
        """Those that nobody has acknowledged, oldest first; with `told_before`, not told since then."""
        ...

    async def all(self, *, limit: int) -> Sequence[AlarmRow]:
        """The newest, acknowledged or not."""
        ...


MoneyWrite: TypeAlias = PutPayment | RaiseAlarm | AcknowledgeAlarms | AlarmTold
