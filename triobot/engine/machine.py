"""The machine: whose turn it is, and what comes next, where that is a question."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Any, Final, NoReturn, Self, TypeAlias, final

import trio
from trio.lowlevel import Task, cancel_shielded_checkpoint, checkpoint_if_cancelled, current_task

from ..errors import ForeignTaskError, NonDurableCancelError, UnreadableRecordError
from .core import (
    ADVICE,
    BREATH,
    FELT,
    GO,
    GONE,
    LEFT,
    Branch,
    Core,
    Filter,
    Nature,
    Operation,
    Where,
    Work,
    is_cut,
    lower,
    refuse,
    throw,
    unfelt,
)
from .records import CUT, DONE, FAILED, FIRED, INTERRUPTED, KNOWN, OUTCOMES, Id, Node, Record, differs, id_in
from .snapshot import OpenBlock, OpenBranch, Snapshot, open_operation

AGAIN: Final = 60_000
"""Milliseconds that a deadline of the time before a revival waits for the effects that are done again."""
HEEDLESS: Final = 1_000
"""Operations that one block's end may cut short one after the other: no cleanup has so many."""


_Candidate: TypeAlias = "tuple[int, int, Any, Record, int | None]"


@final
class Machine:
    """Decides which branch has the turn, and what comes next, where several could go on.

    `pump` is called whenever something might go on. While no task has the turn it gives, in this order: what
    the run does to itself (children, cancellations; never recorded), what the journal says, and the best of
    what happens now, which is recorded as it is taken. That last step is where every race is decided.

    Attributes:
        main: the branch of the run's own task.
        tasks: the branches that run, by their tasks; `branches` has those that are yet to be started, too.
        holder: the branch that has the turn.
        resting: the operations in which branches rest, as they began.
        blocks: the open blocks, as they began.
        nurseries: how many are open.
        live: the journal is exhausted, and what was under way has been looked at.
    """

    __slots__ = (
        "_joins",
        "_known",
        "_lanes",
        "_pumping",
        "_queue",
        "_run",
        "_struck",
        "_to_rest",
        "blocks",
        "branches",
        "holder",
        "interrupts",
        "live",
        "main",
        "nurseries",
        "resting",
        "tasks",
    )

    main: Branch

    def __init__(self, run: Core) -> None:
        self._run = run
        self.tasks: dict[Task, Branch] = {}
        self.branches: set[Branch] = set()
        self.holder: Branch | None = None
        self.resting: dict[Id, Operation] = {}
        self.blocks: dict[Id, Scope] = {}
        self.nurseries = 0
        self.live = False
        self._joins: list[Operation] = []
        self._queue: deque[Callable[[], None]] = deque()
        self._known: list[tuple[Operation, str, Node, int]] = []
        self.interrupts: list[tuple[int, int | None]] = []
        self._lanes: dict[str, list[Operation]] = {}
        self._struck: list[Operation] | None = None
        self._to_rest: Operation | None = None
        self._pumping = False

    def take_over(self, count: int, turn: Id, op: Operation | None, outside: object) -> None:
        """Go on from the short way.

        Args:
            count: ids that the main branch has handed out.
            op: in which it is; None if it has the turn.
            outside: see `Branch`; for an effect whose body runs.
        """
        run = self._run
        assert run.task is not None
        assert run.root is not None, "the run has not begun"
        main = self.main = Branch("", run.rank, [run.root], turn, count, task=run.task)
        self.tasks[run.task] = main
        self.branches.add(main)
        if op is None:
            self._hold(main, turn)
            return
        main.place = Where.RESTS
        if op.nature is Nature.EFFECT:
            main.place, main.outside = Where.WORKS, outside
            self._join_lane(op)
        op.branch, op.key, op.armed = main, (*main.key, main.count), True
        self.resting[op.id] = op
        self.live = True

    def retire(self) -> None:
        """Go if nothing needs the machine any more: what follows is straight-line code again."""
        run, main = self._run, self.holder
        if main is None or len(self.branches) > 1 or len(main.around) > 1 or run.dying or run.interrupted:
            return
        needed = self.blocks or self.nurseries or self._queue or self._known or self.interrupts
        if not needed and run.host.look is None:
            run.retired(main.count, main.turn)

    def current(self, *, inside: bool = False) -> Branch:
        """Return the current task's branch.

        Raises:
            ForeignTaskError: it has none, or is in an effect; `inside` allows the latter.
        """
        branch = self.tasks.get(current_task())
        if branch is None:
            raise ForeignTaskError(
                "an operation from a task that the run doesn't know; start it with open_nursery()"
            )
        if branch.place is Where.WORKS and not inside and not self._run.dying:
            raise ForeignTaskError("an operation inside an effect; let its body return a value instead")
        return branch

    def next_id(self, branch: Branch) -> Id:
        """Hand out the next id of a branch."""
        branch.count += 1
        return id_in(branch.path or self._run.prefix, branch.count)

    def recount(self, count: int) -> int:
        """Number the main branch's next operations anew, see `Part`; return how many it had numbered."""
        before, self.main.count = self.main.count, count
        self.main.key = self._run.rank
        return before

    def describe(self) -> Snapshot:
        """Describe where the run stands."""
        run, in_branch = self._run, {op.branch: open_operation(op) for op in self.resting.values()}
        return Snapshot(
            run.cursor,
            run.live,
            tuple(
                OpenBranch(branch.path, branch.place, in_branch.get(branch))
                for branch in sorted(self.branches, key=lambda branch: (bool(branch.path), branch.key))
            ),
            tuple(OpenBlock(one.id, one.due, one.cancel_called) for one in self.blocks.values()),
            run.interrupted,
        )

    @property
    def quiescent(self) -> bool:
        """Return whether nothing runs, is under way or waits to be given."""
        return self.settled and not self._busy

    @property
    def settled(self) -> bool:
        """Return whether nothing runs or waits to be given."""
        if self.holder or self._queue or self._known or self.interrupts or not self.live:
            return False
        return not (self._run.dying or self._run.over)

    @property
    def _busy(self) -> bool:
        return any(op.nature is Nature.EFFECT for op in self.resting.values())

    # --- operations

    async def _enter(self, branch: Branch, id: Id | None) -> Id:
        """Begin an operation: give it its id, unless the short way has."""
        run = self._run
        if id is None:
            id = self.next_id(branch)
        if not branch.count % BREATH:
            await cancel_shielded_checkpoint()
        if run.dying:
            await refuse(run)
        if is_cut(branch.around):
            branch.heedless += 1
            if branch.heedless > HEEDLESS:
                run.evict()
                await refuse(run)
            try:
                await checkpoint_if_cancelled()
            except trio.Cancelled:
                run.felt = run.felt or run.interrupted
                raise
        else:
            branch.heedless = 0
        return id

    def operation(self, id: Id, kind: str, nature: Nature, print: str, branch: Branch) -> Operation:
        """Return an operation of this branch, which is its newest."""
        assert branch.task is not None
        op = Operation(id, kind, nature, print, branch.task)
        op.branch = branch
        op.key = (*branch.key, branch.count)
        return op

    async def wait(self, id: Id | None, kind: str, takes: Filter | None, print: str) -> Any:
        """Wait, see `Run.wait`."""
        branch = self.current()
        op = self.operation(await self._enter(branch, id), kind, Nature.WAIT, print, branch)
        op.takes = takes
        self.rest(op)
        return await self._run.come(op, await self._run.rest(op))

    async def sleep(self, id: Id | None, seconds: float | None, at: int | None) -> None:
        """Sleep, see `Run.sleep`."""
        branch = self.current()
        op = self.operation(await self._enter(branch, id), "sleep", Nature.WAIT, "", branch)
        self._run.set_due(op, seconds, at)
        self.rest(op)
        await self._run.come(op, await self._run.rest(op))

    async def effect(self, id: Id | None, kind: str, print: str, lane: str, holds: int, work: Work) -> Any:
        """Do an effect, see `Run.effect`."""
        run, branch = self._run, self.current()
        op = self.operation(await self._enter(branch, id), kind, Nature.EFFECT, print, branch)
        op.lane, op.holds, op.in_doubt = lane, holds, work[3]
        self.rest(op)
        given = await run.rest(op)
        if given is GO:
            branch.outside = getattr(op.task, "_cancel_status", None)
            tag, node, _ = await run.perform(op.id, kind, print, work)
            if run.dying:
                await refuse(run)
            self.finish(op, (tag, node))
            given = await run.rest(op)
        return await run.come(op, given, work[2])

    async def within(self) -> Operation:
        """Begin an operation that another branch completes."""
        branch = self.current()
        return self.operation(await self._enter(branch, None), "within", Nature.WITHIN, "", branch)

    def pass_to(self, op: Operation, value: object) -> bool:
        """Let a branch go on with a value after this turn; return False if it doesn't wait any more."""
        if self.resting.get(op.id) is not op or op.felt is not None or op.over:
            return False
        # What was passed first stands: if the same turn ends its block, it feels that in its next operation.
        op.over = True
        self._queue.append(partial(self._pass, op, value))
        return True

    def _pass(self, op: Operation, value: object) -> None:
        if op.id in self.resting:
            self._give(op, (value,))

    def rest(self, op: Operation) -> None:
        """End the branch's turn in this operation; it may have been given something when this returns."""
        assert self._run.dying or self.holder is op.branch, "an operation began without the turn"
        if op.nature is Nature.JOIN:
            self._joins.append(op)
        else:
            self.resting[op.id] = op
        op.branch.place = Where.RESTS
        self.holder = None
        self.pump(op)

    def finish(self, op: Operation, outcome: tuple[str, Node]) -> None:
        """Take note of an effect's end; its turn comes later."""
        run, (tag, node) = self._run, outcome
        if tag == CUT:
            op.felt, node = partial(throw, node), None
        op.over = True
        op.branch.place = Where.RESTS
        now = run.host.now()
        self._known.append((op, tag, node, now))
        self._leave_lane(op)
        self.pump(op)
        if op.id in self.resting and tag != CUT and not run.dying:
            # Others go first. What is known must not be forgotten, for it would be done again.
            run.host.append([KNOWN, now, op.id, op.kind, op.print, tag, node])

    # --- turns

    def pump(self, to_rest: Operation | None = None) -> None:
        """Give what comes next, until a branch has the turn or nothing comes.

        Args:
            to_rest: the current task's operation, which is about to sleep and need not if it is given
                something now.
        """
        if self._pumping:
            return
        run = self._run
        self._pumping, self._to_rest = True, to_rest
        try:
            while self.holder is None and self.branches and not run.dying and not run.over:
                if self._queue:
                    self._queue.popleft()()
                elif run.cursor < run.many:
                    if run.host.look is not None:
                        run.host.look()
                    run.cursor += 1
                    self._apply(run.records[run.cursor - 1])
                elif not self._take_next():
                    return
        finally:
            self._pumping, self._to_rest = False, None

    def _hold(self, branch: Branch, turn: Id) -> None:
        """Begin a branch's turn, and cut it if the journal says that an interrupt did."""
        assert not any(one.place is Where.HOLDS for one in self.branches), "a branch would be overtaken"
        run = self._run
        self.holder = branch
        branch.place, branch.turn = Where.HOLDS, turn
        if run.mid == turn and run.cursor < run.many and run.records[run.cursor][0] == INTERRUPTED:
            run.cursor += 1
            run.interrupted = True
            self.cut(run.root)

    def _give(self, op: Operation, given: Any) -> None:
        """Begin the turn in which an operation goes on."""
        self.resting.pop(op.id, None)
        # Awake first: what cuts this very turn must not find it asleep.
        self._run.wake(op, given)
        self._hold(op.branch, op.id)

    def _apply(self, record: Record) -> None:
        """Do what a record says: the same live as on replay."""
        run, tag, about = self._run, record[0], record[2]
        run.went(record[1])
        if tag in OUTCOMES:
            self._apply_outcome(record)
        elif tag == FIRED:
            if (block := self.blocks.get(about)) is None:
                run.get_stuck(about, f"a block ended here, and is not open now: {ADVICE}")
            else:
                block.fired(record[3], record[4])
                self.cut(block.scope)
        elif tag == INTERRUPTED:
            run.interrupted = True
            self.cut(run.root)
        else:
            resting = ", ".join(f"{op.kind} {op.id}" for op in self.resting.values())
            run.get_stuck(0, f"the run ended here; now it rests in {resting or 'nothing'}: {ADVICE}")

    def _apply_outcome(self, record: Record) -> None:
        run, id, kind = self._run, record[2], record[3]
        op = self.resting.get(id)
        if op is None:
            now = ", ".join(f"{one.kind} {one.id}" for one in self.resting.values())
            run.get_stuck(id, f"a {kind} ended here; now the code rests in {now or 'nothing'}: {ADVICE}")
        elif op.kind != kind:
            run.get_stuck(id, f"a {kind} ended here; now it is a {op.kind}: {ADVICE}", op.task)
        elif record[0] == CUT and op.felt is None:
            run.get_stuck(
                id, f"a {kind} was cut short here, and no block around it ended now: {ADVICE}", op.task
            )
        else:
            if record[4] != op.print and differs(record[4], op.print):
                run.host.reworded(id, kind)
            self._give(op, FELT if record[0] == CUT else record)

    def _take_next(self) -> bool:
        """Take the best of what happens now; return False if nothing does."""
        run = self._run
        if not self.live:
            self.live = True
            for began in (run.rows or {}).values():
                op = self.resting.get(began[2])
                if op is None or op.kind != began[3]:
                    now_is = "has not begun now" if op is None else f"is a {op.kind} now"
                    run.get_stuck(began[2], f"a {began[3]} began here, and {now_is}: {ADVICE}")
                    return False
        if run.dry:
            if run.host.look is not None:
                run.host.look()
            run.host.rests(None)
            return False
        for op in tuple(self.resting.values()):
            if not op.armed:
                self._arm(op)
        now = run.host.now()
        best = min(self._candidates(now), key=_precedence, default=None)
        if best is None:
            # While it catches up, what is due stays due: a run that dies now is to be woken for it.
            run.host.rests(self._next_due(0 if run.catching_up else now))
            return False
        _, _, _, record, row = best
        record[1] = run.advance()
        if record[0] == INTERRUPTED:
            self.interrupts.pop(0)
        elif row is not None:
            run.mailbox = [one for one in run.mailbox if one[0] != row]
        if self._known:
            self._known = [one for one in self._known if one[0].id != record[2] or record[0] not in OUTCOMES]
        run.host.append(record, () if row is None else (row,))
        self._apply(record)
        return True

    def _candidates(self, now: int) -> list[_Candidate]:
        """Return what could come next: stamp, class, order, record, row.

        The smallest stamp goes first: when an event was accepted, a deadline or a sleep was due, a result
        came.
        """
        run = self._run
        found: list[_Candidate] = []
        for op, tag, node, stamp in self._known:
            body = [] if tag == CUT else [node]
            found.append((stamp, 2, op.key, [tag, 0, op.id, op.kind, op.print, *body], None))
        for stamp, row in () if run.interrupted else self.interrupts:
            found.append((stamp, 0, (), [INTERRUPTED, 0, row, None, run.why], row))
        for row, stamp, value in run.mailbox:
            if (taker := self.taker_of(value)) is not None:
                found.append((stamp, 1, (), self._taking(*taker, row), row))
                break
        if run.catching_up:
            # What is yet to be delivered may have been accepted before a deadline, but none of it before
            # what has been delivered.
            now = min(now, run.mailbox[-1][1]) if run.mailbox else 0
        busy = self._busy
        for block in self.blocks.values():
            due = block.due
            if (
                due is None
                or due > now
                or block.scope.cancel_called
                or (busy and self._is_held(block, due, now))
            ):
                continue
            found.append((due, 3, (block.depth, block.key), [FIRED, 0, block.id, None, None], None))
        for op in self.resting.values():
            if op.due is not None and op.due <= now and op.felt is None and not op.over:
                found.append((op.due, 4, op.key, [DONE, 0, op.id, op.kind, op.print, None], None))
        return found

    def _is_held(self, block: Scope, due: int, now: int) -> bool:
        """Return whether a deadline that has passed waits for an effect that is under way."""
        # What was due before the revival waits for all effects: a question that is asked again after a crash
        # must not be cancelled before it is seen.
        if due <= self._run.revived and now < self._run.revived + AGAIN:
            return True
        return any(now < due + op.holds and block.scope in op.branch.around for op in self.resting.values())

    def taker_of(self, value: object) -> tuple[Operation | Scope, object] | None:
        """Return what takes an event, and as what: first blocks, then waits, from the newest on."""
        for block in reversed(self.blocks.values()):
            # A block that is being left takes nothing: no code would ever see it.
            if block.takes is None or is_cut(block.around):
                continue
            if (taken := block.takes(value)) is not LEFT:
                return block, taken
        for op in reversed(self.resting.values()):
            if op.nature is Nature.WAIT and op.due is None and op.armed and op.felt is None and not op.over:
                taken = value if op.takes is None else op.takes(value)
                if taken is not LEFT:
                    return op, taken
        return None

    def _taking(self, taker: Operation | Scope, taken: object, row: int) -> Record:
        tag, node = self._run.outcome_of(taken)
        if isinstance(taker, Operation):
            return [tag, 0, taker.id, taker.kind, taker.print, node, row]
        return [FIRED, 0, taker.id, row, node if tag == DONE else None]

    def _next_due(self, now: int) -> int | None:
        times = [op.due for op in self.resting.values() if op.due is not None]
        holds = max((op.holds for op in self.resting.values()), default=0)
        for block in self.blocks.values():
            if block.due is not None and not block.scope.cancel_called:
                times.append(block.due if block.due > now else block.due + holds)
                if block.due <= self._run.revived:
                    times.append(self._run.revived + AGAIN)
        return min((time for time in times if time > now), default=None)

    # --- effects

    def _arm(self, op: Operation) -> None:
        """Let what happens now complete an operation."""
        op.armed = True
        if op.nature is Nature.EFFECT:
            run = self._run
            row = run.rows.pop(op.id, None) if run.rows else None
            if row is not None and row[0] == KNOWN:
                self._outcome(op, row[5], row[6], row[1])
            elif op.felt is not None:
                self._end_short(op)
            elif row is not None and op.in_doubt is not None:
                self._outcome(op, FAILED, run.codec.node_of_error(op.in_doubt), run.host.now())
            elif run.catching_up:
                op.armed = False  # what waits may end the run, or a block: before that does anything new
            else:
                if run.stale:
                    run.host.repeated(op.id, op.kind)
                if self._join_lane(op):
                    self._go(op)
        elif op.torn:
            self._end_short(op)

    def _outcome(self, op: Operation, tag: str, node: Node, stamp: int) -> None:
        op.over = True
        self._known.append((op, tag, node, stamp))

    def _end_short(self, op: Operation) -> None:
        """Note the outcome of an operation that was cancelled, and whose end is a record."""
        run = self._run
        if op.torn:
            node = run.codec.node_of_error(NonDurableCancelError(str(op.id)))
            self._outcome(op, FAILED, node, run.host.now())
        else:
            self._outcome(op, CUT, None, run.host.now())

    def _go(self, op: Operation) -> None:
        op.branch.place = Where.WORKS
        self._run.wake(op, GO)

    def _join_lane(self, op: Operation) -> bool:
        if not op.lane:
            return True
        lane = self._lanes.setdefault(op.lane, [])
        lane.append(op)
        return lane[0] is op

    def _leave_lane(self, op: Operation) -> None:
        lane = self._lanes.get(op.lane)
        if lane is None or op not in lane:
            return
        first = lane[0] is op
        lane.remove(op)
        if not lane:
            del self._lanes[op.lane]
        elif first:
            self._go(lane[0])

    # --- what ends blocks

    def interrupt(self, stamp: int, row: int | None) -> None:
        """End the run: at once if the branch that has the turn awaits something else, or in a turn."""
        self.interrupts.append((stamp, row))
        self.tick()

    def tick(self) -> None:
        """Look at the clock again, and at interrupts that found the turn taken."""
        run = self._run
        if self.holder is None:
            self.pump()
        elif self.interrupts and not run.interrupted and run.live and not run.dying:
            _, row = self.interrupts.pop(0)
            run.interrupted = True
            record = [INTERRUPTED, run.time, row, self.holder.turn, run.why]
            run.stale = False
            run.host.append(record, () if row is None else (row,))
            self.cut(run.root)

    def cut(self, scope: trio.CancelScope | None) -> None:
        """Cancel a scope: the operations under it feel it one by one, in the order of their ids."""
        if scope is None or scope.cancel_called:
            return
        outer, self._struck = self._struck, []
        scope.cancel()
        to_rest = self._to_rest
        # Trio finds only what sleeps. A task that is about to: ask whether it is under what was cancelled.
        about_to = to_rest is not None and not to_rest.asleep and to_rest.given is None
        if to_rest is not None and about_to and trio.current_effective_deadline() == -math.inf:
            self.strike(to_rest, unfelt)
        struck, self._struck = self._struck, outer
        for op in sorted(struck, key=lambda op: op.key):
            self._queue.append(partial(self._give, op, FELT))

    def strike(self, op: Operation, raise_cancel: Callable[[], NoReturn]) -> None:
        """Note that a scope around a resting operation was cancelled."""
        if op.nature is Nature.JOIN or op.felt is not None or (op.nature is Nature.WITHIN and op.over):
            return
        op.felt = raise_cancel
        op.torn = self._struck is None and not is_cut(op.branch.around)
        if op.nature is Nature.EFFECT:
            # Its end is a record, for a body ends when it likes; and what is known of it stands.
            if op.armed and not op.over:
                self._leave_lane(op)
                self._end_short(op)
        elif op.torn:
            if op.nature is Nature.WITHIN:
                self._queue.append(partial(self._give, op, NonDurableCancelError(str(op.id))))
            elif op.armed:
                self._end_short(op)
        elif self._struck is not None:
            self._struck.append(op)
        else:
            self._queue.append(partial(self._give, op, FELT))
        if self._struck is None:
            self.pump()

    # --- branches

    def begin(self, child: Branch, start: Callable[[], None]) -> None:
        """Let a child begin with its first turn, once this turn is over."""
        if not self._run.dying:
            self.branches.add(child)
            self._queue.append(partial(self._begin, child, start))

    def _begin(self, child: Branch, start: Callable[[], None]) -> None:
        self._hold(child, child.turn)
        start()

    def branch_over(self, child: Branch) -> None:
        """Note that a child has ended; it had the turn, unless everything is dying."""
        self.branches.discard(child)
        if self.holder is child:
            self.holder = None
        for join in self._joined():
            if self._run.dying:
                self._joins.remove(join)
                self._run.wake(join, GONE)
            elif not join.over:
                join.over = True
                self._queue.append(partial(self._end_join, join))
        self.pump()

    def _joined(self) -> Iterable[Operation]:
        return [join for join in self._joins if self.branches.isdisjoint(join.children)]

    def _end_join(self, join: Operation) -> None:
        # Only now: an eviction that comes before its turn must find it, or it would sleep for ever.
        self._joins.remove(join)
        self._give(join, (None,))

    def evict(self) -> None:
        """Wake all that rests: an author's shield would keep it asleep for ever."""
        run = self._run
        self._queue.clear()
        self._known.clear()
        self.branches -= {branch for branch in self.branches if branch.place is Where.QUEUED}
        for branch in self.branches:
            for scope in branch.around:
                if scope is not run.root:
                    scope.shield = False
            if branch.place is Where.WORKS:
                lower(branch.outside)
        for op in self.resting.values():
            if op.branch.place is Where.RESTS:
                run.wake(op, GONE)
        for join in self._joined():
            self._joins.remove(join)
            run.wake(join, GONE)


