"""What goes on in a running bot: how much, what is written of it, and whether it comes to its end.

What conversations leave behind is written behind: a crash before it handles events again, and never loses
one. What a conversation wrote into its chat's data while it had an event in hand goes into the same commit as
that event's end. An end that comes alone is noted only, and written with whatever is written next.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar, final

import attrs
import outcome
import trio
from trio.lowlevel import current_task, reschedule, wait_task_rescheduled

from ..base.alarm_kinds import Alarm, RaiseAlarm
from ..engine.scopes import innermost
from ..errors import LocalProtocolError, StoreFullError
from ..seams.inbox import RedeliveredError
from ..seams.writes import Accept, Consume, JournalConflictError, PutData, StaleRowError, Write
from ..wire.ids import ChatId
from .routes.verdicts import Verdicts

if TYPE_CHECKING:
    from ..store import Store

log: Final = logging.getLogger("triobot.conversations")

_FLUSH_DEADLINE: Final = 10.0
_AWAY_DEADLINE: Final = 0.5  # of a store that nothing can be written to now

# Each keeps some three kilobytes; where more than these end at once, their tasks end, too.
_RESTING: Final = 64

T = TypeVar("T")

Live: TypeAlias = Callable[[trio.CancelScope], Awaitable[None]]
"""What runs in a task that nothing else uses meanwhile, within a cancel scope of the task's own."""

Refusal: TypeAlias = JournalConflictError | StaleRowError | LocalProtocolError | RedeliveredError
_REFUSALS: Final = (JournalConflictError, StaleRowError, LocalProtocolError, RedeliveredError)
"""What the store says of a unit that it will not have, however often it is asked."""


class UnitWriter(Protocol):
    """Writes units, and is told what the store made of them.

    Attributes:
        lost: one of its units was refused: what it has written behind that is of no use.
        ahead: an event that it took before that was stored, and that may yet be taken back.
    """

    lost: bool
    ahead: EarlyEvent | None

    def flush(self) -> int:
        """Hand over what is to be one unit; return as which."""
        ...

    def refused(self, error: Refusal) -> None:
        """Stop: its unit can't be stored, and has not happened; no effect of it was seen. Must not raise."""
        ...

    def accepted(self, error: Exception | None) -> None:
        """Hear what became of an event that it took before that was stored. Must not raise."""
        ...


@final
@attrs.define(eq=False)
class _Unit:
    """What is stored whole or not at all.

    Attributes:
        accepts: an event comes into the store with it.
        stands: what its writer loses comes behind it.
        stored: it is durable.
        error: why it is not, and never will be.
    """

    writes: tuple[Write, ...]
    writer: UnitWriter | None
    accepts: bool = False
    stands: bool = False
    stored: bool = False
    error: Exception | None = None


@final
@attrs.define(eq=False)
class EarlyEvent:
    """An event that was taken before it was stored, and what became of it.

    Attributes:
        known: that is known.
        error: why it is not stored.
    """

    known: trio.Event = attrs.field(factory=trio.Event)
    error: Exception | None = None


async def holds(early: EarlyEvent) -> bool:
    """Wait until it is known what became of an event, and return whether it was taken."""
    await early.known.wait()
    return early.error is None


