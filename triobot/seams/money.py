"""Payments and alarms in a store: the rows, the writes that change them, and the results of queries.

A store doesn't interpret a payment's states: it stores the columns that queries need, a text `record` that
only the ledger reads, and each row's history. A write changes a row only if no other write has changed the
row's revision since the writer read the row.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias, final

import attrs

from ..base.alarm_kinds import AlarmKind
from ..base.frozen import guarded
from ..wire.events import Sender
from ..wire.ids import ChatId, InvoiceId, RefId
from ..wire.markup import Currency


@final
@guarded
class PaymentRow:
    """One payment, as a store sees it.

    Attributes:
        id: a button's ``ref_id``, or triobot's own number of an invoice.
        revision: 1 in the first write, and one more in each later write.
        state: the payment's state in the ledger.
        group: label for totals, such as ``button IRR``; a total never mixes groups.
        made_at: time of the first write.
        due_at: time of the next check; None for never.
        urgent: priority in the list of due payments: payments with smaller numbers come first, payments with
            None last.
        captured, captured_at: amount that the platform captured, and the time of the capture; both are set,
            or both are None.
        record: all other data, for the ledger alone.
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
@guarded
class PutPayment:
    """Store the first or the next revision of a payment.

    The store refuses the whole commit with StaleRowError in three cases: the stored revision isn't
    `row.revision` minus one; the id of a new row exists already; another row has the same `invoice_id`.

    Attributes:
        fact: what happened, for the history.
        at: when it happened, in wall milliseconds.
        folds: whether this line replaces all earlier lines of the payment's history.
    """

    row: PaymentRow
    fact: str
    at: int
    folds: bool = False


@final
@guarded
class PaymentMove:
    """A line of a payment's history."""

    revision: int
    at: int
    fact: str
    state: str


@final
@guarded
class PaymentTotal:
    """Sum of the payments in one group that were captured on one day (UTC).

    Attributes:
        day: days since 1970.
        amount: the sum of the captured amounts, in the group's currency.
    """

    day: int
    group: str
    count: int
    amount: int


# --- alarms


@final
@guarded
class RaiseAlarm:
    """Store an alarm: one row per kind and key, however often the alarm is raised.

    If the alarm is raised again after an acknowledgement, its first time and its count begin anew.
    """

    kind: AlarmKind
    key: str
    text: str
    at: int


@final
@guarded
class AcknowledgeAlarms:
    """Acknowledge alarms: an operator has seen the alarms, or their cause is over.

    Attributes:
        kinds: kinds of alarms; empty for all.
        key: key of the alarms; None for all.
    """

    kinds: tuple[AlarmKind, ...]
    key: str | None
    at: int


@final
@guarded
class AlarmTold:
    """Store that the operator's hook has accepted an alarm."""

    kind: AlarmKind
    key: str
    at: int


@final
@guarded
class AlarmRow:
    """An alarm in the store.

    Attributes:
        first, last: when the alarm was first and last raised since the last acknowledgement.
        count: how often the alarm was raised from `first` to `last`.
        told: when the operator's hook last accepted the alarm; None before the first time.
        acknowledged: when an operator acknowledged the alarm, or when the cause ended; None for an open
            alarm.
    """

    kind: AlarmKind
    key: str
    text: str
    first: int
    last: int
    count: int
    told: int | None = None
    acknowledged: int | None = None


MoneyWrite: TypeAlias = PutPayment | RaiseAlarm | AcknowledgeAlarms | AlarmTold

Decided: TypeAlias = PutPayment | RaiseAlarm | AcknowledgeAlarms
"""Writes that `MovePayment.move` may return: the payment's new row, and alarms."""


@final
@guarded(eq=False)
class MovePayment:
    """Change a payment's state, starting from the row that the transaction finds.

    The same transaction reads the row and stores the row's next revision, so the row is never stale. Code
    that can't retry after a StaleRowError uses this write, and may add further writes.

    Attributes:
        move: returns the writes to store. Its argument is the current row, or None if there is no row. Called
            inside the transaction, possibly in another thread and several times; the result of the last call
            is stored. Must be pure and fast. If `move` raises StaleRowError, nothing of the commit is stored.
        committed: called after the commit is durable and before `Store.commit` returns, even if the caller
            has stopped waiting. Must be fast and must not raise.
    """

    id: RefId
    move: Callable[[PaymentRow | None], Sequence[Decided]] = attrs.field(repr=False)
    committed: Callable[[], None] = attrs.field(repr=False)


# --- values between conversations and payments


@final
@guarded
class Charge:
    """A conversation's request for a payment by the user.

    Attributes:
        item: the goods, as a text of `triobot.seams.values.encode_value`.
        text: the text of the payment message.
        owner: name of the operation that charges, unique in the store. The operation has the same name after
            a restart of the bot.
        late: what to do with money that is paid after the charge has ended. "handler": the aside for the item
            starts. "nobody": the payment is never verified, and the money returns to the user.
        expires_at: end of the wait, or of the invoice's validity; wall milliseconds.
    """

    kind: Literal["button", "invoice"]
    chat_id: ChatId
    amount: int
    currency: Currency
    item: str = attrs.field(repr=False)
    text: str = attrs.field(repr=False)
    owner: str
    late: Literal["handler", "nobody"]
    expires_at: int


PaymentOutcome: TypeAlias = Literal[
    "refused", "unknown", "retry", "declined", "mismatch", "paid", "handed_over"
]


@final
@guarded
class PaymentNotice:
    """Message about a payment to the conversation that waits for the payment.

    Attributes:
        code: the code in the platform's callback.
        charge_url: the callback's address at which the user can top up the wallet; must be checked before it
            is sent to a user.
        captured: the amount that the platform captured, if any.
        revision: the payment's revision when the notice was made, so that a notice is handled only once; 0
            for a notice that ends the charge.
    """

    outcome: PaymentOutcome
    code: int | None = None
    charge_url: str | None = attrs.field(default=None, repr=False)
    captured: int | None = None
    revision: int = attrs.field(default=0, eq=False)


@final
@guarded
class Captured:
    """A captured payment, for the code that gives the goods.

    Attributes:
        key: idempotency key of the goods; never changes.
        redelivered: whether an earlier run of the aside got the payment and failed.
        uncertain: whether the money was captured before a backup was restored. An operator releases such a
            payment for the aside; the goods may have been given before.
        reference: the platform's identifier of the payment.
    """

    id: RefId
    key: str
    chat_id: ChatId
    amount: int
    currency: Currency
    item: str = attrs.field(repr=False)
    payer: Sender | None = attrs.field(repr=False)
    redelivered: bool
    uncertain: bool
    reference: str = ""


PaymentEnd: TypeAlias = Literal["settled", "failed", "given_up", "refused", "never_left", "unknown"]
"""How a payment ended for its conversation or aside, or why the payment's message was not sent.

``settled``: the aside has given the goods. ``failed``: the aside has failed; it gets the payment again, after
a growing delay. ``given_up``: no conversation waits for the payment any more. ``refused``: the platform
refused the message. ``never_left``: the message never left this computer. ``unknown``: no answer came.
"""


PaymentGoods: TypeAlias = Literal["given", "handed_over"]
"""Outcome of the goods: the aside has given them, or they are left to a later aside or an operator."""


Deliver: TypeAlias = "Callable[[Captured, MovePayment], Awaitable[bool]]"
"""Starts the aside for the bought item; returns False if the item has no aside.

The same transaction stores the aside's start and the payment's delivery. If another writer has changed the
payment first, the commit is refused.
"""
