"""Moves of payments that are decided inside the transaction which stores them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..money import Decided, MovePayment, PaymentRow, PutPayment
from ..seams import PlainWrite, Write
from ..wire.ids import RefId
from .admission import admit_writes


def decided(write: MovePayment, row: PaymentRow | None) -> Sequence[Decided]:
    """What a move comes to, of the row as it is now.

    Raises:
        StaleRowError: it can't be done: nothing of the commit may be stored.
        LocalProtocolError: what it comes to can't be stored.
    """
    comes = write.move(row)
    admit_writes(comes)
    return comes


def all_decided(
    writes: Sequence[Write], row_of: Callable[[RefId], PaymentRow | None], before: Sequence[Write] = ()
) -> list[PlainWrite]:
    """The writes with what each move comes to in its place, for an engine that does nothing by halves.

    Args:
        row_of: a payment before this transaction.
        before: what is stored before them in the same transaction.
    """
    rows = {write.row.id: write.row for write in before if isinstance(write, PutPayment)}
    whole: list[PlainWrite] = []
    for write in writes:
        comes: Sequence[PlainWrite]
        if isinstance(write, MovePayment):
            comes = decided(write, rows.get(write.id) or row_of(write.id))
        else:
            comes = (write,)
        rows |= {one.row.id: one.row for one in comes if isinstance(one, PutPayment)}
        whole += comes
    return whole


def tell_moved(writes: Sequence[Write]) -> None:
    """Say of each move that it is durable."""
    for write in writes:
        if isinstance(write, MovePayment):
            write.committed()
