"""The state of one run: its journal, its branches, their operations, and how these come to an end.

An operation's id is structural, its branch's path and the branch's own counter: it doesn't depend on which of
several tasks the scheduler ran first, so the same code gives the same ids on replay. A run has several ends;
only some of these are the end of its code, too.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Awaitable, Callable, Sequence, Set
from enum import Enum
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
from .host import Host
from .records import (
    CONTINUED,
    CUT,
    DONE,
    ENDED,
    FAILED,
    FORMAT,
    INTENDED,
    INTERRUPTED,
    KNOWN,
    NOTED,
    OUTCOMES,
    PATCHED,
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

BREATH: Final = 64
"""Operations after which a branch lets others run: a replay must not keep the whole program waiting."""
PATIENCE: Final = 50
"""Refusals after which a branch is left where it is: its code catches everything, and goes on for ever."""
TOLERANCE: Final = 5_000
"""Milliseconds by which the clock may go back without a word: time services correct that much."""
ADVICE: Final = (
    "the code is not the one that wrote this journal: run that one, or put the change behind patched()"
)


# --- operations and branches


class Takes(Enum):
    """The type of `LEFT`."""

    LEFT = "left"


LEFT: Final = Takes.LEFT
"""What a filter returns for an event that it doesn't take."""

Filter: TypeAlias = Callable[[Any], object]
"""Looks at an event; returns as what it is taken, or `LEFT`. Must not raise. None takes all as it is."""


class Nature(Enum):
    """What completes an operation."""

    WAIT = "an event, or the time"
    EFFECT = "its own body"
    WITHIN = "another branch; never recorded"
    JOIN = "the end of the last child; never recorded, and never cancelled"


# By names of their own: to ask an enum for a member takes as long as a call.
WAIT: Final = Nature.WAIT
EFFECT: Final = Nature.EFFECT
WITHIN: Final = Nature.WITHIN
JOIN: Final = Nature.JOIN


class Where(Enum):
    """Where a branch is."""

    HOLDS = "it has the turn"
    QUEUED = "it is to be started"
    RESTS = "in an operation, or waiting for its children"
    WORKS = "in an effect's body, outside of any turn"


HOLDS: Final = Where.HOLDS
RESTS: Final = Where.RESTS
WORKS: Final = Where.WORKS


class Signalled(Enum):
    """What a resting operation may be given besides an outcome."""

    GO = "run the effect's body now"
    GONE = "the run dies: refuse"
    FELT = "a block around it was ended"


GO: Final = Signalled.GO
GONE: Final = Signalled.GONE
FELT: Final = Signalled.FELT

Performed: TypeAlias = "tuple[str, Node, tuple[Any] | None]"
"""An effect's outcome, to be recorded; and what the code gets, unless that is to be read from the record."""

Known: TypeAlias = "tuple[str, Node, tuple[Any] | None, int]"
"""The same, and when it came."""


@final
@attrs.define(eq=False, weakref_slot=False)
class Branch:
    """One task of a run.

    Attributes:
        path: empty for the main branch; a child's is its nursery's id and its number there.
        key: the path as numbers.
        around: our scopes around it, the outermost first; that of the run itself is the first one.
        count: ids that it has handed out.
        turn: the operation whose outcome began its present turn.
        heedless: operations begun one after the other in a block that had ended.
        outside: around the body of the effect that it is in: Trio's innermost scope.
        entry: the author's coroutine that it runs.
        root: the site at which it was started, if it is a child.
        site: of its newest operation; 0 if not known.
        drawn: the sites of what took a number since its last record, and has none of its own.
    """

    path: str
    key: tuple[int, ...]
    around: tuple[trio.CancelScope, ...]
    turn: Id
    task: Task | None = None
    place: Where = Where.QUEUED
    count: int = 0
    heedless: int = 0
    outside: object = None
    entry: object = None
    root: int = 0
    site: int = 0
    drawn: Sequence[int] = ()

    def leave(self, scope: trio.CancelScope) -> None:
        """Note that a scope around it is left."""
        self.around = tuple([one for one in self.around if one is not scope])


