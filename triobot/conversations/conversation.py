"""A conversation: one run of a route's coroutine, with its journal and its end.

`Conversation` makes the run (`triobot.engine`), delivers events to it, and ends, evicts or parks it. The
author's code acts through `Conversation.operations`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

import attrs
import trio

from ..base.authors import leaves
from ..engine import ContinuesAs, Crashed, Diverged, End, Evicted, Returned, Run, WasInterrupted
from ..engine.records import Id
from ..errors import ForbiddenError, UnrecordableError
from ..seams.journals import EndConversation, RunKind
from ..seams.money import Captured, PaymentGoods
from ..seams.rooms import is_chat, told
from ..seams.writes import Write
from ..wire.events import Event, Press
from ..wire.ids import RefId, SenderId
from .beginnings import FRESH, Begin, Carried, Dry, Fresh, InRow, Revived, Successor
from .calls.signals import room_of
from .charges.paid import Giving, abandon, paid_of
from .codec import CODEC
from .journal_writer import JournalWriter
from .operations import Operations
from .revival.stored import StartedWith, Stored, open_run
from .routes.routing import Answer, Delivery, Start, Wait, Watch, is_beside
from .running.branches import OperationKind as OperationKind
from .running.failures import CRASHED, GONE, HANDED_OVER, parting, put_away, verdict
from .running.failures import Ending as Ending
from .running.hooks import Hooked, begin
from .services import Services as Services
from .workload import EarlyEvent

if TYPE_CHECKING:
    from .chat_actor import ChatActor

_OF_PLATFORM: Final = frozenset(
    kind.value for kind in (OperationKind.SEND, OperationKind.ANSWER, OperationKind.CHARGE)
)


@final
class Conversation:
    """A live conversation, interrupt or aside of one chat.

    Attributes:
        operations: the run, and what the author's code does through the run.
        waits: the branches' open waits.
        watches: open blocks that an event may end.
        ending: how the conversation ended; None while it runs, and after a stop of the program.
        owner: the sender that the conversation belongs to; None if it belongs to the whole chat.
        evicted: whether the conversation has left memory or is about to; an evicted conversation hasn't
            ended.
        key: the key with which code started the route; for a room, the room's key; None if there is no key.
        awaited: paid charges that wait until an aside has delivered the goods. The callback of a charge is
            called with the result.
        value: the start's value, as the author's code sees it.
        given: the start's value, as recorded.
        successor: the conversation that takes this one's place after `continue_as`.
        beside: whether the conversation runs as an aside, beside the live conversation.
        at: arrival time of the conversation's event, in wall milliseconds.
        settled: event that is set when a revived conversation has replayed its journal, or has ended; None in
            a new conversation, and after the replay.
        stored: the row and journal of a revived conversation; None for a new conversation.
        begin: how the conversation begins (`beginnings`); reset once the run is made.
        writer: writer of the journal; None before the run is made, and after the end.
        parked: whether the conversation is parked: it can't go on, and waits for corrected code or an
            interrupt.
        unrecordable: why the start's input can't be recorded; the conversation fails with this error.
        parted_at: the author's line at which code and journal differ, or "?".
    """

    __slots__ = (
        "_busy",
        "_ended_by",
        "_when_live",
        "actor",
        "args",
        "at",
        "awaited",
        "begin",
        "beside",
        "ending",
        "event",
        "evicted",
        "given",
        "interrupted",
        "key",
        "operations",
        "owner",
        "parked",
        "parted_at",
        "route",
        "run_number",
        "seq",
        "services",
        "settled",
        "shared",
        "stored",
        "successor",
        "unrecordable",
        "value",
        "waits",
        "watches",
        "work",
        "writer",
    )

    def __init__(
        self,
        actor: ChatActor,
        start: Start,
        delivery: Delivery,
        owner: SenderId | None = None,
        begin: Begin = FRESH,
    ) -> None:
        self.services, self.shared, self.work = actor.services, actor.shared, actor.work
        self.actor = actor
        self.route = start.route
        self.operations = operations = Operations(actor.shared, start.route, actor.chat_id, actor.kept)
        self.value = self.given = start.value
        self.args = () if start.call is None else start.call.args
        room = room_of(delivery.event)
        self.key = (room[1] or None) if room is not None else None if start.call is None else start.call.key
        self.beside = is_beside(start)
        self.seq = delivery.seq
        self.run_number = 1
        self.owner = owner
        self.interrupted = start.interrupted
        self.successor: Successor | None = None
        self.event: Event = delivery.event
        self.waits: list[Wait] = []
        self.watches: Sequence[Watch] = ()
        self.ending: Ending | None = None
        self.awaited: Mapping[RefId, Callable[[PaymentGoods], None]] = {}
        self.parked, self.parted_at = False, "?"
        self.unrecordable: UnrecordableError | None = None
        self.at = delivery.at
        self.begin = begin
        self.stored: Stored | None = None
        self.settled: trio.Event | None = None
        match begin:
            case InRow() | Fresh():
                pass
            case Carried():
                self.run_number = begin.run
            case Revived() | Dry():
                self.stored, operations.changed = begin.stored, begin.changed
                self.run_number, self.settled = begin.stored.row.run, trio.Event()
                operations.dry = begin if isinstance(begin, Dry) else None
        self._when_live: Sequence[Callable[[], None]] = ()
        self.writer: JournalWriter | None = None
        self.evicted = False
        self._ended_by: tuple[int, int | None] = 0, None
        self._busy = True

    @property
    def id(self) -> str:
        """Id of the run, the same after a restart.

        The id consists of the chat, the row of the starting event and, from the second run on, the run's
        number.
        """
        run = f"/r{self.run_number}" if self.run_number > 1 else ""
        return f"{self.actor.chat_id}/{self.seq}{run}"

    @property
    def told_place(self) -> str:
        """Name of the conversation's chat or room in errors and logs."""
        return told(self.actor.chat_id, room_of(self.event))

    # --- start and end

    def make_run(self) -> Run:
        """Return the run. The first call makes it from the stored journal, or with a new first record."""
        if self.operations.made_run is not None:
            return self.operations.made_run
        match self.begin:
            case InRow(first) | Carried(first):
                self.writer = JournalWriter(self, first)
                run = Run(self.writer, [first], CODEC, fresh=True)
            case Fresh():
                clock = self.services.clock
                opening = StartedWith(self.event, self.at, self.value, self.args, self.interrupted)
                times = clock.now(), clock.jumped()
                first, self.value, self.unrecordable = open_run(self.route, opening, *times)
                self.given = self.value
                self.writer = JournalWriter(self, first)
                run = Run(self.writer, [first], CODEC, fresh=True)
            case Revived(stored):
                self.writer = JournalWriter(self, None)
                run = Run(self.writer, stored.records, CODEC)
                run.catching_up = self.actor.loading
            case Dry(stored, host):
                run = Run(host, stored.records, CODEC, dry=True)
        self.operations.made_run, self.begin = run, FRESH  # frees the stored journal
        return run

    def begin_within(self, write: Callable[[Sequence[Write]], int]) -> int:
        """Store the first record in one unit with other writes.

        Args:
            write: adds the first record's writes, together with the caller's, to the commit queue.

        Returns:
            The unit's number.
        """
        self.make_run()
        assert self.writer is not None
        return self.writer.begin_within(write)

    def go_over(self, chat: object, scope: trio.CancelScope | None = None) -> Coroutine[Any, Any, End]:
        """Return the coroutine that replays the journal and then runs on; a dry run ends with the journal.

        Call `Operations.report_copies` when the coroutine has ended.

        Args:
            chat: the handle that the author's function gets.
            scope: see `Run.run_within`; by default the run makes one.
        """
        run = self.operations.made_run or self.make_run()
        if isinstance(self.event, Press):
            self.operations.take_press(self.event)
        if self.ending is not None and (self.stored is None or self.stored.interrupted_by is None):
            run.interrupt(*self._ended_by, self.ending.value)
        # The chat is passed as an argument, so that the run doesn't decode the start's arguments from the
        # first record.
        if scope is None:
            return run.run(self._begun, chat)
        return run.run_within(scope, self._begun, chat)

    def came_to(self, end: End) -> Exception | None:
        """Set `ending` from the run's end, or park a stuck conversation.

        Return the author's error, if any.
        """
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
                    put_away(error, self.route.name, self.told_place, self.services.tracebacks)
            case Diverged(error, failure):
                self.park(parting(error, failure, self.parted_at))
        return None

    def is_done(self) -> None:
        """Drop references that form cycles, so that no garbage collection is needed to free the memory."""
        if not self.parked:
            self.writer = self.operations.made_run = self.operations.giving = None

    def park(self, because: str) -> None:
        """Park the conversation: it stays in its chat, without a task.

        A conversation that is being ended already isn't parked. Instead it ends now, because an interrupt
        doesn't wait for corrected code.
        """
        self.parked = True
        if (ending := self.ending) is None:
            self.actor.calls.park(self, because)
        else:
            self.ending = None
            self.end(ending)

    def concluded(self, error: BaseException | None) -> None:
        """Record, with the end, the payment's settlement and the user's message after a failure."""
        operations = self.operations
        if (giving := operations.giving) is not None:
            if not self.route.hooks:
                giving.handled(error, operations.run.felt)
            if giving.owes and not operations.dead:
                awaited, replaying = self.actor.running.waiting_for(self) is not None, operations.replaying
                ends = giving.conclude(error, goes_on=self.goes_on, awaited=awaited, replaying=replaying)
                operations.also("ends", ends)
        if operations.dead or operations.run.interrupted or self.ending is not None:
            return
        # The message is stored with the end: a crash between the two can't lose it.
        if words := self.verdict(error)[1] if isinstance(error, Exception) else "":
            operations.also("words", self.shared.cleanup.owe_words(self.actor.chat_id, self.seq, words))

    def verdict(self, failure: Exception) -> tuple[str, str]:
        """Return the name under which a failure is counted, and the user's message; "" means no message."""
        errors = list(leaves(failure))
        # The user is taken to be gone only if every error is a refusal and this chat was refused. A refusal
        # from another chat alone is a normal failure.
        refused = self.operations.refused and all(isinstance(error, ForbiddenError) for error in errors)
        if self.ending is Ending.LEFT or refused:
            return GONE, ""
        what, words = verdict(errors, self.operations.texts)
        if (giving := self.operations.giving) is not None and giving.owes and what in (CRASHED, HANDED_OVER):
            # The user need not start again: the goods were given, or the aside runs once more.
            words = self.operations.texts.handed_over if giving.alone else ""
        return what, words if is_chat(self.actor.chat_id) else ""

    def _begun(self, run: Run, chat: object) -> Awaitable[None]:
        operations = self.operations
        if self.unrecordable is not None:
            raise self.unrecordable
        if isinstance(self.value, Captured):
            owes = self.run_number == 1
            operations.giving = Giving(self.shared, self.route, self.actor.chat_id, self.value, owes=owes)
            with operations.reading():
                self.value = paid_of(self.value)
        if self.route.hooks:
            ended, notice = operations.giving and operations.giving.handled, self.services.notice
            return Hooked(run, self.route, chat, self.args, operations.check_task, ended, notice).call()
        return begin(self.route, chat, self.args)

    def end(self, ending: Ending, at: int | None = None, by: int | None = None) -> None:
        """Cancel the coroutine, for example for an interrupt; a parked conversation ends at once.

        Of several calls, only the first counts, except that `Ending.LEFT` replaces another ending.

        Args:
            at: time of the cause in wall milliseconds; by default now.
            by: row of the interrupt, which begins after this conversation's end.
        """
        if self.ending is None:
            self.ending = ending
            if self.parked:
                self.actor.write_end(self, self.end_with())
                abandon(self.shared, self.actor.chat_id, self.id, self.key)
                self.actor.parked_no_more(self)
                self.actor.ended(self)
                return
            # If the run hasn't begun, `go_over` uses this time and row: later events are not for this
            # conversation.
            self._ended_by = self.services.clock.now() if at is None else at, by
            if not self.operations.dead:
                self.stirred()
                self.operations.run.interrupt(*self._ended_by, ending.value)
        elif ending is Ending.LEFT:
            self.ending = ending

    def evict(self) -> None:
        """Remove the conversation from memory without ending it."""
        self.evicted = True
        if self.writer is not None:
            # A restart could revive the conversation from its event's row. This process can revive the
            # conversation only from the conversation's own row and journal.
            self.writer.flush(begin=self.writer.in_row and not self.work.cut)
        if (run := self.operations.made_run) is not None:
            run.evict()

    @property
    def is_waiting(self) -> bool:
        """Whether the conversation only waits, so that an eviction loses nothing."""
        run = self.operations.made_run
        return self.parked or (run is not None and run.is_waiting and not run.mailbox)

    @property
    def at_rest(self) -> bool:
        """Whether the conversation waits, and could be revived from the store as it is."""
        return not self.parked and self.is_waiting

    def give(self, taker: Wait | Watch, answer: Answer) -> None:
        """Give an answer to a wait or block of the conversation.

        Once the wait rests, the run takes the event.
        """
        taker.give(answer)
        self.bring(answer.delivery)

    def bring(self, delivery: Delivery) -> None:
        """Deliver an event to the run, where one of the waits or blocks takes it."""
        if (run := self.operations.made_run) is None or run.over or run.dying:
            return  # payments need no delivery; other events stay in the inbox
        self.stirred()
        if self.services.tracing is not None:
            self.services.tracing.brought(self, delivery.seq)
        run.deliver(delivery.seq, delivery.at, delivery)

    def tick(self) -> None:
        """Make the run check its deadlines; does nothing while the chat is loading."""
        if (run := self.operations.made_run) is None or run.over or run.dying:
            return
        if run.catching_up and self.actor.loading:
            return  # ticked when the loading is done
        run.catching_up = False
        self.stirred()
        run.tick()

    def shift(self, by: int) -> None:
        """Add `by` milliseconds to the deadlines that were set as durations, after the clock was set.

        Call `tick` soon after.
        """
        takers: list[Wait | Watch] = [*self.waits, *self.watches]
        for taker in takers:
            taker.since += by
        if (run := self.operations.made_run) is not None:
            run.shift(by)

    def lives_on(self) -> None:
        """End the replay if all records were replayed: set `settled` and call the `when_live` callbacks."""
        if (settled := self.settled) is None or self.operations.replaying:
            return
        self.settled = None
        settled.set()
        if self.stored is not None:  # frees the records
            self.stored = attrs.evolve(self.stored, records=())
        works, self._when_live = self._when_live, ()
        for work in works:
            work()

    def when_live(self, work: Callable[[], None]) -> None:
        """Call `work` when the journal has been replayed."""
        self._when_live = [*self._when_live, work]

    def stirred(self, *, busy: bool = True) -> None:
        """Count the conversation as busy, or as not busy, in the workload; repeated calls count once."""
        if busy is not self._busy:
            self._busy = busy
            self.work.working(1 if busy else -1)

    @property
    def waits_for_platform(self) -> bool:
        """Whether the conversation waits, or is busy with nothing but requests to the platform."""
        run = self.operations.made_run
        if not self._busy or run is None:
            return not self._busy
        kinds = {kind.partition(" ")[0] for kind in run.effects}
        return bool(kinds) and kinds <= _OF_PLATFORM and run.holder is None

    @property
    def kind(self) -> RunKind:
        """Kind in the stored row: `aside` for a conversation that runs as an aside, else the route's kind.

        A job's run always has the route's kind.
        """
        return "aside" if self.beside and self.route.job is None else self.route.kind.value

    @property
    def goes_on(self) -> bool:
        """Whether `continue_as` ends the conversation, so that its successor takes over."""
        return self.successor is not None and self.ending in (None, Ending.CONTINUED)

    def heir(self, start: Start, delivery: Delivery) -> Conversation:
        """Return the conversation of the interrupt that has ended this one."""
        start = attrs.evolve(start, interrupted=self.route.name)
        return Conversation(self.actor, start, delivery, self.owner)

    def next_run(self) -> Conversation:
        """Return the successor's conversation; its first record has been written."""
        successor, writer = self.successor, self.writer
        assert successor is not None
        assert writer is not None
        begin = Carried(successor.first, *writer.carries)
        return Conversation(self.actor, successor.start, successor.delivery, self.owner, begin)

    # --- the journal's writer

    @property
    def ahead(self) -> EarlyEvent | None:
        """An event that was taken before it was stored, and may still be refused by the store; or None.

        While there is such an event, no effect may store anything in a transaction of its own.
        """
        return None if self.writer is None else self.writer.ahead

    async def done(self, own: Id, kind: OperationKind) -> Sequence[Write]:
        """Return the writes that record an operation as done, for the transaction of the operation's work."""
        if self.writer is None or self.operations.dead:
            return ()
        return await self.writer.done(own, kind.value)

    def end_with(self) -> Sequence[Write]:
        """Return the writes that end the conversation in the store."""
        if self.writer is None and self.stored is not None:
            row = self.stored.row
            return [EndConversation(row.lease, row.id, self.services.clock.now())]
        return [] if self.writer is None else self.writer.end_with()