def _precedence(candidate: _Candidate) -> tuple[int, int, Any]:
    """Order by stamp; at one instant interrupts, events, results, deadlines (outermost first), sleeps."""
    return candidate[:3]


# --- blocks and children


@final
class Scope:
    """A block that a deadline, an event or `cancel` ends; entered once.

    An event that ends it is taken for good: `event` has it, however the block is left.

    Attributes:
        id: known once it is entered.
        due: its deadline in wall milliseconds; None for none.
        steady: the deadline was asked for as a length of time, and moves with a clock that is set.
        row, event: the event that ended it, and as what it was taken.
        expired: its deadline ended it.
        cancelled_caught: it was ended before its time; known once it is left.
        around: our scopes around it, and itself; `depth` without itself.
    """

    __slots__ = (
        "_machine",
        "_promote",
        "_run",
        "_seconds",
        "around",
        "branch",
        "cancelled_caught",
        "depth",
        "due",
        "event",
        "expired",
        "id",
        "key",
        "row",
        "scope",
        "steady",
        "takes",
    )

    branch: Branch
    _machine: Machine

    def __init__(
        self,
        run: Core,
        promote: Callable[[], Machine],
        *,
        seconds: float | None,
        at: int | None,
        takes: Filter | None,
        shield: bool,
    ) -> None:
        self._run = run
        self._promote = promote
        self._seconds = None if seconds == math.inf else seconds
        self.id: Id = ""
        self.key: tuple[int, ...] = ()
        self.depth = 0
        self.due = at
        self.steady = self._seconds is not None
        self.takes = takes
        self.scope = trio.CancelScope(shield=shield)
        self.around: tuple[trio.CancelScope, ...] = ()
        self.row: int | None = None
        self.event: Any = None
        self.expired = self.cancelled_caught = False

    @property
    def cancel_called(self) -> bool:
        """Return whether the block was asked to end."""
        return self.scope.cancel_called

    def cancel(self) -> None:
        """End the block at its next operation; the same on replay, without a record."""
        self._promote().cut(self.scope)

    def lift(self) -> None:
        """Take its deadline away; the same on replay, without a record."""
        self.due = None

    def fired(self, row: int | None, node: Node) -> None:
        """Note what ended it."""
        self.row, self.expired = row, row is None
        try:
            self.event = self._run.codec.value_of(node)
        except UnreadableRecordError as error:
            self._run.get_stuck(self.id, str(error))

    def __enter__(self) -> Self:
        machine = self._machine = self._promote()
        branch = self.branch = machine.current()
        self.id = machine.next_id(branch)
        self.key = (*branch.key, branch.count)
        self.depth = len(branch.around)
        self.scope.__enter__()
        branch.around.append(self.scope)
        self.around = tuple(branch.around)
        if self._seconds is not None:
            self.due = self._run.due_after(self._seconds)
        if self.due is not None and self._over_already(self.due):
            self.expired = True
            self.scope.cancel()
        machine.blocks[self.id] = self
        return self

    def _over_already(self, due: int) -> bool:
        # Judged by the turn's time: the same on replay, whatever the clock says then.
        return due <= self._run.time if self._seconds is None else self._seconds <= 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._machine.blocks.pop(self.id, None)
        self.branch.around.remove(self.scope)
        caught = bool(self.scope.__exit__(kind, error, trace))
        self.cancelled_caught = self.scope.cancelled_caught
        self._machine.retire()
        return caught


