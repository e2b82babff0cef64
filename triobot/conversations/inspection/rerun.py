"""Dry run: replay a journal with the current code, and find where the code waits at the journal's end.

A dry run sends nothing, runs no step, stores nothing and gets no events. The code between operations runs
again. Code that doesn't wait or end within some seconds is abandoned.

A dry run has no outbox, no store and no ledger, because only the bodies of effects would use these parts.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, final

import trio

from ...base.authors import leaves
from ...base.clock import StoppedClock, Timepiece
from ...base.frozen import guarded
from ...engine import ContinuesAs, Crashed, Diverged, End, Host, Record, RunOwner, WasInterrupted
from ...engine.core import Operation as OpenOperation
from ...engine.records import CONTINUED, ENDED, ENDS, Id, times_of
from ...errors import NondeterminismError, StepError
from ...exact.verdicts import Parting
from ...seams.resources import Opened
from ..beginnings import Dry, Replay
from ..chat import handle_of
from ..chat_actor import ChatActor
from ..codec import CODEC
from ..conversation import Conversation
from ..data import Speech
from ..operations import Operations
from ..revival.changed import Changed
from ..revival.stored import Stored, fitting
from ..routes.declarations import Table
from ..running.abandon import Left, TimeLimit, line_in, parting_line
from ..running.branches import Onlooker, code_tasks
from ..running.lines import failing_line
from ..services import Services
from ..shared import Shared
from .replay_state import ReplayState, standing_of

# Scheduler rounds to wait for the run's end. Each cancelled operation needs a few rounds.
_PATIENCE: Final = 1000

_UNTOUCHED: Final[Any] = object()
"""Placeholder for objects that only an effect's body would use, or code after the conversation's end."""


def dry_services(texts: Speech, resources: Opened, now: int, charge_hosts: Sequence[str]) -> Services:
    """Build services without effects, from the live run's texts, resources, time `now` and charge hosts."""
    return Services(
        outbox=_UNTOUCHED,
        store=_UNTOUCHED,
        clock=Timepiece(StoppedClock(now)),
        texts=texts,
        raise_alarm=lambda alarm: None,
        payments=_UNTOUCHED,
        resources=resources,
        charge_hosts=charge_hosts,
    )


SECONDS = 10.0
"""Seconds of real time that a dry run may use."""


@final
@guarded
class Divergence:
    """First difference between the code and the journal.

    Attributes:
        operation: id of the operation that differs; "0" for the conversation itself.
        what: the recorded and the current behaviour, without content.
        line: ``file:line`` of the author's code, or ``?``.
        parting: the journal's line and the current line, if their code differs.
    """

    operation: str
    what: str
    line: str
    parting: Parting | None = None

    def __str__(self) -> str:
        at = "" if self.line == "?" else f" ({self.line})"
        return f"operation {self.operation}: {self.what}{at}"


