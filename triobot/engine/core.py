"""The state of one run: its journal, its branches, their operations, and how a run can end.

An operation's id is structural: it consists of the branch's path and the branch's counter. The id doesn't
depend on the order in which the scheduler runs the tasks, so the same code gets the same ids on replay.

An *incarnation* is the run from its loading into memory until it leaves memory. After the ends `Evicted` and
`Diverged`, another incarnation can continue the run. After all other ends, the run is over.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias, cast, final

import attrs
import outcome
import trio
from trio.lowlevel import (
    Abort,
    Task,
    cancel_shielded_checkpoint,
    checkpoint_if_cancelled,
    current_task,
    permanently_detach_coroutine_object,
    reschedule,
    wait_task_rescheduled,
)

from ..base.authors import contained, only_of, split
from ..base.frozen import frozen
from ..errors import (
    ConversationEndedError,
    ForeignTaskError,
    NondeterminismError,
    NonDurableCancelError,
    UnreadableRecordError,
)
from .host import Host, RunOwner
from .records import (
    CUT,
    DONE,
    EFFECTS,
    FAILED,
    FORMAT,
    INTENDED,
    KNOWN,
    NOTED,
    OUTCOMES,
    PLAIN,
    READ,
    START,
    TURNS,
    WROTE,
    Codec,
    Id,
    Node,
    Raises,
    Record,
    check_journal,
    id_in,
    times_of,
)

YIELD_EVERY: Final = 64
"""Number of operations after which a branch runs a checkpoint, since a replay must not block the program."""
PATIENCE: Final = 50
"""Number of refused operations after which a branch is abandoned: its code catches every cancellation."""
TOLERANCE: Final = 5_000
"""Milliseconds by which the clock may go back unnoticed: time services make corrections of this size."""
ADVICE: Final = (
    "the code is not the one that wrote this journal: run that one, or put the change behind patched()"
)


# --- operations and branches


LEFT: Final = object()
"""Result of a filter for an event that the filter doesn't take."""

Filter: TypeAlias = Callable[[Any], object]
"""Returns the value that stands for an event, or `LEFT` if the event isn't taken. Must not raise.

A filter of None takes all events.
"""


# The nature of an operation: what completes the operation.
WAIT: Final = "an event, or the time"
EFFECT: Final = "its own body"
WITHIN: Final = "another branch; never recorded"
JOIN: Final = "the end of the last child; never recorded, and never cancelled"


# Special values that a resting operation may get in place of an outcome.
GO: Final = "run the effect's body now"
GONE: Final = "the run dies: refuse"
FELT: Final = "a block around it was ended"

Performed: TypeAlias = "tuple[str, Node, tuple[Any] | None]"
"""An effect's outcome: the tag and node for the record, and the value in a tuple.

If the tuple is None, the code gets the value that is decoded from the node.
"""

Known: TypeAlias = "tuple[str, Node, tuple[Any] | None, int]"
"""An effect's outcome as in `Performed`, and the outcome's time."""


@final
@attrs.define(eq=False, weakref_slot=False)
class Branch:
    """One task of a run.

    A branch is in one of four states. The branch has the turn (`Machine.holder`), or waits for its start
    (`task` is None), or runs an effect's body outside of any turn (`outside`). Otherwise the branch rests in
    an operation, or until its children end.

    Attributes:
        path: empty for the main branch; for a child, the nursery's id and the child's number in the nursery.
        key: the path as numbers.
        around: the engine's scopes around the branch, the outermost first; the first scope is the run's.
        turn: id of the operation with the outcome that began the branch's current turn.
        prefix: text before the numbers of the branch's operations: the path, or the name of a part.
        task: None before the branch runs. The main branch has no task after the run's end either.
        count: number of ids that the branch has used.
        uncancellable: number of operations in a row that the branch began inside a block that had ended.
        outside: Trio's innermost scope around the body of the effect that the branch runs; else None.
        entry: the author's coroutine that the branch runs.
        root: for a child, the site that started the child.
        site: site of the newest operation; 0 if not known.
        drawn: sites of the operations, since the branch's last record, that have no record of their own.
        refusals: number of operations that were refused because the run dies.
    """

    path: str
    key: tuple[int, ...]
    around: tuple[trio.CancelScope, ...]
    turn: Id = 0
    prefix: str = ""
    task: Task | None = None
    count: int = 0
    uncancellable: int = 0
    outside: object = None
    entry: object = None
    root: int = 0
    site: int = 0
    drawn: Sequence[int] = ()
    refusals: int = 0


