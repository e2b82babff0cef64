"""The writes of one conversation that are not in the commit queue yet.

The builder has data about the conversation's row and journal in the store, but no reference to the
conversation or the queue. The journal's writer decides what goes into a unit, and when the unit is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, final

import attrs

from ..engine import Record, encode_record
from ..engine.records import EFFECTS, INTENDED, OUTCOMES, TURNS, time_of
from ..seams.journals import (
    AppendRecords,
    BeginConversation,
    ConversationId,
    DropEffects,
    KeepIntent,
    KeepResult,
    PutRested,
    PutStanding,
)
from ..seams.writes import Consume, Write
from .revival.stored import Stored

T = TypeVar("T")


@final
@attrs.define(eq=False, weakref_slot=False)
class UnitBuilder:
    """Builder of one conversation's units: gathers records and writes, and makes writes for the store from
    both.

    Attributes:
        id: the conversation's row in the store.
        run_number: number of the run whose journal this is.
        first: first record of a conversation whose row is in no unit yet; None afterwards, and if the record
            is stored already.
        build: the build that fits the journal now.
        position: position of the next record. Positions count on across `continue_as`.
        length: number of the journal's records that are in units.
        last: sites of the journal's last turn.
        rests: whether the run rests.
        wake: the run's next wake-up time.
    """

    id: ConversationId
    run_number: int
    first: Record | None = None
    build: int = 0
    position: int = 0
    length: int = 0
    last: object = None
    rests: bool = False
    wake: int | None = None
    # Whether the run is unfinished, and the run's next wake-up time; both as in the last unit.
    _stood: tuple[bool, int | None] = (True, None)
    # The build in the last unit.
    _fits: int = 0
    # Effects with a row beside the journal in the store.
    _effects: frozenset[str] = frozenset()
    _records: list[Record] | None = None
    _beside: list[Write] | None = None
    _writes: list[Write] | None = None

    @classmethod
    def revived(cls, stored: Stored) -> UnitBuilder:
        """Return the builder of a conversation that the store has."""
        row, records = stored.row, stored.records
        beside = [str(record[2]) for record in records if record[0] in EFFECTS]
        builder = cls(row.id, row.run, build=row.build)
        builder.position, builder.length = row.position, len(records) - len(beside)
        builder.wake, builder._stood, builder._fits = row.wake_at, (row.unfinished, row.wake_at), row.build
        builder._effects = frozenset(beside)
        return builder

    @property
    def moved(self) -> bool:
        """Whether the run's rest or its next wake-up time differs from the last unit."""
        return (not self.rests, self.wake) != self._stood

    @property
    def is_due(self) -> bool:
        """Whether there is something to store."""
        added = self._records or self._beside or self._writes
        return bool(added) or (self.moved and (self.first is None or self.rests))

    # --- what is gathered

    def append(self, record: Record) -> None:
        """Add a record. The run no longer rests."""
        tag, self.rests = record[0], False
        if tag in EFFECTS:
            self._beside = _with(self._beside, self.keep(record))
            return
        if tag in TURNS:
            self.last = record[7] if len(record) > 7 else None
        self._records = _with(self._records, record)
        if self._effects and tag in OUTCOMES and (own := str(record[2])) in self._effects:
            self._effects -= {own}
            self._beside = _with(self._beside, DropEffects(self.id, self.run_number, (own,)))

    def add(self, write: Write) -> None:
        """Add a write that is stored with the records."""
        self._writes = _with(self._writes, write)

    def drop_journal(self) -> None:
        """Drop the gathered records and effects: the journal will be deleted."""
        self._records = self._beside = None

    # --- what is stored

    def begin(self, row: BeginConversation) -> list[Write]:
        """Return the writes that store `row` and the first record, and consume the event."""
        assert self.first is not None
        first, self.first = self.first, None
        return [row, self._records_at([first]), Consume((self.id,))]

    def take(self) -> list[Write]:
        """Return the gathered writes: the records, then the effects beside them, then all other writes."""
        records, self._records = self._records, None
        writes, self._writes = self._writes or [], None
        beside, self._beside = self._beside or (), None
        return [self._records_at(records), *beside, *writes] if records else [*beside, *writes]

    def take_standing(self, now: int) -> list[Write]:
        """Return the gathered writes and, as the last write, the run's rest and next wake-up time."""
        # The state has held since the last appended record.
        at = time_of(self._records[-1]) if self._records else now
        self._stood = not self.rests, self.wake
        return [*self.take(), PutStanding(self.id, at, *self._stood)]

    def rested(self, rests: str | None) -> Sequence[PutRested]:
        """Return the write that stores the open operations' code lines and the build, if one is needed."""
        if rests is None and self._fits == self.build:
            return ()
        self._fits = self.build
        return (PutRested(self.id, rests, self.build),)

    def keep(self, record: Record) -> KeepIntent | KeepResult:
        """Return the write that stores an effect's intent or result beside the journal.

        The write's row is deleted when the journal has the outcome.
        """
        own = str(record[2])
        self._effects |= {own}
        keep = KeepIntent if record[0] == INTENDED else KeepResult
        return keep(self.id, self.run_number, own, time_of(record), encode_record(record))

    def _records_at(self, records: Sequence[Record]) -> AppendRecords:
        position, self.position = self.position, self.position + len(records)
        self.length += len(records)
        return AppendRecords(self.id, position, tuple(map(encode_record, records)))


def _with(some: list[T] | None, one: T) -> list[T]:
    """Append to a list that may be None: most conversations wait and need no list."""
    if some is None:
        return [one]
    some.append(one)
    return some
