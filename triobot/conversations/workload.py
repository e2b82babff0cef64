"""The work of a running bot: how many conversations are busy, the queue of their writes, and their tasks.

Conversations don't wait until their writes are stored. If the process crashes first, the next process handles
the events again; no event is lost. A conversation may change its chat's data while it handles an event. One
commit stores these changes and consumes the event. If the consumption is the only write, and the store
supports notes, the consumption is kept in a note until the next writes are stored.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar, final

import attrs
import outcome
import trio
from trio.lowlevel import current_task, reschedule, wait_task_rescheduled

from ..base.alarm_kinds import Alarm, RaiseAlarm
from ..base.clock import WallClock
from ..engine.records import Id
from ..engine.scopes import innermost
from ..errors import LocalProtocolError, StoreFullError
from ..seams.inbox import RedeliveredError
from ..seams.writes import Accept, Consume, JournalConflictError, PutData, StaleRowError, Write
from ..wire.ids import ChatId

if TYPE_CHECKING:
    from ..store import Store

log: Final = logging.getLogger("triobot.conversations")

_FLUSH_DEADLINE: Final = 10.0
_AWAY_DEADLINE: Final = 0.5  # if the store can't be written now

# Number of idle tasks that are kept for reuse, each with about three kilobytes. Further tasks end.
_RESTING: Final = 64

BUSY: Final = 10_000
"""Conversations that may be busy at once; above this number, events wait in the inbox."""

T = TypeVar("T")

Live: TypeAlias = Callable[[trio.CancelScope], Awaitable[None]]
"""Function that runs alone in a task. The argument is the task's own cancel scope."""

Refusal: TypeAlias = JournalConflictError | StaleRowError | LocalProtocolError | RedeliveredError
_REFUSALS: Final = (JournalConflictError, StaleRowError, LocalProtocolError, RedeliveredError)
"""Errors with which the store refuses a unit for good."""


class UnitWriter(Protocol):
    """A writer of units, with callbacks for the store's answers.

    Attributes:
        lost: number of the writer's first refused unit; this unit and the writer's later units aren't stored.
            0 if none was refused.
    """

    lost: int

    def flush(self) -> int:
        """Add the pending writes to the queue as one unit. Return the unit's number."""
        ...

    def refused(self, error: Refusal) -> None:
        """Stop writing: the store refused a unit, and nothing of the unit was visible outside.

        Must not raise.
        """
        ...

    def accepted(self, error: Exception | None) -> None:
        """Handle the result for an event that was taken before it was stored. Must not raise.

        Args:
            error: why the event isn't stored; None if the event is stored.
        """
        ...


@final
@attrs.define(eq=False)
class _Unit:
    """Writes that are stored completely or not at all.

    Attributes:
        number: number of units added to the queue so far, including this unit.
        accepts: whether the unit accepts an early event, and the writer doesn't have the result yet.
        over: set when the unit has left the queue; None while no task waits for that.
    """

    writes: tuple[Write, ...]
    writer: UnitWriter | None
    number: int
    accepts: bool = False
    over: trio.Event | None = None


@final
@attrs.define(eq=False)
class EarlyEvent:
    """An event that was taken before it was stored.

    Attributes:
        take_back: called if the event isn't stored.
        known: set when the event is stored or refused.
        error: why the event isn't stored; None if the event is stored.
    """

    take_back: Callable[[], None]
    known: trio.Event = attrs.field(factory=trio.Event)
    error: Exception | None = None


async def holds(early: EarlyEvent) -> bool:
    """Wait until an event that was taken early is stored or refused. Return whether the event is stored."""
    await early.known.wait()
    return early.error is None