@final
class CommitQueue:
    """Writes what conversations leave behind, as many units at once as there are, in their order.

    A unit is stored whole or not at all, and never before an earlier one. One that the store refuses takes
    no other writer's with it: its own writer is told before any caller hears that something was written.

    Attributes:
        asked: what filters said of rows that are not consumed.
        added: how many units were added so far.
    """

    def __init__(self, store: Store, raise_alarm: RaiseAlarm) -> None:
        self._store = store
        self._raise_alarm = raise_alarm
        self._units: list[_Unit] = []
        self._looks: dict[Callable[[], object], None] = {}
        self._told: list[Callable[[], None]] = []
        self._chats: Counter[ChatId] = Counter()
        self.added = 0
        self._written = 0
        # Tasks that wait, and for how many units; they are woken once these are durable.
        self._waiting: dict[trio.lowlevel.Task, int] = {}
        self._over = False
        self._in_doubt = False
        self.asked: Final = Verdicts()
        self._some = trio.Event()
        self._has_some = False

    def add(self, writes: Sequence[Write], writer: UnitWriter | None = None) -> int:
        """Write this, as one; returns how many units were added so far, for `wait_for`."""
        if self.asked.said:
            for write in writes:
                for seq in write.seqs if type(write) is Consume else ():
                    self.asked.said.pop(seq, None)
        if writes and not self._has_noted(writes, writer):
            unit = _Unit(tuple(writes), writer)
            self._units.append(unit)
            for write in writes:
                if type(write) is PutData:
                    self._chats[write.chat_id] += 1
                elif type(write) is Accept:
                    unit.accepts = True
            self.added += 1
            if not self._has_some:
                self._stir()
        return self.added

    def consumed(self, seqs: Sequence[int], data: Sequence[PutData] = ()) -> None:
        """Consume these inbox rows, which have been dealt with, and write what was kept meanwhile."""
        self.add([*([Consume(tuple(seqs))] if seqs else []), *data])

    def before_writing(self, look: Callable[[], object]) -> None:
        """Call this once, just before the next units are taken, which is soon: it may add one."""
        self._looks[look] = None
        if not self._has_some:
            self._stir()

    def look_no_more(self, look: Callable[[], object]) -> None:
        """Don't call what `before_writing` was given: it would add nothing."""
        self._looks.pop(look, None)

    def when_written(self, tell: Callable[[], None]) -> None:
        """Call this once what is added by the end of the present step is durable; when the bot stops, too."""
        self._told.append(tell)
        if not self._has_some:
            self._stir()

    def _stir(self) -> None:
        self._has_some = True
        self._some.set()

    def _has_noted(self, writes: Sequence[Write], writer: UnitWriter | None) -> bool:
        """Note that rows have been dealt with, if that is all there is to write and comes behind nothing.

        What waits to be looked for may be what a row has led to: a kill must not leave the one without the
        other.
        """
        behind = self._looks or self._written < self.added
        if behind or self._over or (writer is not None and writer.lost):
            return False
        return self._note_ends(writes)

    def has_data(self, chat_id: ChatId) -> bool:
        """Return whether there is data of this chat that isn't durable yet."""
        return self._chats.get(chat_id, 0) > 0

    async def wait_written(self, chat_id: ChatId | None = None) -> None:
        """Wait until what was added is durable; with a chat's id, only if there is data of that chat.

        What is about to be added (`before_writing`) counts as well.

        Raises:
            trio.ClosedResourceError: the bot stops, and it could not be written.
        """
        self._look()
        if chat_id is None or self.has_data(chat_id):
            await self.wait_for(self.added)

    async def wait_for(self, added: int | None = None) -> None:
        """Wait until so many units are durable, or all so far; what others add meanwhile is not waited for.

        Raises: as `wait_written`.
        """
        added = self.added if added is None else added
        if self._written < added and not self._over:
            task = current_task()
            self._waiting[task] = added

            def abort(_: object) -> trio.lowlevel.Abort:
                del self._waiting[task]
                return trio.lowlevel.Abort.SUCCEEDED

            await wait_task_rescheduled(abort)
        if self._written < added:
            raise trio.ClosedResourceError("the bot has stopped")

    def is_written(self, added: int) -> bool:
        """Return whether so many units are durable."""
        return self._written >= added

    @property
    def waiting(self) -> int:
        """Return how many units are not written yet."""
        return len(self._units)

    async def keep_flushing(self) -> None:
        """Write whatever is added, until cancelled."""
        while True:
            await self._some.wait()
            self._some, self._has_some = trio.Event(), False
            if not await self._flush():
                await trio.sleep(1)
                self._stir()

    async def flush_at_the_end(self) -> None:
        """Write the last of it, in spite of cancellation, within some seconds."""
        # Shielded, so that events that were dealt with are not dealt with again after a clean stop.
        try:
            held = self._store.held
            seconds = _FLUSH_DEADLINE if held is None or held() else _AWAY_DEADLINE
            with trio.move_on_after(seconds, shield=True) as limit:
                await self._flush()
        finally:
            self._over = True
            self._wake()
            for unit in self._units:
                unit.error = StoreFullError("the bot stopped before this could be written")
                _tell(unit)
            for tell in self._told:
                tell()
        if limit.cancelled_caught:
            log.warning("the last %d handled events are still in the inbox", len(self._units))

    async def _flush(self) -> bool:
        """Write all units that were added, and return whether the store had room for them."""
        self._look()
        units, self._units = self._units, []
        told, self._told = self._told, []
        try:
            await self._commit(units)
        except StoreFullError as error:
            # Nothing is lost: what isn't durable has not happened, and nobody has seen anything of it.
            for unit in units:
                if unit.accepts:
                    # The platform delivers it again; what others have written waits in memory for room.
                    if not unit.stored:
                        _refuse(unit, error)
                    _tell(unit)
                    unit.accepts = False
                else:
                    unit.stands = not _is_lost(unit)
            self._units, self._told = [*units, *self._units], [*told, *self._told]
            self._raise_alarm(
                Alarm("store_unwritable", "store", f"the store can't be written: {error.remedy}")
            )
            return False
        except BaseException:
            self._units, self._told = [*units, *self._units], [*told, *self._told]
            self._in_doubt = True
            raise
        self._written += len(units)
        if self._chats:
            for unit in units:
                self._chats.subtract(write.chat_id for write in unit.writes if isinstance(write, PutData))
            self._chats += Counter()
        for unit in units:
            if unit.accepts:
                _tell(unit)
        self._wake()
        for tell in told:
            tell()
        return True

    def _wake(self) -> None:
        """Let those go on whose units are durable; at the end everybody."""
        written = math.inf if self._over else self._written
        for task in [task for task, added in self._waiting.items() if added <= written]:
            del self._waiting[task]
            reschedule(task)

    def _look(self) -> None:
        """Let those add their units who wait with that until something is written."""
        looks, self._looks = self._looks, {}
        for look in looks:
            look()

    async def _commit(self, units: Sequence[_Unit]) -> None:
        writes: list[Write] = []
        for unit in units:
            if unit.stored:
                continue
            if not _is_lost(unit):
                writes += unit.writes
            elif unit.error is None:
                unit.error = JournalConflictError(0, "what this comes behind was not stored")
        try:
            if writes and not self._note_ends(writes):
                await self._store.commit(*writes)
        except _REFUSALS as error:
            if len(units) == 1:
                return self._refused(units[0], error)
            # It is one unit's own: the others must not suffer for it.
            for number, unit in enumerate(units, 1):
                await self._commit([unit])
                if unit.error is not None:
                    for behind in units[number:]:
                        behind.stands = behind.stands and behind.writer is not unit.writer
        else:
            for unit in units:
                unit.stored = unit.error is None

    def _note_ends(self, writes: Sequence[Write]) -> bool:
        """Note what has been dealt with, if that is all that there is to write: no commit is made for it."""
        seqs: list[int] = []
        for write in writes:
            if type(write) is not Consume:
                return False
            seqs += write.seqs
        return self._store.note_consumed(seqs)

    def _refused(self, unit: _Unit, error: Refusal) -> None:
        if self._in_doubt and isinstance(error, JournalConflictError | RedeliveredError):
            # A commit that was cut short by the program's stop has been done all the same.
            unit.stored = True
            log.debug("a conversation is where its writer believes it to be, already: %s", error)
            return
        _refuse(unit, error)
        if unit.accepts:
            # At once: what has begun behind it must not be stored without it.
            _tell(unit)
            unit.accepts = False
            return
        log.warning("a conversation isn't where its writer believes: %s", error)
        if unit.writer is not None:
            unit.writer.refused(error)


