"""The writer of a conversation's journal decides when records become units of the commit queue.

Records that a run appends without a pause of the conversation's Trio task form one unit. The unit also has
the consumption of the events that the records take, changes of the chat's data, and the conversation's state;
`units` gathers all these. A unit is stored completely or not at all, and never before an earlier unit. If a
conversation ends normally before anything of it is durable, the store gets only the consumption of its event,
unless ended journals are kept. The writer has references to the run and its row, but not to the conversation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast, final

import attrs

from ..engine import ABSENT, Host, Put, Record, Run
from ..engine.records import CONTINUED, ENDED, ENDS, INTERRUPTED, Absent, Id, Node
from ..seams.inbox import Arrival
from ..seams.writes import Accept, Consume, PutData, Write
from .beginnings import Successor
from .data import Kept
from .services import HearRecords
from .units import UnitBuilder
from .workload import EarlyEvent

if TYPE_CHECKING:
    from .shared import Shared


@final
@attrs.define(eq=False, repr=False, weakref_slot=False)
class JournalWriter(Host):
    """The writer of one conversation's journal, and the host of its run.

    Attributes:
        unit: the writes that are not in the commit queue yet.
        began_at: number of units added to the commit queue before the conversation began; 0 if it was
            revived.
        run: the run; None once the conversation has ended.
        over: whether the writer has stopped: it writes nothing more.
        lost: number of the writer's first unit that was refused; 0 if none was refused.
        ahead: an event that was taken before it was stored, or None. Until the store has accepted the event,
            the event and all later work may be undone, and must not be visible outside.
        written: number of the writer's last unit.
        successor: the conversation that replaces this conversation after `continue_as`; None without such a
            call, and if the conversation ends in another way.
        ends: the writes of the conversation's end, once the run has ended; the chat's actor stores them.
        repeated_ids: ids of effects that this process runs again, although they may have happened before a
            crash.
        watched: function that gets each record for a replay check; None without a check.
    """

    _shared: Shared
    _kept: Kept
    unit: UnitBuilder
    began_at: int
    run: Run | None = attrs.field(default=None, init=False)
    over: bool = attrs.field(default=False, init=False)
    lost: int = attrs.field(default=0, init=False)
    ahead: EarlyEvent | None = attrs.field(default=None, init=False)
    written: int = attrs.field(default=0, init=False)
    successor: Successor | None = attrs.field(default=None, init=False)
    ends: Sequence[Write] = attrs.field(default=(), init=False)
    repeated_ids: frozenset[Id] = attrs.field(default=frozenset(), init=False)
    watched: HearRecords | None = attrs.field(default=None, init=False)

    # --- as the run's host

    def now(self) -> int:
        return self._shared.services.clock.now()

    def jumped(self) -> int:
        return self._shared.services.clock.jumped()

    def read(self, key: str) -> Node | Absent:
        text = (self._kept.values or {}).get(key)
        return ABSENT if text is None else text

    def append(self, record: Record, rows: Sequence[int] = (), write: object = None) -> None:
        if self.over:
            return
        tag = record[0]
        self.unit.append(record)
        if self.watched is not None:
            self.watched(record)
        # An interrupt's row is consumed when the interrupt's own conversation begins.
        if rows and tag != INTERRUPTED and (taken := tuple([row for row in rows if row > 0])):
            self.unit.add(Consume(taken))
        if isinstance(write, Put):
            text = None if isinstance(write.node, Absent) else cast("str", write.node)
            self._kept.put(write.key, text, self)
            self._kept.writing = self
            self.unit.add(PutData(self._kept.chat_id, write.key, text))
        elif write is not None:
            for one in cast("Sequence[Write]", write):
                self.unit.add(one, owes=True)
        if tag in ENDS:
            self.conclude(record)
        elif self not in self._shared.commits.pending:
            self._shared.commits.before_writing(self)

    def commit(self) -> Awaitable[None]:
        self.flush(begin=not self.unit.in_row)
        # Wait only for this writer's units. Conversations that waited for newer units of other writers would
        # wait for each other.
        return self._shared.commits.wait_for(self.written)

    def repeated(self, id: Id, kind: str) -> None:
        self.repeated_ids |= {id}
        self._shared.work.count("possible_repeat")

    # --- when units are made

    def rests(self, rests: bool, wake: int | None) -> bool:
        """Set whether the run rests, and the run's next wake-up time. Return False if the run has no
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

    def flush(self, *, begin: bool = False, within: Callable[[Sequence[Write]], int] | None = None) -> int:
        """Add the appended writes to the commit queue as one unit. Return the unit's number.

        Args:
            begin: store the conversation's beginning even if nothing else of it needs to be stored yet.
            within: adds the writes to the queue together with the caller's writes; called even without
                appended writes.
        """
        unit, commits = self.unit, self._shared.commits
        if self._kept.writing is self:
            self._kept.writing = None
        writes: Sequence[Write] = ()
        if not self.over and (unit.is_due or (begin and unit.first is not None)):
            if (code := self._shared.services.code) is not None and code.sites.unkept:
                commits.add([code.unkept()])
            writes = unit.take(() if self.run is None else self.run.resting)
        if within is not None:
            self.written = within(writes)
        elif writes:
            self.written = commits.add(writes, self)
        return self.written

    def write(self, writes: Sequence[Write]) -> None:
        """Add `writes` to the queue, after all earlier records and before later records."""
        self.flush(begin=True)
        self.written = self._shared.commits.add(writes, self)

    def conclude(self, record: Record | None = None) -> Sequence[Write]:
        """Stop writing after `record`, the run's last record; None for the end of a parked conversation.

        Set `ends` to the writes of the end, and return these writes; none if the writer had stopped already.
        """
        if self.over:
            return ()
        if self._kept.writing is self:
            self._kept.writing = None
        if record is not None and record[0] == CONTINUED and self.successor is not None:
            self.ends = self.unit.carry_on(self.successor)
        else:
            failed = record is not None and record[0] == ENDED and record[2] is not None
            self.ends = self.unit.end("failed" if failed else None)
        self.over = True
        if self in self._shared.commits.pending:
            del self._shared.commits.pending[self]
        return self.ends

    def refused(self, error: Exception) -> None:
        """Stop the run after the store refused one of its units. The next start replays only the records
        before that unit."""
        if not self.over and self.run is not None:
            self.over = True
            self.run.diverge(0, f"what it did here can't be stored: {type(error).__name__}")

    # --- an event that is taken before it is stored

    @property
    def can_deliver_early(self) -> bool:
        """Whether an event can be stored in one transaction with its consequences."""
        # A deadline that has passed is handled before the event: the deadline may end the wait that would
        # take the event.
        unit = self.unit
        due = unit.wake is not None and unit.wake <= self.now()
        return unit.first is None and not (self.over or self._kept.ahead or due)

    def take(self, arrival: Arrival, take_back: Callable[[int], None]) -> EarlyEvent:
        """Add an event to the unit of the record that takes the event. The caller appends that record next.

        Args:
            take_back: called if the event isn't stored, with the number of units before the event.
        """
        if self in self._shared.commits.pending:
            self.flush()  # earlier work must not depend on the event
        self.unit.add(Accept(arrival))
        self.ahead = self._kept.ahead = EarlyEvent(partial(take_back, self._shared.commits.added))
        return self.ahead

    def accepted(self, error: Exception | None) -> None:
        taken, self.ahead, self._kept.ahead = self.ahead, None, None
        self.over = self.over or error is not None
        if taken is not None:
            if error is not None:
                taken.take_back()
            taken.error = error
            taken.known.set()