@final
class CommitQueue:
    """Stores the units of conversations in their order; one commit stores all waiting units.

    A unit is stored completely or not at all, and never before an earlier unit. A unit that the store refuses
    doesn't affect other writers' units. The refused unit's writer gets the error before any waiting task is
    woken.

    Attributes:
        added: number of units that were added so far.
        written: number of the units that have left the queue: they are durable, or were refused.
        pending: writers that add a unit shortly before the next commit.
        data: the chats with data in the queue, and the number of each chat's last unit with data.
        in_step: whether a conversation's code runs now; `end_step` is called when the code pauses.
    """

    def __init__(self, store: Store, raise_alarm: RaiseAlarm) -> None:
        self._store = store
        self._raise_alarm = raise_alarm
        self.added = self.written = 0
        self.pending: dict[UnitWriter, None] = {}
        self.data: dict[ChatId, int] = {}
        self.in_step = False
        # The units after `written`, up to `added`.
        self._units: list[_Unit] = []
        self._callbacks: list[Callable[[], None]] = []
        self._some = trio.Event()
        self._over = False
        self._in_doubt = False

    def add(self, writes: Sequence[Write], writer: UnitWriter | None = None) -> int:
        """Add writes as one unit. Return the number of units so far, for `wait_for`."""
        # A pending writer may be about to add the consequences of a consumed row. If a note stored the row's
        # consumption now, a crash could lose only these consequences.
        behind = self.pending or self._units or self._over or (writer is not None and writer.lost)
        if writes and (behind or not self._note_ends(writes)):
            self.added += 1
            unit = _Unit(tuple(writes), writer, self.added)
            self._units.append(unit)
            for write in writes:
                if type(write) is PutData:
                    self.data[write.chat_id] = self.added
                elif type(write) is Accept:
                    unit.accepts = True
            self._stir()
        return self.added

    def consumed(self, seqs: Sequence[int], data: Sequence[PutData] = ()) -> None:
        """Consume inbox rows that have been handled, and store `data` in the same unit."""
        self.add([*([Consume(tuple(seqs))] if seqs else []), *data])

    def before_writing(self, writer: UnitWriter) -> None:
        """Call the writer's `flush` once, shortly before the next commit, which comes soon."""
        self.pending[writer] = None
        self._stir()

    def when_written(self, tell: Callable[[], None]) -> None:
        """Call `tell` once the running task's writes, up to the task's next pause, are durable.

        If the bot stops before that, `tell` is called at the stop.
        """
        self._callbacks.append(tell)
        self._stir()

    def end_step(self) -> None:
        """Wake the queue's task if a conversation's code, which pauses now, has left something to store.

        Code that has handled an event mostly leaves nothing, because a note has already stored that the event
        is consumed. With one connection, an unnecessary wake-up would cost an echo 97 of its 1,068 function
        calls.
        """
        self.in_step = False
        if self.pending or self._units:
            self._stir()
        elif self._callbacks:
            self._tell_written(len(self._callbacks))

    def _stir(self) -> None:
        if not self.in_step:
            self._some.set()

    def _tell_written(self, many: int) -> None:
        due, self._callbacks = self._callbacks[:many], self._callbacks[many:]
        for tell in due:
            tell()

    async def wait_written(self, chat_id: ChatId | None = None) -> None:
        """Wait until all added units are durable; with `chat_id`, only the units with data of that chat.

        This includes the units that the pending writers will add.

        Raises:
            trio.ClosedResourceError: the bot stops, and the units could not be stored.
        """
        self._look()
        await self.wait_for(self.added if chat_id is None else self.data.get(chat_id, 0))

    async def wait_for(self, added: int | None = None) -> None:
        """Wait until the first `added` units are durable, by default all so far. Later units don't count.

        Raises: as `wait_written`.
        """
        added = self.added if added is None else added
        if self.written < added and not self._over:
            unit = self._units[added - self.written - 1]
            if unit.over is None:
                unit.over = trio.Event()
            await unit.over.wait()
        if self.written < added:
            raise trio.ClosedResourceError("the bot has stopped")

    async def keep_flushing(self) -> None:
        """Store units as they are added, until cancelled."""
        while True:
            await self._some.wait()
            self._some = trio.Event()
            if not await self._flush():
                await trio.sleep(1)
                self._stir()

    async def flush_at_the_end(self) -> None:
        """Store the last units in spite of cancellation, within some seconds."""
        # Shielded: otherwise events that were handled before a clean stop would be handled again after it.
        try:
            held = self._store.held
            seconds = _FLUSH_DEADLINE if held is None or held() else _AWAY_DEADLINE
            with trio.move_on_after(seconds, shield=True) as limit:
                await self._flush()
        finally:
            self._over = True
            for unit in self._units:
                _tell(unit, StoreFullError("the bot stopped before this could be written"))
                if unit.over is not None:
                    unit.over.set()
            self._tell_written(len(self._callbacks))
        if limit.cancelled_caught:
            log.warning("the last %d handled events are still in the inbox", len(self._units))

    async def _flush(self) -> bool:
        """Store all added units. Return False if the store has no room."""
        self._look()
        waiting = len(self._callbacks)
        try:
            await self._commit(self._units[:])
        except StoreFullError as error:
            # Nothing is lost: effects wait until earlier records are durable, so nothing of these units was
            # visible. The units wait in memory for room. But a unit with an early event is refused, because
            # the platform will deliver the event again.
            for unit in self._units[:]:
                if unit.accepts:
                    _refuse(unit)
                    _tell(unit, error)
            self._raise_alarm(
                Alarm("store_unwritable", "store", f"the store can't be written: {error.remedy}")
            )
            return False
        except BaseException:
            self._in_doubt = True
            raise
        self._tell_written(waiting)
        return True

    def _look(self) -> None:
        """Make the pending writers add their units."""
        pending, self.pending = self.pending, {}
        for writer in pending:
            writer.flush()

    async def _commit(self, units: Sequence[_Unit]) -> None:
        """Store the first units of the queue, and remove them; refused units are removed, too."""
        writes = [write for unit in units if not _is_lost(unit) for write in unit.writes]
        try:
            if writes and not self._note_ends(writes):
                await self._store.commit(*writes)
        except _REFUSALS as error:
            if len(units) > 1:
                # The store refused one of the units. Store each unit by itself, so that the other units are
                # stored.
                for unit in units:
                    await self._commit([unit])
                return
            self._refused(units[0], error)
        del self._units[: len(units)]
        self.written += len(units)
        if self.data:
            self.data = {chat_id: last for chat_id, last in self.data.items() if last > self.written}
        for unit in units:
            if unit.accepts:
                why = "what this comes behind was not stored"
                _tell(unit, JournalConflictError(0, why) if _is_lost(unit) else None)
            if unit.over is not None:
                unit.over.set()

    def _note_ends(self, writes: Sequence[Write]) -> bool:
        """Store the consumption of rows in a note, without a commit; return False if a commit is needed."""
        seqs: list[int] = []
        for write in writes:
            if type(write) is not Consume:
                return False
            seqs += write.seqs
        return self._store.note_consumed(seqs)

    def _refused(self, unit: _Unit, error: Refusal) -> None:
        if self._in_doubt and isinstance(error, JournalConflictError | RedeliveredError):
            # An earlier commit of this unit was cancelled by the program's stop, but the unit had been
            # stored.
            log.debug("a conversation is where its writer believes it to be, already: %s", error)
            return
        _refuse(unit)
        if unit.accepts:
            _tell(unit, error)
            return
        log.warning("a conversation isn't where its writer believes: %s", error)
        if unit.writer is not None:
            unit.writer.refused(error)


