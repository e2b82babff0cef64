"""A dry run: a journal is run again under the present code, to see where that stands then, and nothing else.

Nothing is sent, no step runs, nothing is written, no event comes. What the code does between its operations
is done once more. It has some seconds of time; what doesn't come to rest by then is left where it is.

So the world of a dry run has no outbox, no store and no ledger: only bodies of effects would ask for them.
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
from ...engine import ContinuesAs, Crashed, End, Host, Record, Stuck, WasInterrupted
from ...engine.core import Operation as OpenOperation
from ...engine.records import CONTINUED, ENDS, Id, times_of
from ...errors import NondeterminismError, StepError
from ...exact.verdicts import Parting
from ...seams.resources import Opened
from ..beginnings import Dry
from ..chat import handle_of
from ..codec import CODEC
from ..conversation import Conversation
from ..data import Speech
from ..life import ChatLife
from ..revival.changed import Changed
from ..revival.stored import Stored, fitting
from ..routes.declarations import Table
from ..running.branches import Onlooker, code_tasks
from ..running.leash import Leash, Left, line_in, parting_line
from ..running.lines import failing_line
from ..services import Services
from ..shared import Shared
from .standing import Standing, standing_of

# Of the scheduler's rounds: refusing all operations of a conversation takes a few each.
_PATIENCE: Final = 1000

_UNTOUCHED: Final[Any] = object()
"""Stands for what only the bodies of effects use, and what follows an end: none of that comes here."""


def dry_services(texts: Speech, resources: Opened, now: int, charge_hosts: Sequence[str]) -> Services:
    """Build services that do nothing; what words depend on is as it is live."""
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
"""What a dry run may take."""


@final
@guarded
class Divergence:
    """How the code and the journal part.

    Attributes:
        operation: at which; "0" is the conversation itself.
        what: what was recorded, and what the code does now; without content.
        line: ``file:line`` of the author's code, or ``?``.
        parting: both lines, where the code is other code than the journal's.
    """

    operation: str
    what: str
    line: str
    parting: Parting | None = None

    def __str__(self) -> str:
        at = "" if self.line == "?" else f" ({self.line})"
        return f"operation {self.operation}: {self.what}{at}"


@final
class Rerun(Host):
    """A conversation that has been run over its journal, and the host of that run: it ends where that does.

    Attributes:
        divergence: why it could not be run to the journal's end; None if it could.
        hangs: that is because it didn't come to rest in time.
        changed: operations whose arguments were others when they were recorded, and that fit all the same.
    """

    compares = True

    def __init__(
        self,
        now: int,
        leash: Leash,
        jumped: int,
        look: Onlooker | None = None,
        changed: Changed | None = None,
        judged: int = 0,
    ) -> None:
        self._look = look
        self._by, self._judged = changed, judged
        self.here = None if changed is None else changed.sites.here
        self.hangs = False
        self.divergence: Divergence | None = None
        self.changed: list[Divergence] = []
        self._at_end = trio.Event()
        self._now = now
        self._jumped = jumped
        self._leash = leash
        self._stuck_at = "?"
        self._conversation: Conversation | None = None
        self._end: End | None = None
        self._over = trio.Event()
        self._gone = False

    @property
    def task(self) -> trio.lowlevel.Task | None:
        """The coroutine's own task, while it stands where the journal ends; None once it is over."""
        return (
            None
            if self._conversation is None or self._over.is_set()
            else self._conversation.run.tasks.get("")
        )

    @property
    def tasks(self) -> Mapping[str, trio.lowlevel.Task]:
        """What stands there, by branch."""
        return {} if self.task is None or self._conversation is None else self._conversation.run.tasks

    def standing(self) -> Standing:
        """Return where it stands: where the journal ends, or where it could go no further."""
        if self._over.is_set() or self._conversation is None:
            return Standing(ending="it is over" if self._end is None else _words(self._end))
        return standing_of(self._conversation.run)

    @property
    def failures(self) -> Sequence[Exception]:
        """Return what the conversation failed with: several errors if several of its children did."""
        return list(leaves(self._end.error)) if isinstance(self._end, Crashed) else []

    @property
    def failed_at(self) -> str | None:
        """Return the author's line that failed, if the conversation did."""
        return next((failing_line(error.__traceback__) for error in self.failures), None)

    def beyond(self) -> str | None:
        """Say what the code notes and the journal doesn't have, or the reverse."""
        if self._conversation is None:
            return None
        left = [record for record in self._conversation.run.beyond if record[0] not in ENDS]
        return f"now there is a record {left[0][0]}, which wasn't there before" if left else None

    # --- the run itself

    async def run(self, conversation: Conversation) -> None:
        """Run it, until it is told to go."""
        if self._gone:
            return  # before it began
        self._conversation = conversation
        if self._look is not None:
            self.look = partial(self._look.looks, conversation.make_run())
        task = trio.lowlevel.current_task()
        code_tasks[task] = conversation.seq
        try:
            try:
                self._end = await self._leash.run(conversation.go_over(handle_of(conversation)))
            finally:
                del code_tasks[task]
                conversation.went_over()
        except BaseException as error:
            if not self._leash.cut or not _is_left(error):
                raise
        finally:
            self._over.set()
            self._at_end.set()
        if isinstance(self._end, Stuck):
            self.divergence = self._parting(self._end)

    def _parting(self, stuck: Stuck) -> Divergence:
        what = stuck.error.what
        if stuck.failure is None:
            parting = None if self._by is None else self._by.judge.parted
            return Divergence(stuck.error.id, what, self._stuck_at, parting)
        first = next(iter(leaves(stuck.failure)))
        what += f"; now it failed with {type(first).__name__}"
        return Divergence(stuck.error.id, what, failing_line(first.__traceback__))

    async def wait(self, seconds: float) -> None:
        """Wait until it stands somewhere."""
        with trio.move_on_after(seconds):
            await self._at_end.wait()
        for _ in range(_PATIENCE):  # the loop may have stood still, such as at a breakpoint
            if self._at_end.is_set():
                break
            await trio.lowlevel.checkpoint()
        if self._leash.cut and self._end is None and self.divergence is None:
            self._hangs(self._leash.line)
        elif not self._at_end.is_set():
            task = self.task
            self._hangs("?" if task is None else line_in(task))

    async def go(self) -> None:
        """Let it go, whether it wants to or not."""
        self._gone = True
        if self._conversation is None:
            return
        self._conversation.evict()
        with trio.CancelScope(shield=True):
            for _ in range(_PATIENCE):
                if self._over.is_set():
                    return
                await trio.lowlevel.cancel_shielded_checkpoint()
            await self._leash.leave()

    def _hangs(self, line: str) -> None:
        self.hangs = True
        what = "what ended before doesn't end now: it waits for something that isn't the chat's, or runs on"
        self.divergence = Divergence("0", what, line)

    # --- as the host

    def now(self) -> int:
        return self._now

    def jumped(self) -> int:
        return self._jumped

    def append(self, record: Record, rows: Sequence[int] = (), write: object = None) -> None:
        raise AssertionError("a dry run records nothing")

    async def commit(self) -> None:
        await trio.lowlevel.checkpoint()

    def rests(self, wake: int | None) -> None:
        self._at_end.set()

    def concluded(self, error: BaseException | None) -> None:
        if self._conversation is not None:
            self._conversation.concluded(error)

    def stuck(self, error: NondeterminismError, task: trio.lowlevel.Task | None) -> None:
        self._stuck_at = parting_line(error.id, task)

    def parting(self, record: Record, op: OpenOperation) -> str | None:
        why = None if self._by is None else self._by.parting(record, op)
        conversation = self._conversation
        is_judged = conversation is None or conversation.run.cursor <= self._judged
        if why is None and record[4] != op.print and not is_judged:
            what = f"a {op.kind} has other arguments than before"
            self.changed.append(Divergence(str(op.id), what, line_in(op.task)))
        return why

    def reached(self, operations: Sequence[OpenOperation]) -> str | None:
        return None if self._by is None else self._by.standing(operations)

    def swallowed(self, id: Id) -> None:
        self._leash.cut = True


