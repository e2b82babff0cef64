"""The machine: it decides which branch has the turn, and which branch gets the next turn.

Most runs have one branch and no block. Until the code opens further branches or blocks, the loops over
branches and blocks find empty lists.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from operator import attrgetter
from types import TracebackType
from typing import Any, Final, NoReturn, Self, TypeAlias, final

import attrs
import trio
from trio.lowlevel import Task, cancel_shielded_checkpoint, checkpoint_if_cancelled, current_task, reschedule

from ..errors import NonDurableCancelError, UnreadableRecordError
from .core import (
    ADVICE,
    EFFECT,
    FELT,
    GO,
    GONE,
    JOIN,
    LEFT,
    WAIT,
    WITHIN,
    YIELD_EVERY,
    Branch,
    Core,
    Filter,
    Operation,
    Performed,
    is_cut,
    refuse,
    throw,
    unfelt,
)
from .records import CUT, DONE, FAILED, FIRED, INTERRUPTED, KNOWN, OUTCOMES, Id, Node, Record, path_of
from .scopes import innermost, lower

AGAIN: Final = 60_000
"""Milliseconds that a deadline from before a revival waits for effects that run again after the revival."""
_nature: Final = attrgetter("nature")
# The kinds of transitions. Of transitions with equal stamps, the kind listed first comes first.
INTERRUPT, EVENT, RESULT, DEADLINE, SLEEP = range(5)
UNCANCELLABLE: Final = 1_000
"""Number of operations in a row that the end of one block may cut short; no normal cleanup has so many."""

_Candidate: TypeAlias = "tuple[int, int, Operation | Scope | None, object, int | None]"
"""A possible next transition: its stamp and kind, its operation or block, and an event's value and row."""