@final
@attrs.define(eq=False, weakref_slot=False)
class Operation:
    """An operation in which a branch rests.

    Attributes:
        number: the last of its `key`.
        held_up: before it begins, the branch is to look at what is around it.
        takes: which events a wait takes.
        due: when a sleep ends; None for what no time ends.
        steady: it lasts a length of time: its end moves with a clock that is set.
        lane: effects of one lane begin one after the other.
        holds: milliseconds that deadlines around it wait for it.
        in_doubt: what it raises in place of a repeat.
        armed: what happens now may complete it.
        known: its outcome, and when that came; it waits for its turn.
        over: it has its outcome, or was passed a value.
        felt: raises the cancellation that reached it.
        torn: a scope that isn't ours cancelled it.
        given: what it goes on with: a record, ``(value,)``, an error or a signal.
        children: those that a join waits for.
        run: the one in which it rests.
        sites: its own; or a list, with those that its branch had `drawn` in front; 0 if not known.
    """

    id: Id
    kind: str
    nature: Nature
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
    children: Set[Branch] = frozenset()
    run: Core | None = None
    sites: int | list[int] = 0

    @property
    def key(self) -> tuple[int, ...]:
        """Return its id as numbers, by which operations are ordered."""
        return (*self.branch.key, self.number)

    def __call__(self, raise_cancel: Callable[[], NoReturn]) -> Abort:
        """Refuse Trio's cancellation while it rests: that comes in a turn of its own.

        So an operation is itself the abort function of its sleep, and a run that waits keeps no other.
        """
        run = self.run
        if run is not None and not (run.dying or run.over):  # what dies is woken by hand
            run.strike(self, raise_cancel)
        return Abort.FAILED


def is_cut(around: Sequence[trio.CancelScope]) -> bool:
    """Return whether one of these scopes was cancelled, with no shield inside of it."""
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
    """It came to its normal end."""

    value: object = attrs.field(default=None, repr=False)


@final
@frozen
class Crashed:
    """It raised this."""

    error: Exception = attrs.field(repr=False)


@final
@frozen
class WasInterrupted:
    """An interrupt ended it; what its cleanup raised is `error`."""

    why: str
    error: Exception | None = attrs.field(default=None, repr=False)


@final
@frozen
class ContinuesAs:
    """It goes on as another function, with a journal of its own; the arguments are nodes."""

    fn: str
    args: Sequence[Node] = attrs.field(repr=False)


@final
@frozen
class Evicted:
    """It isn't over; this incarnation is. What its cleanup raised is `error`."""

    error: Exception | None = attrs.field(default=None, repr=False)


@final
@frozen
class Stuck:
    """It isn't over, and can't go on with this code. What that raised at its end is `failure`."""

    error: NondeterminismError
    failure: Exception | None = attrs.field(default=None, repr=False)


End: TypeAlias = Returned | Crashed | WasInterrupted | ContinuesAs | Evicted | Stuck


Work: TypeAlias = "tuple[Callable[..., Awaitable[object]], tuple[Any, ...], Raises, bool]"
"""An effect's body and arguments, the author's errors, and whether it is inside."""


def begun(fn: str, *args: object, time: int, seed: str, codec: Codec, jumped: int = 0) -> Record:
    """Return the first record of a run; append it before the run begins.

    Args:
        fn: the name by which the host finds the code again.
        time: in wall milliseconds.
        seed: secret; what is random in the run comes of it.
        jumped: what the host's `jumped` says then.
    """
    nodes = [codec.node_of(arg) for arg in args]
    return [START, [time, jumped, 0] if jumped else time, fn, nodes, seed, FORMAT]


# Until there is a child: an empty dict of each run takes 64 bytes.
_NO_BRANCHES: Final[dict[Task, Branch]] = {}


