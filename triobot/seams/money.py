"""What a store keeps of payments and alarms: rows, the writes that move them, and what can be read.

Part of the protocols through which the packages meet (`triobot.seams`). A store knows nothing of what a
payment's states mean: it keeps the columns by which rows are found, a record that only the ledger reads, and
each row's history. A row moves only from the revision that the mover has read.
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
        id: a button's ``ref_id``, or the number that we gave an invoice.
        revision: 1 when it is written first, one more with each move.
        state: the ledger's word.
        group: what isn't mixed in a total, such as ``button IRR``.
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
@guarded
class PutPayment:
    """Move a payment, or write it first.

    The store refuses the whole commit with StaleRowError if the stored revision isn't the one before
    `row.revision`, if a new row's id exists, or if another row has its invoice's id.

    Attributes:
        fact: what happened, for the history.
        at: when, in wall milliseconds.
        folds: this is all of the history that is kept.
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
    """What was captured on one day (in UTC) in one group.

    Attributes:
        day: days since 1970.
        amount: the sum of what the platform took, in the group's currency.
    """

    day: int
    group: str
    count: int
    amount: int


# --- alarms


@final
@guarded
class RaiseAlarm:
    """Note that something is wrong: one row a kind and key, however often it is raised.

    Raised again after it was acknowledged, it is news again.
    """

    kind: AlarmKind
    key: str
    text: str
    at: int


@final
@guarded
class AcknowledgeAlarms:
    """Tell these no more: an operator has seen them, or what they warned of is over.

    Attributes:
        kinds: which; empty for all.
        key: of one thing; None for all.
    """

    kinds: tuple[AlarmKind, ...]
    key: str | None
    at: int


@final
@guarded
class AlarmTold:
    """The operator's hook has taken this alarm."""

    kind: AlarmKind
    key: str
    at: int


@final
@guarded
class AlarmRow:
    """An alarm in the store.

    Attributes:
        first, last: when it was raised, first and last; after an acknowledgement it begins anew.
        count: how often.
        told: when the hook took it last; None for not yet.
        acknowledged: when an operator had seen it, or it ended by itself; None while it is open.
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
"""What a move may store: where the payment is now, and its alarms."""


@final
@guarded(eq=False)
class MovePayment:
    """Move a payment from where it is when this is stored.

    For code that stores a move together with something else, and can't read the row again and repeat: it is
    read in the very transaction that stores what becomes of it, and so is never stale.

    Attributes:
        move: what is to be stored, given the row as it is then; None if there is none. Called inside the
            transaction, maybe in another thread, maybe more than once, of which the last time counts: it
            must be pure, and quick. If it raises StaleRowError, the whole commit is refused with that.
        committed: called once that is durable, before the commit returns, even when its caller waits no more;
            it must be quick and must not raise.
    """

    id: RefId
    move: Callable[[PaymentRow | None], Sequence[Decided]] = attrs.field(repr=False)
    committed: Callable[[], None] = attrs.field(repr=False)


# --- what conversations and payments say to one another


@final
@guarded
class Charge:
    """What a conversation asks money for.

    Attributes:
        item: what is bought, as a record of `triobot.seams.values`.
        text: what the message says.
        owner: the operation that asks, unique in the store: asked again after a restart, it is the same.
        late: who gets it if the conversation ends before it is paid: the aside for its item, or nobody; then
            it is not verified, and goes back to the user.
        expires_at: when it is waited for no more, or the invoice can't be paid; wall milliseconds.
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
    """What a conversation that waits for a payment gets to know.

    Attributes:
        code: of the callback that brought it.
        charge_url: where to top up, as the callback says; never sent on without a check.
        captured: the amount that the platform took.
        revision: of the payment when it came, so that it is dealt with once.
    """

    outcome: PaymentOutcome
    code: int | None = None
    charge_url: str | None = attrs.field(default=None, repr=False)
    captured: int | None = None
    revision: int = attrs.field(default=0, eq=False)


@final
@guarded
class Captured:
    """Verified money, for the code that gives the goods.

    Attributes:
        key: the same for ever: the idempotency key of what it grants.
        redelivered: it was handed over before, and its aside failed.
        uncertain: it was captured before a backup was restored, and an operator hands it out: it may have
            been granted before.
        reference: what the platform calls the payment.
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


PaymentEnd: TypeAlias = Literal["settled", "failed", "given_up", "never_left", "replaced"]
"""The aside that had it has given the goods; it has failed, and gets it again, ever later; nobody waits for
it any more; it was given up before it was sent; its button was exchanged for another one."""


PaymentGoods: TypeAlias = Literal["given", "handed_over"]
"""What became of what was paid for: the aside has given it; or it is given later, or by an operator."""


Deliver: TypeAlias = "Callable[[Captured, MovePayment], Awaitable[bool]]"
"""Starts the aside for what was bought, if there is one: False if not.

That it is delivered is stored with what starts the aside, or refuses that if it has moved by now.
"""
