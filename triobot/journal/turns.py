"""The turnstile: whose turn it is, and what comes next. All of it is synchronous.

`pump` is called whenever somebody might go on: an operation parked, a child ended, something was offered.
While nobody holds the turn it gives, in this order: what the conversation does to itself (children that
start and end, cancellations; never recorded), what the journal says, and, once that is exhausted, the best of
what happens now, which is recorded as it is taken. That last step is where a race is decided, once for all.

An operation is *armed* (its wait takes events, its body runs, its sleep ends by the clock) only when the
journal is exhausted. Nothing else is needed for "what has an outcome is never performed again" and "what was
cancelled is never performed".

A scope is cancelled by `cut`, whoever does it. Trio then calls the abort function of every operation under it
at once, in this very call; each refuses to be woken, and gets its `Cancelled` in a turn of its own, in the
order of the ids. Trio's own order would differ from run to run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import final

import trio

from ..errors import NondeterminismError
from ..seams import Write
from .applying import apply
from .arming import arm_all, go_live
from .branches import Branch, Felt, Given, Nature, Parked, Passed, Place, RaiseCancel, Signal
from .doubts import PLAIN_PAST, Doubts, Past
from .draft import Draft
from .foreign import cut_holder, replay_cuts
from .history import History
from .jumps import take_jump
from .keeping import put_before
from .lanes import Lanes
from .recording import take, write_down
from .records import (
    Continued,
    CutShort,
    Ended,
    Failed,
    Jumped,
    OperationId,
    Outcome,
    Result,
    Resumed,
)
from .stimuli import (
    Completion,
    Expiry,
    Interruption,
    OpenScope,
    Stimulus,
    Written,
    best,
    due,
    next_due,
)
from .world import Entry, Waiting, World


@final
class Turns:
    """The turns of one incarnation.

    Attributes:
        time: the present turn's.
        holder: the branch that has the turn.
        branches: all that live, or are to be started.
        parked: the operations in which they are, in the order in which they began.
        scopes: the open blocks that a deadline or an event may end.
        jumped: by how much the time of day has jumped in all, as this conversation knows.
        data: what the chat keeps, as this conversation sees it.
        interruption: the scope of the whole code.
        interrupted: an interrupt has ended it.
        felt: an operation of the code was cancelled since.
        live: the journal is exhausted.
        unended: it may be not, but whoever has the turn has had it for the first time, or never ended it.
        dying: every further operation is refused.
        stuck: why the code can't be run over its journal.
        stimuli: what has happened, and waits to be given.
        revived: when the journal was exhausted, if it was one that had to be replayed; until then, when that
            began.
        in_doubt: effects that may have begun before a crash.
        draft: what isn't handed to the store yet.
        lanes: the effects that start one after another.
    """

    def __init__(
        self,
        world: World,
        history: History,
        torn: Failed,
        begun: Sequence[Write] | None = None,
        past: Past = PLAIN_PAST,
        *,
        dry: bool = False,
        opened: bool = False,
    ) -> None:
        self.world = world
        self._dry = dry
        self.history = history
        self.time = history.start.time
        self.data = dict(history.start.data)
        self.holder: Branch | None = None
        self.branches: set[Branch] = set()
        self.parked: dict[OperationId, Parked] = {}
        self.scopes: dict[OperationId, OpenScope] = {}
        # Shielded, for who awaits `run` doesn't end the conversation; an eviction ends it, too.
        self.interruption = trio.CancelScope(shield=True)
        self.interrupted = self.felt = False
        self.live = self.dying = self.over = False
        self.stuck: NondeterminismError | None = None
        self._torn = torn
        self._fresh = self.unended = opened or begun is not None
        self.revived = None if self._fresh else world.now()
        self._queue: deque[Callable[[], None]] = deque()
        self.stimuli: list[Stimulus] = []
        self.lanes = Lanes()
        self._joins: list[Parked] = []
        self.in_doubt = Doubts(past.unknown_until)
        self.draft = Draft(world, opened=opened)
        self.jumped = past.jumped
        if begun is not None:
            self.draft.add(history.start, begun)
            if self.jumped:
                self.draft.add(Jumped(self.time, 0, self.jumped))
        self._resumes = history.unended
        history.resume(past.data)
        self._given: Parked | None = None
        self._began_with: Mapping[str, str] | None = None
        self._struck: list[Parked] | None = None
        self._parking: Parked | None = None
        self._pumping = self._pump_comes = False

    # --- a branch's side

    def begin(self, branch: Branch) -> None:
        """The coroutine itself or a child begins, with its first turn."""
        fresh = self._fresh and not self.branches
        if self.replays_first_turn and not self.branches and self.history.exhausted:
            self.world.comes_to(self.time)
        self.branches.add(branch)
        self._begin_turn(branch, branch.turn)
        if fresh:
            cut_holder(self, branch)  # an interrupt may have come before its first line

    def park(self, parked: Parked) -> None:
        """End the branch's turn in this operation, which may have been given something when this returns."""
        assert self.dying or self.holder is parked.branch, "an operation began without the turn"
        if parked.nature is Nature.JOIN:
            self._joins.append(parked)
        else:
            self.parked[parked.id] = parked
        parked.branch.place = Place.PARKED
        self.holder = None
        self._pump_beside(parked)

    def finish(self, parked: Parked, outcome: Outcome) -> None:
        """The body of an effect is over; its outcome waits for its turn."""
        parked.over = True
        parked.branch.place = Place.PARKED
        stamp = self.world.now()
        self.stimuli.append(Completion(parked, outcome, stamp))
        followed = self._leave_lane(parked)
        if not followed:
            self._pump_beside(parked)
        if parked.id in self.parked and not isinstance(outcome, CutShort):
            # Others go first: but what is known must not be forgotten, for it would be done again. That it
            # was cut short is known only together with what cut it, which may be a turn that isn't over.
            self.world.append(Entry(rows=(Result(parked.id, stamp, outcome),)))
        elif self.holder is parked.branch:
            # Kept with the turn, unless that waits for something which is none of the chat's, perhaps long.
            self.world.before_writing(self.draft.keep_outcomes)
        if followed:
            self._pump_beside(parked)

    def branch_over(self, branch: Branch) -> None:
        """A child has ended; it had the turn, unless everything is dying."""
        self.branches.discard(branch)
        if self.holder is branch:
            self.holder = None
        for join in [join for join in self._joins if self._joined(join)]:
            if self.dying:
                self._joins.remove(join)
                self._wake(join, Signal.GONE)
            elif not join.over:
                join.over = True
                self._queue.append(partial(self._end_join, join))
        self.pump()

    def _end_join(self, join: Parked) -> None:
        # Only now: an eviction that comes before its turn must find it, or it would sleep for ever.
        self._joins.remove(join)
        self.give(join, Passed(None))

    def _joined(self, join: Parked) -> bool:
        return self.branches.isdisjoint(join.children)

    def later(self, work: Callable[[], None]) -> None:
        """Do this, which begins a turn of somebody else's, once this turn is over."""
        self._queue.append(work)

    def give(self, parked: Parked, given: Given) -> None:
        """Begin the turn in which this operation goes on."""
        self.parked.pop(parked.id, None)
        self._given = parked
        # Awake first: what cuts this very turn must not find it asleep.
        self._wake(parked, given)
        self._begin_turn(parked.branch, parked.id)

    @property
    def replays_first_turn(self) -> bool:
        """It is revived, and nothing but its start was recorded."""
        return not (self.live or self._fresh)

    # --- the world's side

    def offer(self, stimulus: Stimulus) -> None:
        """Something happened."""
        if not self.dying and not self.over and not put_before(self, stimulus):
            self.stimuli.append(stimulus)
            if isinstance(stimulus, Written):
                self.draft.withdraw(stimulus.key)  # it was written before, and isn't stored yet
            self.tick()

    @property
    def given(self) -> OperationId | None:
        """The turn that was given to somebody who hasn't come to run yet."""
        last = self._given
        return None if last is None or last.given is None or self.holder is None else self.holder.turn

    def expects(self, id: OperationId) -> Parked | None:
        """The wait that can still be completed."""
        parked = self.parked.get(id)
        waits = parked is not None and parked.armed and not parked.over and parked.felt is None
        return parked if waits and not self.dying else None

    def tick(self) -> None:
        """It is later than it was."""
        if self.holder is not None and (self.live or self.unended) and not self.dying:
            if self.given is None:
                cut_holder(self, self.holder)
            else:
                self._pump_soon()  # it has yet to run: who came first is not cut by who came later
        self.pump()

    @property
    def quiescent(self) -> bool:
        """Nothing runs, nothing is under way, and nothing waits to be given."""
        return self.rests and not self._under_way

    @property
    def rests(self) -> bool:
        """Nobody has the turn, and nothing waits to be given; an effect may be under way."""
        return self.live and not (self.holder or self._queue or self.stimuli)

    @property
    def _under_way(self) -> bool:
        return bool(self.effects)

    @property
    def effects(self) -> set[str]:
        """The kinds of the effects that are under way."""
        return {parked.kind for parked in self.parked.values() if parked.nature is Nature.EFFECT}

    # --- scopes

    def open_scope(self, scope: OpenScope) -> None:
        """A block began."""
        self.scopes[scope.id] = scope
        if self.holder is not None:
            replay_cuts(self, self.holder)

    def close_scope(self, id: OperationId) -> None:
        """A block is over: what would have ended it comes to nothing."""
        self.scopes.pop(id, None)
        self.stimuli = [one for one in self.stimuli if not isinstance(one, Expiry) or one.scope.id != id]

    def cut(self, scope: trio.CancelScope) -> None:
        """Cancel a scope: the operations under it feel it one by one, in the order of their ids."""
        if scope.cancel_called:
            return
        self.interrupted = self.interrupted or scope is self.interruption
        outer, self._struck = self._struck, []
        scope.cancel()
        struck, self._struck = self._struck, outer
        for parked in sorted(struck, key=lambda parked: parked.key):
            if parked.felt is not None:
                self._queue.append(partial(self.give, parked, Felt(parked.felt)))

    def feel(self) -> None:
        """An operation is about to raise its cancellation."""
        self.felt = self.felt or self.interrupted

    def strike(self, parked: Parked, raise_cancel: RaiseCancel) -> trio.lowlevel.Abort:
        """Trio cancels a sleeping operation: never at once, see above."""
        if self.dying or parked.nature is Nature.JOIN:
            # Who dies is woken by hand, and children that end wake their parent.
            return trio.lowlevel.Abort.FAILED
        if parked.nature is Nature.WITHIN and parked.over:
            # Another branch has passed it something: that begins its next turn, and one operation has one.
            return trio.lowlevel.Abort.FAILED
        parked.felt = raise_cancel
        parked.torn = self._struck is None and not parked.branch.cut
        if parked.nature is Nature.EFFECT:
            # Its body ends when it likes: so its end is a record, and what is known of it stands.
            if parked.armed and not parked.over:
                self._leave_lane(parked)
                self.cut_short(parked)
        elif parked.torn:
            self._withdraw(parked)
            if parked.armed:
                self.cut_short(parked)
        else:
            self._withdraw(parked)
            if self._struck is not None:
                self._struck.append(parked)
            else:
                self._queue.append(partial(self.give, parked, Felt(raise_cancel)))
        if self._struck is None:
            self._pump_soon()
        return trio.lowlevel.Abort.FAILED

    def _withdraw(self, parked: Parked) -> None:
        """Nothing that came for this operation will be given to it."""
        mine = [one for one in self.stimuli if isinstance(one, Completion) and one.parked is parked]
        self.stimuli = [one for one in self.stimuli if one not in mine]
        if parked.armed and parked.nature is Nature.WAIT:
            self.world.disarm(Waiting(parked.id, parked.subject))
        for stimulus in mine:
            if stimulus.withdraw is not None:
                stimulus.withdraw()

    # --- the pump

    def pump(self) -> None:
        """Give what comes next, until somebody has the turn or nothing comes."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self.branches and self.holder is None and not self.dying and not self.over:
                self._check_that_all_rest()
                if self._parking is not None and self.history.cuts_soon:
                    self._pump_soon()
                    return
                if self._queue:
                    self._queue.popleft()()
                elif (record := self.history.next) is not None:
                    self._begin_with(self.history.view)
                    self.history.advance()
                    apply(self, record)
                elif not self._take_next():
                    return
        finally:
            self._pumping = False

    def _pump_beside(self, parked: Parked) -> None:
        """Pump from within a task that is about to sleep, and need not if it is given something now."""
        self._parking = parked
        try:
            self.pump()
        finally:
            self._parking = None

    def _pump_soon(self) -> None:
        """Look again once the task that has been woken has run, or the one that pumps now sleeps.

        A scope that is cancelled before that wouldn't find who sleeps.
        """
        if not self._pump_comes:
            self._pump_comes = True

            async def pump() -> None:
                await trio.lowlevel.cancel_shielded_checkpoint()
                self._pump_comes = False
                self.tick()

            self.world.start_soon(pump)

    def _take_next(self) -> bool:
        """Take the best of what happens now; False if there is nothing, or not yet."""
        if not self.live:
            go_live(self, fresh=self._fresh)
        now = self.world.now()
        if not (self._dry or self.dying) and (record := take_jump(self, now)) is not None:
            write_down(self, record)
            return True
        self.hand_over()
        if self._dry or self.dying:
            return False
        self._withdraw_late()
        arm_all(self)
        if self.dying:
            return False
        parked = self.parked.values()
        coming = due(self.scopes.values(), parked, now, self.revived, self.world.all_came)
        chosen = best([*self.stimuli, *coming]) if self.stimuli or coming else None
        if chosen is None:
            self.world.wake_at(next_due(self.scopes.values(), parked, now, self.revived))
            return False
        if self._parking is not None and isinstance(chosen, Expiry | Interruption):
            self._pump_soon()
            return False
        if chosen in self.stimuli:  # what is due was never among them
            self.stimuli.remove(chosen)
        if self.revived is not None:
            self.world.comes_to(chosen.stamp)
        take(self, chosen, now)
        return True

    def _withdraw_late(self) -> None:
        """What was to end blocks that something else has ended first ends nothing."""
        if late := [one for one in self.stimuli if isinstance(one, Expiry) and one.late]:
            self.stimuli = [one for one in self.stimuli if one not in late]
            for one in late:
                if one.withdraw is not None:
                    one.withdraw()

    # --- effects

    def known(self, parked: Parked, outcome: Outcome, stamp: int) -> None:
        """An operation has its outcome without having done anything now."""
        parked.over = True
        self.stimuli.append(Completion(parked, outcome, stamp))

    def cut_short(self, parked: Parked) -> None:
        """An operation was cancelled whose end is a record."""
        self.known(parked, self._torn if parked.torn else CutShort(), self.world.now())

    def go(self, parked: Parked) -> None:
        """Let an effect begin, outside of any turn."""
        parked.branch.place = Place.WORKS
        self._wake(parked, Signal.GO)

    def _leave_lane(self, parked: Parked) -> bool:
        """Whether another one starts now."""
        if (following := self.lanes.leave(parked)) is not None:
            self.go(following)
        return following is not None

    # --- out

    def hand_over(self) -> None:
        """Everything rests, or nearly: what was recorded since the last time goes to the store, as one."""
        self._resume()
        if self.draft.empty:
            return
        wake = next_due(self.scopes.values(), self.parked.values(), -1)
        # Who has the turn still has something to do, whatever comes or doesn't.
        unfinished = self._under_way or self.holder is not None
        self.draft.hand_over(unfinished=unfinished, wake=wake)

    def _resume(self) -> None:
        """A turn that was not known to have ended has run again."""
        if self._resumes:
            self._resumes = False
            self.draft.add(Resumed(self.time, self._began_with))

    def end(self, main: Branch, record: Ended | Continued) -> None:
        """The coroutine itself is over."""
        self.branches.discard(main)
        self.holder = None
        expected = self.history.next
        if expected is None:
            self.over = True
            self._resume()  # if it was this very turn: the end is the last record
            self.draft.add(record)
            self.hand_over()
            self.world.wake_at(None)
        elif type(expected) is type(record):
            self.over = True
            self.history.advance()
        else:
            self.get_stuck(OperationId("0"), "the conversation ended here, and went on when it was recorded")

    def get_stuck(self, id: OperationId, what: str, task: trio.lowlevel.Task | None = None) -> None:
        """The code isn't the one that made the journal: give up before it does anything."""
        if self.stuck is None:
            self.stuck = NondeterminismError(id, what)
            parked = self.parked.get(id)
            self.world.stuck(id, task if parked is None else parked.task)
        self.evict()

    def evict(self) -> None:
        """Let every operation be refused from now on; nothing is recorded any more."""
        if self.dying or self.over:
            return
        self.dying = True
        self.draft.give_up()
        self._queue.clear()
        self.stimuli.clear()
        self.branches -= {branch for branch in self.branches if branch.place is Place.QUEUED}
        for branch in self.branches:
            branch.let_go(self.interruption)  # what sleeps is woken by hand
        self.interruption.cancel()
        for parked in [*self.parked.values(), *(join for join in self._joins if self._joined(join))]:
            self._wake(parked, Signal.GONE)
        self._joins = [join for join in self._joins if join.given is None]
        self.world.wake_at(None)

    # --- the parts

    def _begin_turn(self, branch: Branch, id: OperationId) -> None:
        self.holder = branch
        branch.place, branch.turn = Place.HOLDS, id
        replay_cuts(self, branch)

    def _wake(self, parked: Parked, given: Given) -> None:
        parked.given = given
        if parked.asleep:
            parked.asleep = False
            trio.lowlevel.reschedule(parked.task)

    def _begin_with(self, view: Mapping[str, str] | None) -> None:
        if view is not None:
            self.data, self._began_with = dict(view), view

    def apply_data(self, key: str, value: str | None) -> None:
        if value is None:
            self.data.pop(key, None)
        else:
            self.data[key] = value

    def _check_that_all_rest(self) -> None:
        running = [branch.path for branch in self.branches if branch.place is Place.HOLDS]
        assert not running, f"somebody would be overtaken: {running}"
