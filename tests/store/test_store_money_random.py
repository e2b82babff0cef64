"""Random histories of payments and alarms: the tables do what the plain model does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.payments.plain_money import PlainMoney
from tests.samples import examples
from triobot.seams.money import AcknowledgeAlarms, AlarmTold, MoneyWrite, PaymentRow, PutPayment, RaiseAlarm
from triobot.seams.writes import StaleRowError
from triobot.store.memory import MemoryRows
from triobot.store.payment_rows import DAY
from triobot.wire.ids import ChatId, InvoiceId, RefId

IDS = [RefId(id_) for id_ in "abc"]
INVOICES = [InvoiceId(id_) for id_ in ("i1", "i2")]
STATES = ["open", "captured", "settled"]
KINDS: list[Any] = ["adopted", "button_still_live", "conversation_crashed"]

numbers = st.none() | st.integers(0, 5)
keys = st.sampled_from(["k", "l"])
ats = st.integers(0, 9)

captures = st.sampled_from([(None, None), (5, 0), (6, DAY - 1), (7, DAY), (8, 3 * DAY)])

rows = st.builds(
    lambda capture, **rest: PaymentRow(captured=capture[0], captured_at=capture[1], **rest),
    captures,
    id=st.sampled_from(IDS),
    # Of which most are stale, and a third isn't.
    revision=st.integers(1, 3),
    state=st.sampled_from(STATES),
    group=st.sampled_from(["IRR", "coin"]),
    chat_id=st.sampled_from([ChatId(5), ChatId(6)]),
    amount=st.integers(1, 9),
    made_at=st.integers(0, 5),
    record=st.sampled_from(["{}", '"é"']),
    invoice_id=st.none() | st.sampled_from(INVOICES),
    due_at=numbers,
    urgent=numbers,
)
writes: st.SearchStrategy[MoneyWrite] = st.one_of(
    st.builds(PutPayment, rows, st.sampled_from(["made", "verified"]), ats, st.booleans()),
    st.builds(RaiseAlarm, st.sampled_from(KINDS), keys, st.sampled_from(["x", "y"]), ats),
    st.builds(
        AcknowledgeAlarms, st.lists(st.sampled_from(KINDS), max_size=2).map(tuple), st.none() | keys, ats
    ),
    st.builds(AlarmTold, st.sampled_from(KINDS), keys, ats),
)


def stored(memory: MemoryRows, batch: Sequence[MoneyWrite]) -> bool:
    """Whether the tables took all of these; otherwise they have taken none."""
    memory.sql.execute("BEGIN")
    try:
        for write in batch:
            memory.tables.money.apply(write)
    except StaleRowError:
        memory.sql.execute("ROLLBACK")
        return False
    memory.sql.execute("COMMIT")
    return True


def taken(model: PlainMoney, batch: Sequence[MoneyWrite]) -> bool:
    """The same of the model."""
    try:
        model.check(batch)
    except StaleRowError:
        return False
    for write in batch:
        model.apply(write)
    return True


def seen(money: Any) -> list[object]:
    """All that can be asked of payments and alarms."""
    return [
        *(money.get(id_) for id_ in IDS),
        *(money.of_invoice(id_) for id_ in INVOICES),
        [(row.urgent, row.due_at) for row in money.due(4, limit=9)],
        sorted(row.id for row in money.due(4, limit=9)),
        money.next_due(),
        money.find(limit=2),
        money.find(states=STATES[:2], chat_id=ChatId(5), before=4, after=RefId("a"), limit=9),
        money.counts(),
        *(money.history(id_) for id_ in IDS),
        money.totals(since=0, until=2 * DAY),
        money.open_alarms(limit=9),
        money.open_alarms(told_before=5, limit=1),
        money.open_alarms(told_before=5, limit=9),
        money.open_alarms(told_before=5, kinds=KINDS[1:], limit=9),
        money.all_alarms(limit=9),
    ]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.lists(writes, min_size=1, max_size=3), max_size=20))
def test_the_tables_do_what_the_model_does(history: list[list[MoneyWrite]]) -> None:
    model, memory = PlainMoney(), MemoryRows()
    for batch in history:
        assert stored(memory, batch) == taken(model, batch)
        assert seen(memory.tables.money) == seen(model)