@final
@attrs.define(eq=False, weakref_slot=False)
class Operation:
    """An operation; its branch *rests* in the operation until the operation has an outcome.

    Attributes:
        number: the last number of the `key`.
        held_up: whether the branch must call `look_around` before it rests in the operation.
        takes: filter of the events that a wait takes.
        due: when a sleep ends; None if no time ends the operation.
        steady: whether a sleep is a duration. If so, the sleep's end moves when the clock is set.
        lane: name of a queue; effects of one lane begin one after the other.
        holds: largest number of milliseconds by which an effect delays the deadlines around it.
        in_doubt: the error that the effect raises after a crash, in place of a repetition.
        armed: whether an event, a result or the clock may complete the operation now.
        known: the outcome and its time, while the outcome waits for its turn.
        over: whether the operation has its outcome, or another branch has passed a value to the operation.
        felt: function that raises the cancellation that reached the operation.
        torn: whether the operation was cancelled by a scope that isn't the engine's.
        given: the input that ends the branch's rest: a record, ``(value,)``, an error or a special value.
        run: the run in which the operation rests.
        sites: site of the operation, 0 if not known; or a list of the branch's `drawn` sites and then this
            site.
    """

    id: Id
    kind: str
    nature: str
    print: str
    task: Task
    branch: Branch
    number: int
    held_up: bool = False
    takes: Filter | None = None
    due: int | None = None
    steady: bool = False
    lane: str = ""
    holds: int = 0
    in_doubt: Exception | None = None
    armed: bool = False
    asleep: bool = False
    known: Known | None = None
    over: bool = False
    felt: Callable[[], NoReturn] | None = None
    torn: bool = False
    given: Any = None
    run: Core | None = None
    sites: int | list[int] = 0

    @property
    def key(self) -> tuple[int, ...]:
        """The id as numbers, by which operations are ordered."""
        return (*self.branch.key, self.number)

    def ended(self, tag: str, node: Node, stamp: int) -> None:
        """Store an outcome that doesn't come from the effect's body, until the outcome's turn."""
        self.over, self.known = True, (tag, node, None, stamp)

    def __call__(self, raise_cancel: Callable[[], NoReturn]) -> Abort:
        """Refuse Trio's cancellation of the sleep: the run delivers the cancellation in a turn of its own.

        The operation itself is the abort function of its task's sleep, so that a waiting run needs no further
        object.
        """
        run = self.run
        if run is not None and not (run.dying or run.over):  # a dying run wakes operations itself
            run.strike(self, raise_cancel)
        return Abort.FAILED


def is_cut(around: Sequence[trio.CancelScope]) -> bool:
    """Return whether one of the scopes was cancelled, unless a scope further inside is a shield."""
    for scope in reversed(around):
        if scope.cancel_called:
            return True
        if scope.shield:
            return False
    return False


# --- ends


@final
@frozen
class Returned:
    """The code ended normally."""

    value: object = attrs.field(default=None, repr=False)


@final
@frozen
class Crashed:
    """The code raised `error`."""

    error: Exception = attrs.field(repr=False)


@final
@frozen
class WasInterrupted:
    """An interrupt ended the run. `error`: error that the code's cleanup raised."""

    why: str
    error: Exception | None = attrs.field(default=None, repr=False)


@final
@frozen
class ContinuesAs:
    """The run goes on as another function, with a journal of its own; `args` are nodes."""

    fn: str
    args: Sequence[Node] = attrs.field(repr=False)


@final
@frozen
class Evicted:
    """The run left memory and can be revived. `error`: error that the code's cleanup raised."""

    error: Exception | None = attrs.field(default=None, repr=False)


@final
@frozen
class Diverged:
    """The run can't go on with this code, but isn't over. `failure`: error that the code's cleanup raised."""

    error: NondeterminismError
    failure: Exception | None = attrs.field(default=None, repr=False)


End: TypeAlias = Returned | Crashed | WasInterrupted | ContinuesAs | Evicted | Diverged


Work: TypeAlias = "tuple[Callable[..., Awaitable[object]], tuple[Any, ...], Raises, bool]"
"""An effect's body and arguments, the author's errors, and whether the body changes only the store."""


