"""What may enter a store of payments and alarms. Pure."""

from __future__ import annotations

from typing import assert_never

from ..errors import LocalProtocolError
from ..money import AcknowledgeAlarms, AlarmTold, MoneyWrite, PaymentRow, PutPayment, RaiseAlarm
from ..seams import LARGEST_VALUE
from ..wire.rules import check_integer
from .columns import check_chat, check_column


def admit_money_write(write: MoneyWrite) -> None:
    """Refuse a payment or an alarm that can't be stored.

    Raises:
        LocalProtocolError: names the field. Repeating never helps.
    """
    match write:
        case PutPayment(row, fact):
            _admit_payment(row)
            check_column("fact", fact)
        case RaiseAlarm(_, key, text):
            check_column("key", key)
            check_column("text", text)
        case AcknowledgeAlarms(_, key):
            if key is not None:
                check_column("key", key)
        case AlarmTold(_, key):
            check_column("key", key)
        case _:
            assert_never(write)
    check_integer("at", write.at, least=0)


def money_size(write: MoneyWrite) -> int:
    """Roughly how many bytes this write brings."""
    return 1024 + len(write.row.record) if isinstance(write, PutPayment) else 256


def _admit_payment(row: PaymentRow) -> None:
    for name, text in (("id", row.id), ("state", row.state), ("group", row.group), ("record", row.record)):
        check_column(name, text)
    if row.invoice_id is not None:
        check_column("invoice_id", row.invoice_id)
    if len(row.record) > LARGEST_VALUE:
        raise LocalProtocolError("record", f"must be at most {LARGEST_VALUE} characters")
    check_chat(row.chat_id)
    check_integer("revision", row.revision, least=1)
    for name, number in (
        ("amount", row.amount),
        ("made_at", row.made_at),
        ("due_at", row.due_at),
        ("urgent", row.urgent),
        ("captured", row.captured),
        ("captured_at", row.captured_at),
    ):
        if number is not None:
            check_integer(name, number, least=0)
