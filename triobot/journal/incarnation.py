"""One incarnation of a conversation: its code, run over its journal, and then on.

Whoever owns it brings what happens (`complete`, `end_scope`, `interrupt`, `put`, `tick`) and gets what is
recorded through its `World`. The code uses the rest. `run` is shielded from whoever awaits it: a
cancellation from there would look like a foreign one. To stop it, `evict` it.
"""

from __future__ import annotations

import math
import random
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager
from typing import NoReturn, TypeVar, cast, final

import trio

from ..errors import (
    ConversationEndedError,
    ForeignTaskError,
    UnreadableRecordError,
)
from ..seams import Write
from ..values import decode_value
from .between import ChatChannel, ChatEvent
from .branches import Branch, Nature, Place
from .doubts import PLAIN_PAST, Past
from .ends import ContinuesAs as ContinuesAs
from .ends import Crashed as Crashed
from .ends import End as End
from .ends import Evicted as Evicted
from .ends import Returned as Returned
from .ends import Stuck as Stuck
from .ends import WasInterrupted as WasInterrupted
from .faults import Raises, leaves, record_error, record_value
from .foreign import lasts
from .history import History
from .keeping import Kept, put_data
from .nursery import Nursery, open_nursery
from .operations import TORN, enter, park, perform
from .outline import Outline, outline
from .patches import patched
from .recording import next_turn
from .records import Continued, Ended, Noted, OperationId, Record, Row, Start, Value, drawn, recordable
from .scopes import Scope
from .stimuli import Completion, Expiry, Interruption, Written
from .turns import Turns
from .world import World

T = TypeVar("T")


class _Continue(BaseException):
    """Leaves the coroutine, past every `except Exception`."""

    def __init__(self, fn: str, args: str) -> None:
        super().__init__()
        self.fn = fn
        self.text = args


