"""A conversation: one run of a route's coroutine, with its journal and its end.

`Conversation` makes the run (`triobot.engine`), and is the run's owner. The conversation delivers events to
the run, and ends or evicts the run. A conversation has no reference to its chat's actor or to the chat's
other conversations. So its methods return the writes and errors of the end to the actor.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, final

import attrs
import trio

from ..base.authors import leaves
from ..engine import End, Record, Run, RunOwner
from ..engine.core import ContinuesAs, Crashed, Diverged, Evicted, Returned, WasInterrupted
from ..engine.core import Operation as OpenOperation
from ..engine.records import Id
from ..errors import ForbiddenError, NondeterminismError, UnrecordableError
from ..seams.journals import EndConversation
from ..seams.rooms import is_chat
from ..seams.writes import Write
from ..wire.ids import SenderId
from .beginnings import Begin, Dry, DueStart, Facts, InRow, Replay, Successor
from .calls.signals import room_of
from .charges.paid import Giving
from .codec import CODEC
from .data import Kept, words_for
from .journal_writer import JournalWriter
from .revival.stored import StartedWith, open_run, tell
from .routes.routing import Delivery, Seat, Start, is_beside
from .running.abandon import parting_line
from .running.branches import OperationKind as OperationKind
from .running.failures import CRASHED, GONE, HANDED_OVER, put_away, verdict
from .running.failures import Ending as Ending
from .services import Services as Services
from .texts import Texts
from .units import UnitBuilder

if TYPE_CHECKING:
    from .shared import Shared

Main: TypeAlias = Callable[[Run, object], Awaitable[object]]
"""Calls the author's function with the chat's handle, and returns the function's awaitable."""