class Core:
    """What one incarnation of a run knows. `Machine` is more of it, `Run` is the whole.

    Attributes:
        records: the turns of the journal: so `many`, of which `cursor` were given; empty once the run goes
            on from there.
        rows: effects that began before a crash, and have no outcome among the turns.
        notes: what turns of the journal did beside their operations, likewise.
        patches: those that changed code has asked for.
        seed: secret; what is random in the run comes of it.
        time: the present turn's, in wall milliseconds.
        prefix: what stands before the numbers of the main branch's operations; `rank` before their keys.
        jumped: by how much the clock had been set in all when that turn began.
        unseen: how much of what it has been set by the host has not seen.
        task, root: those of the main branch, which is `main`; no task before it begins, and once it is over.
        by_task: the other branches that run.
        mailbox: the events that no record has taken: row, stamp, value; the oldest first.
        stale: a revived run has done nothing new yet.
        compares: its journal may be other code's, and each record is compared with what takes it.
        revived: when this incarnation began.
        catching_up: its host still delivers what waited; no deadline counts yet that is later than that, and
            no effect begins.
        dry: it ends where its journal does, and does nothing; `beyond` has what it would have recorded.
        dying: every operation is refused from now on.
        over: its last record was taken.
        interrupted: an interrupt has ended it; `why` says which, and `mid` the turn that the journal cut so.
        felt: some of its code has felt that.
        stuck: why the code can't go on over its journal.
    """

    __slots__ = (
        "_refusals",
        "beyond",
        "by_task",
        "catching_up",
        "codec",
        "compares",
        "cursor",
        "dry",
        "dying",
        "felt",
        "host",
        "interrupted",
        "jumped",
        "mailbox",
        "main",
        "many",
        "mid",
        "notes",
        "over",
        "patches",
        "prefix",
        "rank",
        "records",
        "revived",
        "root",
        "rows",
        "seed",
        "stale",
        "stuck",
        "task",
        "time",
        "unseen",
        "why",
    )

    main: Branch

    def __init__(self, host: Host, records: Sequence[Record], codec: Codec, fresh: bool, dry: bool) -> None:
        check_journal(records)
        start = records[0]
        self.host = host
        self.codec = codec
        self.time = self.jumped = self.unseen = 0
        self.prefix = ""
        self.rank: tuple[int, ...] = ()
        self.went(start[1])
        self.seed: str = start[4]
        self.records: Sequence[Record] = ()
        self.rows: dict[Id, Record] | None = None
        self.notes: dict[tuple[Any, ...], Record] | None = None
        self.patches: set[str] | None = None
        self.cursor: int = 0
        self.many: int = 0
        self.task: Task | None = None
        self.root: trio.CancelScope | None = None
        self.by_task: dict[Task, Branch] = _NO_BRANCHES
        self.mailbox: Sequence[tuple[int, int, Any]] = ()
        self.stale = not fresh
        self.compares = host.compares and not fresh
        self.dry = dry
        self.beyond: Sequence[Record] = ()
        self.dying = self.over = self.interrupted = self.felt = self.catching_up = False
        self.stuck: NondeterminismError | None = None
        self.why = "interrupted"
        self.mid: Id | None = None
        self.revived = self.time if fresh else host.now()
        self._refusals: dict[Task, int] | None = None
        if not fresh:
            last, jumped, self.unseen = times_of(records)
            since = self.set_by() - jumped
            if not dry and self.revived < last + since - TOLERANCE:  # it was set back, and no host saw it
                self.unseen += self.revived - last - since
        if len(records) > 1:
            self._load(records)

    def _load(self, records: Sequence[Record]) -> None:
        self.records = turns = [record for record in records if record[0] in TURNS]
        self.many = len(turns)
        if len(turns) + 1 < len(records):
            self._load_beside(records)
        for record in turns:
            if record[0] == INTERRUPTED:
                self.mid, self.why = record[3], record[4]

    def _load_beside(self, records: Sequence[Record]) -> None:
        notes: dict[tuple[Any, ...], Record] = {}
        rows: dict[Id, Record] = {}
        patches: set[str] = set()
        self.notes, self.rows, self.patches = notes, rows, patches
        done = {record[2] for record in records if record[0] in OUTCOMES}
        for record in records:
            tag, about = record[0], record[2]
            if tag in (READ, NOTED):
                notes[tag, about, record[3]] = record
            elif tag == WROTE:
                notes[tag, about, record[3], record[4]] = record
            elif tag == PATCHED:
                patches.add(about)
            elif tag in (KNOWN, INTENDED) and about not in done and (tag == KNOWN or about not in rows):
                rows[about] = record

    # --- what the machine decides

    def evict(self) -> None:
        """End this incarnation and nothing of the run: every operation is refused from now on."""
        raise NotImplementedError

    def strike(self, op: Operation, raise_cancel: Callable[[], NoReturn]) -> None:
        """Note that a scope around a resting operation was cancelled."""
        raise NotImplementedError

    def forget(self, task: Task) -> None:
        """Note that a task has ended without its coroutine."""
        raise NotImplementedError

    # --- branches

    def next_id(self, branch: Branch) -> Id:
        """Hand out the next id of a branch."""
        branch.count += 1
        if (here := self.host.here) is not None and (self.cursor >= self.many or self.compares):
            branch.drawn = [*branch.drawn, here(branch.root, 3, branch.entry)]
        return id_in(branch.path or self.prefix, branch.count)

    def current(self, *, inside: bool = False) -> Branch:
        """Return the current task's branch.

        Raises:
            ConversationEndedError: the run is over.
            ForeignTaskError: the task has none, or is in an effect; `inside` allows the latter.
        """
        task = current_task()
        branch = self.main if task is self.task else self.by_task.get(task)
        if branch is None:
            if self.over:
                raise ConversationEndedError("this run is over")
            raise ForeignTaskError(
                "an operation from a task that the run doesn't know; start it with open_nursery()"
            )
        if branch.place is WORKS and not inside and not self.dying:
            raise ForeignTaskError("an operation inside an effect; let its body return a value instead")
        return branch

    # --- time

    def set_by(self) -> int:
        """Return by how much the clock has been set in all."""
        return self.host.jumped() + self.unseen

    def went(self, time: int | list[int]) -> None:
        """Take the time of a turn, as its record has it."""
        if isinstance(time, int):
            self.time = time
        else:
            self.time, self.jumped, _ = time

    def since(self) -> int:
        """Return when the present turn began, by the clock as it is set now."""
        return self.time + self.host.jumped() + self.unseen - self.jumped

    @property
    def live(self) -> bool:
        """Return whether everything recorded has been given."""
        return self.cursor >= self.many

    def due_after(self, seconds: float) -> int:
        """Return when a length of time is over that begins with the present turn."""
        return self.since() + math.ceil(seconds * 1000)

    def advance(self) -> int | list[int]:
        """Return the time of a turn that begins now: it never goes back, unless the clock was set."""
        now = self.host.now()
        if self.stale:
            # A journal may be long: nothing that comes now is about what it has.
            self.stale, self.records, self.notes = False, (), None
        if (jumped := self.host.jumped() + self.unseen) != self.jumped:
            self.time, self.jumped = now, jumped
            return [now, jumped, self.unseen]
        if now > self.time or self.time - now > TOLERANCE:
            self.time = now
        return self.time

    def stands(self, operations: Sequence[Operation]) -> bool:
        """Return whether a revived run rests where it did when its journal ended; else it gets stuck."""
        if (why := self.host.reached(operations)) is None:
            self.compares = self.compares and self.dry
            return True
        first = operations[0] if operations else None
        self.get_stuck(0 if first is None else first.id, why, None if first is None else first.task)
        return False

    def get_stuck(self, id: Id, what: str, task: Task | None = None) -> None:
        """Go no further, before the code does anything that its journal doesn't know."""
        if self.stuck is None and not self.dying:
            self.stuck = NondeterminismError(str(id), what)
            self.host.stuck(self.stuck, task)
        self.evict()

    def parts(self, record: Record, op: Operation) -> bool:
        """Get stuck, if other code's journal parts from what takes this record; return whether it does."""
        why = self.host.parting(record, op) if self.compares else None
        if why is not None:
            self.get_stuck(record[2], why, op.task)
        return why is not None

    # --- records

    def _append(self, record: Record, rows: Sequence[int] = (), write: object = None) -> None:
        """Append a record that begins no turn: nothing, if this incarnation dies or only looks."""
        if self.dry:
            self.beyond = [*self.beyond, record]
        elif not self.dying:
            self.host.append(record, rows, write)

    def _end(self, failure: Exception | None, continued: Continue | None) -> None:
        if continued is not None:
            record: Record = [CONTINUED, self.time, continued.fn, continued.nodes]
        else:
            record = [ENDED, self.time, None if failure is None else self.codec.node_of_error(failure)]
        if self.live:
            if self.stale and not (self.interrupted or self.stands(())):
                return
            self._append(record)
        elif self.records[self.cursor][0] == record[0]:
            self.cursor += 1
        else:
            went_on = self.records[self.cursor]
            self.get_stuck(
                0, f"the code ended here, and went on to {went_on[2]} when it was recorded: {ADVICE}"
            )
            return
        self.over = True

    def is_recorded(self, id: Id) -> bool:
        """Return whether an operation has an outcome in the journal that this incarnation began with."""
        return any(record[2] == id for record in self.records if record[0] in OUTCOMES)

    # --- operations

    def outcome_of(self, value: object) -> tuple[str, Node]:
        """Return what to record for a value: itself, or why it can't be recorded."""
        try:
            return DONE, self.codec.node_of(value)
        except BaseException as error:  # its class may be an author's
            return FAILED, self.codec.node_of_error(contained(error))

    async def perform(self, op: Operation, work: Work) -> Performed:
        """Run an effect's body to its end, whatever that is, in the author's task and outside of any turn."""
        body, args, raises, inside = work
        if op.in_doubt is not None:
            sites = (None, 0, op.sites) if op.sites else ()
            self.host.append([INTENDED, self.time, op.id, op.kind, op.print, *sites])
        began = False
        try:
            if not inside:
                await self.host.commit()
            began = True
            value = await body(*args)
            tag, node = self.outcome_of(value)
            return tag, node, (value,) if tag == DONE and self.codec.is_frozen(value) else None
        except Exception as error:
            if not began:  # memory is ahead of what is durable, and can't be taken back
                self.evict()
                await refuse(self)
            return FAILED, self.codec.node_of_error(error, raises), None
        except BaseException as error:
            if self.dying:
                await refuse(self)
            return *self._cut_short(error, op.id, raises), None

    def left_by(
        self, error: BaseException, scope: trio.CancelScope
    ) -> tuple[Exception | None, Continue | None]:
        """Return the failure, or what the code goes on as, of an error that has left it."""
        # While the scope is open, a cancellation was carried here from another one.
        rest = split(error)[1] if scope.cancel_called else error
        if rest is None:
            return None, None
        continued = continue_in(rest)
        return (self._contained(rest), None) if continued is None else (None, continued)

    def _contained(self, error: BaseException) -> Exception:
        try:
            return contained(error)
        except BaseException:
            self.evict()  # a signal ends the process, and the run isn't over
            raise

    def _cut_short(self, error: BaseException, id: Id, raises: Raises) -> tuple[str, Node]:
        cancelled, rest = split(error)
        if rest is not None:
            return FAILED, self.codec.node_of_error(self._contained(rest), raises)
        if not is_cut(self.current(inside=True).around):
            return FAILED, self.codec.node_of_error(NonDurableCancelError(str(id)))
        return CUT, cancelled

    async def woken(self, op: Operation) -> Any:
        """Sleep until the operation is given something; no trip through Trio if that is there already."""
        if op.given is None:
            if self.dying and op.nature is not JOIN:
                return GONE
            op.asleep = True
            op.run = self
            await wait_task_rescheduled(op)
        given, op.given = op.given, None
        return given

    async def come(self, op: Operation, given: Any, raises: Raises = ()) -> Any:
        """Return or raise what an operation was given."""
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
                await checkpoint_if_cancelled()  # it was cancelled before it slept
            op.felt()
        if isinstance(given, BaseException):
            raise given
        return await refuse(self)

    async def _read(self, record: Record, raises: Raises) -> Any:
        """Return or raise what a record says; a run goes no further than what this program can read."""
        try:
            if record[0] != FAILED:
                return self.codec.value_of(record[5])
            error = self.codec.error_of(record[5], raises)
        except UnreadableRecordError as unreadable:
            self.get_stuck(record[2], str(unreadable), current_task())
            await refuse(self)
        raise error

    def wake(self, op: Operation, given: Any) -> None:
        """Let an operation go on."""
        op.given = given
        if op.asleep:
            op.asleep = False
            reschedule(op.task)

    def leave(self, task: Task) -> bool:
        """Count a refusal; return whether the code has had enough of them."""
        if self._refusals is None:
            self._refusals = {}
        count = self._refusals[task] = self._refusals.get(task, 0) + 1
        if count == PATIENCE:
            self.host.swallowed(self.by_task.get(task, self.main).turn)
        return count >= PATIENCE


