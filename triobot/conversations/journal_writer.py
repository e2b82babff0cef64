"""The host of a conversation's run: it turns the run's records into writes of the store.

All that a run appends in one step of its task is one unit of the commit queue. The unit has the records, the
consumption of the events that they take, changes of the chat's data, and the conversation's state. A unit is
stored completely or not at all, and never before an earlier unit. If a conversation ends normally before
anything of it is durable, the store gets only the consumption of its event.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, final

import trio

from ..engine import ABSENT, Host, Put, Record, encode_record
from ..engine.core import Operation as OpenOperation
from ..engine.records import (
    CONTINUED,
    DONE,
    EFFECTS,
    ENDED,
    ENDS,
    FAILED,
    INTENDED,
    INTERRUPTED,
    KNOWN,
    OUTCOMES,
    TURNS,
    Absent,
    Id,
    Node,
    time_of,
)
from ..errors import NondeterminismError
from ..seams.inbox import Arrival
from ..seams.journals import (
    AppendRecords,
    BeginConversation,
    ContinueConversation,
    ConversationId,
    DropEffects,
    EndConversation,
    KeepIntent,
    KeepResult,
    ParkConversation,
    PutRested,
    PutStanding,
    TakeInHand,
)
from ..seams.writes import Accept, Consume, PutData, Write
from .beginnings import Carried, InRow
from .codec import CODEC
from .revival.changed import moved_rests, write_rests
from .revival.stored import tell
from .running.leash import parting_line
from .running.lines import calling_line
from .services import HearRecords
from .workload import EarlyEvent

if TYPE_CHECKING:
    from .conversation import Conversation

T = TypeVar("T")
log: Final = logging.getLogger("triobot.conversations")

LONG: Final = 10_000
"""Number of records above which the log reports a journal as long, once."""


@final
class JournalWriter(Host):
    """The host of one conversation's run.

    Attributes:
        durable: whether the records are stored; if not, the store has only the conversation's row.
        over: whether the writer has stopped: it writes nothing more.
        lost: whether the store refused one of the writer's units.
        repeated_ids: effects of this incarnation that may have happened before a crash, too.
        in_row: whether the first record was stored in the row of the conversation's event.
        here, compares: see `Host`.
        ahead: an event that was taken before it was stored; None without. Until the store has accepted it,
            the event and everything since may be taken back, and must not be visible outside.

    Args:
        first: the first record of a new conversation; None for a revived one.
    """

    __slots__ = (
        "_began_at",
        "_begun",
        "_beside",
        "_build",
        "_code",
        "_commits",
        "_conversation",
        "_effects",
        "_first",
        "_fits",
        "_id",
        "_kept",
        "_last",
        "_lease",
        "_owes",
        "_position",
        "_records",
        "_rests",
        "_scheduled",
        "_since",
        "_stood",
        "_taken_at",
        "_wake",
        "_watched",
        "_writes",
        "_written",
        "ahead",
        "compares",
        "durable",
        "here",
        "in_row",
        "lost",
        "over",
        "repeated_ids",
        "run_number",
    )

    def __init__(self, conversation: Conversation, first: Record | None, *, durable: bool = True) -> None:
        begin, stored = conversation.begin, conversation.stored
        row = None if stored is None else stored.row
        self.durable = durable
        self.over = self.lost = False
        self.repeated_ids: frozenset[Id] = frozenset()
        self._conversation = conversation
        self._commits = conversation.work.commits
        self._lease = conversation.services.store.lease if row is None else row.lease
        self._id = ConversationId(conversation.seq)
        self.run_number = conversation.run_number
        self._begun = row is not None
        self._first = first
        self.in_row = isinstance(begin, InRow)
        self._position = 0 if row is None else row.position
        # Position of the journal's first record. Positions count on across `continue_as`.
        self._since = 0
        self._written = 0
        # Appended writes that are not in the commit queue yet.
        self._records: list[Record] | None = None
        self._beside: list[Write] | None = None
        self._writes: list[Write] | None = None
        # Whether `_writes` may hold the chat's list of pending cleanup and messages (`tidying`).
        self._owes = False
        self._scheduled = False
        self.ahead: EarlyEvent | None = None
        # Unit counts at the time when `ahead` was taken, and when the conversation began.
        self._taken_at = 0
        self._began_at = 0 if row is not None else self._commits.added
        # Whether the run rests, and its next wake-up time; then the same two facts as the store has them.
        self._rests, self._wake = False, None if row is None else row.wake_at
        self._stood = (True, None) if row is None else (row.unfinished, row.wake_at)
        # Effects with a row beside the journal in the store.
        self._effects: frozenset[str] = frozenset()
        if stored is not None:
            records = stored.records
            beside = [str(one[2]) for one in records if one[0] in EFFECTS]
            self._effects, self._since = frozenset(beside), self._position - len(records) + len(beside)
        self._code = code = conversation.services.code if durable else None
        self.here = None if code is None else code.sites.here
        self.compares = conversation.operations.changed is not None
        self._last: object = None
        # The build in the store's row, and the build that fits the journal now.
        self._fits = 0 if row is None else row.build
        self._build = 0 if code is None else code.build if row is None else row.build
        self._watched: HearRecords | None = None
        if conversation.services.replays and durable:
            self._tell()
            known = [first] if stored is None else stored.records
            self._watched = conversation.services.replays(
                conversation, self._lease, cast("Sequence[Record]", known)
            )
        if isinstance(begin, Carried):
            self._begun, self._position = True, begin.position
            self._since = begin.position - 1

    # --- calls by the run

    def now(self) -> int:
        return self._conversation.services.clock.now()

    def append(self, record: Record, rows: Sequence[int] = (), write: object = None) -> None:
        if self.over:
            return
        if self._conversation.settled is not None:
            self._conversation.lives_on()
        tag, self._rests = record[0], False
        if tag in EFFECTS:
            self._keep_beside(tag, record)
        else:
            if tag in TURNS:
                self._last = record[7] if len(record) > 7 else None
            self._records = _with(self._records, record)
            if self._effects and tag in OUTCOMES:
                self._drop_beside(str(record[2]))
        if self._watched is not None:
            self._watched(record)
        # An interrupt's row is consumed when the interrupt's own conversation begins.
        if rows and tag != INTERRUPTED and (taken := tuple([row for row in rows if row > 0])):
            self._writes = _with(self._writes, Consume(taken))
        if write is not None:
            self._also(write)
        if tag in ENDS:
            self._end(record)
        elif not self._scheduled:
            self._scheduled = True
            self._commits.before_writing(self.flush)

    def _also(self, write: object) -> None:
        if isinstance(write, Put):
            kept = self._conversation.life.kept
            text = None if isinstance(write.node, Absent) else cast("str", write.node)
            kept.put(write.key, text, self)
            self._writes = _with(self._writes, PutData(self._conversation.life.chat_id, write.key, text))
        else:
            for one in cast("Sequence[Write]", write):
                self._owes = self._owes or isinstance(one, PutData)
                self._writes = _with(self._writes, one)

    def commit(self) -> Awaitable[None]:
        if self._conversation.settled is not None:
            self._conversation.lives_on()
        self.flush(begin=not self.in_row)
        # Wait only for this writer's units: waiting for newer units of others would make conversations wait
        # for each other.
        return self._commits.wait_for(self._written)

    def rests(self, wake: int | None) -> None:
        conversation = self._conversation
        if conversation.settled is not None:
            conversation.lives_on()
        # A conversation that waits for a paid aside counts as unfinished. The next start then revives it,
        # since the aside may have ended in the meantime.
        quiescent = conversation.operations.run.quiescent
        self._rests = quiescent and not conversation.awaited
        if wake is not None or self._wake is not None:
            self._wake = wake
            conversation.shared.timers.wake_at(conversation, wake)
        if quiescent:
            conversation.stirred(busy=False)
        if self._watched is not None:
            self._watched(None)
        if (not self._rests, self._wake) != self._stood and not self._scheduled:
            self._scheduled = True
            self._commits.before_writing(self.flush)

    def read(self, key: str) -> Node | Absent:
        text = (self._conversation.life.kept.values or {}).get(key)
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
            conversation.operations.changed, self._build = None, code.build
        if stored.row.updated_at < conversation.services.store.opening().epoch_at:
            for wait in conversation.waits:  # presses since the backup are lost
                wait.shown = wait.keys and "?"
        return why

    def concluded(self, error: BaseException | None) -> None:
        if error is not None or self._conversation.operations.giving is not None:
            self._conversation.concluded(error)

    def stuck(self, error: NondeterminismError, task: trio.lowlevel.Task | None) -> None:
        self._conversation.stuck_at = parting_line(error.id, task)

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
        self._conversation.life.calls.let_go(self._conversation)

    # --- an event that is taken before it is stored

    @property
    def may_take(self) -> bool:
        """Whether an event can be stored in one transaction with its consequences."""
        # A deadline that has passed goes first: it may end the wait that would take the event.
        due = self._wake is not None and self._wake <= self.now()
        return self.durable and self._begun and not (self.over or self.lost or self.ahead or due)

    def take(self, arrival: Arrival) -> EarlyEvent:
        """Store an event in one unit with the record that takes it. Append that record next."""
        if self._scheduled:
            self.flush()  # earlier work must not depend on the event
        self._writes = _with(self._writes, Accept(arrival))
        self.ahead, self._taken_at = EarlyEvent(), self._commits.added
        return self.ahead

    def take_back(self, units: int) -> None:
        """Stop writing if the conversation began after `units` units: what started it is taken back."""
        if self._began_at >= units:
            self.over = self.lost = True

    def accepted(self, error: Exception | None) -> None:
        taken, self.ahead = self.ahead, None
        if error is not None:
            self.over = True
            self._conversation.life.calls.take_back(self._conversation.life, self._taken_at)
        if taken is not None:
            taken.error = error
            taken.known.set()

    # --- units

    def flush(self, *, begin: bool = False, within: Callable[[Sequence[Write]], int] | None = None) -> int:
        """Add the appended writes to the commit queue as one unit. Return the unit's number.

        Args:
            begin: store the conversation's beginning even if nothing else of it needs to be stored yet.
            within: adds the writes to the queue together with the caller's; called even without appended
                writes.
        """
        self._scheduled = False
        added = self._records or self._beside or self._writes
        stands = (not self._rests, self._wake)
        known = self._begun and stands == self._stood and not added
        if self.over or known or not (begin or self._begun or added or self._rests):
            if within is not None:
                self._written = within(())
            return self._written
        writes = [] if self._begun else self._begin()
        # The state has been the same since the last appended record.
        now = time_of(self._records[-1]) if self._records else self.now()
        writes += self._appended()
        self._stood = stands
        writes.append(PutStanding(self._lease, self._id, now, *stands))
        if (code := self._code) is not None:
            if code.sites.unkept:
                self._commits.add([code.unkept(self._lease)])
            if (rests := self._rested()) is not None or self._fits != self._build:
                self._fits = self._build
                writes.append(PutRested(self._lease, self._id, rests, self._build))
        self._written = self._commits.add(writes, self) if within is None else within(writes)
        return self._written

    def _rested(self) -> str | None:
        """Return the row's text on the code lines of the open operations; None if the row needs none."""
        conversation = self._conversation
        if (stored := conversation.stored) is None or (
            conversation.settled is None and conversation.operations.changed is None
        ):
            return write_rests(self._position, conversation.operations.run.resting, self._last)
        return moved_rests(self._position, stored)  # the replay isn't complete

    def _appended(self) -> list[Write]:
        records, self._records = self._records, None
        writes, self._writes = self._writes or [], None
        beside, self._beside = self._beside or (), None
        if self._owes:
            # The list of pending cleanup is read as late as possible: it may be shorter by now, and other
            # writers store the list, too.
            self._owes, writes = False, list(self._conversation.shared.tidying.going(writes))
        if not self.durable:
            return writes
        return [self._records_at(records), *beside, *writes] if records else [*beside, *writes]

    def _keep_beside(self, tag: str, record: Record) -> None:
        """Store an effect's intent or result beside the journal, until the journal has the outcome."""
        keep = KeepIntent if tag == INTENDED else KeepResult
        own = str(record[2])
        self._effects |= {own}
        text = encode_record(record)
        kept = keep(self._lease, self._id, self.run_number, own, time_of(record), text)
        self._beside = _with(self._beside, kept)

    def _drop_beside(self, own: str) -> None:
        if own in self._effects:
            self._effects -= {own}
            drop = DropEffects(self._lease, self._id, self.run_number, (own,))
            self._beside = _with(self._beside, drop)

    def _records_at(self, records: Sequence[Record]) -> AppendRecords:
        position, self._position = self._position, self._position + len(records)
        if position - self._since <= LONG < self._position - self._since:
            log.warning(
                "conversation %s of %s has more than %s records, all of which each restart replays: end it, "
                "or go on with chat.continue_as()",
                self._conversation.route.name,
                self._conversation.told_place,
                f"{LONG:,}",
            )
        return AppendRecords(self._lease, self._id, position, tuple(map(encode_record, records)))

    def _begin(self) -> list[Write]:
        if self._begun:
            return []
        self._begun = True
        conversation, first = self._conversation, self._first
        assert first is not None
        self._tell()
        self._first = None  # not needed again
        begin = BeginConversation(
            self._lease,
            self._id,
            conversation.life.chat_id,
            conversation.route.name,
            str(conversation.route.version),
            time_of(first),
            conversation.kind,
            conversation.owner,
            conversation.key,
        )
        return [begin, self._records_at([first]), Consume((conversation.seq,))]

    def _tell(self) -> None:
        """Complete a first record that left the event and its time to the event's row."""
        if self.in_row and self._first is not None:
            tell(self._first, self._conversation.event, self._conversation.at)

    def _end(self, record: Record) -> None:
        """Write the end. After a normal end no journal is left, unless ended journals are kept."""
        failed = record[0] == ENDED and record[2] is not None
        goes_on = record[0] == CONTINUED and self._conversation.goes_on
        writes: list[Write] = []
        kept = self._keeps()
        if not (failed or goes_on or kept):
            self._records = self._beside = None
        if self._begun or failed or goes_on or kept:
            writes += [*self._begin(), *self._appended()]
            if goes_on:
                writes.append(self._continued())
            else:
                error = "failed" if failed else None
                writes.append(EndConversation(self._lease, self._id, self.now(), error, kept))
        else:
            writes += [*self._appended(), Consume((self._conversation.seq,))]
            self._begun = True
        self.over = True
        if self._scheduled:
            self._commits.look_no_more(self.flush)
        self._written = self._conversation.life.write_end(self._conversation, writes, self)

    def _keeps(self) -> bool:
        return self.durable and self._conversation.services.keep_ended

    @property
    def carries(self) -> tuple[int, int, int]:
        """The successor's run number, the position of its next record, and the unit that stores its first."""
        return self.run_number + 1, self._position, self._written

    def _continued(self) -> Write:
        """Return the write that replaces the journal by the successor's first record."""
        conversation, successor = self._conversation, self._conversation.successor
        assert successor is not None
        route = successor.start.route
        self._position += 1
        return ContinueConversation(
            self._lease,
            self._id,
            self._position - 1,
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

    def result_of(self, operation: Id, kind: str) -> Callable[[str, Node], Sequence[KeepResult]]:
        """Return a function that makes the writes for an effect's outcome, for use in another transaction.

        The returned function may be called in another thread.
        """
        lease, id_, run, now, durable = self._lease, self._id, self.run_number, self.now(), self.durable
        if durable:
            self._effects |= {str(operation)}

        def keep(tag: str, node: Node) -> Sequence[KeepResult]:
            text = encode_record([KNOWN, now, operation, kind, "", tag, node])
            return [KeepResult(lease, id_, run, str(operation), now, text)] if durable else []

        return keep

    async def with_result(self, operation: Id, kind: str, value: object) -> Sequence[Write]:
        """Return the writes that record an effect's outcome, for the transaction that does the effect's work.

        A crash then keeps both or neither. Without this, a restart would run the effect again and find its
        work done.
        """
        if self.over:
            return ()
        self.flush(begin=True)
        await self._commits.wait_for(self._written)
        return self.result_of(operation, kind)(*outcome_of(value))

    def begin_within(self, write: Callable[[Sequence[Write]], int]) -> int:
        """Store the first record in one unit with other writes; see `Conversation.begin_within`."""
        self._written = write(self._begin())
        return self._written

    def end_with(self) -> Sequence[Write]:
        """Return the writes that end the conversation, for another transaction; then write nothing more."""
        if self.over:
            return []
        if self.ahead is not None:
            self.flush()
        self.over = True
        if self._keeps():
            ended = EndConversation(self._lease, self._id, self.now(), kept=True)
            return [*self._begin(), *self._appended(), ended]
        writes = self._conversation.shared.tidying.going(self._writes or ())
        if not self._begun:
            return [*writes, Consume((self._conversation.seq,))]
        return [*writes, EndConversation(self._lease, self._id, self.now())]

    def refused(self, error: Exception) -> None:
        """Stop the run after the store refused one of its units. The next start replays only the records
        before that unit."""
        if not self.over:
            self.over = True
            self._conversation.operations.run.get_stuck(
                0, f"what it did here can't be stored: {type(error).__name__}"
            )

    def park(self, because: str, error: str | None) -> bool:
        """Write that the conversation is parked, and if necessary that it began.

        Returns:
            False if the writer has stopped, or the conversation isn't durable.
        """
        if self.over or self.lost or not self.durable:
            return False
        self.write([ParkConversation(self._lease, self._id, self.now(), because, error)])
        return True

    def counted(self, kills: int) -> Sequence[Write]:
        """Return the writes that store the beginning and add `kills` to the crash count."""
        return [] if self.over else [*self._begin(), *(self._in_hand() for _ in range(kills))]

    def freed(self, kills: int) -> Sequence[Write]:
        """Return the writes that unpark the conversation.

        The crash count stays `kills` until the conversation rests.
        """
        free = ParkConversation(self._lease, self._id, self.now(), None)
        return [] if self.over or not self._begun else [free, *(self._in_hand() for _ in range(kills))]

    def _in_hand(self) -> TakeInHand:
        return TakeInHand(self._lease, self._id, self.now())


def _with(some: list[T] | None, one: T) -> list[T]:
    """Append to a list that may be None: most conversations wait and have no list."""
    if some is None:
        return [one]
    some.append(one)
    return some


def outcome_of(value: object) -> tuple[str, Any]:
    """Return the record's tag and node for an effect that returned `value`, or raised it as an error."""
    if isinstance(value, Exception):
        return FAILED, CODEC.node_of_error(value)
    return DONE, CODEC.node_of(value)