@attrs.define(eq=False, weakref_slot=False)
class Machine(Core):
    """Decides which branch has the turn and, if several branches could go on, which branch goes on first.

    `pump` is called whenever a branch may be able to go on. While no branch has the turn, `pump` performs one
    transition after another. Internal work of the run (children, cancellations) comes first, and is never
    recorded. The journal's records come next. After the journal's end, `pump` performs the first transition
    that is possible now, and records this transition. So the choice of the transition decides every race.

    Attributes:
        holder: the branch that has the turn.
        resting: the operations in which branches rest, the oldest first.
        blocks: the open blocks, the oldest first.
        nurseries: the open nurseries, the oldest first.
        mailbox: the events that no record has taken, as row, stamp and value, in the order of delivery.
        interrupt_due: time of the pending interrupt, and row of the event that causes the interrupt.
        why: reason of the interrupt.
        catching_up: whether the host is still delivering waiting events. During that time no effect begins,
            and a deadline counts only if it is not later than the newest event in the mailbox.
    """

    holder: Branch | None = None
    resting: list[Operation] = attrs.field(factory=list[Operation])
    blocks: Sequence[Scope] = ()
    nurseries: Sequence[Nursery] = ()
    mailbox: Sequence[tuple[int, int, Any]] = ()
    interrupt_due: tuple[int, int | None] | None = None
    why: str = "interrupted"
    catching_up: bool = False
    _queue: Sequence[Callable[[], None]] = ()
    _struck: list[Operation] | None = None
    _to_rest: Operation | None = None
    # True once the journal is exhausted, and the code was compared with the effects under way at the
    # journal's end.
    _reached: bool = False
    _pumping: bool = False
    # The last call of the owner's `rests`: the time to wake the run, and whether no effect was under way.
    _wake: int | None = None
    _quiet: bool = False

    def begin(self, task: Task, scope: trio.CancelScope) -> None:
        """Begin the main branch's first turn."""
        self.main.task, self.main.around = task, (scope,)
        self._hold(self.main, 0)

    @property
    def branches(self) -> Sequence[Branch]:
        """The branches that run or are to be started, in the order of their ids."""
        if self.main.task is None:
            return ()
        children = [child for nursery in self.nurseries for child in nursery.children]
        return (self.main, *sorted(children, key=lambda branch: branch.key))

    @property
    def is_waiting(self) -> bool:
        """Whether the run only waits, so that an eviction loses nothing."""
        return self.settled and EFFECT not in map(_nature, self.resting)

    @property
    def settled(self) -> bool:
        """Whether every branch is in an operation. Some of these operations may be effects under way."""
        if self.holder or self._queue or self.interrupt_due or not self._reached:
            return False
        return not (self.dying or self.over)

    # --- operations

    def operation(
        self, kind: str, nature: str, print: str = "", again: bool = False, beneath: int = 0
    ) -> Operation:
        """Return the current branch's next operation.

        If the operation is `held_up`, call `look_around` before `rest`.
        """
        branch = self.current()
        branch.count = number = branch.count + 1
        held_up = not number % YIELD_EVERY or self.dying or self.interrupted or len(branch.around) > 1
        assert branch.task is not None
        id = f"{branch.prefix}{number}" if branch.prefix else number
        op = Operation(id, kind, nature, print, branch.task, branch, number, held_up)
        if (here := self.owner.here) is not None and (self.journal.live or self.owner.parting is not None):
            op.sites = branch.site = (again and branch.site) or here(branch.root, 3 + beneath, branch.entry)
            if branch.drawn or nature is WITHIN:
                # An operation that another branch completes has no record: its site is stored with the next
                # record.
                op.sites = [*branch.drawn, op.sites]
                branch.drawn = op.sites if nature is WITHIN else ()
        return op

    async def look_around(self, op: Operation) -> None:
        """Run a checkpoint each `YIELD_EVERY` operations, and raise the cancellation of an ended block."""
        branch = op.branch
        if not op.number % YIELD_EVERY:
            await cancel_shielded_checkpoint()
        if self.dying:
            await refuse(self)
        if not is_cut(branch.around):
            branch.uncancellable = 0
            return
        branch.uncancellable += 1
        if branch.uncancellable > UNCANCELLABLE:
            self.evict()
            await refuse(self)
        try:
            await checkpoint_if_cancelled()
        except trio.Cancelled:
            self.felt = self.felt or self.interrupted
            raise

    async def within(self) -> Operation:
        """Begin an operation that another branch completes."""
        op = self.operation("within", WITHIN)
        if op.held_up:
            await self.look_around(op)
        return op

    def pass_to(self, op: Operation, value: object) -> bool:
        """Pass a value to the branch that rests in `op`, after this turn.

        Return False if the branch doesn't rest there any more.
        """
        if op not in self.resting or op.felt is not None or op.over:
            return False
        # The branch gets the value even if the current turn ends a block around the branch. Then the branch's
        # next operation raises the cancellation.
        op.over = True
        self._later(partial(self._give, op, (value,)))
        return True

    def rest(self, op: Operation) -> None:
        """End the turn of the branch, which rests in `op` from now on, or already has the outcome."""
        assert self.dying or self.holder is op.branch, "an operation began without the turn"
        if op.nature is not JOIN:
            self.resting.append(op)
        self.holder = None
        self.pump(op)

    async def outcome(self, op: Operation) -> Any:
        """Rest in an operation, and return or raise its outcome."""
        self.rest(op)
        return await self.come(op, await self.woken(op))

    def finish(self, op: Operation, outcome: Performed) -> None:
        """Handle an effect's end. The turn that begins with the outcome may come later."""
        tag, node, value = outcome
        if tag == CUT:
            op.felt, node = partial(throw, node), None
        op.branch.outside = None
        now = self.host.now()
        op.over, op.known = True, (tag, node, value, now)
        if len(self.resting) > 1:
            self._let_next_go(op.lane)
        self.pump(op)
        if op.given is None and tag != CUT and not self.dying:
            # Other turns come first. But the outcome is recorded now, because otherwise a crash would repeat
            # the effect.
            known: Record = [KNOWN, now, op.id, op.kind, op.print, tag, node]
            self.host.append([*known, op.sites] if op.sites else known)

    # --- turns

    def pump(self, to_rest: Operation | None = None) -> None:
        """Perform one transition after another, until a branch has the turn or no transition is possible.

        Args:
            to_rest: operation in which the current task is about to sleep, unless the outcome comes now.
        """
        if self._pumping or self.main.task is None:
            return
        self._pumping, self._to_rest = True, to_rest
        try:
            while self.holder is None and not self.dying and not self.over:
                if self._queue:
                    work, self._queue = self._queue[0], self._queue[1:]
                    work()
                elif not self.journal.live:
                    if self.owner.look is not None:
                        self.owner.look()
                    self._apply(self.journal.next())
                elif not self._take_next():
                    return
        finally:
            self._pumping, self._to_rest = False, None

    def _later(self, work: Callable[[], None]) -> None:
        self._queue = [*self._queue, work]

    def _hold(self, branch: Branch, turn: Id) -> None:
        """Begin a branch's turn. If the next record interrupts this turn, apply that record now."""
        assert self.holder is None, "a branch would be overtaken"
        self.holder, branch.turn = branch, turn
        if not (journal := self.journal).live:
            ahead = journal.turns[journal.given]
            if ahead[0] == INTERRUPTED and ahead[3] == turn:
                self._interrupt(journal.next()[4])

    def _give(self, op: Operation, given: Any) -> None:
        """End the rest of a branch in `op`, and begin the branch's turn."""
        if op in self.resting:
            self.resting.remove(op)
        # Wake the operation first, as in `wake`: if `_hold` cuts this turn, the operation must not count as
        # asleep.
        op.given = given
        if op.asleep:
            op.asleep = False
            reschedule(op.task)
        self._hold(op.branch, op.id)

    def _apply(self, record: Record) -> None:
        """Apply a record, in the same way in a live run and on replay."""
        tag, about = record[0], record[2]
        if tag in OUTCOMES:
            self._apply_outcome(record)
        elif tag == FIRED:
            block = next((one for one in self.blocks if one.id == about), None)
            if block is None:
                self.diverge(about, f"a block ended here, and is not open now: {ADVICE}")
            else:
                block.fired(record[3], record[4])
                self.cut(block.scope)
        elif tag == INTERRUPTED:
            self._interrupt(record[4])
        else:
            resting = ", ".join(f"{op.kind} {op.id}" for op in self.resting)
            self.diverge(0, f"the run ended here; now it rests in {resting or 'nothing'}: {ADVICE}")

    def _apply_outcome(self, record: Record) -> None:
        if (op := self._taken_by(record, "ended")) is None:
            return
        if record[0] == CUT and op.felt is None:
            what = f"a {op.kind} was cut short here, and no block around it ended now: {ADVICE}"
            self.diverge(op.id, what, op.task)
        else:
            self._give(op, FELT if record[0] == CUT else record)

    def _taken_by(self, record: Record, verb: str) -> Operation | None:
        """Return the operation that takes a record.

        If the code differs, stop the run as stuck, and return None.
        """
        id, kind = record[2], record[3]
        op = next((op for op in self.resting if op.id == id), None)
        asks = op or next((one for one in self.resting if one.branch.path == path_of(id)), None)
        why = None if asks is None or (parting := self.owner.parting) is None else parting(record, asks)
        if why is None and op is None:
            now, asks = ", ".join(f"{one.kind} {one.id}" for one in self.resting), None
            why = f"a {kind} {verb} here; now the code rests in {now or 'nothing'}: {ADVICE}"
        elif why is None and op is not None and op.kind != kind:
            why = f"a {kind} {verb} here; now it is a {op.kind}: {ADVICE}"
        if why is None:
            return op
        self.diverge(id, why, None if asks is None else asks.task)
        return None

    def _take_next(self) -> bool:
        """Perform the first transition that is possible now. Return False if no transition is possible.

        The transition with the smallest stamp is first. A stamp is the time when an event was accepted, when
        a deadline or a sleep was due, or when a result came. Deadlines that an effect delays are left out. Of
        the mailbox, only the oldest event that a block or wait takes is considered.
        """
        if not self._reached and not self.reach():
            return False
        if self.journal.dry:
            if self.owner.look is not None:
                self.owner.look()
            self.owner.rests(None)
            return False
        found: list[_Candidate] = []
        busy, timed, wake = False, bool(self.blocks), None
        for op in self.resting:
            if not op.armed:
                self._arm(op)
            if op.known is not None:
                found.append((op.known[3], RESULT, op, None, None))
            if op.nature is EFFECT:
                busy = True
            elif op.due is not None:
                timed = True
        for row, stamp, value in self.mailbox:
            if (taker := self.taker(value)) is not None:
                found.append((stamp, EVENT, *taker, row))
                break
        if self.interrupt_due and not self.interrupted:
            found.append((self.interrupt_due[0], INTERRUPT, None, None, self.interrupt_due[1]))
        if timed:
            passed = now = self.host.now()
            if self.catching_up:
                # An event that isn't delivered yet may be older than a deadline that is due. No such event is
                # older than the events in the mailbox, so deadlines up to the newest of these events count.
                # The run must be woken for the other deadlines, even if the run dies now.
                passed, now = min(now, self.mailbox[-1][1]) if self.mailbox else 0, 0
            deadlines = self._deadlines()
            found += [candidate for at, candidate in deadlines if at <= passed]
            wake = min((at for at, _ in deadlines if at > now), default=None)
        if found:
            self._take(found[0] if len(found) == 1 else min(found, key=_precedence))
            return True
        # While an effect is under way, the owner's `rests` is called only for a change.
        if not busy or wake != self._wake or self._quiet or self.catching_up:
            self._wake, self._quiet = wake, not busy
            self.owner.rests(wake)
        return False

    def _take(self, candidate: _Candidate) -> None:
        """Record the transition `candidate`, and apply the record."""
        _, _, what, taken, row = candidate
        time, given = self.journal.advance(), None
        self._quiet = False
        if what is None:
            self.interrupt_due = None
            record: Record = [INTERRUPTED, time, row, None, self.why]
        elif type(what) is Scope:
            tag, node = (DONE, None) if row is None else self.outcome_of(taken)
            record = [FIRED, time, what.id, row, node if tag == DONE else None]
        else:
            if row is None:
                tag, node, value, _ = what.known or (DONE, None, None, 0)  # a sleep's end has no `known`
            else:
                tag, node = self.outcome_of(taken)
                value = (taken,) if tag == DONE and self.codec.is_frozen(taken) else None
            record = [tag, time, what.id, what.kind, what.print, node]
            given = FELT if tag == CUT else value or record
            if row is not None or what.sites:
                record.append(row or 0)
            if what.sites:
                record.append(what.sites)
        if row is None:
            self.host.append(record)
        else:
            if what is not None:
                self.withdraw(row)
            self.host.append(record, (row,))
        if type(what) is Operation:
            self._give(what, given)
        else:
            self._apply(record)

    def reach(self) -> bool:
        """Compare the operations that were open at the journal's end with the code. Return whether both fit.

        If code and journal don't fit, the run gets stuck.
        """
        self._reached = True
        for began in self.journal.effects.values():
            if self._taken_by(began, "began") is None:
                return False
        if not self.journal.stale or (why := self.owner.reached(self.resting)) is None:
            return True
        first = self.resting[0] if self.resting else None
        self.diverge(0 if first is None else first.id, why, None if first is None else first.task)
        return False

    def _deadlines(self) -> Sequence[tuple[int, _Candidate]]:
        """Return the transitions of blocks' deadlines and sleeps' ends, each with its earliest time.

        A deadline waits for the effects under way in its block. A deadline that passed before the run was
        revived also waits for all other effects under way.
        """
        found: list[tuple[int, _Candidate]] = []
        for block in self.blocks:
            if (due := block.due) is None or block.scope.cancel_called:
                continue
            at = due
            for op in self.resting:
                if op.nature is EFFECT:
                    # Otherwise, a question that is sent again after a crash could be cancelled before the
                    # user sees the question.
                    if due <= self.journal.revived:
                        at = max(at, self.journal.revived + AGAIN)
                    if block.scope in op.branch.around:
                        at = max(at, due + op.holds)
            found.append((at, (due, DEADLINE, block, None, None)))
        for op in self.resting:
            if op.due is not None and op.felt is None and not op.over:
                found.append((op.due, (op.due, SLEEP, op, None, None)))
        return found

    def taker(self, value: object) -> tuple[Operation | Scope, object] | None:
        """Return the block or wait that takes an event, and the value that its filter returns; else None.

        Blocks are tried before waits, newer blocks before older blocks, and newer waits before older waits.
        """
        for block in reversed(self.blocks):
            # A block that is ending takes no event: no code would ever use the event.
            if block.takes is None or is_cut(block.around):
                continue
            if (taken := block.takes(value)) is not LEFT:
                return block, taken
        for op in reversed(self.resting):
            if op.nature is WAIT and op.due is None and op.armed and op.felt is None and not op.over:
                taken = value if op.takes is None else op.takes(value)
                if taken is not LEFT:
                    return op, taken
        return None

    # --- effects

    def _arm(self, op: Operation) -> None:
        """Allow events, results and the clock to complete an operation from now on.

        Also start an effect's body, unless an outcome is known or an older effect of the lane is under way.
        """
        op.armed = True
        if op.nature is EFFECT:
            row = self.journal.effects.get(op.id) if self.journal.effects else None
            if row is not None and row[0] == KNOWN:
                op.ended(row[5], row[6], row[1])
            elif op.felt is not None:
                self._end_short(op)
            elif row is not None and op.in_doubt is not None:
                op.ended(FAILED, self.codec.node_of_error(op.in_doubt), self.host.now())
            elif self.catching_up:
                op.armed = False  # waiting events come first: an event may end the run
            else:
                if self.journal.stale:
                    self.host.repeated(op.id, op.kind)
                if op.lane and len(self.resting) > 1:
                    self._let_next_go(op.lane)
                else:
                    self._go(op)
        elif op.torn:
            self._end_short(op)

    def _end_short(self, op: Operation) -> None:
        """Set the outcome of a cancelled operation whose end must be recorded."""
        if op.torn:
            node = self.codec.node_of_error(NonDurableCancelError(str(op.id)))
            op.ended(FAILED, node, self.host.now())
        else:
            op.ended(CUT, None, self.host.now())

    def _go(self, op: Operation) -> None:
        op.branch.outside = innermost(op.task)
        self.wake(op, GO)

    def _let_next_go(self, lane: str) -> None:
        """Start the oldest unfinished effect of a lane, unless this effect has begun already."""
        for op in self.resting if lane else ():
            if op.lane == lane and op.armed and not op.over:
                if op.branch.outside is None:
                    self._go(op)
                return

    # --- the ends of blocks

    def tick(self) -> None:
        """Perform the due transitions. If a branch has the turn, apply a pending interrupt to this turn."""
        if self.holder is None:
            self.pump()
        elif self.interrupt_due and not self.interrupted and self.journal.live and not self.dying:
            _, row = self.interrupt_due
            self.interrupt_due, self.journal.stale = None, False
            record = [INTERRUPTED, self.journal.time, row, self.holder.turn, self.why]
            self.host.append(record, () if row is None else (row,))
            self._interrupt(self.why)

    def _interrupt(self, why: str) -> None:
        self.interrupted, self.why = True, why
        self.cut(self.main.around[0])

    def withdraw(self, row: int) -> bool:
        """Remove an event from the mailbox. Return False if the event isn't there."""
        for place, one in enumerate(self.mailbox):
            if one[0] == row:
                self.mailbox = [*self.mailbox[:place], *self.mailbox[place + 1 :]]
                return True
        return False

    def cut(self, scope: trio.CancelScope) -> None:
        """Cancel a scope. The operations in the scope are cancelled one by one, in the order of their ids."""
        if scope.cancel_called:
            return
        outer, self._struck = self._struck, []
        scope.cancel()
        to_rest = self._to_rest
        # Trio cancels only tasks that sleep. For the task that is about to sleep, check here whether its
        # scopes were cancelled.
        about_to = to_rest is not None and not to_rest.asleep and to_rest.given is None
        if to_rest is not None and about_to and trio.current_effective_deadline() == -math.inf:
            self.strike(to_rest, unfelt)
        struck, self._struck = self._struck, outer
        for op in sorted(struck, key=lambda op: op.key):
            self._later(partial(self._give, op, FELT))

    def strike(self, op: Operation, raise_cancel: Callable[[], NoReturn]) -> None:
        if op.nature is JOIN or op.felt is not None or (op.nature is WITHIN and op.over):
            return
        op.felt = raise_cancel
        op.torn = self._struck is None and not is_cut(op.branch.around)
        if op.nature is EFFECT:
            # An effect's end is recorded, because the effect's body may end at any time. An outcome that is
            # already known is kept.
            if op.armed and not op.over:
                self._end_short(op)
                self._let_next_go(op.lane)
        elif op.torn:
            if op.nature is WITHIN:
                self._later(partial(self._give, op, NonDurableCancelError(str(op.id))))
            elif op.armed:
                self._end_short(op)
        elif self._struck is not None:
            self._struck.append(op)
        else:
            self._later(partial(self._give, op, FELT))
        if self._struck is None:
            self.pump()

    # --- branches

    def start(self, child: Branch, start: Callable[[], object]) -> None:
        """Begin a child's first turn once this turn is over."""

        def begin() -> None:
            self._hold(child, child.turn)
            start()

        self._later(begin)

    def forget(self, task: Task) -> None:
        """Remove a child whose task has ended, and end the child's turn. After the last, wake the parent."""
        if (child := self.by_task.pop(task, None)) is None:
            return
        if self.holder is child:
            self.holder = None
        for nursery in self.nurseries:
            nursery.children.discard(child)
            self._end_join(nursery)
        self.pump()

    def _end_join(self, nursery: Nursery) -> None:
        if (join := nursery.join) is None or nursery.children:
            return
        if self.dying:
            self.wake(join, GONE)
        elif not join.over:
            join.over = True
            self._later(partial(self._give, join, (None,)))

    def evict(self) -> None:
        """End this incarnation, but not the run: every operation is refused from now on.

        Nothing is appended any more, so the run can be revived as soon as the appended records are durable or
        lost. The tasks of resting operations are woken, because an author's shield could keep the tasks
        asleep for ever.
        """
        if self.dying or self.over:
            return
        self.dying = True
        if self.main.around:
            self.main.around[0].cancel()
        self._queue = ()
        for branch in self.branches:
            for scope in branch.around[1:]:
                scope.shield = False
            lower(branch.outside)
        for op in self.resting:
            if op.branch.outside is None:
                self.wake(op, GONE)
        for nursery in self.nurseries:
            queued = {child for child in nursery.children if child.task is None and child is not self.holder}
            nursery.children -= queued
            self._end_join(nursery)


