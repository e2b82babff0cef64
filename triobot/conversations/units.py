"""The writes of one conversation that are not in the commit queue yet.

The builder has data about the conversation's row and journal in the store, and makes all writes of both. The
builder uses neither the conversation nor the queue. The journal's writer adds records and writes, and decides
when a unit is made.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar, final

import attrs

from ..engine import Record, encode_record
from ..engine.core import Operation as OpenOperation
from ..engine.records import DONE, EFFECTS, FAILED, INTENDED, KNOWN, OUTCOMES, TURNS, Id, time_of
from ..seams.journals import (
    AppendRecords,
    BeginConversation,
    ContinueConversation,
    ConversationId,
    DropEffects,
    EndConversation,
    KeepIntent,
    KeepResult,
    PutRested,
    PutStanding,
)
from ..seams.writes import Consume, PutData, Write
from .beginnings import Begin, Facts, InRow, Replay, Successor
from .codec import CODEC
from .revival.stored import Stored, moved_rests, tell, write_rests
from .routes.routing import kind_of

if TYPE_CHECKING:
    from .shared import Shared

T = TypeVar("T")

log: Final = logging.getLogger("triobot.conversations")

LONG: Final = 10_000
"""Number of records. A longer journal is reported in the log, once."""


@final
@attrs.define(eq=False, weakref_slot=False)
class UnitBuilder:
    """Builder of one conversation's units: gathers records and writes, and makes writes for the store from
    both.

    Attributes:
        id: the conversation's row in the store.
        first: first record of a conversation whose row is in no unit yet; None once a unit or the store has
            the row.
        in_row: whether the first record was stored in the row of the conversation's event.
        build: the build that fits the journal now.
        position: position of the next record. Positions count on across `continue_as`.
        length: number of the journal's records that are in units.
        last: sites of the journal's last turn.
        former: the stored row and journal, while a revived run replays the journal: until the next turn, the
            row keeps the code lines of the operations that were open. None otherwise.
        rests: whether the run rests.
        wake: the run's next wake-up time.
    """

    _facts: Facts
    _shared: Shared
    id: ConversationId
    build: int = 0
    first: Record | None = None
    in_row: bool = False
    position: int = 0
    length: int = 0
    last: object = None
    former: Stored | None = None
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
    # Whether `_writes` has a marker for the chat's list of pending cleanup and messages (`cleanup`).
    _owes: bool = False

    @classmethod
    def of(cls, facts: Facts, shared: Shared, begin: Begin, first: Record) -> UnitBuilder:
        """Return the builder of a conversation that begins as `begin`, with `first` as its first record."""
        code = shared.services.code
        unit = cls(facts, shared, ConversationId(facts.seq), 0 if code is None else code.build)
        match begin:
            case Replay(stored):
                row, unit.former = stored.row, None if code is None else stored
                unit._effects = frozenset(str(one[2]) for one in stored.records if one[0] in EFFECTS)
                unit.position, unit.length = row.position, len(stored.records) - len(unit._effects)
                unit.wake, unit._stood = row.wake_at, (row.unfinished, row.wake_at)
                unit.build = unit._fits = row.build
            case Successor():
                # The first record is stored already: it has replaced the former run's journal.
                unit.position, unit.length = begin.position, 1
            case _:
                unit.first, unit.in_row = first, isinstance(begin, InRow)
        return unit

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
            self._beside = _with(self._beside, self._keep(record))
            return
        if tag in TURNS:
            self.last, self.former = record[7] if len(record) > 7 else None, None
        self._records = _with(self._records, record)
        if self._effects and tag in OUTCOMES and (own := str(record[2])) in self._effects:
            self._effects -= {own}
            drop = DropEffects(self.id, self._facts.run_number, (own,))
            self._beside = _with(self._beside, drop)

    def add(self, write: Write, *, owes: bool = False) -> None:
        """Add a write that is stored with the records. `owes`: whether it may be a marker of `cleanup`."""
        self._writes = _with(self._writes, write)
        self._owes = self._owes or (owes and isinstance(write, PutData))

    # --- what is stored

    def take(self, resting: Sequence[OpenOperation] | None = None) -> list[Write]:
        """Return the gathered writes: beginning, records, the effects beside them, then all other writes.

        Args:
            resting: the operations at which the run waits. With `resting`, the last writes store whether
                the run has work left, when to wake the run and, if needed, these operations' code lines.
        """
        unit, length, records = self._begin(), self.length, self._records or ()
        if records:
            unit.append(self._records_at(records))
        unit += self._beside or ()
        # The list of pending cleanup is read as late as possible: it may be shorter by now, and other writers
        # store the list, too.
        unit += self._shared.cleanup.going(self._writes or ()) if self._owes else self._writes or ()
        self._records, self._beside, self._writes, self._owes = None, None, None, False
        if resting is not None:
            # The run's rest and wake-up time were set at the time of the last record.
            at = time_of(records[-1]) if records else self._now()
            self._stood = not self.rests, self.wake
            unit += [PutStanding(self.id, at, *self._stood), *self._rested(resting)]
        if length <= LONG < self.length:
            log.warning(
                "conversation %s of %s has more than %s records, all of which each restart replays: end it, "
                "or go on with chat.continue_as()",
                self._facts.route.name,
                self._facts.place_name,
                f"{LONG:,}",
            )
        return unit

    def _begin(self) -> list[Write]:
        """Return the writes that store the row and the first record, unless an earlier unit has both."""
        facts, first, self.first = self._facts, self.first, None
        if first is None:
            return []
        if self.in_row:
            # The event's row has the event and its time; the first record doesn't have them yet.
            tell(first, facts.event, facts.at)
        row = BeginConversation(
            self.id,
            facts.chat_id,
            facts.route.name,
            str(facts.route.version),
            time_of(first),
            kind_of(facts.route, beside=facts.beside),
            facts.owner,
            facts.key,
        )
        return [row, self._records_at([first]), Consume((self.id,))]

    def _rested(self, resting: Sequence[OpenOperation]) -> Sequence[Write]:
        """Return the write that stores the open operations' code lines and the build; empty if unchanged."""
        if self._shared.services.code is None:
            return ()
        if self.former is None:
            rests = write_rests(self.position, resting, self.last)
        else:
            rests = moved_rests(self.position, self.former)
        if rests is None and self._fits == self.build:
            return ()
        self._fits = self.build
        return (PutRested(self.id, rests, self.build),)

    def end(self, error: str | None) -> list[Write]:
        """Return the writes of the end. A normal end deletes the journal, unless ended journals are kept."""
        kept = self._shared.services.keep_ended
        if error is None and not kept:
            self._records = self._beside = None
            if self.first is not None:
                self.first = None
                return [*self.take(), Consume((self.id,))]
        return [*self.take(), EndConversation(self.id, self._now(), error, kept)]

    def carry_on(self, successor: Successor) -> list[Write]:
        """Return the writes that replace the journal by the successor's first record."""
        unit, route = self.take(), successor.start.route
        successor.position = self.position + 1
        unit.append(
            ContinueConversation(
                self.id,
                self.position,
                (encode_record(successor.first),),
                route.name,
                str(route.version),
                self._now(),
                kind_of(route, beside=self._facts.beside),
            )
        )
        return unit

    def result(self, operation: Id, kind: str, value: object) -> Write:
        """Return the write that stores an effect's result, or an error, for use in any transaction."""
        tag = FAILED if isinstance(value, Exception) else DONE
        node = CODEC.node_of_error(value) if isinstance(value, Exception) else CODEC.node_of(value)
        return self._keep([KNOWN, self._now(), operation, kind, "", tag, node])

    def _keep(self, record: Record) -> KeepIntent | KeepResult:
        """Return the write that stores an effect's intent or result beside the journal.

        The write's row is deleted when the journal has the outcome.
        """
        own = str(record[2])
        self._effects |= {own}
        keep = KeepIntent if record[0] == INTENDED else KeepResult
        return keep(self.id, self._facts.run_number, own, time_of(record), encode_record(record))

    def _records_at(self, records: Sequence[Record]) -> AppendRecords:
        position, self.position = self.position, self.position + len(records)
        self.length += len(records)
        return AppendRecords(self.id, position, tuple(map(encode_record, records)))

    def _now(self) -> int:
        return self._shared.services.clock.now()


def _with(some: list[T] | None, one: T) -> list[T]:
    """Append to a list that may be None: most conversations wait and need no list."""
    if some is None:
        return [one]
    some.append(one)
    return some
