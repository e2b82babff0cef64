"""The writer of a conversation's journal: it decides when records become units of the commit queue.

All that a run appends during one step of its Trio task is one unit. The unit has the records, the consumption
of the events that the records take, changes of the chat's data, and the conversation's state; `units` gathers
all these. A unit is stored completely or not at all, and never before an earlier unit. If a conversation ends
normally before anything of it is durable, the store gets only the consumption of its event. The writer knows
the run and its row, but no conversation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast, final

import attrs

from ..engine import Put, Record, Run, encode_record
from ..engine.records import DONE, ENDED, ENDS, FAILED, INTERRUPTED, KNOWN, Absent, Id, time_of
from ..seams.inbox import Arrival
from ..seams.journals import (
    BeginConversation,
    ContinueConversation,
    ConversationId,
    EndConversation,
    ParkConversation,
    TakeInHand,
)
from ..seams.writes import Accept, Consume, PutData, Write
from .beginnings import Begin, Carried, Facts, InRow, Replay, Revived, Successor
from .codec import CODEC
from .data import Kept
from .revival.stored import moved_rests, tell, write_rests
from .routes.routing import kind_of
from .services import HearRecords
from .units import UnitBuilder
from .workload import EarlyEvent

if TYPE_CHECKING:
    from .shared import Shared

log: Final = logging.getLogger("triobot.conversations")

LONG: Final = 10_000
"""Number of records. A longer journal is reported in the log, once."""


@final
@attrs.define(eq=False, repr=False, weakref_slot=False)
class JournalWriter:
    """The writer of one conversation's journal.

    Attributes:
        unit: the writes that are not in the commit queue yet.
        in_row: whether the first record was stored in the row of the conversation's event.
        run: the run, once it is made.
        over: whether the writer has stopped: it writes nothing more.
        lost: number of the writer's first unit that was refused; 0 if none was refused.
        ahead: an event that was taken before it was stored, or None. Until the store has accepted the event,
            the event and all later work may be undone, and must not be visible outside.
        written: number of the writer's last unit.
        ends: the writes of the conversation's end, once the run has ended; the chat's actor stores them.
        repeated_ids: effects that this process runs, and that may also have happened before a crash.
        watched: gets each record, for a replay check; else None.
    """

    _facts: Facts
    _shared: Shared
    _kept: Kept
    _replay: Replay | None
    unit: UnitBuilder
    in_row: bool
    # Number of units added to the commit queue before the conversation began, and before `ahead` was taken.
    _began_at: int
    _taken_at: int = attrs.field(default=0, init=False)
    run: Run | None = attrs.field(default=None, init=False)
    over: bool = attrs.field(default=False, init=False)
    lost: int = attrs.field(default=0, init=False)
    ahead: EarlyEvent | None = attrs.field(default=None, init=False)
    written: int = attrs.field(default=0, init=False)
    ends: Sequence[Write] = attrs.field(default=(), init=False)
    repeated_ids: frozenset[Id] = attrs.field(default=frozenset(), init=False)
    watched: HearRecords | None = attrs.field(default=None, init=False)
    # Whether the unit may write the chat's list of pending cleanup and messages (`cleanup`).
    _owes: bool = attrs.field(default=False, init=False)

    @classmethod
    def of(
        cls, facts: Facts, shared: Shared, kept: Kept, begin: Begin, first: Record, replay: Replay | None
    ) -> JournalWriter:
        """Return the writer of a conversation that begins in this way, with this first record."""
        code, began_at, in_row = shared.services.code, shared.commits.added, False
        id = ConversationId(facts.seq)
        build = 0 if code is None else code.build
        match begin:
            case Revived(stored):
                unit, began_at = UnitBuilder.revived(stored), 0
            case Carried(_, run, position):
                # The first record is stored already: it has replaced the former run's journal.
                unit = UnitBuilder(id, run, None, build, position, length=1)
            case _:
                unit, in_row = UnitBuilder(id, 1, first, build), begin.__class__ is InRow
        return cls(facts, shared, kept, replay, unit, in_row, began_at)

    # --- the run's records

    def append(self, record: Record, rows: Sequence[int], write: object) -> None:
        """Add a record, with the rows and the write that are stored with it; see `Host.append`."""
        tag = record[0]
        self.unit.append(record)
        if self.watched is not None:
            self.watched(record)
        # An interrupt's row is consumed when the interrupt's own conversation begins.
        if rows and tag != INTERRUPTED and (taken := tuple([row for row in rows if row > 0])):
            self.unit.add(Consume(taken))
        if write is not None:
            self._also(write)
        if tag not in ENDS and self not in self._shared.commits.pending:
            self._shared.commits.before_writing(self)

    def _also(self, write: object) -> None:
        if isinstance(write, Put):
            text = None if isinstance(write.node, Absent) else cast("str", write.node)
            self._kept.put(write.key, text, self)
            self._kept.writing = self
            self.unit.add(PutData(self._facts.chat_id, write.key, text))
        else:
            for one in cast("Sequence[Write]", write):
                self._owes = self._owes or isinstance(one, PutData)
                self.unit.add(one)

    def rests(self, rests: bool, wake: int | None) -> bool:
        """Record whether the run rests, and its next wake-up time. Return False if the run has no
        wake-up time, and had none before.
        """
        unit = self.unit
        unit.rests = rests
        timed = wake is not None or unit.wake is not None
        unit.wake = wake
        if self.watched is not None:
            self.watched(None)
        if unit.moved and self not in self._shared.commits.pending:
            self._shared.commits.before_writing(self)
        return timed

    def conclude(self, record: Record, successor: Successor | None) -> None:
        """Stop after the run's last record. Afterwards `ends` has the writes of the end."""
        if successor is not None:
            self.ends = [*self._begin(), *self._appended(), self._continued(successor)]
        else:
            self.ends = self._ended("failed" if record[0] == ENDED and record[2] is not None else None)
        self.over = True
        self._shared.commits.pending.pop(self, None)

    # --- an event that is taken before it is stored

    @property
    def can_deliver_early(self) -> bool:
        """Whether an event can be stored in one transaction with its consequences."""
        # A deadline that has passed is handled before the event: the deadline may end the wait that would
        # take the event.
        unit = self.unit
        due = unit.wake is not None and unit.wake <= self._now()
        return unit.first is None and not (self.over or self.lost or self._kept.ahead or due)

    def take(self, arrival: Arrival, take_back: Callable[[int], None]) -> EarlyEvent:
        """Store an event in one unit with the record that takes it. The caller appends that record next.

        Args:
            take_back: called if the event isn't stored, with the number of units before the event.
        """
        if self in self._shared.commits.pending:
            self.flush()  # earlier work must not depend on the event
        self.unit.add(Accept(arrival))
        self._taken_at = self._shared.commits.added
        self.ahead = self._kept.ahead = EarlyEvent(take_back)
        return self.ahead

    def take_back(self, units: int) -> None:
        """Stop writing if the conversation began after `units` units: then its first event isn't stored."""
        if self._began_at >= units:
            self.over, self.lost = True, 1

    def accepted(self, error: Exception | None) -> None:
        taken, self.ahead, self._kept.ahead = self.ahead, None, None
        self.over = self.over or error is not None
        if taken is not None:
            if error is not None:
                taken.take_back(self._taken_at)
            taken.error = error
            taken.known.set()

    # --- units

    def _now(self) -> int:
        return self._shared.services.clock.now()

    def flush(self, *, begin: bool = False, within: Callable[[Sequence[Write]], int] | None = None) -> int:
        """Add the appended writes to the commit queue as one unit. Return the unit's number.

        Args:
            begin: store the conversation's beginning even if nothing else of it needs to be stored yet.
            within: adds the writes to the queue together with the caller's writes; called even without
                appended writes.
        """
        unit, commits = self.unit, self._shared.commits
        commits.pending.pop(self, None)
        if self.over or not (unit.is_due or (begin and unit.first is not None)):
            if within is not None:
                self.written = within(())
            return self.written
        writes = [*self._begin(), *self._appended(self._now())]
        if (code := self._shared.services.code) is not None:
            if code.sites.unkept:
                commits.add([code.unkept()])
            writes += unit.rested(self._rested())
        self.written = commits.add(writes, self) if within is None else within(writes)
        return self.written

    def _rested(self) -> str | None:
        """Return the row's text about the code lines of the open operations, or None if no text is needed."""
        replay, unit = self._replay, self.unit
        if replay is None or (replay.settled is None and replay.changed is None):
            return write_rests(unit.position, () if self.run is None else self.run.resting, unit.last)
        return moved_rests(unit.position, replay.stored)  # the replay isn't complete

    def _appended(self, now: int | None = None) -> Sequence[Write]:
        """Return the unit's writes; with `now`, these include the run's rest and next wake-up time."""
        unit, length = self.unit, self.unit.length
        if self._kept.writing is self:
            self._kept.writing = None
        writes: Sequence[Write] = unit.take() if now is None else unit.take_standing(now)
        if length <= LONG < unit.length:
            log.warning(
                "conversation %s of %s has more than %s records, all of which each restart replays: end it, "
                "or go on with chat.continue_as()",
                self._facts.route.name,
                self._facts.told_place,
                f"{LONG:,}",
            )
        if self._owes:
            # The list of pending cleanup is read as late as possible: it may be shorter by now, and other
            # writers store the list, too.
            self._owes, writes = False, self._shared.cleanup.going(writes)
        return writes

    def _begin(self) -> Sequence[Write]:
        """Return the writes that store the row and the first record, unless an earlier unit has both."""
        facts, unit = self._facts, self.unit
        if (first := unit.first) is None:
            return ()
        if self.in_row:
            # The event's row has the event and its time; the first record doesn't have them yet.
            tell(first, facts.event, facts.at)
        return unit.begin(
            BeginConversation(
                unit.id,
                facts.chat_id,
                facts.route.name,
                str(facts.route.version),
                time_of(first),
                kind_of(facts.route, beside=facts.beside),
                facts.owner,
                facts.key,
            )
        )

    def _ended(self, error: str | None = None) -> list[Write]:
        """Return the writes of the end. A normal end deletes the journal, unless ended journals are kept."""
        unit, kept = self.unit, self._shared.services.keep_ended
        if error is None and not kept:
            unit.drop_journal()
            if unit.first is not None:
                return [*self._appended(), Consume((unit.id,))]
        end = EndConversation(unit.id, self._now(), error, kept)
        return [*self._begin(), *self._appended(), end]

    @property
    def carries(self) -> tuple[int, int, int]:
        """The successor's run number, its next record's position, and the unit of its first record."""
        return self.unit.run_number + 1, self.unit.position + 1, self.written

    def _continued(self, successor: Successor) -> Write:
        """Return the write that replaces the journal by the successor's first record."""
        unit, route = self.unit, successor.start.route
        return ContinueConversation(
            unit.id,
            unit.position,
            (encode_record(successor.first),),
            route.name,
            str(route.version),
            self._now(),
            kind_of(route, beside=self._facts.beside),
        )

    # --- writes for others' transactions

    def write(self, writes: Sequence[Write]) -> int:
        """Store `writes` after the records appended so far and before later ones; see `CommitQueue.add`."""
        self.flush(begin=True)
        self.written = self._shared.commits.add(writes, self)
        return self.written

    def result_of(self, operation: Id, kind: str, value: object) -> Sequence[Write]:
        """Return the writes that store an effect's result, or an error, for use in another transaction."""
        tag = FAILED if isinstance(value, Exception) else DONE
        node = CODEC.node_of_error(value) if isinstance(value, Exception) else CODEC.node_of(value)
        return (self.unit.keep([KNOWN, self._now(), operation, kind, "", tag, node]),)

    async def done(self, operation: Id, kind: str) -> Sequence[Write]:
        """Return the writes that record an effect as done, for the transaction that does the effect's work.

        So a crash keeps both the record and the work, or neither. Otherwise a restart would run the effect
        again, although the effect's work is done.
        """
        if self.over:
            return ()
        self.flush(begin=True)
        await self._shared.commits.wait_for(self.written)
        return self.result_of(operation, kind, True)

    def begin_within(self, write: Callable[[Sequence[Write]], int]) -> int:
        """Store the first record in one unit with other writes. Return the unit's number.

        Args:
            write: adds the first record's writes, together with the caller's, to the commit queue.
        """
        self.written = write(self._begin())
        return self.written

    def end_with(self) -> Sequence[Write]:
        """Return the end's writes, to be stored by another transaction. The writer then stops."""
        if self.over:
            return []
        if self.ahead is not None:
            self.flush()
        self.over = True
        return self._ended()

    def refused(self, error: Exception) -> None:
        """Stop the run after the store refused one of its units. The next start replays only the records
        before that unit."""
        if not self.over and self.run is not None:
            self.over = True
            self.run.diverge(0, f"what it did here can't be stored: {type(error).__name__}")

    def park(self, because: str, error: str | None) -> bool:
        """Write that the conversation is parked and, if necessary, the conversation's beginning.

        Returns:
            False if the writer has stopped.
        """
        unit = self.unit
        if self.over or self.lost:
            return False
        self.write([ParkConversation(unit.id, self._now(), because, error)])
        return True

    def counted(self, kills: int) -> Sequence[Write]:
        """Return the writes that store the beginning and add `kills` to the crash count."""
        return [] if self.over else [*self._begin(), *self._in_hand(kills)]

    def freed(self, kills: int) -> Sequence[Write]:
        """Return the writes that unpark the conversation.

        The crash count stays `kills` until the conversation rests.
        """
        unit = self.unit
        free = ParkConversation(unit.id, self._now(), None)
        return [] if self.over or unit.first is not None else [free, *self._in_hand(kills)]

    def _in_hand(self, kills: int) -> Sequence[TakeInHand]:
        return [TakeInHand(self.unit.id, self._now())] * kills