def _words(end: End) -> str:
    match end:
        case Crashed(error) | WasInterrupted(_, Exception() as error):
            return recorded_ending(["Z", 0, CODEC.node_of_error(error)])
        case ContinuesAs(fn):
            return f"it goes on as {fn}"
        case Stuck():
            return "it could go no further"
        case _:
            return ending_words([])


def recorded_ending(record: Record) -> str:
    """How a conversation ended, in words without content."""
    if record[0] == CONTINUED:
        return f"it goes on as {record[2]}"
    if record[2] is None:
        return ending_words([])
    error = CODEC.error_of(record[2])
    return ending_words(
        [one.kind if isinstance(one, StepError) else type(one).__name__ for one in leaves(error)]
    )


def ending_words(errors: Sequence[str]) -> str:
    """Say how a conversation ended, by the names of its errors."""
    return f"it failed with {', '.join(sorted(errors))}" if errors else "it came to its end"


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
    leash: Leash | None = None,
    changed: Changed | None = None,
    judged: int = 0,
) -> AsyncGenerator[Rerun]:
    """Run a journal again while the block runs: it stands where the journal ends, or diverges.

    Args:
        services: dry ones.
        group: two people were seen in its chat.
        set_by: by how much its clock has been set in all; None for not since the journal's last turn.
        look: looks on.
        leash: holds it; by default one of so many `SECONDS`.
        changed: compares the journal with the code; None if both are of one build.
        judged: so many of its turns may be another build's, and were compared before.

    Raises:
        NondeterminismError: it would be parked without being run.
    """
    route, opening = fitting(stored, table)
    row = stored.row
    shared = Shared(services, table)
    shared.care = shared.elsewhere = _UNTOUCHED
    life = ChatLife(shared, _UNTOUCHED, row.chat_id, 0)
    life.group, life.kept.values = group, {}
    async with trio.open_nursery() as nursery:
        leash = leash or Leash(SECONDS)
        time, known, unseen = times_of(stored.records)
        rerun = Rerun(time, leash, (known if set_by is None else set_by) - unseen, look, changed, judged)
        begin = Dry(stored, rerun, look or Onlooker(), leash, changed)
        conversation = Conversation(life, *opening, row.sender_id, begin)
        try:
            nursery.start_soon(rerun.run, conversation, name=f"replay of {route.name}")
            await rerun.wait(leash.seconds)
            yield rerun
        finally:
            await rerun.go()
