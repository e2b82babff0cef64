"""A run: one incarnation of a durable coroutine, and all that its code may do.

A *turn* begins when an operation is given its outcome, and lasts until that branch rests in its next one. At
most one lasts at a time, live as well as on replay, and each begins with a record (`records`) or with what
the run does to itself.

There are two ways to run, and one journal. What is here is the short way: with one branch and no block around
it the order of what happens is the order of the code, so there is no queue, no table of operations and no
scheduler. The machine (`machine`) adds what more than that needs: blocks that end, children, interrupts.
`Run.promote` makes it at any moment, of what is known by then (the counter, the turn, the operation that
rests), and no code runs again; `Machine.retire` takes it away with the last block. Both write the same
records with the same ids: a journal doesn't show which way its run went, and a revival begins on the short
way whatever it holds.

An operation is *armed* (a wait takes events, an effect's body runs, a sleep ends by the clock) only when the
journal is exhausted. So what has an outcome is never performed again, and what was cancelled never at all.

An event is in the run's mailbox, and belongs to no operation, until a record names it.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, final

import trio
from trio.lowlevel import Task, cancel_shielded_checkpoint, current_task, wait_task_rescheduled

from ..errors import (
    ConversationEndedError,
    ForeignTaskError,
    NonDurableCancelError,
    UnreadableRecordError,
)
from .core import (
    ADVICE,
    BREATH,
    GONE,
    LEFT,
    Continue,
    ContinuesAs,
    Core,
    Crashed,
    End,
    Evicted,
    Filter,
    Nature,
    Operation,
    Part,
    Returned,
    Stuck,
    WasInterrupted,
    Where,
    is_cut,
    lower,
    refuse,
)
from .host import Host
from .machine import Machine, Nursery, Scope
from .records import (
    ABSENT,
    DONE,
    FAILED,
    JSON,
    KNOWN,
    NOTED,
    PATCHED,
    PLAIN,
    READ,
    WROTE,
    Codec,
    Id,
    Node,
    Put,
    Raises,
    Record,
    differs,
    drawn,
    id_in,
)
from .snapshot import OpenBranch, OpenOperation, Snapshot, open_operation
from .sync import Channel, Event

# Until a turn reads or writes something: an empty dict of each run takes 64 bytes.
_NO_VIEW: Final[dict[str, Any]] = {}

_LEFT_OPEN: Final = "the code entered a cancel scope and has not left it: use `with`"


@final
class Run(Core):
    """One incarnation of a durable coroutine.

    Its owner brings what happens (`deliver`, `tick`, `interrupt`) and is asked for the rest through its
    `Host`; the code gets the run as its first argument, and uses the operations. `run` is shielded from the
    task that awaits it: a cancellation from there would look like a foreign one. `evict` it to stop it.

    Args:
        records: the journal so far; only the start (`begun`) for a run that begins.
        fresh: it begins now; False if it is revived, even if nothing but the start is recorded.
        dry: it ends where its journal does, and does nothing: see `replay`.

    Attributes:
        fn, args: the start's.
        count: ids that the main branch has handed out in its part; the machine counts while there is one.
        turn: the operation whose outcome began the present turn; `view` is what `view_turn` read and wrote.
        operation: the one in which it rests, on the short way.
        machine: None on the short way.
    """

    __slots__ = (
        "_doing",
        "_early",
        "_outside",
        "_unpatched",
        "args",
        "count",
        "fn",
        "machine",
        "operation",
        "turn",
        "view",
        "view_turn",
    )

    def __init__(
        self,
        host: Host,
        records: Sequence[Record],
        codec: Codec = JSON,
        fresh: bool = False,
        dry: bool = False,
    ) -> None:
        super().__init__(host, records, codec, fresh, dry)
        self.fn: str = records[0][2]
        self.args: Sequence[Node] = records[0][3]
        self.count = 0
        self.turn: Id = 0
        self.operation: Operation | None = None
        self.machine: Machine | None = None
        self._doing: tuple[Id, str, str, str, int] | None = None
        self._outside: object = None
        self._early: tuple[int, int | None] | None = None
        self._unpatched: set[str] | None = None
        self.view: dict[str, Any] = _NO_VIEW
        self.view_turn: Id | None = None

    # --- its life

    async def run(self, main: Callable[..., Awaitable[object]], *args: object) -> End:
        """Run ``main(run, *args)`` over its journal and on, to its end; never raises an author's error.

        Args:
            args: by default what the start says.
        """
        end: End | None = None
        try:
            with trio.CancelScope(shield=True) as scope:
                end = await self.run_within(scope, main, *args)
        except RuntimeError:
            if end is None:  # else it is what the end says already: something was left open
                raise
        assert end is not None
        return end

    async def run_within(
        self, scope: trio.CancelScope, main: Callable[..., Awaitable[object]], *args: object
    ) -> End:
        """Run as `run` does, in a scope that is there already.

        Args:
            scope: the innermost around the current task. It is shielded while the run lasts. When the run
                ends it may have been cancelled, and is to be left.
        """
        if self.dying:
            return Evicted()
        if unshielded := not scope.shield:
            scope.shield = True
        task = self.task = current_task()
        self.root = scope
        within = getattr(task, "_cancel_status", None)
        value: object = None
        failure: Exception | None = None
        continued: Continue | None = None
        try:
            if self.mid == 0 or self.host.look is not None:
                self.promote()
            if self._early is not None:
                # It waits for the code to rest: the first line is not cut in mid-air.
                self.promote().interrupts.append(self._early)
            try:
                coroutine = main(self, *(args or map(self.codec.value_of, self.args)))
                self.args = ()  # and in no variable here: whoever reports errors may send this frame's
                del main, args
                value = await coroutine
                if getattr(task, "_cancel_status", None) is not within:
                    raise RuntimeError(_LEFT_OPEN)
            except BaseException as error:
                failure, continued = self.left_by(error, scope)
                self.host.concluded(error if failure is None else failure)
            else:
                self.host.concluded(None)
        except Exception as error:
            failure, continued = error, None
        if not self.dying:
            self._end(failure, continued)
        self.task = None
        if unshielded:
            scope.shield = False
        if self.stuck is not None:
            return Stuck(self.stuck, failure)
        if self.dying:
            return Evicted(failure)
        if continued is not None:
            return ContinuesAs(continued.fn, continued.nodes)
        if self.interrupted:
            return WasInterrupted(self.why, failure)
        return Returned(value) if failure is None else Crashed(failure)

    # --- what happens

    @property
    def quiescent(self) -> bool:
        """Return whether an eviction loses nothing but memory."""
        if self.machine is not None:
            return self.machine.quiescent
        return self.operation is not None and not (self.dying or self.over)

    @property
    def settled(self) -> bool:
        """Return whether every branch is in an operation, of which some may be effects under way."""
        if self.machine is not None:
            return self.machine.settled
        return (self.operation or self._doing) is not None and not (self.dying or self.over)

    def deliver(self, row: int, stamp: int, value: object) -> bool:
        """Bring an event; what it leads to is appended before this returns, see `Host`.

        Returns:
            False if the run is over or dies: the event is not in its mailbox.
        """
        if self.over or self.dying:
            return False
        if (op := self.operation) is not None and op.due is None and not self.dry:
            taken = value if op.takes is None else op.takes(value)
            if taken is not LEFT:
                self._complete(op, taken, row)
                return True
        self.mailbox = [*self.mailbox, (row, stamp, value)]
        if self.machine is not None:
            self.machine.pump()
        return True

    def withdraw(self, row: int) -> bool:
        """Take an event away that no record has taken; return False if it isn't here."""
        kept = [one for one in self.mailbox if one[0] != row]
        found = len(kept) < len(self.mailbox)
        self.mailbox = kept
        return found

    def taker_of(self, value: object) -> str | None:
        """Return what would take an event if it came now: "block", "wait" or None."""
        if self.machine is not None:
            found = self.machine.taker_of(value)
            return None if found is None else "wait" if isinstance(found[0], Operation) else "block"
        op = self.operation
        if op is None or op.due is not None or self.dry:
            return None
        return "wait" if op.takes is None or op.takes(value) is not LEFT else None

    def tick(self) -> None:
        """Look at the clock again."""
        if self.machine is not None:
            self.machine.tick()
        elif (
            (op := self.operation) is not None
            and op.due is not None
            and not self.dry
            and self.host.now() >= op.due
        ):
            self._complete(op, None, None)

    def shift(self, by: int, *, look: bool = True) -> None:
        """Move deadlines that were asked for as a length of time: the clock was set forward by `by`.

        Args:
            look: at the clock, too; without it this may be called from within `Host.now`, and `tick` is due.
        """
        self.revived += by
        operations = [] if self.operation is None else [self.operation]
        if self.machine is not None:
            operations = list(self.machine.resting.values())
            for block in self.machine.blocks.values():
                if block.steady and block.due is not None:
                    block.due += by
        for op in operations:
            if op.steady and op.due is not None:
                op.due += by
        if not look:
            return
        self.tick()
        if self.machine is None and self.operation is not None and not self.dying:
            self.host.rests(self.operation.due)

    def interrupt(self, stamp: int, row: int | None = None, why: str = "interrupted") -> None:
        """End the run: it may still say goodbye under a shield.

        Args:
            row: the event that does this; it is taken by the record.
        """
        if self.over or self.dying or self.interrupted or self.dry:
            return
        self.why = why
        if self.task is None:
            self._early = stamp, row
        else:
            self.promote().interrupt(stamp, row)

    def promote(self) -> Machine:
        """Make the machine, of what is known by now; no code runs again."""
        if self.machine is not None:
            return self.machine
        machine = self.machine = Machine(self)
        op, self.operation = self.operation, None
        if self._doing is not None:
            assert self.task is not None
            id, kind, print, lane, holds = self._doing
            op = Operation(id, kind, Nature.EFFECT, print, self.task)
            op.lane, op.holds = lane, holds
            self._doing = None
        machine.take_over(self.count, self.turn, op, self._outside)
        return machine

    def evict(self) -> None:
        """End this incarnation and nothing of the run: every operation is refused from now on.

        Nothing is appended any more, so it can be revived as soon as what was appended is durable or lost.
        """
        if self.dying or self.over:
            return
        self.dying = True
        if self.root is not None:
            self.root.cancel()
        if self.machine is not None:
            self.machine.evict()
        elif self.operation is not None:
            self.wake(self.operation, GONE)
        elif self._doing is not None:
            lower(self._outside)

    # --- what the machine and operations ask of it

    def is_cut(self) -> bool:
        return self.machine is not None and is_cut(self.machine.current(inside=True).around)

    def strike(self, op: Operation, raise_cancel: Callable[[], NoReturn]) -> None:
        if self.machine is not None:
            self.machine.strike(op, raise_cancel)
        elif not self.dry:  # a block of ours would have made the machine: so it was another scope
            self.operation = None
            node = self.codec.node_of_error(NonDurableCancelError(str(op.id)))
            record = [FAILED, 0, op.id, op.kind, op.print, node]
            self._take(record)
            self.wake(op, record)

    def turn_of(self, task: Task) -> Id:
        branch = None if self.machine is None else self.machine.tasks.get(task)
        return self.turn if branch is None else branch.turn

    def forget(self, task: Task) -> None:
        if self.machine is not None and (branch := self.machine.tasks.pop(task, None)) is not None:
            self.machine.branch_over(branch)

    def retired(self, count: int, turn: Id) -> None:
        self.count, self.turn, self.machine = count, turn, None

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
    ) -> Any:
        """Run ``body(*args)`` at least once, and never again once its outcome is recorded.

        It begins once everything before it is durable: what others see never comes of what
        a crash takes back.

        Args:
            print: a fingerprint that tells it from the same effect with other arguments.
            lane: effects of one lane begin one after the other, in the order of their operations.
            raises: the author's own error classes that come back as themselves.
            in_doubt: raised in place of a repeat, when it may have happened before a crash.
            holds: milliseconds that deadlines around it wait for it.
            inside: only the store sees what it does, so it need not wait for what is before it.

        Cancellation: *ambiguous*: the body may have done its work.
        """
        id, work = None, (body, args, raises, in_doubt, inside)
        if self.machine is None:
            id = self._begin()
            if not self.count % BREATH:
                await cancel_shielded_checkpoint()
            if self.dying:
                await refuse(self)
        if self.machine is None:
            assert id is not None
            if self.cursor < self.many:
                if (record := self._recorded(id, kind, print)) is not None:
                    value = record[5]
                    if record[0] == DONE and type(value) in PLAIN:
                        return value
                    return await self._read(record, raises)
            elif self.dry:
                return await self._stand(Operation(id, kind, Nature.EFFECT, print, current_task()))
            elif self.catching_up:
                self.promote()
            else:
                known, given = await self._known(id, kind, in_doubt) if self.rows else None, None
                if known is None:
                    self._doing = id, kind, print, lane, holds
                    self._outside = getattr(self.task, "_cancel_status", None)
                    if self.stale:
                        self.host.repeated(id, kind)
                    tag, node, given = await self.perform(id, kind, print, work)
                    self._doing, known = None, (tag, node)
                    if self.dying:
                        await refuse(self)
                if self.machine is None:
                    record = [known[0], 0, id, kind, print, known[1]]
                    self._take(record)
                    if given is not None:
                        return given[0]
                    value = record[5]
                    if record[0] == DONE and type(value) in PLAIN:
                        return value
                    return await self._read(record, raises)
                op = self.machine.resting[id]
                self.machine.finish(op, known)
                return await self.come(op, await self.rest(op), raises)
        assert self.machine is not None
        return await self.machine.effect(id, kind, print, lane, holds, work)

    async def wait(self, kind: str = "wait", takes: Filter | None = None, print: str = "") -> Any:
        """Wait for an event that `takes` takes; return as what it is taken.

        Cancellation: *atomic*: either the event is taken, or it stays in the mailbox.
        """
        id = None
        if self.machine is None:
            id = self._begin()
            if not self.count % BREATH:
                await cancel_shielded_checkpoint()
            if self.dying:
                await refuse(self)
        if self.machine is None:
            assert id is not None
            if self.cursor < self.many:
                if (record := self._recorded(id, kind, print)) is not None:
                    value = record[5]
                    if record[0] == DONE and type(value) in PLAIN:
                        return value
                    return await self._read(record, ())
            else:
                if self.rows:
                    await self._missing(id, kind)
                op = Operation(id, kind, Nature.WAIT, print, current_task())
                op.takes = takes
                if self.dry:
                    return await self._stand(op)
                for place, (row, _, value) in enumerate(self.mailbox):
                    taken = value if takes is None else takes(value)
                    if taken is not LEFT:
                        self.mailbox = [*self.mailbox[:place], *self.mailbox[place + 1 :]]
                        return await self._read(self._taken(op, taken, row), ())
                self.operation = op
                self.host.rests(None)
                if op.given is None:  # as `rest`, without its frame, which each run that waits would have
                    op.asleep, op.run = True, self
                    await wait_task_rescheduled(op)
                given, op.given = op.given, None
                if type(given) is tuple:
                    return given[0]  # pyright: ignore[reportUnknownVariableType]
                return await self.come(op, given)
        assert self.machine is not None
        return await self.machine.wait(id, kind, takes, print)

    async def sleep(self, seconds: float) -> None:
        """Wait for a while."""
        await self._sleep(seconds, None)

    async def sleep_until(self, at: int) -> None:
        """Wait until a wall time in milliseconds."""
        await self._sleep(None, at)

    async def _sleep(self, seconds: float | None, at: int | None) -> None:
        id = None
        if self.machine is None:
            id = self._begin()
            if not self.count % BREATH:
                await cancel_shielded_checkpoint()
            if self.dying:
                await refuse(self)
        if self.machine is None:
            assert id is not None
            if self.cursor < self.many:
                if (record := self._recorded(id, "sleep", "")) is not None:
                    if record[0] == FAILED:
                        await self._read(record, ())
                    return
            else:
                if self.rows:
                    await self._missing(id, "sleep")
                op = Operation(id, "sleep", Nature.WAIT, "", current_task())
                now = self.host.now()  # before: if it finds that the clock was set, it moves what is there
                self.set_due(op, seconds, at)
                if self.dry:
                    await self._stand(op)
                if op.due is not None and op.due <= now:
                    self._taken(op, None, None)
                    return
                self.operation = op
                self.host.rests(op.due)
                await self.come(op, await self.rest(op))
                return
        assert self.machine is not None
        await self.machine.sleep(id, seconds, at)

    def _begin(self) -> Id:
        """Hand out the next id of the main branch.

        Raises:
            ForeignTaskError: the task isn't the run's, or is inside an effect.
        """
        if current_task() is not self.task or self._doing is not None:
            self._check_task()
        self.count += 1
        return id_in(self.prefix, self.count) if self.prefix else self.count

    def _check_task(self) -> None:
        # An effect that an eviction cut may leave cleanup behind, whose operations are refused as all others.
        if current_task() is self.task and (self._doing is None or self.dying):
            return
        if self.over:
            raise ConversationEndedError("this run is over")
        if current_task() is self.task and self._doing is not None:
            raise ForeignTaskError("an operation inside an effect; let its body return a value instead")
        raise ForeignTaskError(
            "an operation from a task that the run doesn't know; start it with open_nursery()"
        )

    def _recorded(self, id: Id, kind: str, print: str) -> Record | None:
        """Return the outcome that is next in the journal; anything else there needs the machine."""
        record = self.records[self.cursor]
        if (
            record[2] != id
            or record[3] != kind
            or id == self.mid
            or (record[0] != DONE and record[0] != FAILED)
        ):
            self.promote()
            return None
        if record[4] != print and differs(record[4], print):
            self.host.reworded(id, kind)
        self.cursor += 1
        self.went(record[1])
        self.turn = id
        return record

    def foreseen(self, *operations: tuple[str, str]) -> Sequence[Record]:
        """Return the outcomes of the operations that a replay comes to next; none if it can't tell.

        For code that would begin these operations now, and that needs only their outcomes: then it may
        `go_by` them. All are done, and of this kind and fingerprint; where anything else is recorded, an
        operation begins as always, and finds out.
        """
        n, many = self.count, len(operations)
        records = self.records[self.cursor : self.cursor + many]
        if len(records) < many or n % BREATH + many >= BREATH or not self._is_straight():
            return ()
        for record, operation in zip(records, operations, strict=True):
            n += 1
            known = record[0] == DONE and record[2] != self.mid
            if not known or record[2:5] != [id_in(self.prefix, n), *operation]:
                return ()
        return records

    def go_by(self, records: Sequence[Record]) -> None:
        """Go by operations that were `foreseen`, without beginning one of them."""
        last = records[-1]
        self.count += len(records)
        self.cursor += len(records)
        self.turn = last[2]
        for record in records:
            self.went(record[1])

    def _is_straight(self) -> bool:
        """Return whether the current task is the run's, replays on the short way, and nobody looks on."""
        if self.machine is not None or self._doing is not None or self.dying or self.dry:
            return False
        return current_task() is self.task

    async def _known(self, id: Id, kind: str, in_doubt: Exception | None) -> tuple[str, Node] | None:
        """Return what is known of an effect that began before a crash."""
        assert self.rows is not None
        row = self.rows.pop(id, None)
        if row is None or row[3] != kind:
            await self._missing(id, kind) if row is None else self.get_stuck(
                id, f"a {row[3]} began here; now it is a {kind}: {ADVICE}"
            )
            await refuse(self)
        if row[0] == KNOWN:
            return row[5], row[6]
        return None if in_doubt is None else (FAILED, self.codec.node_of_error(in_doubt))

    async def _missing(self, id: Id, kind: str) -> NoReturn:
        began = ", ".join(f"{row[3]} {row[2]}" for row in (self.rows or {}).values())
        self.get_stuck(id, f"{began} began here, and the code comes to a {kind}: {ADVICE}")
        await refuse(self)

    async def _stand(self, op: Operation) -> NoReturn:
        """Rest at the operation where a dry run ends, until it is called off."""
        self.operation = op
        self.host.rests(None)
        await self.come(op, await self.rest(op))
        raise AssertionError("a dry run went on")

    def _take(self, record: Record, rows: Sequence[int] = ()) -> None:
        """Take an outcome: a turn begins with it."""
        record[1] = self.advance()
        self.turn = record[2]
        self.host.append(record, rows)

    def _taken(self, op: Operation, taken: object, row: int | None) -> Record:
        tag, node = self.outcome_of(taken)
        record: Record = [tag, 0, op.id, op.kind, op.print, node]
        if row is not None:
            record.append(row)
        self._take(record, record[6:])
        return record

    def _complete(self, op: Operation, taken: object, row: int | None) -> None:
        self.operation = None
        record = self._taken(op, taken, row)
        self.wake(op, (taken,) if record[0] == DONE and self.codec.is_frozen(taken) else record)

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
        """Return a block that ends after some seconds, at a wall time, by an event, or by its `cancel`.

        Args:
            takes: the events that end it; they go to the newest open block that takes them, before any wait.
            shield: what ends blocks around it, and an interrupt, wait for its end; an eviction doesn't.
        """
        return Scope(self, self.promote, seconds=seconds, at=at, takes=takes, shield=shield)

    def open_nursery(self) -> Nursery:
        """Return a nursery of children, which end with its block."""
        return Nursery(self, self.promote)

    def open_event(self) -> Event:
        """Return how one branch tells others that something happened."""
        return Event(self, self.promote)

    def open_channel(self, capacity: float = 0) -> Channel[Any]:
        """Return how one branch gives values to another; when it is full, `send` waits."""
        return Channel(self, self.promote, capacity)

    def part(self, name: str) -> Part:
        """Return a block in which the main branch numbers its operations under a name of its own, from 1.

        So code around other code has ids that hang on nothing but itself: without operations it may come, go
        and move under runs that wait. Each name once a run, without a slash; none for the code within.
        """
        return Part(self, name)

    def recount(self, count: int) -> int:
        if self.machine is not None:
            return self.machine.recount(count)
        before, self.count = self.count, count
        return before

    def continue_as(self, fn: str, *args: object) -> NoReturn:
        """End here, and go on as another function with a journal of its own.

        Raises:
            ForeignTaskError: this is a child, or a nursery is open.
        """
        if self.machine is None:
            self._check_task()
        elif self.machine.current().path or self.machine.nurseries:
            raise ForeignTaskError("continue_as() is for the main branch, outside of its nurseries")
        raise Continue(fn, [self.codec.node_of(arg) for arg in args])

    # --- what a turn does beside its operations

    def note(self, key: str, ask: Callable[[], object]) -> Any:
        """Ask the world for something, once a turn and key; the same on replay.

        What new code asks for in an old part of the journal is answered now, and noted for good: it shifts no
        other operation.
        """
        turn, view = self._noting()
        seen = f":{key}"
        if seen not in view:
            record = None if self.notes is None else self.notes.get((NOTED, turn, key))
            if record is None:
                record = [NOTED, self.time, turn, key, self.codec.node_of(ask())]
                self._append(record)
            view[seen] = record[4]
        return self._value(view[seen])

    def read(self, key: str, default: object = None) -> Any:
        """Return shared data: as it was when this turn asked first, with what the turn has written since."""
        turn, view = self._noting()
        if key not in view:
            record = None if self.notes is None else self.notes.get((READ, turn, key))
            if record is None:
                node = self.host.read(key)
                record = (
                    [READ, self.time, turn, key] if node is ABSENT else [READ, self.time, turn, key, node]
                )
                self._append(record)
            view[key] = record[4] if len(record) > 4 else ABSENT
        node = view[key]
        return default if node is ABSENT else self._value(node)

    def write(self, key: str, value: object) -> None:
        """Write shared data, durable with the record that says so."""
        node = self.codec.node_of(value)
        self.also(key, Put(key, node))
        self.view[key] = node

    def delete(self, key: str) -> None:
        """Delete shared data, durable with the record that says so."""
        self.also(key, Put(key, ABSENT))
        self.view[key] = ABSENT

    def also(self, key: str, write: object) -> bool:
        """Have the host write something with a record, once; return False if a replayed turn has done it.

        Args:
            key: tells it from other writes of the turn.
        """
        turn, view = self._noting()
        counted = f"#{key}"
        n = view[counted] = view.get(counted, 0) + 1
        # A turn that others follow has come to its end: what new code writes in it now comes too late.
        if not self.live or (self.notes is not None and (WROTE, turn, key, n) in self.notes):
            return False
        self._append([WROTE, self.time, turn, key, n], (), write)
        return not (self.dry or self.dying)

    def drain(self, takes: Filter | None = None, first: Callable[[], None] | None = None) -> list[Any]:
        """Take all that is in the mailbox, or what `takes` takes of it.

        Args:
            first: what fills the mailbox, called only where nothing is recorded of this.
        """
        turn, view = self._noting()
        n = view["##"] = view.get("##", 0) + 1
        key = f"drain {n}"
        record = None if self.notes is None else self.notes.get((NOTED, turn, key))
        nodes: list[Node] = [] if record is None else record[4]
        if record is None:
            rows: list[int] = []
            if first is not None and self.live and not self.dry:
                first()
            for row, _, value in self.mailbox if self.live and not self.dry else ():
                taken = value if takes is None else takes(value)
                if taken is not LEFT:
                    rows.append(row)
                    nodes.append(self.codec.node_of(taken))
            self.mailbox = [one for one in self.mailbox if one[0] not in rows]
            self._append([NOTED, self.time, turn, key, nodes], rows)
        return [self._value(node) for node in nodes]

    def patched(self, patch: str) -> bool:
        """Return whether changed code is to go its new way here.

        True in a run that comes here for the first time, which is recorded; False in one that has gone on
        from here by code that did not ask. What went the old way once goes it everywhere.
        """
        self._noting()
        known = self.patches = set() if self.patches is None else self.patches
        if patch in known:
            return True
        old = self._unpatched = set() if self._unpatched is None else self._unpatched
        if not self.live:
            old.add(patch)
        if patch in old:
            return False
        known.add(patch)
        self._append([PATCHED, self.time, patch])
        return True

    def now(self) -> int:
        """Return the turn's time in wall milliseconds."""
        return self.time

    def random(self) -> random.Random:
        """Return a generator of its own: the same numbers on replay, without a record."""
        return random.Random(f"{self.seed}:{self._next()}")

    def token(self, size: int = 16) -> bytes:
        """Return bytes that are hard to guess: the same on replay, without a record."""
        return drawn(self.seed, self._next(), size)

    def uuid(self) -> uuid.UUID:
        """Return an id that nothing else has: the same on replay, without a record."""
        return uuid.UUID(bytes=self.token(16), version=4)

    def upcoming(self) -> Id:
        """Return the id that the current task's next operation will have."""
        if self.machine is None:
            if current_task() is not self.task or self._doing is not None:
                self._check_task()
            return id_in(self.prefix, self.count + 1)
        branch = self.machine.current()
        return id_in(branch.path or self.prefix, branch.count + 1)

    def _next(self) -> Id:
        machine = self.machine
        return self._begin() if machine is None else machine.next_id(machine.current())

    def _noting(self) -> tuple[Id, dict[str, Any]]:
        """Return the present turn, and what it has seen and written so far."""
        if self.machine is None:
            self._check_task()
            turn = self.turn
        else:
            turn = self.machine.current().turn
        if self.view_turn != turn:
            self.view, self.view_turn = {}, turn
        return turn, self.view

    def _value(self, node: Node) -> Any:
        try:
            return self.codec.value_of(node)
        except UnreadableRecordError as error:
            self.get_stuck(self.turn, str(error), self.task)
            raise

    # --- to be looked at from outside

    @property
    def tasks(self) -> Mapping[str, Task]:
        """Return the tasks that run its branches, by the branches' paths."""
        if self.machine is not None:
            return {branch.path: task for task, branch in self.machine.tasks.items()}
        return {} if self.task is None else {"": self.task}

    @property
    def effects(self) -> Sequence[str]:
        """Return the kinds of the effects that are under way."""
        if self.machine is not None:
            return [op.kind for op in self.machine.resting.values() if op.nature is Nature.EFFECT]
        return [] if self._doing is None else [self._doing[1]]

    def describe(self) -> Snapshot:
        """Describe where the run stands; two incarnations over one journal must agree on it."""
        if self.machine is not None:
            return self.machine.describe()
        open_op = None if self.operation is None else open_operation(self.operation)
        if self._doing is not None:
            open_op = OpenOperation(*self._doing[:3])
        place = Where.RESTS if self.operation else Where.WORKS if self._doing else Where.HOLDS
        branches = (OpenBranch("", place, open_op),)
        return Snapshot(self.cursor, self.live, branches if self.task else (), (), self.interrupted)