@final
@attrs.define(eq=False, repr=False, weakref_slot=False)
class Conversation(RunOwner):
    """A live conversation, interrupt or aside of one chat.

    Attributes:
        facts: facts that never change.
        run: the run; None until it is made, and after the conversation's end.
        seat: the conversation's open waits and blocks; the chat's routing reads them.
        ending: how the conversation ended or is being ended; None before, and after a stop of the program.
        evicted: whether the conversation has left memory or is about to; an evicted conversation hasn't
            ended.
        given: the start's value, as recorded.
        giving: the state of giving a payment's goods, if the conversation is the aside for a payment and has
            begun; else None.
        refused: whether the platform refused an operation in the conversation's own chat, as when the user
            has left.
        heir: the start of the interrupt that ends and replaces this conversation; None without an interrupt.
        parted_at: the author's line at which the code differs from the journal; "?" if not known.
        replay: the replay of a revived conversation or of a dry run; None for a new conversation.
        begin: how the conversation begins (`beginnings`); reset once the run is made.
        writer: writer of the journal; None before the run is made, and after the end.
        here, parting: see `RunOwner`.
    """

    _shared: Shared = attrs.field(alias="shared")
    services: Services
    _kept: Kept = attrs.field(alias="kept")
    facts: Facts
    begin: Begin
    given: object
    replay: Replay | None
    seat: Seat = attrs.field(factory=Seat, init=False)
    run: Run | None = attrs.field(default=None, init=False)
    writer: JournalWriter | None = attrs.field(default=None, init=False)
    here: Callable[[int, int, Any], int] | None = attrs.field(default=None, init=False)
    parting: Callable[[Record, Any], str | None] | None = attrs.field(default=None, init=False)
    giving: Giving | None = attrs.field(default=None, init=False)
    heir: DueStart | None = attrs.field(default=None, init=False)
    ending: Ending | None = attrs.field(default=None, init=False)
    refused: bool = attrs.field(default=False, init=False)
    evicted: bool = attrs.field(default=False, init=False)
    _busy: bool = attrs.field(default=True, init=False)
    _ended_by: tuple[int, int | None] = attrs.field(default=(0, None), init=False)
    parted_at: str = attrs.field(default="?", init=False)
    _unrecordable: UnrecordableError | None = attrs.field(default=None, init=False)

    @classmethod
    def of(
        cls,
        shared: Shared,
        kept: Kept,
        start: Start,
        delivery: Delivery,
        owner: SenderId | None = None,
        begin: Begin = None,
    ) -> Conversation:
        call, room, seq = start.call, room_of(delivery.event), delivery.seq
        replay = begin.replay if isinstance(begin, Dry) else begin if isinstance(begin, Replay) else None
        run = begin.run if isinstance(begin, Successor) else 1 if replay is None else replay.stored.row.run
        facts = Facts(
            kept.chat_id,
            seq,
            start.route,
            delivery.event,
            delivery.at,
            owner,
            (room[1] or None) if room is not None else None if call is None else call.key,
            () if call is None else call.args,
            start.interrupted,
            is_beside(start),
            run,
            f"{kept.chat_id}/{seq}/r{run}" if run > 1 else f"{kept.chat_id}/{seq}",
        )
        return cls(shared, shared.services, kept, facts, begin, start.value, replay)

    # --- start and end

    def make_run(self, actor: object) -> Run:
        """Return the run. The first call makes the run from the stored journal, or from a first record.

        Args:
            actor: the chat's actor, for a replay check of the run.
        """
        if self.run is not None:
            return self.run
        begin, replay, facts, services = self.begin, self.replay, self.facts, self.services
        if isinstance(begin, Dry):
            run = Run(begin.host, begin.replay.stored.records, CODEC, begin.owner, dry=True)
        else:
            match begin:
                case Replay(stored):
                    records: Sequence[Record] = stored.records
                case InRow() | Successor():
                    records = [begin.first]
                case None:
                    opening = StartedWith(facts.event, facts.at, self.given, facts.args, facts.interrupted)
                    times = services.clock.now(), services.clock.jumped()
                    first, self.given, self._unrecordable = open_run(facts.route, opening, *times)
                    records = [first]
            self.here = None if services.code is None else services.code.sites.here
            if replay is not None and replay.changed is not None:
                self.parting = replay.changed.parting
            unit = UnitBuilder.of(facts, self._shared, begin, records[0])
            began_at = self._shared.commits.added if replay is None else 0
            writer = self.writer = JournalWriter(self._shared, self._kept, unit, began_at)
            run = writer.run = Run(writer, records, CODEC, self, fresh=replay is None)
            run.catching_up = replay is not None
            if services.replays is not None and self._unrecordable is None:
                if unit.in_row:
                    tell(records[0], facts.event, facts.at)
                writer.watched = services.replays(actor, self, records)
        self.run, self.begin = run, None  # `begin` is needed only for making the run
        return run

    def go_over(
        self, main: Main, chat: object, scope: trio.CancelScope | None = None
    ) -> Coroutine[Any, Any, End]:
        """Return the coroutine that replays the journal and then runs on; a dry run ends with the journal.

        Args:
            chat: the handle that the author's function gets.
            scope: see `Run.run_within`; by default the run makes a scope.
        """
        run, replay = self.run, self.replay
        assert run is not None
        if self.ending is not None and (replay is None or replay.stored.interrupted_by is None):
            run.interrupt(*self._ended_by, self.ending.value)
        if self._unrecordable is not None:
            main = partial(_refuse, self._unrecordable)
        # With `chat` as an argument, the run doesn't decode the start's arguments from the first record.
        if scope is None:
            return run.run(main, chat)
        return run.run_within(scope, main, chat)

    def came_to(self, end: End) -> Exception | None:
        """Set `ending` from the run's end. Return the author's error, if any."""
        if self.writer is not None and not isinstance(end, ContinuesAs):
            self.writer.successor = None
        match end:
            case Returned():
                self.ending = self.ending or Ending.NORMAL
            case Crashed(error):
                self.ending = Ending.FAILED
                return error
            case WasInterrupted(why, error):
                self.ending = self.ending or Ending(why)
                return error
            case ContinuesAs():
                self.ending = self.ending or Ending.CONTINUED
            case Evicted(error):
                if error is not None:
                    put_away(error, self.facts.route.name, self.facts.place_name, self.services.tracebacks)
            case Diverged():
                pass
        return None

    def is_done(self) -> None:
        """Drop references that form cycles, so that memory is freed without the garbage collector."""
        if not self.seat.parked:
            if self.writer is not None:
                self.writer.run = None
            self.writer = self.run = self.giving = None

    def verdict(self, failure: Exception) -> tuple[str, str]:
        """Return the name under which a failure is counted, and the user's message; "" means no message."""
        errors = list(leaves(failure))
        # The user is taken to be gone only if every error is a refusal and this chat was refused. A refusal
        # from another chat alone is a normal failure.
        refused = self.refused and all(isinstance(error, ForbiddenError) for error in errors)
        if self.ending is Ending.LEFT or refused:
            return GONE, ""
        what, words = verdict(errors, self.texts)
        if (giving := self.giving) is not None and giving.owes and what in (CRASHED, HANDED_OVER):
            # The user need not start again: the goods were given, or the aside runs once more.
            words = self.texts.handed_over if giving.alone else ""
        return what, words if is_chat(self.facts.chat_id) else ""

    def end(self, ending: Ending, at: int | None = None, by: int | None = None) -> Sequence[Write] | None:
        """Cancel the coroutine, for example for an interrupt.

        Of several calls, only the first counts, except that `Ending.LEFT` replaces another ending.

        Args:
            at: time of the cause in wall milliseconds; by default now.
            by: inbox row of the event that starts the interrupt; the interrupt begins once this conversation
                has ended.

        Returns:
            For a parked conversation, which ends at once: the writes that store the end. Else None.
        """
        if self.ending is None:
            self.ending = ending
            if self.writer is not None:
                self.writer.successor = None
            if self.seat.parked:
                if self.writer is not None:
                    return self.writer.conclude()
                row = None if self.replay is None else self.replay.stored.row
                return [] if row is None else [EndConversation(row.id, self.services.clock.now())]
            # If the run hasn't begun, `go_over` interrupts the run later, with this time and row.
            self._ended_by = self.services.clock.now() if at is None else at, by
            if self.run is not None and not self.dead:
                self.stirred()
                self.run.interrupt(*self._ended_by, ending.value)
        elif ending is Ending.LEFT:
            self.ending = ending
        return None

    def evict(self) -> None:
        """Remove the conversation from memory without ending it."""
        self.evicted = True
        if self.writer is not None:
            # A restart could revive the conversation from its event's row. This process can revive the
            # conversation only from the conversation's own row and journal.
            self.writer.flush(begin=self.writer.unit.in_row and not self._shared.work.cut)
        if self.run is not None:
            self.run.evict()

    # --- while it runs

    @property
    def dead(self) -> bool:
        """Whether the run isn't made, has ended, or is being evicted."""
        run = self.run
        return run is None or run.over or run.dying

    @property
    def replaying(self) -> bool:
        """Whether the code that runs now has run before, so that side effects must not be repeated."""
        run = self.run
        return run is not None and (run.journal.dry or not run.journal.live)

    @property
    def is_waiting(self) -> bool:
        """Whether the conversation only waits, so that an eviction loses nothing."""
        run = self.run
        waits = run is not None and run.is_waiting and not run.mailbox
        return self.seat.parked or (waits and self.heir is None)

    @property
    def texts(self) -> Texts:
        """The runtime's own messages, as chosen for this chat."""
        texts, run = self.services.texts, self.run
        if isinstance(texts, Texts):
            return texts
        return self._kept.texts if run is None or run.main.task is None else words_for(texts, run.read)

    def bring(self, delivery: Delivery) -> None:
        """Deliver an event to the run, for one of the waits or blocks."""
        if (run := self.run) is None or run.over or run.dying:
            return  # an event that isn't in the inbox, such as a payment's news, is lost
        self.stirred()
        if self.services.tracing is not None:
            self.services.tracing.brought(self, delivery.seq)
        run.deliver(delivery.seq, delivery.at, delivery)

    def tick(self) -> None:
        """Make the run check its deadlines; does nothing while the chat is loading."""
        if (run := self.run) is None or run.over or run.dying or run.catching_up:
            return
        self.stirred()
        run.tick()

    def stirred(self, *, busy: bool = True) -> None:
        """Count the conversation as busy, or as not busy, in the workload; repeated calls count once."""
        if busy is not self._busy:
            self._busy = busy
            self._shared.work.working(1 if busy else -1)

    # --- as the run's owner

    def rests(self, wake: int | None) -> None:
        run, writer = self.run, self.writer
        assert run is not None
        assert writer is not None
        if (replay := self.replay) is not None and replay.stored.records:  # the replay is over
            replay.settled.set()
            replay.stored = attrs.evolve(replay.stored, records=())
            works, replay.when_over = replay.when_over, ()
            for work in works:
                work()
        if is_waiting := run.is_waiting:
            self.stirred(busy=False)
        # A conversation that waits for a paid aside counts as unfinished. So the next start of the bot
        # revives the conversation: the aside may have ended in the meantime.
        if writer.rests(is_waiting and not self.seat.awaited, wake):
            self._shared.timers.wake_at(self, wake)

    def concluded(self, error: BaseException | None) -> None:
        """Add the payment's settlement, and the user's message after a failure, to the writes of the end."""
        run, writer = self.run, self.writer
        if run is None or writer is None or (error is None and self.giving is None):
            return
        if (giving := self.giving) is not None:
            if not self.facts.route.hooks:
                giving.handled(error, run.felt)
            if giving.owes and not self.dead:
                goes_on = writer.successor is not None
                ends = giving.conclude(error, goes_on=goes_on, replaying=self.replaying)
                if ends:
                    run.also("ends", ends)
        if self.dead or run.interrupted or self.ending is not None or not isinstance(error, Exception):
            return
        # The message is stored with the end: a crash between the two can't lose it.
        if words := self.verdict(error)[1]:
            owed = self._shared.cleanup.owe_words(self.facts.chat_id, self.facts.seq, words)
            run.also("words", owed)

    def reached(self, operations: Sequence[OpenOperation]) -> str | None:
        code, replay, writer = self.services.code, self.replay, self.writer
        if code is None or replay is None or writer is None:
            return None
        if replay.changed is None:
            code.place(operations, replay.stored)
        elif (why := replay.changed.standing(operations)) is not None:
            return why
        replay.changed = self.parting = writer.unit.former = None
        writer.unit.build = code.build
        if replay.stored.row.updated_at < self.services.store.opening().epoch_at:
            for wait in self.seat.waits:  # the presses since the backup are unknown
                wait.shown = wait.keys and "?"
        return None

    def diverged(self, error: NondeterminismError, task: trio.lowlevel.Task | None) -> None:
        self.parted_at = parting_line(error.id, task)

    def swallowed(self, id: Id) -> None:
        self._shared.work.let_go(self, id)


def _refuse(error: UnrecordableError, run: Run, chat: object) -> Awaitable[object]:
    raise error