def _refuse(unit: _Unit, error: Exception) -> None:
    """Have a unit not happen, nor what its writer has written behind it."""
    unit.error = error
    if unit.writer is not None:
        unit.writer.lost = True


def _tell(unit: _Unit) -> None:
    """Tell the writer of a unit what became of the event that comes into the store with it."""
    if unit.accepts and unit.writer is not None:
        unit.writer.accepted(unit.error)


def _is_lost(unit: _Unit) -> bool:
    return unit.writer is not None and unit.writer.lost and not unit.stands


@final
class Workload:
    """Counts who is at work, and runs what is done beside the conversations.

    Attributes:
        commits: writes units, as one, soon.
        stopping: no more events are given out: they stay in the inbox.
        cut: the program stops: conversations are cancelled, and none of them has ended.
        busy: how many branches are at work.
        less_busy: unparked whenever there are fewer.
        counts: how often each thing has happened so far, by its word.
        nursery: of all that runs; None before it does.
        cut_all: cuts every conversation: something that none can live without has failed.
    """

    def __init__(self, commits: CommitQueue) -> None:
        self.commits = commits
        self.stopping = self.cut = False
        self.busy = 0
        self.less_busy = trio.lowlevel.ParkingLot()
        self.counts: Counter[str] = Counter()
        self.nursery: trio.Nursery | None = None
        self.cut_all: Callable[[], None] = lambda: None
        # Tasks that wait for something to run, while somebody lets them go at the end.
        self._resting: list[trio.lowlevel.Task] = []
        self._keeps = False

    def count(self, what: str) -> None:
        """Count what happened, by word."""
        self.counts[what] += 1

    def working(self, more: int) -> None:
        """Count this many more branches as at work, or fewer."""
        self.busy += more
        if more < 0 and self.less_busy:
            self.less_busy.unpark_all()

    def start(self, live: Live, name: str) -> None:
        """Run this in a task: one that has run another before, or a new one.

        A scope, with the start and the end of its task, is a tenth of what a short conversation costs.
        """
        assert self.nursery is not None
        if self._resting:
            task = self._resting.pop()
            task.name, task.context = name, copy_context()
            reschedule(task, outcome.Value(live))
        else:
            self.nursery.start_soon(self.run_alone, live, name=name)

    async def run_alone(self, live: Live | None) -> None:
        """Run this and, between rests, what `start` gives the task then."""
        task = current_task()
        within, left_open, run = None, False, None

        def abort(_: object) -> trio.lowlevel.Abort:
            self._resting.remove(task)
            return trio.lowlevel.Abort.SUCCEEDED

        try:
            # A run is shielded. To shield the scope for each anew takes thirty calls.
            with trio.CancelScope(shield=True) as scope:
                within = innermost(task)
                while live is not None:
                    run, live = live(scope), None  # it would be kept
                    await run
                    left_open = innermost(task) is not within
                    used_up = left_open or not self._keeps or bool(task.child_nurseries)
                    if used_up or len(self._resting) >= _RESTING:
                        return
                    if not scope.shield:
                        scope.shield = True
                    self._resting.append(task)
                    task.context = Context()  # what the last conversation has in its own would be kept
                    live = await wait_task_rescheduled(abort)
        except BaseException as error:
            if not (left_open and isinstance(error, RuntimeError)):  # else it is Trio's: the author was told
                self.cut_all()
                raise

    async def keep_tasks(self) -> None:
        """Let tasks rest between two conversations, until cancelled: then those that rest end."""
        self._keeps = True
        try:
            await trio.sleep_forever()
        finally:
            self._keeps = False
            resting, self._resting = self._resting, []
            for task in resting:
                reschedule(task)

    def beside(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Run this in a task that is no conversation's; False once these are being cut. It must not raise."""
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
        """Run this as `beside` does, and wait for it; return what it returns, or raise its error.

        Cancellation: it goes on all the same.
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
        while not done:  # everything is cut, and so is whoever waits
            await trio.sleep_forever()
        return done[0].unwrap()
