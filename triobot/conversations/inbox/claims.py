"""Events that are dealt with in the transaction that accepts them: none yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from ...journals import Journal, Lease
from ...seams import InboxRow
from ...wire.events import Event


@final
class Claims:
    """Asked for every event that comes in from the platform."""

    async def write_out(self) -> None:
        """Do nothing yet."""

    def claim(self, event: Event, at: int) -> None:
        """Return what is to become durable with this event: nothing yet."""

    def stands(self, row: InboxRow) -> bool:
        """Return whether a row stands for a record: none does."""
        return False


def begun_journal(row: InboxRow, lease: Lease, epoch: int = 0) -> Journal | None:
    """Return the journal of the conversation that a row stands for: none does."""
    return None


def with_taken(journal: Journal, rows: Sequence[InboxRow]) -> Journal:
    """Return a journal with the record that a row stands for: none does."""
    return journal
