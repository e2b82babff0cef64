"""A run: one incarnation of a durable coroutine, and the operations that its code may use.

A branch *rests* in an operation while it waits for the operation's outcome. A *turn* begins when an operation
gets its outcome, and lasts until the operation's branch rests in its next operation. At any time there is at
most one turn, in a live run and on replay. Each turn begins with a record (`records`) or with internal work
of the run.

`machine` decides which branch has the turn, and which turn is next. This module has the operations that the
code may use in its turn.

An operation is *armed* only when the journal is exhausted: then a wait takes events, an effect's body runs,
and a sleep ends by the clock. So an operation with a recorded outcome is never performed again, and an effect
that is cancelled before it is armed never begins. If an effect is armed while a deadline around the effect is
due, the effect begins, and is cancelled at its first checkpoint.

An event stays in the run's mailbox, and belongs to no operation, until a record names the event.
"""

from __future__ import annotations

import math
import random
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, final

import trio
from trio.lowlevel import Task, current_task, wait_task_rescheduled

from ..errors import ForeignTaskError, UnreadableRecordError
from .core import (
    ADVICE,
    EFFECT,
    GO,
    LEFT,
    WAIT,
    Branch,
    Continue,
    ContinuesAs,
    Crashed,
    Diverged,
    End,
    Evicted,
    Filter,
    Operation,
    Returned,
    RunJournal,
    WasInterrupted,
    refuse,
)
from .host import Host, RunOwner
from .machine import Machine, Nursery, Scope
from .records import (
    ABSENT,
    CONTINUED,
    ENDED,
    NOTED,
    PATCHED,
    READ,
    WROTE,
    Codec,
    Id,
    Node,
    Put,
    Raises,
    Record,
    drawn,
)
from .scopes import innermost

_LEFT_OPEN: Final = "the code entered a cancel scope and has not left it: use `with`"


# --- the run


@final
class Part:
    """A block of the main branch with operation numbers of its own; see `Run.part`.

    The class changes no exception that passes through it. `contextlib.contextmanager` would set the
    exception's traceback, and an author's exception may refuse the new traceback.
    """

    # Operations are ordered by their keys. The operations of an inner part come before the operations of the
    # outer part. The operations of the wrapped code (the part with an empty name) come last.

    def __init__(self, main: Branch, name: str) -> None:
        self._main = main
        self._outside = main.prefix, main.key, main.count
        self._inside = (f"{name}.", (*main.key, -1), 0) if name else ("", (), 0)

    def __enter__(self) -> None:
        self._main.prefix, self._main.key, self._main.count = self._inside

    def __exit__(self, *_: object) -> None:
        self._main.prefix, self._main.key, self._main.count = self._outside