@final
class Nursery:
    """Children: more branches of one run, which end with their block.

    Two things are done before Trio would do them in the order of its scheduler: a failure cancels the
    siblings, and the block waits for its children.
    """

    __slots__ = (
        "_around",
        "_branch",
        "_children",
        "_count",
        "_id",
        "_key",
        "_machine",
        "_manager",
        "_promote",
        "_real",
        "_run",
    )

    _machine: Machine
    _branch: Branch

    def __init__(self, run: Core, promote: Callable[[], Machine]) -> None:
        self._run = run
        self._promote = promote
        self._count = 0
        self._id: Id = ""
        self._key: tuple[int, ...] = ()
        self._children: set[Branch] = set()
        self._around: list[trio.CancelScope] = []
        self._manager = trio.open_nursery()

    async def __aenter__(self) -> Self:
        machine = self._machine = self._promote()
        branch = self._branch = machine.current()
        self._id = machine.next_id(branch)
        self._key = (*branch.key, branch.count)
        if self._run.dying:
            await refuse(self._run)
        self._real = await self._manager.__aenter__()
        machine.nurseries += 1
        branch.around.append(self._real.cancel_scope)
        self._around = list(branch.around)
        return self

    def start_soon(self, fn: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Start ``fn(*args)`` as a child, after this turn; its error cancels its siblings and the block."""
        self._machine.current()
        self._count += 1
        path = f"{self._id}/{self._count}."
        child = Branch(path, (*self._key, self._count), list(self._around), f"{path}0")
        self._children.add(child)
        name = f"{getattr(fn, '__qualname__', fn)} (branch {child.path})"

        def start() -> None:
            self._real.start_soon(self._child, child, fn, args, name=name)

        self._machine.begin(child, start)

    def cancel(self) -> None:
        """End the block and all children."""
        self._machine.cut(self._real.cancel_scope)

    async def _child(
        self, child: Branch, fn: Callable[..., Awaitable[object]], args: tuple[Any, ...]
    ) -> None:
        machine, task = self._machine, current_task()
        machine.tasks[task], child.task = child, task
        try:
            await fn(*args)
        except BaseException:
            self.cancel()
            raise
        finally:
            del machine.tasks[task]
            self._children.discard(child)
            machine.branch_over(child)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        machine = self._machine
        if error is not None:
            self.cancel()
        if not self._children.isdisjoint(machine.branches):
            join = machine.operation(self._id, "join", Nature.JOIN, "", self._branch)
            join.children = self._children  # the set itself: a child may start another one meanwhile
            machine.rest(join)
            try:
                await self._run.come(join, await self._run.rest(join))
            except trio.Cancelled as gone:  # only when it dies
                kind, error, trace = type(gone), gone, gone.__traceback__
        self._branch.around.remove(self._real.cancel_scope)
        try:
            return await self._manager.__aexit__(kind, error, trace)
        finally:
            machine.nurseries -= 1
            machine.retire()