def begun(fn: str, *args: object, time: int, seed: str, codec: Codec, jumped: int = 0) -> Record:
    """Return the first record of a run. The caller appends this record before the run begins.

    Args:
        fn: the name by which the host finds the code again.
        time: wall milliseconds.
        seed: secret seed of the run's random numbers.
        jumped: the result of the host's `jumped` at that time.
    """
    nodes = [codec.node_of(arg) for arg in args]
    return [START, [time, jumped, 0] if jumped else time, fn, nodes, seed, FORMAT]


@final
@attrs.define(eq=False, weakref_slot=False)
class RunJournal:
    """The recorded turns, the number of turns that the code was given, and the time of the current turn.

    Attributes:
        turns: the recorded turns; the code was given the first `given` turns. Empty once the run goes on
            beyond its journal.
        stale: whether the run was revived, and has begun no new turn yet.
        dry: whether the run ends at its journal's end, and changes nothing.
        live: whether the code was given every recorded turn.
        time: time of the current turn, in wall milliseconds.
        jumped: total milliseconds by which the clock had been set when the current turn began.
        unseen: milliseconds of clock changes that `Host.jumped` doesn't include.
        revived: when this incarnation began.
        effects: the records of effects that began before a crash, and have no outcome among the turns.
        beside: the records of reads, writes and notes, by tag, turn and key; dropped together with `turns`.
    """

    host: Host
    turns: Sequence[Record]
    stale: bool
    dry: bool
    live: bool = True
    given: int = 0
    time: int = 0
    jumped: int = 0
    unseen: int = 0
    revived: int = 0
    effects: Mapping[Id, Record] = {}
    beside: Mapping[tuple[Any, ...], Record] = {}

    def __attrs_post_init__(self) -> None:
        records, self.turns = self.turns, ()  # the constructor gets all records as `turns`
        check_journal(records)
        self._set_time(records[0])
        self.revived = self.time
        if self.stale:
            self.revived = self.host.now()
            last, jumped, self.unseen = times_of(records)
            since = self.set_by() - jumped
            if not self.dry and self.revived < last + since - TOLERANCE:  # the clock was set back unnoticed
                self.unseen += self.revived - last - since
        if len(records) > 1:
            self.turns = [record for record in records if record[0] in TURNS]
            self.live = not self.turns
            if len(self.turns) + 1 < len(records):
                self._read_beside(records)

    def _read_beside(self, records: Sequence[Record]) -> None:
        beside: dict[tuple[Any, ...], Record] = {}
        effects: dict[Id, Record] = {}
        done = {record[2] for record in records if record[0] in OUTCOMES}
        for record in records:
            tag, about = record[0], record[2]
            if tag in (READ, NOTED):
                beside[tag, about, record[3]] = record
            elif tag == WROTE:
                beside[tag, about, record[3], record[4]] = record
            elif tag in EFFECTS and about not in done and (tag == KNOWN or about not in effects):
                effects[about] = record
        self.beside, self.effects = beside, effects

    # --- replay

    def next(self) -> Record:
        """Return the next recorded turn; `time` becomes the time of this turn."""
        record = self.turns[self.given]
        self.given += 1
        self.live = self.given == len(self.turns)
        self._set_time(record)
        return record

    def is_recorded(self, id: Id) -> bool:
        """Return whether an operation has an outcome in the journal that this incarnation began with."""
        return any(record[2] == id for record in self.turns if record[0] in OUTCOMES)

    # --- time

    def _set_time(self, record: Record) -> None:
        if isinstance(record[1], int):
            self.time = record[1]
        else:
            self.time, self.jumped, _ = record[1]

    def set_by(self) -> int:
        """Return the total milliseconds by which the clock has been set."""
        return self.host.jumped() + self.unseen

    def since(self) -> int:
        """Return the start of the current turn, corrected by the changes of the clock since then."""
        return self.time + self.host.jumped() + self.unseen - self.jumped

    def due_after(self, seconds: float) -> int:
        """Return the time that is `seconds` after the start of the current turn."""
        return self.since() + math.ceil(seconds * 1000)

    def advance(self) -> int | list[int]:
        """Return the time of a turn that begins now. The time never goes back, unless the clock was set."""
        now = self.host.now()
        if self.stale:
            # The journal may be long, and isn't needed any more.
            self.stale, self.turns, self.beside = False, (), {}
        if (jumped := self.host.jumped() + self.unseen) != self.jumped:
            self.time, self.jumped = now, jumped
            return [now, jumped, self.unseen]
        if now > self.time or self.time - now > TOLERANCE:
            self.time = now
        return self.time


