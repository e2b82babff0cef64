"""The host of a conversation's run: it decides when the run's records become units of the commit queue.

All that a run appends during one step of its Trio task is one unit. The unit has the records, the consumption
of the events that the records take, changes of the chat's data, and the conversation's state; `units` gathers
all these. A unit is stored completely or not at all, and never before an earlier unit. If a conversation ends
normally before anything of it is durable, the store gets only the consumption of its event.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, cast, final

import trio

from ..engine import ABSENT, Host, Put, Record, encode_record
from ..engine.core import Operation as OpenOperation
from ..engine.records import (
    CONTINUED,
    DONE,
    ENDED,
    ENDS,
    FAILED,
    INTERRUPTED,
    KNOWN,
    Absent,
    Id,
    Node,
    time_of,
)
from ..errors import NondeterminismError
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
from .beginnings import Carried, InRow
from .codec import CODEC
from .revival.changed import moved_rests, write_rests
from .revival.stored import tell
from .running.abandon import parting_line
from .running.lines import calling_line
from .services import HearRecords
from .units import UnitBuilder
from .workload import EarlyEvent

if TYPE_CHECKING:
    from .conversation import Conversation

log: Final = logging.getLogger("triobot.conversations")

LONG: Final = 10_000
"""Number of records. A longer journal is reported in the log, once."""


@final
class JournalWriter(Host):
    """The host of one conversation's run.

    Attributes:
        over: whether the writer has stopped: it writes nothing more.
        lost: whether the store refused one of the writer's units.
        repeated_ids: effects that this process runs, and that may also have happened before a crash.
        in_row: whether the first record was stored in the row of the conversation's event.
        here, compares: see `Host`.
        ahead: an event that was taken before it was stored, or None. Until the store has accepted the event,
            the event and all later work may be undone, and must not be visible outside.

    Args:
        first: the first record of a new conversation; None for a revived one.
    """

    __slots__ = (
        "_began_at",
        "_code",
        "_commits",
        "_conversation",
        "_owes",
        "_scheduled",
        "_taken_at",
        "_unit",
        "_watched",
        "_written",
        "ahead",
        "compares",
        "here",
        "in_row",
        "lost",
        "over",
        "repeated_ids",
    )

    def __init__(self, conversation: Conversation, first: Record | None) -> None:
        begin, stored, services = conversation.begin, conversation.stored, conversation.services
        self.over = self.lost = False
        self.repeated_ids: frozenset[Id] = frozenset()
        self._conversation = conversation
        self._commits = conversation.work.commits
        self.in_row = isinstance(begin, InRow)
        self._code = code = services.code
        self.here = None if code is None else code.sites.here
        self.compares = conversation.operations.changed is not None
        if stored is not None:
            self._unit = UnitBuilder.revived(stored)
        else:
            lease, id = services.store.lease, ConversationId(conversation.seq)
            build = 0 if code is None else code.build
            self._unit = UnitBuilder(lease, id, conversation.run_number, first, build)
        if isinstance(begin, Carried):
            self._unit.carry_on(begin.position)
        self._written = 0
        # Whether the unit may write the chat's list of pending cleanup and messages (`cleanup`).
        self._owes = False
        self._scheduled = False
        self.ahead: EarlyEvent | None = None
        # Number of units that had been added when `ahead` was taken, and when the conversation began.
        self._taken_at = 0
        self._began_at = 0 if stored is not None else self._commits.added
        self._watched: HearRecords | None = None
        if services.replays and conversation.unrecordable is None:
            if self.in_row and first is not None:
                tell(first, conversation.event, conversation.at)
            known = [first] if stored is None else stored.records
            self._watched = services.replays(conversation, self._unit.lease, cast("Sequence[Record]", known))

    # --- calls by the run

    def now(self) -> int:
        return self._conversation.services.clock.now()

    def append(self, record: Record, rows: Sequence[int] = (), write: object = None) -> None:
        if self.over:
            return
        if self._conversation.settled is not None:
            self._conversation.lives_on()
        tag = record[0]
        self._unit.append(record)
        if self._watched is not None:
            self._watched(record)
        # An interrupt's row is consumed when the interrupt's own conversation begins.
        if rows and tag != INTERRUPTED and (taken := tuple([row for row in rows if row > 0])):
            self._unit.add(Consume(taken))
        if write is not None:
            self._also(write)
        if tag in ENDS:
            self._end(record)
        elif not self._scheduled:
            self._scheduled = True
            self._commits.before_writing(self.flush)

    def _also(self, write: object) -> None:
        if isinstance(write, Put):
            kept = self._conversation.actor.kept
            text = None if isinstance(write.node, Absent) else cast("str", write.node)
            kept.put(write.key, text, self)
            self._unit.add(PutData(self._conversation.actor.chat_id, write.key, text))
        else:
            for one in cast("Sequence[Write]", write):
                self._owes = self._owes or isinstance(one, PutData)
                self._unit.add(one)

    def commit(self) -> Awaitable[None]:
        if self._conversation.settled is not None:
            self._conversation.lives_on()
        self.flush(begin=not self.in_row)
        # Wait only for this writer's units. Conversations that waited for newer units of other writers would
        # wait for each other.
        return self._commits.wait_for(self._written)

    def rests(self, wake: int | None) -> None:
        conversation, unit = self._conversation, self._unit
        if conversation.settled is not None:
            conversation.lives_on()
        # A conversation that waits for a paid aside counts as unfinished. So the next start revives the
        # conversation: the aside may have ended in the meantime.
        is_waiting = conversation.operations.run.is_waiting
        unit.rests = is_waiting and not conversation.awaited
        if wake is not None or unit.wake is not None:
            unit.wake = wake
            conversation.shared.timers.wake_at(conversation, wake)
        if is_waiting:
            conversation.stirred(busy=False)
        if self._watched is not None:
            self._watched(None)
        if unit.moved and not self._scheduled:
            self._scheduled = True
            self._commits.before_writing(self.flush)

    def read(self, key: str) -> Node | Absent:
        text = (self._conversation.actor.kept.values or {}).get(key)
        return ABSENT if text is None else text

    def jumped(self) -> int:
        return self._conversation.services.clock.jumped()

    def repeated(self, id: Id, kind: str) -> None:
        self.repeated_ids |= {id}
        self._conversation.work.count("possible_repeat")

    def parting(self, record: Record, op: OpenOperation) -> str | None:
        changed = self._conversation.operations.changed
        return None if changed is None else changed.parting(record, op)

    def reached(self, operations: Sequence[OpenOperation]) -> str | None:
        conversation, code = self._conversation, self._code
        if code is None or (stored := conversation.stored) is None:
            return None
        why = None if (changed := conversation.operations.changed) is None else changed.standing(operations)
        if changed is None:
            code.place(operations, stored)
        elif why is None:
            conversation.operations.changed, self._unit.build = None, code.build
        if stored.row.updated_at < conversation.services.store.opening().epoch_at:
            for wait in conversation.waits:  # presses after the backup are lost
                wait.shown = wait.keys and "?"
        return why

    def concluded(self, error: BaseException | None) -> None:
        if error is not None or self._conversation.operations.giving is not None:
            self._conversation.concluded(error)

    def diverged(self, error: NondeterminismError, task: trio.lowlevel.Task | None) -> None:
        self._conversation.parted_at = parting_line(error.id, task)

    def swallowed(self, id: Id) -> None:
        self._conversation.work.count("swallowed_cancellation")
        log.error(
            "conversation %s of %s catches every cancellation (BaseException) near operation %s, "
            "and can't be put to rest: it is given up at %s",
            self._conversation.route.name,
            self._conversation.told_place,
            id,
            calling_line(),
        )
        self._conversation.actor.calls.let_go(self._conversation)

    # --- an event that is taken before it is stored

    @property
    def can_deliver_early(self) -> bool:
        """Whether an event can be stored in one transaction with its consequences."""
        # A deadline that has passed is handled before the event: the deadline may end the wait that would
        # take the event.
        unit = self._unit
        due = unit.wake is not None and unit.wake <= self.now()
        return unit.first is None and not (self.over or self.lost or self.ahead or due)

    def take(self, arrival: Arrival) -> EarlyEvent:
        """Store an event in one unit with the record that takes it. The caller appends that record next."""
        if self._scheduled:
            self.flush()  # earlier work must not depend on the event
        self._unit.add(Accept(arrival))
        self.ahead, self._taken_at = EarlyEvent(), self._commits.added
        return self.ahead

    def take_back(self, units: int) -> None:
        """Stop writing if the conversation began after `units` units: then its first event isn't stored."""
        if self._began_at >= units:
            self.over = self.lost = True

    def accepted(self, error: Exception | None) -> None:
        taken, self.ahead = self.ahead, None
        if error is not None:
            self.over = True
            self._conversation.actor.calls.take_back(self._conversation.actor, self._taken_at)
        if taken is not None:
            taken.error = error
            taken.known.set()

    # --- units

    def flush(self, *, begin: bool = False, within: Callable[[Sequence[Write]], int] | None = None) -> int:
        """Add the appended writes to the commit queue as one unit. Return the unit's number.

        Args:
            begin: store the conversation's beginning even if nothing else of it needs to be stored yet.
            within: adds the writes to the queue together with the caller's writes; called even without
                appended writes.
        """
        self._scheduled = False
        unit = self._unit
        if self.over or not (unit.is_due or (begin and unit.first is not None)):
            if within is not None:
                self._written = within(())
            return self._written
        writes = [*self._begin(), *self._appended(self.now())]
        if (code := self._code) is not None:
            if code.sites.unkept:
                self._commits.add([code.unkept(unit.lease)])
            writes += unit.rested(self._rested())
        self._written = self._commits.add(writes, self) if within is None else within(writes)
        return self._written

    def _rested(self) -> str | None:
        """Return the row's text about the code lines of the open operations, or None if no text is needed."""
        conversation, unit = self._conversation, self._unit
        complete = conversation.settled is None and conversation.operations.changed is None
        if (stored := conversation.stored) is None or complete:
            return write_rests(unit.position, conversation.operations.run.resting, unit.last)
        return moved_rests(unit.position, stored)  # the replay isn't complete

    def _appended(self, now: int | None = None) -> Sequence[Write]:
        """Return the unit's writes; with `now`, these include the run's rest and next wake-up time."""
        unit, length = self._unit, self._unit.length
        writes: Sequence[Write] = unit.take() if now is None else unit.take_standing(now)
        if length <= LONG < unit.length:
            log.warning(
                "conversation %s of %s has more than %s records, all of which each restart replays: end it, "
                "or go on with chat.continue_as()",
                self._conversation.route.name,
                self._conversation.told_place,
                f"{LONG:,}",
            )
        if self._owes:
            # The list of pending cleanup is read as late as possible: it may be shorter by now, and other
            # writers store the list, too.
            self._owes, writes = False, self._conversation.shared.cleanup.going(writes)
        return writes

    def _begin(self) -> Sequence[Write]:
        """Return the writes that store the row and the first record, unless an earlier unit has both."""
        conversation, unit = self._conversation, self._unit
        if (first := unit.first) is None:
            return ()
        if self.in_row:
            # The event's row has the event and its time; the first record doesn't have them yet.
            tell(first, conversation.event, conversation.at)
        return unit.begin(
            BeginConversation(
                unit.lease,
                unit.id,
                conversation.actor.chat_id,
                conversation.route.name,
                str(conversation.route.version),
                time_of(first),
                conversation.kind,
                conversation.owner,
                conversation.key,
            )
        )

    def _end(self, record: Record) -> None:
        if record[0] == CONTINUED and self._conversation.goes_on:
            writes = [*self._begin(), *self._appended(), self._continued()]
        else:
            writes = self._ended("failed" if record[0] == ENDED and record[2] is not None else None)
        self.over = True
        if self._scheduled:
            self._commits.look_no_more(self.flush)
        self._written = self._conversation.actor.write_end(self._conversation, writes, self)

    def _ended(self, error: str | None = None) -> list[Write]:
        """Return the writes of the end. A normal end deletes the journal, unless ended journals are kept."""
        unit, kept = self._unit, self._conversation.services.keep_ended
        if error is None and not kept:
            unit.drop_journal()
            if unit.first is not None:
                return [*self._appended(), Consume((unit.id,))]
        end = EndConversation(unit.lease, unit.id, self.now(), error, kept)
        return [*self._begin(), *self._appended(), end]

    @property
    def carries(self) -> tuple[int, int, int]:
        """The successor's run number, its next record's position, and the unit of its first record."""
        return self._unit.run_number + 1, self._unit.position + 1, self._written

    def _continued(self) -> Write:
        """Return the write that replaces the journal by the successor's first record."""
        conversation, successor, unit = self._conversation, self._conversation.successor, self._unit
        assert successor is not None
        route = successor.start.route
        return ContinueConversation(
            unit.lease,
            unit.id,
            unit.position,
            (encode_record(successor.first),),
            route.name,
            str(route.version),
            self.now(),
            "aside" if conversation.beside and route.job is None else route.kind.value,
        )

    # --- writes for others' transactions

    def write(self, writes: Sequence[Write]) -> int:
        """Store `writes` after the records appended so far and before later ones; see `CommitQueue.add`."""
        self.flush(begin=True)
        self._written = self._commits.add(writes, self)
        return self._written

    def result_of(self, operation: Id, kind: str, value: object) -> Sequence[Write]:
        """Return the writes that store an effect's result, or an error, for use in another transaction."""
        tag = FAILED if isinstance(value, Exception) else DONE
        node = CODEC.node_of_error(value) if isinstance(value, Exception) else CODEC.node_of(value)
        return (self._unit.keep([KNOWN, self.now(), operation, kind, "", tag, node]),)

    async def done(self, operation: Id, kind: str) -> Sequence[Write]:
        """Return the writes that record an effect as done, for the transaction that does the effect's work.

        So a crash keeps both the record and the work, or neither. Otherwise a restart would run the effect
        again, although the effect's work is done.
        """
        if self.over:
            return ()
        self.flush(begin=True)
        await self._commits.wait_for(self._written)
        return self.result_of(operation, kind, True)

    def begin_within(self, write: Callable[[Sequence[Write]], int]) -> int:
        """Store the first record in one unit with other writes; see `Conversation.begin_within`."""
        self._written = write(self._begin())
        return self._written

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
        if not self.over:
            self.over = True
            self._conversation.operations.run.diverge(
                0, f"what it did here can't be stored: {type(error).__name__}"
            )

    def park(self, because: str, error: str | None) -> bool:
        """Write that the conversation is parked and, if necessary, the conversation's beginning.

        Returns:
            False if the writer has stopped.
        """
        unit = self._unit
        if self.over or self.lost:
            return False
        self.write([ParkConversation(unit.lease, unit.id, self.now(), because, error)])
        return True

    def counted(self, kills: int) -> Sequence[Write]:
        """Return the writes that store the beginning and add `kills` to the crash count."""
        return [] if self.over else [*self._begin(), *self._in_hand(kills)]

    def freed(self, kills: int) -> Sequence[Write]:
        """Return the writes that unpark the conversation.

        The crash count stays `kills` until the conversation rests.
        """
        unit = self._unit
        free = ParkConversation(unit.lease, unit.id, self.now(), None)
        return [] if self.over or unit.first is not None else [free, *self._in_hand(kills)]

    def _in_hand(self, kills: int) -> Sequence[TakeInHand]:
        return [TakeInHand(self._unit.lease, self._unit.id, self.now())] * kills