def _precedence(candidate: _Candidate) -> tuple[int, int, Any]:
    """Return a sort key: stamp, then kind; for deadlines at the same time, the outermost block first."""
    stamp, class_, what, _, row = candidate
    if what is None or row is not None:
        return stamp, class_, ()
    return stamp, class_, (len(what.around), what.key) if type(what) is Scope else what.key


# --- blocks and children


@final
@attrs.define(eq=False, weakref_slot=False)
class Scope:
    """A block that is ended by a deadline, an event or `cancel`. A scope can be entered only once.

    An event that ends the block is always consumed, and its value is in `event`, even if the block ends with
    an error.

    Attributes:
        id: known once the block is entered.
        due: the deadline in wall milliseconds, or None.
        row, event: row of the event that ended the block, and the value that the block's filter returned for
            the event.
        expired: whether the deadline ended the block.
        cancelled_caught: whether the block caught its own cancellation; known once the block is left.
        around: the engine's scopes around the block, and the block's own scope, `scope`.
    """

    _run: Machine
    _seconds: float | None
    due: int | None
    takes: Filter | None
    scope: trio.CancelScope
    branch: Branch = attrs.field(init=False)
    id: Id = ""
    key: tuple[int, ...] = ()
    around: tuple[trio.CancelScope, ...] = ()
    row: int | None = None
    event: Any = None
    expired: bool = False
    cancelled_caught: bool = False

    @property
    def steady(self) -> bool:
        """Whether the deadline was set as a duration. If so, the deadline moves when the clock is set."""
        return self._seconds is not None

    @property
    def cancel_called(self) -> bool:
        """Whether the block's scope was cancelled: by the deadline, by an event or by `cancel`."""
        return self.scope.cancel_called

    def cancel(self) -> None:
        """End the block at its next operation. A replay repeats this call, so no record is needed."""
        self._run.cut(self.scope)

    def lift(self) -> None:
        """Remove the deadline. A replay repeats this call, so no record is needed."""
        self.due = None

    def fired(self, row: int | None, node: Node) -> None:
        """Store the cause of the block's end: an event or the deadline."""
        self.row, self.expired = row, row is None
        try:
            self.event = self._run.codec.value_of(node)
        except UnreadableRecordError as error:
            self._run.diverge(self.id, str(error))

    def __enter__(self) -> Self:
        run = self._run
        branch = self.branch = run.current()
        self.id = run.next_id(branch)
        self.key = (*branch.key, branch.count)
        self.scope.__enter__()
        self.around = branch.around = (*branch.around, self.scope)
        if self._seconds is not None:
            self.due = run.journal.due_after(self._seconds)
        # The deadline is compared with the turn's time, which is the same on replay.
        began = run.journal.time
        if self.due is not None and (self.due <= began if self._seconds is None else self._seconds <= 0):
            self.expired = True
            self.scope.cancel()
        run.blocks = [*run.blocks, self]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._run.blocks = [one for one in self._run.blocks if one is not self]
        self.branch.around = self.around[:-1]
        caught = bool(self.scope.__exit__(kind, error, trace))
        self.cancelled_caught = self.scope.cancelled_caught
        return caught