@final
class Run(Machine):
    """One incarnation of a durable coroutine.

    The owner of a run calls `deliver`, `tick` and `interrupt`. For everything else, the run calls its `Host`
    and its `RunOwner`. The code gets the run as its first argument, and uses the run's operations.

    A cancellation of the task that awaits `run` doesn't reach the code, because no record of the journal
    would explain such a cancellation. To stop a run, call `evict`.

    Args:
        records: the journal so far; for a new run only the start (`begun`).
        fresh: whether the run begins now; False for a revived run, even if only the start is recorded.
        dry: whether the run ends at its journal's end, and changes nothing.

    Attributes:
        args: the arguments of the start; empty once the code runs.
        seed: secret seed of the run's random numbers.
        beyond: in a dry run, the records that a live run would have appended at the journal's end.
        view: values that the turn `view_turn` has read and written.
    """

    __slots__ = ("_patches", "args", "beyond", "seed", "view", "view_turn")

    def __init__(
        self,
        host: Host,
        records: Sequence[Record],
        codec: Codec,
        owner: RunOwner,
        fresh: bool = False,
        dry: bool = False,
    ) -> None:
        journal = RunJournal(host, records, not fresh, dry)
        super().__init__(host, owner, codec, journal, Branch("", (), ()))
        self.args: Sequence[Node] = records[0][3]
        self.seed: str = records[0][4]
        self.beyond: Sequence[Record] = ()
        patched = {} if fresh else {record[2]: True for record in records if record[0] == PATCHED}
        self._patches: Mapping[str, bool] = patched
        self.view: dict[str, Any] = {}
        self.view_turn: Id | None = None

    # --- running

    async def run(self, main: Callable[..., Awaitable[object]], *args: object) -> End:
        """Run ``main(run, *args)`` over the journal and then to the code's end.

        An error of the author's code is returned in the `End`, never raised.

        Args:
            args: by default the recorded arguments of the start.
        """
        end: End | None = None
        try:
            with trio.CancelScope(shield=True) as scope:
                end = await self.run_within(scope, main, *args)
        except RuntimeError:
            if end is None:  # else a scope was left open, and `end` has the error
                raise
        assert end is not None
        return end

    async def run_within(
        self, scope: trio.CancelScope, main: Callable[..., Awaitable[object]], *args: object
    ) -> End:
        """Run as `run` does, in a scope that exists already.

        Args:
            scope: the innermost scope around the current task. The scope is shielded while the run lasts. At
                the run's end, the scope may have been cancelled, and the caller must exit the scope.
        """
        if self.dying:
            return Evicted()
        if unshielded := not scope.shield:
            scope.shield = True
        task = current_task()
        within = innermost(task)
        value: object = None
        left: Exception | ContinuesAs | None = None
        try:
            self.begin(task, scope)
            try:
                self.main.entry = coroutine = main(self, *(args or map(self.codec.value_of, self.args)))
                # No variable here may keep `main` and `args`: a report of an error may include this frame's
                # variables.
                self.args = ()
                del main, args
                value = await coroutine
                if innermost(task) is not within:
                    raise RuntimeError(_LEFT_OPEN)
            except BaseException as error:
                left = self.left_by(error, scope)
                self.owner.concluded(error if left is None or type(left) is ContinuesAs else left)
            else:
                self.owner.concluded(None)
        except Exception as error:
            left = error
        if not self.dying:
            self._end(left)
        self.main.task = None
        if unshielded:
            scope.shield = False
        failure = None if type(left) is ContinuesAs else left
        if self.diverged is not None:
            return Diverged(self.diverged, failure)
        if self.dying:
            return Evicted(failure)
        if type(left) is ContinuesAs:
            return left
        if self.interrupted:
            return WasInterrupted(self.why, failure)
        return Returned(value) if failure is None else Crashed(failure)

    def _end(self, left: Exception | ContinuesAs | None) -> None:
        journal = self.journal
        if type(left) is ContinuesAs:
            record: Record = [CONTINUED, journal.time, left.fn, left.args]
        else:
            record = [ENDED, journal.time, None if left is None else self.codec.node_of_error(left)]
        if journal.live:
            if journal.stale and not (self.interrupted or self.reach()):
                return
            self._append(record)
        elif (ahead := journal.turns[journal.given])[0] == record[0]:
            journal.next()
        else:
            what = f"the code ended here, and went on to {ahead[2]} when it was recorded: {ADVICE}"
            self.diverge(0, what)
            return
        self.over = True

    # --- calls by the host

    def deliver(self, row: int, stamp: int, value: object) -> bool:
        """Deliver an event. Records that the event causes at once are appended before `deliver` returns.

        So a host can store the event and these records in one transaction; see `Host`. The event's own record
        is appended later if the code has not begun, a branch has the turn, the journal isn't exhausted, an
        earlier deadline or result comes first, or no block or wait takes the event.

        Returns:
            False if the run is over or dying. In this case the event is not in the mailbox.
        """
        if self.over or self.dying:
            return False
        self.mailbox = [*self.mailbox, (row, stamp, value)]
        self.pump()
        return True

    def shift(self, by: int) -> None:
        """Move the deadlines that were set as durations, after the clock was set forward.

        `shift` may be called within `Host.now`. Call `tick` after `shift`.

        Args:
            by: milliseconds by which the clock was set forward.
        """
        self.journal.revived += by
        timed: Sequence[Operation | Scope] = [*self.resting, *self.blocks]
        for one in timed:
            if one.steady and one.due is not None:
                one.due += by

    def interrupt(self, stamp: int, row: int | None = None, why: str = "interrupted") -> None:
        """End the run; only the first call counts. Under a shield, the code may still send a last message.

        If the branch with the turn awaits something other than an operation of the run, this await is
        cancelled at once. Otherwise the interrupt gets a turn of its own. If the code has not begun yet, the
        code first runs until it rests.

        Args:
            row: the event that causes the interrupt; the interrupt's record takes this event.
        """
        if self.over or self.dying or self.interrupted or self.interrupt_due or self.journal.dry:
            return
        self.why, self.interrupt_due = why, (stamp, row)
        if self.main.task is not None:
            self.tick()

    # --- operations

    async def effect(
        self,
        kind: str,
        body: Callable[..., Awaitable[object]],
        *args: Any,
        print: str = "",
        lane: str = "",
        raises: Raises = (),
        in_doubt: Exception | None = None,
        holds: int = 0,
        inside: bool = False,
        beneath: int = 0,
    ) -> Any:
        """Run ``body(*args)`` at least once, and never again once its outcome is recorded.

        The body begins once all earlier records are durable, so that nothing visible outside depends on
        records that a crash can lose.

        Args:
            print: a fingerprint that distinguishes the effect from the same effect with other arguments.
            lane: name of a queue: effects of one lane begin one after the other, in the order of their
                operations.
            raises: the author's own error classes, which are raised unchanged.
            in_doubt: raised in place of a repetition, if the effect may have happened before a crash.
            holds: largest number of milliseconds by which the effect delays the deadlines around it. A block
                or another branch may take an event in this time, before the deadline.
            inside: whether the body changes only the store. If so, the body need not wait for earlier
                records.
            beneath: number of the host's frames that await this call.

        Cancellation: *ambiguous*: the body may have done its work.
        """
        op = self.operation(kind, EFFECT, print, beneath=beneath)
        if op.held_up:
            await self.look_around(op)
        op.lane, op.holds, op.in_doubt = lane, holds, in_doubt
        self.rest(op)
        given = op.given or await self.woken(op)
        if given is GO and not self.dying:
            op.given = None
            outcome = await self.perform(op, (body, args, raises, inside))
            if self.dying:
                await refuse(self)
            self.finish(op, outcome)
            given = op.given or await self.woken(op)
        if type(given) is tuple:
            return given[0]  # pyright: ignore[reportUnknownVariableType]
        return await self.come(op, given, raises)

    async def wait(
        self,
        kind: str = "wait",
        takes: Filter | None = None,
        print: str = "",
        again: bool = False,
        beneath: int = 0,
    ) -> Any:
        """Wait for an event that the filter `takes` accepts; return the filter's value for the event.

        Args:
            again: whether the branch's previous operation was begun by the same call in the author's code.
            beneath: number of the host's frames that await this call.

        Cancellation: *atomic*: either a record takes the event, or the event stays in the mailbox.
        """
        op = self.operation(kind, WAIT, print, again, beneath)
        if op.held_up:
            await self.look_around(op)
        op.takes = takes
        self.rest(op)
        if op.given is None and not self.dying:
            # The code of `woken`, inlined: a frame of `woken` would need memory in each waiting run.
            op.asleep, op.run = True, self
            await wait_task_rescheduled(op)
        given, op.given = op.given, None
        if type(given) is tuple:
            return given[0]  # pyright: ignore[reportUnknownVariableType]
        return await self.come(op, given)

    async def sleep(self, seconds: float = 0, *, at: int | None = None) -> None:
        """Wait for `seconds`, or until the wall time `at` in milliseconds."""
        op = self.operation("sleep", WAIT)
        if op.held_up:
            await self.look_around(op)
        op.steady, op.due = at is None, self.journal.due_after(seconds) if at is None else at
        await self.outcome(op)

    async def step(self, fn: Callable[..., Awaitable[object]], *args: Any, raises: Raises = ()) -> Any:
        """Run the author's own ``fn(*args)`` as an effect; see `effect`."""
        return await self.effect("step", fn, *args, print=getattr(fn, "__qualname__", ""), raises=raises)

    # --- structure

    def scope(
        self,
        seconds: float | None = None,
        *,
        at: int | None = None,
        takes: Filter | None = None,
        shield: bool = False,
    ) -> Scope:
        """Return a block that ends after `seconds`, at a wall time, by an event, or by its `cancel`.

        Args:
            takes: filter of the events that end the block. The newest open block that takes an event gets the
                event, before any wait.
            shield: whether interrupts and the ends of outer blocks take effect only at the block's end; an
                eviction takes effect at once.
        """
        length = None if seconds == math.inf else seconds
        return Scope(self, length, at, takes, trio.CancelScope(shield=shield))

    def open_nursery(self) -> Nursery:
        """Return a nursery of children; the children end with the nursery's block."""
        return Nursery(self)

    def part(self, name: str) -> Part:
        """Return a block in which the main branch numbers its operations from 1, under the block's own name.

        So the ids in code that wraps other code, such as a hook, depend only on the wrapping code. If the
        wrapping code has no operations, it can be added, removed or moved while runs wait. Use each name only
        once in a run. A name has no slash. The wrapped code gets an empty name.
        """
        return Part(self.main, name)

    def continue_as(self, fn: str, *args: object) -> NoReturn:
        """End this run, and continue as another function with a journal of its own.

        Raises:
            ForeignTaskError: the current task is a child, or a nursery is open.
        """
        if self.current().path or self.nurseries:
            raise ForeignTaskError("continue_as() is for the main branch, outside of its nurseries")
        raise Continue(ContinuesAs(fn, [self.codec.node_of(arg) for arg in args]))

    # --- a turn's reads, writes and notes

    def _append(self, record: Record, rows: Sequence[int] = (), write: object = None) -> None:
        """Append a record that begins no turn. A dying run appends nothing; a dry run appends to `beyond`."""
        if self.journal.dry:
            self.beyond = [*self.beyond, record]
        elif not self.dying:
            self.host.append(record, rows, write)

    def note(self, key: str, ask: Callable[[], object]) -> Any:
        """Return the result of `ask()`, recorded once for each turn and key; the same on replay.

        If new code calls `note` in a turn that is already in the journal, `ask()` is called now, and later
        replays return the recorded result. The ids of operations stay the same.
        """
        turn, view = self._noting()
        seen = f":{key}"
        if seen not in view:
            record = self.journal.beside.get((NOTED, turn, key))
            if record is None:
                record = [NOTED, self.journal.time, turn, key, self.codec.node_of(ask())]
                self._append(record)
            view[seen] = record[4]
        return self._value(view[seen])

    def read(self, key: str, default: object = None) -> Any:
        """Return shared data as it was at this turn's first read, including the turn's own later writes."""
        turn, view = self._noting()
        if key not in view:
            record = self.journal.beside.get((READ, turn, key))
            if record is None:
                node = self.host.read(key)
                record = [READ, self.journal.time, turn, key]
                if node is not ABSENT:
                    record.append(node)
                self._append(record)
            view[key] = record[4] if len(record) > 4 else ABSENT
        node = view[key]
        return default if node is ABSENT else self._value(node)

    def write(self, key: str, value: object) -> None:
        """Write shared data, durable with the record of the write; with `ABSENT`, delete the data."""
        node: Node = ABSENT if value is ABSENT else self.codec.node_of(value)
        self.also(key, Put(key, node))
        self.view[key] = node

    def also(self, key: str, write: object) -> bool:
        """Append a record with a write for the host to store.

        If the journal has this record or a later turn, append nothing.

        Returns:
            Whether the write was passed to the host.

        Args:
            key: distinguishes the write from the turn's other writes.
        """
        turn, view = self._noting()
        counted = f"#{key}"
        n = view[counted] = view.get(counted, 0) + 1
        # The journal goes on after this turn: a write that new code adds to this turn comes too late.
        if not self.journal.live or (WROTE, turn, key, n) in self.journal.beside:
            return False
        self._append([WROTE, self.journal.time, turn, key, n], (), write)
        return not (self.journal.dry or self.dying)

    def drain(self, takes: Filter | None = None, first: Callable[[], None] | None = None) -> list[Any]:
        """Take all events in the mailbox, or the events that `takes` accepts.

        Args:
            first: fills the mailbox; called only if the journal has no record of this drain.
        """
        turn, view = self._noting()
        n = view["##"] = view.get("##", 0) + 1
        key = f"drain {n}"
        record = self.journal.beside.get((NOTED, turn, key))
        nodes: list[Node] = [] if record is None else record[4]
        if record is None:
            rows: list[int] = []
            if first is not None and self.journal.live and not self.journal.dry:
                first()
            for row, _, value in self.mailbox if self.journal.live and not self.journal.dry else ():
                taken = value if takes is None else takes(value)
                if taken is not LEFT:
                    rows.append(row)
                    nodes.append(self.codec.node_of(taken))
            self.mailbox = [one for one in self.mailbox if one[0] not in rows]
            self._append([NOTED, self.journal.time, turn, key, nodes], rows)
        return [self._value(node) for node in nodes]

    def patched(self, patch: str) -> bool:
        """Return whether changed code is to use its new version here.

        In a run that comes here for the first time, the answer is True and is recorded. In a run that passed
        here before, with code that did not call `patched`, the answer is False. A run that used the old
        version once uses the old version everywhere.
        """
        self._noting()
        if patch not in self._patches:
            self._patches = {**self._patches, patch: self.journal.live}
            if self.journal.live:
                self._append([PATCHED, self.journal.time, patch])
        return self._patches[patch]

    def now(self) -> int:
        """Return the turn's time in wall milliseconds."""
        return self.journal.time

    def random(self) -> random.Random:
        """Return a separate random generator, which gives the same numbers on replay, without a record."""
        return random.Random(f"{self.seed}:{self.next_id(self.current())}")

    def token(self, size: int = 16) -> bytes:
        """Return bytes that are hard to guess; the same on replay, without a record."""
        return drawn(self.seed, self.next_id(self.current()), size)

    def uuid(self) -> uuid.UUID:
        """Return a unique id; the same on replay, without a record."""
        return uuid.UUID(bytes=self.token(16), version=4)

    def upcoming(self) -> Id:
        """Return the id that the current task's next operation will have."""
        branch = self.current()
        return f"{branch.prefix}{branch.count + 1}" if branch.prefix else branch.count + 1

    def _noting(self) -> tuple[Id, dict[str, Any]]:
        """Return the current turn's id, and the values that the turn has read and written so far."""
        turn = self.current().turn
        if self.view_turn != turn:
            self.view, self.view_turn = {}, turn
        return turn, self.view

    def _value(self, node: Node) -> Any:
        try:
            return self.codec.value_of(node)
        except UnreadableRecordError as error:
            self.diverge(self.main.turn, str(error), self.main.task)
            raise

    # --- inspection

    @property
    def tasks(self) -> Mapping[str, Task]:
        """The tasks that run the branches, by the branches' paths."""
        return {branch.path: branch.task for branch in self.branches if branch.task is not None}

    @property
    def effects(self) -> Sequence[str]:
        """The kinds of the effects that are under way."""
        return [op.kind for op in self.resting if op.nature is EFFECT]