@final
class Incarnation:
    """A conversation's code on its journal.

    Args:
        journal: all records so far; only the start for a conversation that begins.
        rows: what is beside the journal.
        begun: None if it is revived; else what moves with the first record.
        dry: stand still where the journal ends: nothing is armed, no effect's body runs.
        opened: it begins, and its first record is durable already.
        past: what its records don't say of the time before.
    """

    def __init__(
        self,
        world: World,
        journal: Sequence[Record],
        rows: Iterable[Row] = (),
        *,
        begun: Sequence[Write] | None = None,
        dry: bool = False,
        opened: bool = False,
        past: Past = PLAIN_PAST,
    ) -> None:
        self._history = History(journal, rows)
        self._turns = Turns(world, self._history, TORN, begun, past, dry=dry, opened=opened)
        self._tasks: dict[trio.lowlevel.Task, Branch] = {}
        self._main = Branch()
        self._why = "interrupted"

    @property
    def start(self) -> Start:
        """The first record."""
        return self._history.start

    # --- its life

    async def run(self, main: Callable[[], Awaitable[object]]) -> End:
        """Run the code to its end; never raises an author's error."""
        turns, task = self._turns, trio.lowlevel.current_task()
        failure: BaseExceptionGroup[Exception] | None = None
        continued: _Continue | None = None
        self._main.around.append(turns.interruption)
        try:
            self._tasks[task] = self._main
            turns.begin(self._main)
            try:
                with turns.interruption:
                    continued = await self._unless_continued(main)
            except* Exception as group:
                failure = group
        finally:
            self._tasks.pop(task, None)
        if not turns.dying:
            turns.end(self._main, self._last_record(failure, continued))
        return self._end(failure, continued)

    async def _unless_continued(self, main: Callable[[], Awaitable[object]]) -> _Continue | None:
        try:
            await main()
        except _Continue as error:
            return error
        return None

    def _last_record(
        self, failure: BaseExceptionGroup[Exception] | None, continued: _Continue | None
    ) -> Ended | Continued:
        if continued is not None:
            return Continued(self._turns.time, continued.fn, continued.text)
        told = record_error(ExceptionGroup("", list(leaves(failure)))).text if failure else None
        return Ended(self._turns.time, told)

    def _end(self, failure: BaseExceptionGroup[Exception] | None, continued: _Continue | None) -> End:
        if self._turns.stuck is not None:
            return Stuck(self._turns.stuck, failure)
        if self._turns.dying:
            return Evicted(failure)
        if continued is not None:
            return ContinuesAs(continued.fn, continued.text)
        if self._turns.interrupted:
            return WasInterrupted(self._why, failure)
        return Returned() if failure is None else Crashed(failure)

    def evict(self) -> None:
        """End this incarnation, and nothing of the conversation. Nothing is sent or recorded any more."""
        self._turns.evict()

    def lasts(self) -> None:
        """Take the last turn of the journal for one that never ended: a deadline or an interrupt cuts it."""
        lasts(self._turns)

    def give_up(self, what: str) -> None:
        """Go no further, and be stuck here: because of `what`."""
        holder = self._turns.holder
        task = next((task for task, branch in self._tasks.items() if branch is holder), None)
        self._turns.get_stuck(self._main.turn if holder is None else holder.turn, what, task)

    @property
    def quiescent(self) -> bool:
        """Whether an eviction loses nothing but memory."""
        return self._turns.quiescent

    @property
    def rests(self) -> bool:
        """Whether nobody has the turn, and nothing waits to be given; an effect may be under way."""
        return self._turns.rests and not self.over

    @property
    def effects(self) -> Set[str]:
        """The kinds of the effects that are under way."""
        return self._turns.effects

    @property
    def live(self) -> bool:
        """Whether everything recorded has been replayed."""
        return self._turns.live

    @property
    def replaying(self) -> bool:
        """Whether what runs now ran before: what it does to the world has been done."""
        return not self._history.exhausted

    @property
    def given(self) -> int:
        """How many records of the journal have been replayed."""
        return self._history.given

    @property
    def interrupted(self) -> bool:
        """Whether an interrupt has ended it, and it is on its way out."""
        return self._turns.interrupted

    @property
    def felt(self) -> bool:
        """Whether some of its code has felt that; else it came to its end as if nobody had interrupted it."""
        return self._turns.felt

    @property
    def over(self) -> bool:
        """Whether it ended or dies: nothing that is offered will be taken."""
        return self._turns.over or self._turns.dying

    def standing(self) -> tuple[object, ...]:
        """Where it stands: what two incarnations over one journal must agree on."""
        turns = self._turns
        return (
            sorted((one.id, one.kind, one.arguments) for one in turns.parked.values()),
            sorted((one.id, one.due, one.scope.cancel_called) for one in turns.scopes.values()),
            sorted(turns.data.items()),
        )

    def outline(self) -> Outline:
        """Where its tasks are now."""
        return outline(self._turns, self._tasks)

    @property
    def tasks(self) -> Mapping[str, trio.lowlevel.Task]:
        """What runs its branches, by their paths."""
        return {branch.path: task for task, branch in self._tasks.items()}

    def task_in(self, id: OperationId) -> trio.lowlevel.Task | None:
        """What is parked in this operation."""
        parked = self._turns.parked.get(id)
        return None if parked is None else parked.task

    @property
    def unasked(self) -> Sequence[OperationId]:
        """Notes of the journal that the code hasn't asked for."""
        return sorted(self._history.notes.keys() - self._history.asked)

    # --- what happens

    def complete(
        self,
        id: OperationId,
        value: object,
        *,
        stamp: int,
        event: int | None = None,
        moves: Sequence[Write] = (),
        withdraw: Callable[[], None] | None = None,
        time: int | None = None,
    ) -> bool:
        """A wait takes this; False if it takes nothing any more.

        Args:
            value: what it returns; an exception is raised.
            withdraw: called if it comes to nothing: the wait is cancelled first.
            time: of the turn in which it is taken, if that is known already.
        """
        parked = self._turns.expects(id)
        if parked is None:
            return False
        parked.over = True
        outcome = record_error(value) if isinstance(value, Exception) else record_value(value)
        self._turns.offer(Completion(parked, outcome, stamp, event, tuple(moves), withdraw, time))
        return True

    def next_turn(self, id: OperationId) -> int | None:
        """When the turn would be in which this wait takes something; None if anything else comes first."""
        return next_turn(self._turns, id)

    def end_scope(
        self,
        id: OperationId,
        value: object,
        *,
        stamp: int,
        event: int | None,
        withdraw: Callable[[], None] | None = None,
    ) -> bool:
        """An event ends this block; False if it is over, or on its way out.

        Args:
            withdraw: called if it comes to nothing: something else ends the block first.
        """
        scope = self._turns.scopes.get(id)
        if scope is None or scope.cut or self.over:
            return False
        outcome = record_value(value)
        text = outcome.text if isinstance(outcome, Value) else None
        self._turns.offer(Expiry(scope, stamp, event, text, withdraw))
        return True

    def interrupt(
        self, *, stamp: int, event: int | None = None, moves: Sequence[Write] = (), why: str = "interrupted"
    ) -> None:
        """End the conversation: it may still say goodbye under a shield."""
        self._why = why
        self._turns.offer(Interruption(stamp, event, tuple(moves), why))

    def put(self, key: str, value: str | None, *, stamp: int) -> None:
        """Somebody else wrote into what the chat keeps."""
        self._turns.offer(Written(stamp, key, value))

    def tick(self) -> None:
        """It is later than it was."""
        self._turns.tick()

    # --- operations

    def current(self) -> Branch:
        """The current task's branch.

        Raises:
            ConversationEndedError: the conversation is over.
            ForeignTaskError: the task is none of this conversation's, or runs the body of a step.
        """
        branch = self._tasks.get(trio.lowlevel.current_task())
        if branch is None:
            if not self._tasks:
                raise ConversationEndedError("this conversation is over")
            raise ForeignTaskError(
                "a chat operation from a task that the conversation doesn't know; "
                "start it with chat.open_nursery()"
            )
        if branch.place is Place.WORKS and not self._turns.dying:
            raise ForeignTaskError("a chat operation inside a step; return a value instead")
        return branch

    async def wait(self, kind: str, subject: object, fingerprint: str = "") -> object:
        """Wait until `complete`. Cancellation: *atomic*."""
        parked = await enter(self._turns, self.current(), kind, Nature.WAIT, fingerprint)
        parked.subject = subject
        return await park(self._turns, parked)

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        await self._sleep(self._turns.time + math.ceil(seconds * 1000), steady=True)

    async def sleep_until(self, at: int) -> None:
        """Wait until a wall time in milliseconds."""
        await self._sleep(at)

    async def _sleep(self, due: int, *, steady: bool = False) -> None:
        turns, branch = self._turns, self.current()
        await park(turns, await enter(turns, branch, "sleep", Nature.SLEEP, due=due, steady=steady))

    async def effect(
        self,
        kind: str,
        body: Callable[[], Awaitable[T]],
        fingerprint: str = "",
        *,
        lane: str | None = None,
        raises: Raises = (),
        in_doubt: Exception | None = None,
        holds: bool = False,
        inside: bool = False,
    ) -> T:
        """Run ``body()`` at least once, and never again once its outcome is recorded.

        Args:
            lane: those of one lane start one after another, in the order of their operations.
            raises: the author's own errors that come back as themselves.
            holds: deadlines around it wait for it a little (`stimuli.HELD`).
            inside: only the store sees what it does, so it may begin before what was before it is durable.
            in_doubt: raised in place of a repeat, when it may have happened before a crash.

        Cancellation: *ambiguous*: the body may have done its work.
        """
        parked = await enter(self._turns, self.current(), kind, Nature.EFFECT, fingerprint)
        parked.lane, parked.holds = lane, holds
        parked.in_doubt = None if in_doubt is None else record_error(in_doubt)
        intend = in_doubt is not None
        value = await perform(self._turns, parked, body, raises, intend=intend, inside=inside)
        return cast("T", value)

    # --- structure

    def scope(
        self,
        *,
        seconds: float | None = None,
        at: int | None = None,
        shield: bool = False,
        told: Callable[[int], None] | None = None,
    ) -> Scope:
        """A block that a deadline, an event or its `cancel` ends; see `Scope` for `told`."""
        after = None if seconds is None or seconds == math.inf else math.ceil(seconds * 1000)
        return Scope(self._turns, self.current, after=after, at=at, shield=shield, told=told)

    def open_nursery(self) -> AbstractAsyncContextManager[Nursery]:
        """A nursery of branches."""
        return open_nursery(self._turns, self._tasks, self.current())

    def open_event(self) -> ChatEvent:
        """How one branch tells others that something happened."""
        self.current()
        return ChatEvent(self._turns, self.current)

    def open_channel(self, capacity: int = 0) -> ChatChannel[object]:
        """How one branch gives values to another."""
        self.current()
        return ChatChannel[object](self._turns, self.current, capacity)

    def continue_as(self, fn: str, *args: object) -> NoReturn:
        """End here, and go on as another function with a journal of its own."""
        if self.current() is not self._main or len(self._turns.branches) > 1:
            raise ForeignTaskError("continue_as() is for the conversation itself, outside of its nurseries")
        raise _Continue(fn, recordable(list(args)))

    # --- what is the same on replay, without a record

    def now(self) -> int:
        """The turn's time, in wall milliseconds."""
        return self._turns.time

    def _draw(self) -> str:
        return f"{self.start.seed}:{self.current().next_id()}"

    def random(self) -> random.Random:
        """A generator of its own."""
        return random.Random(self._draw())

    def uuid(self) -> uuid.UUID:
        """An id that nobody else has."""
        return uuid.UUID(bytes=self.token(16), version=4)

    def token(self, size: int) -> bytes:
        """Bytes that nobody can guess."""
        return drawn(self.start.seed, self.current().next_id(), size)

    def upcoming(self) -> OperationId:
        """The id that the current task's next operation will have."""
        branch = self.current()
        return OperationId(f"{branch.path}{branch.count + 1}")

    def is_done(self, id: OperationId) -> bool:
        """Whether an operation has its outcome in the journal that this incarnation began with."""
        return self._history.is_done(id)

    def hand_over(self) -> None:
        """Give what the turn has left behind so far to the world, for a last commit before its end."""
        if not self.replaying:
            self._turns.hand_over()

    def write_beginning(self) -> None:
        """Give the first record to the world before anything runs: so there is something that began."""
        self._turns.draft.hand_over(unfinished=True, wake=None)

    def note(self, kind: str, ask: Callable[[], tuple[object, Sequence[Write]]]) -> object:
        """What the world has now, and what moves with it; the same on replay."""
        id = self.current().next_id()
        noted = self._history.notes.get(id)
        if noted is not None:
            self._history.asked.add(id)
            try:
                return decode_value(noted.value)
            except UnreadableRecordError as error:
                # What the code makes of it has no effect any more.
                self._turns.get_stuck(id, str(error))
                raise
        value, moves = ask() if not self.replaying else (None, ())
        text = recordable(value)
        if self.replaying:
            self._turns.get_stuck(id, f"nothing was noted here; now it is a {kind}")
        else:
            self._turns.draft.add(Noted(self._turns.time, id, kind, text), moves)
        return decode_value(text)

    def was_in_doubt(self, id: OperationId) -> bool:
        """Whether an effect may have happened twice: a crash came before its outcome was known."""
        return bool(self.note("in_doubt", lambda: (id in self._turns.in_doubt, ())))

    def also(self, moves: Sequence[Write]) -> None:
        """Let these become durable with the present turn."""
        if not self.replaying:
            self._turns.draft.also(moves)

    def patched(self, patch: str) -> bool:
        """Whether the new code is to run here; see `Chat.patched`."""
        self.current()
        return patched(self._turns, patch)

    @property
    def data(self) -> dict[str, str]:
        """What the chat keeps, as this conversation sees it. Write with `put_data`."""
        return self._turns.data

    def put_data(self, key: str, value: str | None, kept: Kept | None = None) -> bool:
        """Keep a value, durable together with the turn; returns whether that is new (`keeping`)."""
        self.current()
        return put_data(self._turns, key, value, kept)