@attrs.define(eq=False, weakref_slot=False)
class Core:
    """The branches of one incarnation, and their operations; base class of `Machine`.

    Attributes:
        main: the main branch. Its first scope is the run's own.
        by_task: the other running branches, by task.
        dying: whether every operation is refused from now on.
        over: whether the run is over: its last record was appended, or replayed.
        interrupted: whether an interrupt has ended the run.
        felt: whether the interrupt's cancellation was raised in the author's code.
        diverged: why the code can't go on over its journal; None if the code can go on.
    """

    host: Host
    owner: RunOwner
    codec: Codec
    journal: RunJournal
    main: Branch
    by_task: dict[Task, Branch] = attrs.field(factory=dict[Task, Branch])
    dying: bool = False
    over: bool = False
    interrupted: bool = False
    felt: bool = False
    diverged: NondeterminismError | None = None

    # --- defined by `Machine`

    def evict(self) -> None:
        raise NotImplementedError

    def strike(self, op: Operation, raise_cancel: Callable[[], NoReturn]) -> None:
        """Handle the cancellation of a scope around a resting operation."""
        raise NotImplementedError

    def forget(self, task: Task) -> None:
        """Remove the branch of a task that has ended; the task's coroutine may have been abandoned."""
        raise NotImplementedError

    # --- branches

    def next_id(self, branch: Branch) -> Id:
        """Count and return the next id of a branch."""
        branch.count += 1
        if (here := self.owner.here) is not None and (self.journal.live or self.owner.parting is not None):
            branch.drawn = [*branch.drawn, here(branch.root, 3, branch.entry)]
        return id_in(branch.prefix, branch.count)

    def current(self) -> Branch:
        """Return the current task's branch.

        Raises:
            ConversationEndedError: the run is over.
            ForeignTaskError: the task has no branch, or the branch runs an effect's body.
        """
        task = current_task()
        branch = self.main if task is self.main.task else self.by_task.get(task)
        if branch is None:
            if self.over:
                raise ConversationEndedError("this run is over")
            raise ForeignTaskError(
                "an operation from a task that the run doesn't know; start it with open_nursery()"
            )
        if branch.outside is not None and not self.dying:
            raise ForeignTaskError("an operation inside an effect; let its body return a value instead")
        return branch

    # --- comparison with the journal

    def diverge(self, id: Id, what: str, task: Task | None = None) -> None:
        """Stop the run as stuck, before the code does anything that isn't in the journal.

        Args:
            what: description of the difference between code and journal.
        """
        if self.diverged is None and not self.dying:
            self.diverged = NondeterminismError(str(id), what)
            self.owner.diverged(self.diverged, task)
        self.evict()

    # --- operations

    def outcome_of(self, value: object) -> tuple[str, Node]:
        """Return the tag and node that record a value or, if the value can't be recorded, the error."""
        try:
            return DONE, self.codec.node_of(value)
        except BaseException as error:  # the value's class may be the author's
            return FAILED, self.codec.node_of_error(contained(error))

    async def perform(self, op: Operation, work: Work) -> Performed:
        """Run an effect's body to its end in the author's task, outside of any turn. Return the outcome."""
        body, args, raises, inside = work
        if op.in_doubt is not None:
            sites = (None, 0, op.sites) if op.sites else ()
            self.host.append([INTENDED, self.journal.time, op.id, op.kind, op.print, *sites])
        began = False
        try:
            if not inside:
                await self.host.commit()
            began = True
            value = await body(*args)
            tag, node = self.outcome_of(value)
            return tag, node, (value,) if tag == DONE and self.codec.is_frozen(value) else None
        except Exception as error:
            if not began:  # the code has gone further than the durable records
                self.evict()
                await refuse(self)
            return FAILED, self.codec.node_of_error(error, raises), None
        except BaseException as error:
            if self.dying:
                await refuse(self)
            return *self._cut_short(error, op, raises), None

    def left_by(self, error: BaseException, scope: trio.CancelScope) -> Exception | ContinuesAs | None:
        """Return the failure or the continuation in an error that has left the code.

        Return None if the error consists only of the run's own cancellation.
        """
        # If this scope isn't cancelled, a cancellation comes from a foreign scope, and is a failure.
        rest = split(error)[1] if scope.cancel_called else error
        if rest is None:
            return None
        return continue_in(rest) or self._contained(rest)

    def _contained(self, error: BaseException) -> Exception:
        try:
            return contained(error)
        except BaseException:
            self.evict()  # an OS signal ends the process, and the run isn't over
            raise

    def _cut_short(self, error: BaseException, op: Operation, raises: Raises) -> tuple[str, Node]:
        cancelled, rest = split(error)
        if rest is not None:
            return FAILED, self.codec.node_of_error(self._contained(rest), raises)
        if not is_cut(op.branch.around):
            return FAILED, self.codec.node_of_error(NonDurableCancelError(str(op.id)))
        return CUT, cancelled

    async def woken(self, op: Operation) -> Any:
        """Return the value passed to `wake` for an operation; sleep until `wake` is called, if necessary."""
        if op.given is None:
            if self.dying and op.nature is not JOIN:
                return GONE
            op.asleep = True
            op.run = self
            await wait_task_rescheduled(op)
        given, op.given = op.given, None
        return given

    async def come(self, op: Operation, given: Any, raises: Raises = ()) -> Any:
        """Return or raise the outcome in `given`; for a special value, raise the operation's cancellation."""
        if type(given) is list:
            record: Record = given  # pyright: ignore[reportUnknownVariableType]
            value = record[5]
            return value if record[0] == DONE and type(value) in PLAIN else await self._read(record, raises)
        if type(given) is tuple:
            return cast("tuple[Any]", given)[0]
        if given is FELT:
            self.felt = self.felt or self.interrupted
            assert op.felt is not None
            if op.felt is unfelt:
                await checkpoint_if_cancelled()  # cancelled before the task slept
            op.felt()
        if isinstance(given, BaseException):
            raise given
        return await refuse(self)

    async def _read(self, record: Record, raises: Raises) -> Any:
        """Return or raise a record's outcome. If this program can't read the record, the run gets stuck."""
        try:
            if record[0] != FAILED:
                return self.codec.value_of(record[5])
            error = self.codec.error_of(record[5], raises)
        except UnreadableRecordError as unreadable:
            self.diverge(record[2], str(unreadable), current_task())
            await refuse(self)
        raise error

    def wake(self, op: Operation, given: Any) -> None:
        """Pass an outcome or a special value to an operation, and wake the operation's task."""
        op.given = given
        if op.asleep:
            op.asleep = False
            reschedule(op.task)