@final
@attrs.define(eq=False, weakref_slot=False)
class Nursery:
    """A nursery of children. The children are further branches of the run, and end with the block.

    A failure cancels the siblings, and the block waits for its children. Trio would do both in the order of
    its scheduler, so the engine does both itself.

    Attributes:
        join: the operation in which the block waits, or has waited, for its children.
    """

    _run: Machine
    children: set[Branch] = attrs.field(factory=set[Branch])
    join: Operation | None = None
    _count: int = 0
    _id: Id = ""
    _key: tuple[int, ...] = ()
    _around: tuple[trio.CancelScope, ...] = ()
    _branch: Branch = attrs.field(init=False)
    _manager: AbstractAsyncContextManager[trio.Nursery] = attrs.field(factory=trio.open_nursery)
    _real: trio.Nursery = attrs.field(init=False)

    async def __aenter__(self) -> Self:
        run = self._run
        branch = self._branch = run.current()
        self._id = run.next_id(branch)
        self._key = (*branch.key, branch.count)
        if run.dying:
            await refuse(run)
        self._real = await self._manager.__aenter__()
        run.nurseries = [*run.nurseries, self]
        self._around = branch.around = (*branch.around, self._real.cancel_scope)
        return self

    def start_soon(self, fn: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Start ``fn(*args)`` as a child, after this turn.

        An error of the child cancels its siblings and the block.
        """
        starts = self._run.current()
        self._count += 1
        path = f"{self._id}/{self._count}."
        child = Branch(path, (*self._key, self._count), self._around, f"{path}0", path)
        if (here := self._run.owner.here) is not None:
            child.root = here(starts.root, 2, starts.entry)
        name = f"{getattr(fn, '__qualname__', fn)} (branch {child.path})"
        if not self._run.dying:
            self.children.add(child)
            self._run.start(child, lambda: self._real.start_soon(self._child, child, fn, args, name=name))

    def cancel(self) -> None:
        """End the block and all children."""
        self._run.cut(self._real.cancel_scope)

    async def _child(
        self, child: Branch, fn: Callable[..., Awaitable[object]], args: tuple[Any, ...]
    ) -> None:
        child.task = task = current_task()
        self._run.by_task[task] = child
        try:
            child.entry = coroutine = fn(*args)
            await coroutine
        except BaseException:
            self.cancel()
            raise
        finally:
            self._run.forget(task)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        run, branch = self._run, self._branch
        if error is not None:
            self.cancel()
        if self.children:
            task = current_task()
            join = self.join = Operation(self._id, "join", JOIN, "", task, branch, branch.count)
            try:
                await run.outcome(join)
            except trio.Cancelled as gone:  # raised only when the run dies
                kind, error, trace = type(gone), gone, gone.__traceback__
        branch.around = self._around[:-1]
        try:
            return await self._manager.__aexit__(kind, error, trace)
        finally:
            run.nurseries = [one for one in run.nurseries if one is not self]