@final
class Rerun(Host, RunOwner):
    """A conversation's dry run over the journal; also the `Host` and the `RunOwner` of the run.

    Attributes:
        divergence: why the replay stopped before the journal's end; None if the replay reached the end.
        hangs: whether `divergence` is a timeout: the code neither waited nor ended in time.
        changed: operations whose arguments differ from the recorded arguments; the replay accepted these
            operations.
    """

    def __init__(
        self,
        services: Services,
        table: Table,
        stored: Stored,
        group: bool,
        set_by: int | None,
        look: Onlooker,
        limit: TimeLimit,
        changed: Changed | None,
        judged: int,
    ) -> None:
        opening, shared = fitting(stored, table), Shared(services, table)
        shared.crashes = shared.chat_calls = _UNTOUCHED
        actor = ChatActor(shared, _UNTOUCHED, stored.row.chat_id, 0)
        actor.routing.group, actor.kept.values = group, {}
        self._now, known, unseen = times_of(stored.records)
        self._jumped = (known if set_by is None else set_by) - unseen
        self._limit, self._by, self._judged = limit, changed, judged
        self.here = None if changed is None else changed.sites.here
        self.parting = self._differs
        self.hangs = False
        self.divergence: Divergence | None = None
        self.changed: list[Divergence] = []
        self._at_end, self._over = trio.Event(), trio.Event()
        self._parted_at = "?"
        self._end: End | None = None
        begin = Dry(Replay(stored, changed), self, self, look, limit)
        self._conversation = Conversation.of(shared, actor.kept, *opening, stored.row.sender_id, begin)
        self._run = self._conversation.make_run(actor)
        self._operations = Operations(actor, self._conversation, begin)
        self.look = partial(look.looks, self._run)

    @property
    def tasks(self) -> Mapping[str, trio.lowlevel.Task]:
        """The waiting tasks, by branch; empty once the coroutine has ended."""
        return {} if self._over.is_set() else self._run.tasks

    def standing(self) -> ReplayState:
        """Return the point that the run has reached: the journal's end, or the operation that stopped the
        replay.
        """
        if self._over.is_set():
            return ReplayState(ending="it is over" if self._end is None else _words(self._end))
        return standing_of(self._run)

    @property
    def failures(self) -> Sequence[Exception]:
        """Errors that ended the conversation: several if several of its children failed."""
        return list(leaves(self._end.error)) if isinstance(self._end, Crashed) else []

    @property
    def failed_at(self) -> str | None:
        """Author's line that failed, if the conversation failed."""
        return next((failing_line(error.__traceback__) for error in self.failures), None)

    def beyond(self) -> str | None:
        """Describe the first record that the code makes beyond the journal's end; None if there is none."""
        left = [record for record in self._run.beyond if record[0] not in ENDS]
        return f"now there is a record {left[0][0]}, which wasn't there before" if left else None

    # --- the run itself

    async def run(self) -> None:
        """Run the conversation until its end, or until `go` is called."""
        task, operations = trio.lowlevel.current_task(), self._operations
        code_tasks[task] = self._conversation.facts.seq
        try:
            main, handle = operations.begin, handle_of(operations)
            self._end = await self._limit.run(self._conversation.go_over(main, handle))
        except BaseException as error:
            if not self._limit.cut or not _is_left(error):
                raise
        finally:
            del code_tasks[task]
            self._over.set()
            self._at_end.set()
        if isinstance(self._end, Diverged):
            self.divergence = self._parting(self._end)

    def _parting(self, diverged: Diverged) -> Divergence:
        what = diverged.error.what
        if diverged.failure is None:
            parting = None if self._by is None else self._by.judge.parted
            return Divergence(diverged.error.id, what, self._parted_at, parting)
        first = next(iter(leaves(diverged.failure)))
        what += f"; now it failed with {type(first).__name__}"
        return Divergence(diverged.error.id, what, failing_line(first.__traceback__))

    async def wait(self) -> None:
        """Wait until the run reaches the journal's end; after the time limit, set `divergence`."""
        with trio.move_on_after(self._limit.seconds):
            await self._at_end.wait()
        for _ in range(_PATIENCE):  # the event loop may have been blocked, such as at a breakpoint
            if self._at_end.is_set():
                break
            await trio.lowlevel.checkpoint()
        if self._limit.cut and self._end is None and self.divergence is None:
            self._hangs(self._limit.line)
        elif not self._at_end.is_set():
            task = self.tasks.get("")
            self._hangs("?" if task is None else line_in(task))

    async def go(self) -> None:
        """Cancel the run; abandon code that doesn't end."""
        self._conversation.evict()
        with trio.CancelScope(shield=True):
            for _ in range(_PATIENCE):
                if self._over.is_set():
                    return
                await trio.lowlevel.cancel_shielded_checkpoint()
            await self._limit.leave()

    def _hangs(self, line: str) -> None:
        self.hangs = True
        what = "what ended before doesn't end now: it waits for something that isn't the chat's, or runs on"
        self.divergence = Divergence("0", what, line)

    # --- as the host

    def now(self) -> int:
        return self._now

    def jumped(self) -> int:
        return self._jumped

    def rests(self, wake: int | None) -> None:
        self._at_end.set()

    def concluded(self, error: BaseException | None) -> None:
        self._conversation.concluded(error)

    def diverged(self, error: NondeterminismError, task: trio.lowlevel.Task | None) -> None:
        self._parted_at = parting_line(error.id, task)

    def _differs(self, record: Record, op: OpenOperation) -> str | None:
        why = None if self._by is None else self._by.parting(record, op)
        if why is None and record[4] != op.print and self._run.journal.given > self._judged:
            what = f"a {op.kind} has other arguments than before"
            self.changed.append(Divergence(str(op.id), what, line_in(op.task)))
        return why

    def reached(self, operations: Sequence[OpenOperation]) -> str | None:
        return None if self._by is None else self._by.standing(operations)

    def swallowed(self, id: Id) -> None:
        self._limit.cut = True


def _words(end: End) -> str:
    match end:
        case Crashed(error) | WasInterrupted(_, Exception() as error):
            return recorded_ending([ENDED, 0, CODEC.node_of_error(error)])
        case ContinuesAs(fn):
            return f"it goes on as {fn}"
        case Diverged():
            return "it could go no further"
        case _:
            return recorded_ending([ENDED, 0, None])


def recorded_ending(record: Record) -> str:
    """Describe a recorded ending, without content."""
    if record[0] == CONTINUED:
        return f"it goes on as {record[2]}"
    if record[2] is None:
        return "it came to its end"
    errors = leaves(CODEC.error_of(record[2]))
    names = sorted(one.kind if isinstance(one, StepError) else type(one).__name__ for one in errors)
    return f"it failed with {', '.join(names)}"


def _is_left(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.split(Left)[1] is None  # pyright: ignore[reportUnknownMemberType]
    return isinstance(error, Left)


@asynccontextmanager
async def open_rerun(
    services: Services,
    table: Table,
    stored: Stored,
    *,
    group: bool = False,
    set_by: int | None = None,
    look: Onlooker | None = None,
    limit: TimeLimit | None = None,
    changed: Changed | None = None,
    judged: int = 0,
) -> AsyncGenerator[Rerun]:
    """Replay a journal. During the block, the run waits at the journal's end, or at the divergence.

    Args:
        services: services from `dry_services`.
        group: whether two people were seen in the chat.
        set_by: total milliseconds by which the run's clock was set; None if the clock was not set since the
            journal's last turn.
        look: listener for the run's turns and operations.
        limit: time limit of the run; by default, `SECONDS`.
        changed: comparison of the journal with changed code; None if the current build wrote the journal.
        judged: number of leading records that another build may have written, and that were compared before.

    Raises:
        NondeterminismError: the conversation would be parked without being run.
    """
    limit, look = limit or TimeLimit(SECONDS), look or Onlooker()
    rerun = Rerun(services, table, stored, group, set_by, look, limit, changed, judged)
    async with trio.open_nursery() as nursery:
        try:
            nursery.start_soon(rerun.run, name=f"replay of {stored.row.route}")
            await rerun.wait()
            yield rerun
        finally:
            await rerun.go()