def _refuse(unit: _Unit) -> None:
    """Mark a unit as refused, so that its writer's later units aren't stored, either."""
    if unit.writer is not None:
        unit.writer.lost = min(unit.writer.lost or unit.number, unit.number)


def _is_lost(unit: _Unit) -> bool:
    return unit.writer is not None and 0 < unit.writer.lost <= unit.number


def _tell(unit: _Unit, error: Exception | None) -> None:
    """Call the writer's `accepted`, once, if the unit accepts an early event."""
    if unit.accepts and unit.writer is not None:
        unit.accepts = False
        unit.writer.accepted(error)


@final
class Workload:
    """Counts busy conversations, and runs tasks beside them.

    Attributes:
        commits: the queue of writes.
        stopping: whether the bot is stopping: further events stay in the inbox, and aren't routed.
        cut: whether the conversations are evicted because the program stops.
        busy: number of busy conversations and of tasks beside them.
        less_busy: parking lot, with tasks that are woken whenever `busy` falls.
        counts: number of occurrences so far, by the name of the metric.
        held_up_at: time since which an event waits because too many conversations are busy, in wall
            milliseconds; or None.
        nursery: nursery of all tasks; None until it is open.
        cut_all: evicts every conversation, after a failure of something that all of them need.
        let_go: parks a conversation that doesn't end, because its code catches every cancellation.
    """

    def __init__(self, commits: CommitQueue, clock: WallClock) -> None:
        self.commits = commits
        self._clock = clock
        self.stopping = self.cut = False
        self.busy = 0
        self.less_busy = trio.lowlevel.ParkingLot()
        self.counts: Counter[str] = Counter()
        self.held_up_at: int | None = None
        self.nursery: trio.Nursery | None = None
        self.cut_all: Callable[[], None] = lambda: None
        self.let_go: Callable[[Any, Id], None] = lambda conversation, id: None
        # Idle tasks. They are kept only while `keep_tasks` runs; at its own end, `keep_tasks` ends the tasks.
        self._resting: list[trio.lowlevel.Task] = []
        self._keeps = False

    def count(self, what: str) -> None:
        """Add one to the count with the name `what`."""
        self.counts[what] += 1

    def working(self, more: int) -> None:
        """Add `more` to the number of busy conversations and tasks."""
        self.busy += more
        if more < 0 and self.less_busy:
            self.less_busy.unpark_all()

    @property
    def is_too_busy(self) -> bool:
        """Whether more than `BUSY` conversations and tasks are busy."""
        return self.busy > BUSY

    async def until_not_too_busy(self) -> None:
        """Wait while more than `BUSY` conversations and tasks are busy."""
        while self.is_too_busy:
            self.held_up_at = self.held_up_at or self._clock.now()
            await self.less_busy.park()
        self.held_up_at = None

    def start(self, live: Live, name: str) -> None:
        """Run `live` in an idle task or, if there is none, in a new task.

        The start and end of a task with a scope take a tenth of a short conversation's time.
        """
        assert self.nursery is not None
        if self._resting:
            task = self._resting.pop()
            task.name, task.context = name, copy_context()
            reschedule(task, outcome.Value(live))
        else:
            self.nursery.start_soon(self.run_alone, live, name=name)

    async def run_alone(self, live: Live | None) -> None:
        """Run `live`. Then keep the task idle, and run each further function that `start` passes to it."""
        task = current_task()
        within, left_open, run = None, False, None

        def abort(_: object) -> trio.lowlevel.Abort:
            self._resting.remove(task)
            return trio.lowlevel.Abort.SUCCEEDED

        try:
            # Runs are shielded, and share one scope, since a new shielded scope costs thirty function calls.
            with trio.CancelScope(shield=True) as scope:
                within = innermost(task)
                while live is not None:
                    run, live = live(scope), None  # don't keep `live`
                    await run
                    left_open = innermost(task) is not within
                    used_up = left_open or not self._keeps or bool(task.child_nurseries)
                    if used_up or len(self._resting) >= _RESTING:
                        return
                    if not scope.shield:
                        scope.shield = True
                    self._resting.append(task)
                    task.context = Context()  # drop the last conversation's context
                    live = await wait_task_rescheduled(abort)
        except BaseException as error:
            # Trio's RuntimeError about a scope left open was reported to the author already.
            if not (left_open and isinstance(error, RuntimeError)):
                self.cut_all()
                raise

    async def keep_tasks(self) -> None:
        """Keep idle tasks for reuse, until cancelled; then end them."""
        self._keeps = True
        try:
            await trio.sleep_forever()
        finally:
            self._keeps = False
            resting, self._resting = self._resting, []
            for task in resting:
                reschedule(task)

    def beside(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Run `work`, which must not raise, in a task of its own. Return whether `work` will run.

        `work` doesn't run if the bot hasn't started, or if the conversations are being evicted.
        """
        if self.nursery is None or self.cut:
            return False

        async def run() -> None:
            try:
                await work()
            except BaseException:
                self.cut_all()
                raise
            finally:
                self.working(-1)

        self.nursery.start_soon(run, name=work)
        self.working(1)
        return True

    async def see_through(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run `work` as `beside` does, and wait for the end. Return the result of `work`, or raise the error.

        Cancellation: `work` continues anyway.
        """
        done: list[outcome.Outcome[T]] = []
        over = trio.Event()

        async def run() -> None:
            try:
                done.append(outcome.Value(await work()))
            except Exception as error:
                done.append(outcome.Error(error))
            finally:
                over.set()

        self.beside(run)
        await over.wait()
        while not done:  # `work` was cancelled; the caller is being cancelled, too
            await trio.sleep_forever()
        return done[0].unwrap()