@final
class Part:
    """A block of the main branch that numbers its operations by itself; see `Run.part`."""

    __slots__ = ("_count", "_prefix", "_rank", "_run")

    def __init__(self, run: Core, name: str) -> None:
        self._run = run
        self._prefix = f"{name}." if name else ""
        # What is outside comes after what is inside, and both before the code within: whatever lies between.
        self._rank = (*run.rank, -1) if name else ()
        self._count = 0

    @property
    def numbered(self) -> int:
        """Return how many operations it has numbered, once it is left."""
        return self._count

    def __enter__(self) -> None:
        self._switch()

    def __exit__(self, *_: object) -> None:
        self._switch()

    def _switch(self) -> None:
        run = self._run
        run.prefix, self._prefix = self._prefix, run.prefix
        run.rank, self._rank = self._rank, run.rank
        run.main.count, self._count = self._count, run.main.count
        run.main.key = run.rank


def unfelt() -> NoReturn:
    """Stand for a cancellation that Trio hasn't brought, since the operation had yet to sleep."""
    raise AssertionError("a block was ended, and Trio knows nothing of it")


def throw(error: BaseException) -> NoReturn:
    raise error


async def refuse(run: Core) -> NoReturn:
    """Raise a cancellation that only the root takes, and that leaves no trace in the journal.

    It is a real one, taken out of a scope that is made for it: so it passes the author's shields.
    """
    task = current_task()
    enough = run.leave(task)
    if enough:
        # Here whoever steps the coroutine by hand can leave it. A task that is detached comes back to nobody.
        await cancel_shielded_checkpoint()
    while enough:
        await _abandon(run, task)
    cancelled: BaseException | None = None
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            # Others come first: `while True: try ... except BaseException` would keep them waiting for ever.
            await wait_task_rescheduled(lambda _: Abort.SUCCEEDED)
        except trio.Cancelled as error:  # taken out of its scope, and raised below
            cancelled = error
    assert cancelled is not None
    raise cancelled


async def _abandon(run: Core, task: Task) -> None:
    """End the task without its coroutine, which would catch every way to end it."""
    if task.child_nurseries:
        # Trio lets go of no coroutine that has a nursery open. It sleeps: it takes no processor.
        await wait_task_rescheduled(lambda _: Abort.FAILED)
        return
    # Nor may the collector try: it would throw GeneratorExit into it, which it would catch as well.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task.coro))
    run.forget(task)
    await permanently_detach_coroutine_object(outcome.Value(None))


@final
class Continue(BaseException):
    """Leaves the coroutine, past every `except Exception`."""

    def __init__(self, fn: str, args: list[Node]) -> None:
        super().__init__()
        self.fn = fn
        self.nodes = args


def continue_in(error: BaseException) -> Continue | None:
    """Return what left the coroutine to go on; a plain Trio nursery puts it into a group."""
    only = only_of(error)
    return only if type(only) is Continue else None
