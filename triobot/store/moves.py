"""Moves of payments that are decided inside the transaction which stores them."""

from __future__ import annotations

from collections.abc import Sequence

from ..money import Decided, MovePayment, PaymentRow
from ..seams import Write
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


def tell_moved(writes: Sequence[Write]) -> None:
    """Say of each move that it is durable."""
    for write in writes:
        if isinstance(write, MovePayment):
            write.committed()