def unfelt() -> NoReturn:
    """Value of `Operation.felt` for a cancellation that Trio will deliver at a checkpoint in `come`."""
    raise AssertionError("a block was ended, and Trio knows nothing of it")


def throw(error: BaseException) -> NoReturn:
    raise error


async def refuse(run: Core) -> NoReturn:
    """Raise a cancellation that only the run's own scope catches, and that leaves no trace in the journal.

    The error is a real `trio.Cancelled` from a scope that is made for this purpose, so the author's shields
    don't stop the error.
    """
    task = current_task()
    branch = run.by_task.get(task, run.main)
    branch.refusals += 1
    if branch.refusals == PATIENCE:
        run.owner.swallowed(branch.turn)
    if enough := branch.refusals >= PATIENCE:
        # Code that drives the coroutine without Trio gets control at this checkpoint, and can abandon the
        # coroutine. Detached coroutines never return control.
        await cancel_shielded_checkpoint()
    while enough:
        await _abandon(run, task)
    cancelled: BaseException | None = None
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            # Let other tasks run first: `while True: try ... except BaseException` would block all tasks for
            # ever.
            await wait_task_rescheduled(lambda _: Abort.SUCCEEDED)
        except trio.Cancelled as error:  # raised below, outside of the scope's block
            cancelled = error
    assert cancelled is not None
    raise cancelled


async def _abandon(run: Core, task: Task) -> None:
    """End the task without ending its coroutine, because the coroutine catches every exception."""
    if task.child_nurseries:
        # Trio can't detach a coroutine with an open nursery. So the coroutine's task sleeps for ever instead,
        # without any processor time.
        await wait_task_rescheduled(lambda _: Abort.FAILED)
        return
    # The coroutine must not be garbage-collected either: the coroutine would also catch the GeneratorExit.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task.coro))
    run.forget(task)
    await permanently_detach_coroutine_object(outcome.Value(None))


@final
class Continue(BaseException):
    """The exception that `continue_as` raises. The author's ``except Exception`` doesn't catch it."""

    def __init__(self, end: ContinuesAs) -> None:
        super().__init__()
        self.end = end


def continue_in(error: BaseException) -> ContinuesAs | None:
    """Return the `end` of the `Continue` in an error or an error group; None without a `Continue`."""
    only = only_of(error)
    return only.end if type(only) is Continue else None
