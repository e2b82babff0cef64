"""A conversation: one run of a route's coroutine, with its journal and its end.

Each wait and each effect of an author's code is an operation of the conversation's run (`triobot.engine`).
The run gives the operation a structural id, records its outcome, and returns the recorded outcome on replay.
`Conversation` adds the chat's part: the waits' events, the answers to button presses, and the user's message
at the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast, final

import attrs
import trio

from ..base.authors import leaves
from ..engine import ContinuesAs, Crashed, End, Evicted, Returned, Run, Stuck, WasInterrupted
from ..engine.records import Id
from ..errors import (
    ConfigError,
    ConversationEndedError,
    ForbiddenError,
    ForeignTaskError,
    LocalProtocolError,
    UnreadableRecordError,
)
from ..seams.journals import EndConversation, RunKind
from ..seams.money import Captured, PaymentGoods
from ..seams.outbox import OnUnknown, Urgency
from ..seams.rooms import is_chat, told
from ..seams.writes import Write
from ..wire.events import Event, Press, Submission
from ..wire.ids import MessageId, RefId, SenderId
from ..wire.operations import AnswerCallback, Operation, repeatable
from .beginnings import FRESH, Begin, Carried, Dry, Fresh, InRow, Revived, Successor
from .charges.paid import Giving, abandon, paid_of, tell_of_second_gift
from .codec import CODEC
from .data import words_for
from .doors.calls import room_of
from .journal_writer import JournalWriter
from .notices import Copy, Gift, Operated, Unassigned, is_changed
from .revival.changed import Changed
from .revival.stored import StartedWith, Stored, open_run
from .routes.routing import Answer, Delivery, Start, Wait, Watch, is_beside
from .running.branches import OperationKind as OperationKind
from .running.branches import fingerprint
from .running.failures import CRASHED, GONE, HANDED_OVER, lost_in_flight, parting, put_away, verdict
from .running.failures import Ending as Ending
from .running.hooks import Hooked, begin
from .running.lines import calling_line
from .services import Services as Services
from .texts import Texts

if TYPE_CHECKING:
    from .life import ChatLife

T = TypeVar("T")
Body: TypeAlias = Callable[[Id], Awaitable[T]]

HELD: Final = 5000
"""Milliseconds that a deadline which has passed still waits for a running effect with `holds`."""
_OF_PLATFORM: Final = frozenset(
    kind.value for kind in (OperationKind.SEND, OperationKind.ANSWER, OperationKind.CHARGE)
)


@final
class Conversation:
    """A live conversation, interrupt or aside of one chat.

    Attributes:
        waits: the branches' open waits.
        watches: open blocks that an event may end.
        ending: how the conversation ended; None while it runs, and after a stop of the program.
        refused: whether the platform refused an operation in the conversation's own chat, as when the user
            has left.
        owner: the sender that the conversation belongs to; None for the chat's own.
        evicted: whether the conversation has left memory or is about to; an evicted conversation hasn't
            ended.
        key: the key with which code started the route; for a room, the room's key; None without one.
        giving: delivery of a payment's goods; None unless the conversation is the aside for a payment and has
            begun.
        awaited: paid charges that wait until an aside has delivered the goods. The callback of a charge is
            called with the result.
        behind: what the asides for this conversation's payments did, by action; used to detect a second
            delivery.
        value: the start's value, as the author's code sees it.
        given: the start's value, as recorded.
        successor: the conversation that takes this one's place after `continue_as`.
        beside: whether the conversation runs as an aside, beside the live conversation.
        at: arrival time of the conversation's event, in wall milliseconds.
        settled: set when a revived conversation has replayed its journal, or has ended; None in a new
            conversation, and after the replay.
        stored: the row and journal of a revived conversation; None for a new one.
        begin: how the conversation begins (`beginnings`); reset once the run is made.
        dry: parameters of a dry run; None in a normal run.
        writer: writer of the journal; None before the run is made, and after the end.
        stuck: whether the conversation is parked: it can't go on, and waits for other code or an interrupt.
        stuck_at: the author's line at which code and journal differ, or "?".
        changed: comparison of the journal with changed code; None if the code is the same, and after the
            replay.
        copies: mutable values that the code has read from the chat's data.
    """

    __slots__ = (
        "_busy",
        "_ended_by",
        "_operations",
        "_press",
        "_run",
        "_when_live",
        "args",
        "at",
        "awaited",
        "begin",
        "behind",
        "beside",
        "changed",
        "copies",
        "dry",
        "ending",
        "event",
        "evicted",
        "given",
        "giving",
        "interrupted",
        "key",
        "life",
        "owner",
        "refused",
        "route",
        "run_number",
        "seq",
        "services",
        "settled",
        "shared",
        "stored",
        "stuck",
        "stuck_at",
        "successor",
        "value",
        "waits",
        "watches",
        "work",
        "writer",
    )

    def __init__(
        self,
        life: ChatLife,
        start: Start,
        delivery: Delivery,
        owner: SenderId | None = None,
        begin: Begin = FRESH,
    ) -> None:
        self.services = life.services
        self.life = life
        self.shared = life.shared
        self.work = life.work
        self.route = start.route
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
        self.refused = False
        self.event: Event = delivery.event
        self.waits: list[Wait] = []
        self.watches: Sequence[Watch] = ()
        self.ending: Ending | None = None
        self.giving: Giving | None = None
        self.awaited: Mapping[RefId, Callable[[PaymentGoods], None]] = {}
        self.behind: Mapping[str, Gift] = {}
        self.stuck = False
        self.stuck_at = "?"
        self.at = delivery.at
        self.begin = begin
        self.stored: Stored | None = None
        self.settled: trio.Event | None = None
        self.changed: Changed | None = None
        self.dry: Dry | None = None
        match begin:
            case InRow() | Fresh():
                pass
            case Carried():
                self.run_number = begin.run
            case Revived() | Dry():
                self.stored, self.changed = begin.stored, begin.changed
                self.run_number, self.settled = begin.stored.row.run, trio.Event()
                self.dry = begin if isinstance(begin, Dry) else None
        self._operations = 0
        self.copies: Sequence[Copy] = ()
        self._when_live: Sequence[Callable[[], None]] = ()
        self.writer: JournalWriter | None = None
        self._run: Run | None = None
        self.evicted = False
        self._ended_by: tuple[int, int | None] = 0, None
        self._press: Press[object] | None = None
        self._busy = True

    @property
    def id(self) -> str:
        """Id of the run, the same after a restart.

        The id consists of the chat, the row of the starting event and, from the second run on, the run's
        number.
        """
        run = f"/r{self.run_number}" if self.run_number > 1 else ""
        return f"{self.life.chat_id}/{self.seq}{run}"

    @property
    def told_place(self) -> str:
        """Name of the conversation's chat or room in errors and logs."""
        return told(self.life.chat_id, room_of(self.event))

    # --- start and end

    def make_run(self) -> Run:
        """Return the run. The first call makes it from the stored journal, or with a new first record."""
        if self._run is not None:
            return self._run
        match self.begin:
            case InRow(first) | Carried(first):
                self.writer = JournalWriter(self, first)
                run = Run(self.writer, [first], CODEC, fresh=True)
            case Fresh():
                clock = self.services.clock
                opening = StartedWith(self.event, self.at, self.value, self.args, self.interrupted)
                first, value, durable = open_run(self.route, opening, now=clock.now(), jumped=clock.jumped())
                self.value = self.given = value
                self.writer = JournalWriter(self, first, durable=durable)
                run = Run(self.writer, [first], CODEC, fresh=True)
            case Revived(stored):
                self.writer = JournalWriter(self, None)
                run = Run(self.writer, stored.records, CODEC)
                run.catching_up = self.life.loading
            case Dry(stored, host):
                run = Run(host, stored.records, CODEC, dry=True)
        self._run, self.begin = run, FRESH  # frees the stored journal
        return run

    def begin_within(self, write: Callable[[Sequence[Write]], int]) -> int | None:
        """Store the first record in one unit with other writes.

        Args:
            write: adds the first record's writes, together with the caller's, to the commit queue.

        Returns:
            The unit's number; None if the conversation isn't durable, so that nothing was stored.
        """
        self.make_run()
        assert self.writer is not None
        return self.writer.begin_within(write) if self.writer.durable else None

    def go_over(self, chat: object, scope: trio.CancelScope | None = None) -> Coroutine[Any, Any, End]:
        """Return the coroutine that replays the journal and then runs on; a dry run ends with the journal.

        Call `went_over` when the coroutine has ended.

        Args:
            chat: the handle that the author's function gets.
            scope: see `Run.run_within`; by default the run makes one.
        """
        run = self._run or self.make_run()
        if isinstance(self.event, Press):
            self.take_press(self.event)
        if self.ending is not None and (self.stored is None or self.stored.interrupted_by is None):
            run.interrupt(*self._ended_by, self.ending.value)
        # The chat is passed as an argument, so that the run doesn't decode the start's arguments from the
        # first record.
        if scope is None:
            return run.run(self._begun, chat)
        return run.run_within(scope, self._begun, chat)

    def went_over(self) -> None:
        """Report values that the code has read from the chat's data and changed without assigning them."""
        copies, self.copies = self.copies, ()
        for copy in copies:
            if self.services.notice is not None and is_changed(copy):
                self.services.notice(Unassigned(copy))

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
            case Stuck(error, failure):
                self.park(parting(error, failure, self.stuck_at))
        return None

    def is_done(self) -> None:
        """Drop references that form cycles, so that no garbage collection is needed to free the memory."""
        if not self.stuck:
            self.writer = self._run = self.giving = None

    def park(self, because: str) -> None:
        """Park the conversation: it stays in its chat, without a task.

        A conversation that was being ended already ends now instead: an interrupt doesn't wait for other
        code.
        """
        self.stuck = True
        if (ending := self.ending) is None:
            self.life.calls.park(self, because)
        else:
            self.ending = None
            self.end(ending)

    def concluded(self, error: BaseException | None) -> None:
        """Record with the end how the payment is settled, and the user's message after a failure."""
        if (giving := self.giving) is not None:
            if not self.route.hooks:
                giving.handled(error, self.run.felt)
            if giving.owes and not self.dead:
                awaited = self.life.places.waiting_for(self) is not None
                ends = giving.conclude(error, goes_on=self.goes_on, awaited=awaited, replaying=self.replaying)
                self.also("ends", ends)
        if self.dead or self.run.interrupted or self.ending is not None:
            return
        # The message is stored with the end: a crash between the two can't lose it.
        if words := self.verdict(error)[1] if isinstance(error, Exception) else "":
            self.also("words", self.shared.tidying.owe_words(self.life.chat_id, self.seq, words))

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
        return what, words if is_chat(self.life.chat_id) else ""

    def _begun(self, run: object, chat: object) -> Awaitable[None]:
        if isinstance(self.value, Captured):
            owes = self.run_number == 1
            self.giving = Giving(self.shared, self.route, self.life.chat_id, self.value, owes=owes)
            with self.reading():
                self.value = paid_of(self.value)
        if self.route.hooks:
            ended = None if self.giving is None else self.giving.handled
            notice = self.services.notice
            return Hooked(self.run, self.route, chat, self.args, self.check_task, ended, notice).call()
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
            if self.stuck:
                self.life.write_end(self, self.end_with())
                abandon(self.shared, self.life.chat_id, self.id, self.key)
                self.life.parked_no_more(self)
                self.life.ended(self)
                return
            # `go_over` uses this if the run hasn't begun: later events are not for this conversation.
            self._ended_by = self.services.clock.now() if at is None else at, by
            if self._run is not None and not self.dead:
                self.stirred()
                self._run.interrupt(*self._ended_by, ending.value)
        elif ending is Ending.LEFT:
            self.ending = ending

    def evict(self) -> None:
        """Remove the conversation from memory without ending it."""
        self.evicted = True
        if self.writer is not None:
            # After a restart the event's row stands for the conversation. To revive it in this process, its
            # own row and journal must be stored.
            self.writer.flush(begin=self.writer.in_row and not self.work.cut)
        if self._run is not None:
            self._run.evict()

    @property
    def quiescent(self) -> bool:
        """Whether an eviction loses nothing but memory."""
        run = self._run
        return self.stuck or (run is not None and run.quiescent and not run.mailbox)

    @property
    def at_rest(self) -> bool:
        """Whether the conversation waits, and could be revived from the store as it is."""
        return not self.stuck and self.quiescent and self.route.durable

    def give(self, taker: Wait | Watch, answer: Answer) -> None:
        """Give an answer to a wait or block of the conversation.

        Once the wait rests, the run takes the event.
        """
        taker.give(answer)
        self.bring(answer.delivery)

    def bring(self, delivery: Delivery) -> None:
        """Deliver an event to the run, where one of the waits or blocks takes it."""
        if (run := self._run) is None or run.over or run.dying:
            return  # payments need no delivery; other events stay in the inbox
        self.stirred()
        if self.services.tracing is not None:
            self.services.tracing.brought(self, delivery.seq)
        run.deliver(delivery.seq, delivery.at, delivery)

    def may_want(self, event: Press[object] | Submission) -> bool:
        """Return whether the conversation is parked and may still be waiting for this press or form."""
        if not self.stuck:
            return False
        lived = self._run is not None and self._run.live
        return self.stored is None or lived or self.stored.may_want(event)

    def tick(self) -> None:
        """Make the run check its deadlines; does nothing while the chat is loading."""
        if (run := self._run) is None or self.dead:
            return
        if run.catching_up and self.life.loading:
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
        if self._run is not None:
            self._run.shift(by)

    def lives_on(self) -> None:
        """End the replay if all records were replayed: set `settled` and call the `when_live` callbacks."""
        if (settled := self.settled) is None or (run := self._run) is None or run.cursor < run.many:
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
        run = self._run
        if not self._busy or run is None:
            return not self._busy
        kinds = {kind.partition(" ")[0] for kind in run.effects}
        return bool(kinds) and kinds <= _OF_PLATFORM and run.holder is None

    @property
    def kind(self) -> RunKind:
        """Kind in the stored row: `aside` for a conversation beside the live one, else the route's kind.

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
        return Conversation(self.life, start, delivery, self.owner)

    def next_run(self) -> Conversation:
        """Return the successor's conversation; its first record has been written."""
        successor, writer = self.successor, self.writer
        assert successor is not None
        assert writer is not None
        begin = Carried(successor.first, *writer.carries)
        return Conversation(self.life, successor.start, successor.delivery, self.owner, begin)

    def end_with(self) -> Sequence[Write]:
        """Return the writes that end the conversation in the store."""
        if self.writer is None and self.stored is not None:
            row = self.stored.row
            return [EndConversation(row.lease, row.id, self.services.clock.now())]
        return [] if self.writer is None else self.writer.end_with()

    # --- entering operations

    @property
    def run(self) -> Run:
        """The conversation's run, through which all operations go.

        Raises:
            ConversationEndedError: the run isn't made yet, or the conversation is over.
        """
        if self._run is None:
            raise ConversationEndedError(f"this conversation is over ({calling_line()})")
        return self._run

    @property
    def begun(self) -> bool:
        """Whether the run has been made."""
        return self._run is not None

    @property
    def dead(self) -> bool:
        """Whether the run can't do anything any more: it isn't made, has ended, or is being evicted."""
        return self._run is None or self._run.over or self._run.dying

    @property
    def replaying(self) -> bool:
        """Whether the code that runs now ran before: effects beside its operations must not be repeated."""
        run = self._run
        return run is not None and (run.dry or run.cursor < run.many)

    def also(self, key: str, writes: Sequence[Write]) -> bool:
        """Store `writes` with a record, once for each `key` of a turn.

        Returns:
            False if the writes are stored already, as on replay.
        """
        return bool(writes) and self.run.also(key, writes)

    async def done(self, own: Id, kind: OperationKind) -> Sequence[Write]:
        """Return the writes that record an operation as done, for the transaction that does its work."""
        if self.writer is None or self.dead:
            return ()
        return await self.writer.with_result(own, kind.value, True)

    def enter(self, kind: OperationKind) -> Id:
        """Check that the current task may begin an operation, and return the operation's id.

        Raises:
            ConversationEndedError: the conversation is over.
            ForeignTaskError: the task doesn't belong to this conversation, or runs a step.
        """
        id = self.check_task()
        if (notice := self.services.notice) is not None and not self.replaying:
            self._operations += 1
            notice(Operated(self._operations))
        if self._press is not None and kind not in (OperationKind.ANSWER, OperationKind.SCOPE):
            press, self._press = self._press, None
            if not self.replaying:
                self.services.outbox.press_due(press)
        if self.dry is not None:
            self.dry.look.begins(id, kind)
        return id

    def check_task(self) -> Id:
        """Return the id of the current task's next operation. Raises: as `enter`."""
        try:
            if self._run is not None:
                return self._run.upcoming()
        except ForeignTaskError as error:
            if "inside an effect" in str(error):
                raise ForeignTaskError(
                    f"{calling_line()}: a chat operation inside a step; return a value instead"
                ) from None
            raise ForeignTaskError(
                f"{calling_line()}: a chat operation from a task that the conversation doesn't know; "
                "start it with chat.open_nursery()"
            ) from None
        except ConversationEndedError:
            pass
        raise ConversationEndedError(f"{calling_line()}: this conversation is over")

    def kept(self, key: str) -> str | None:
        """Return the stored text of a key in the chat's data. The first read of each turn is recorded.

        Raises:
            ConfigError: the program's first `Key` was declared after the conversation had begun.
        """
        self._check_declared()
        return cast("str | None", self.run.read(key))

    def _check_declared(self) -> None:
        self.check_task()
        if self.life.kept.values is None:
            raise ConfigError("a Key was declared too late: declare it at the top of its module")

    def keep(self, key: str, value: str | None) -> None:
        """Set or, with None, delete a key of the chat's data; durable with the turn. Raises: as `kept`."""
        self._check_declared()
        self.copies = [copy for copy in self.copies if copy.key != key]
        if value is None:
            self.run.delete(key)
        else:
            self.run.write(key, value)

    def gives(self, what: str, args: Sequence[object] = ()) -> None:
        """Record an action that may deliver what was paid for; used to detect missing and double deliveries.

        Args:
            what: a description that is the same each time; "" if the action can't be distinguished from
                others.
            args: the action's arguments.
        """
        if self.giving is not None:
            self.giving.gives(what, args)
        elif self.behind and not self.replaying:
            tell_of_second_gift(self.services, self.route, self.life.chat_id, self.behind, what, args)

    @property
    def texts(self) -> Texts:
        """The runtime's own messages, as chosen for this chat."""
        texts, kept = self.services.texts, self.life.kept
        if isinstance(texts, Texts):
            return texts
        return kept.texts if (run := self._run) is None or run.task is None else words_for(texts, run.read)

    # --- operations

    def touch(self, message_id: MessageId) -> None:
        """Cancel pending cleanup of a message: the next operation shows something else in it."""
        self.shared.tidying.touch(
            self.life.chat_id, message_id, lambda: self.run.is_recorded(self.check_task())
        )

    async def perform(
        self,
        operation: Operation[T],
        *,
        urgency: Urgency = Urgency.REPLY,
        on_unknown: OnUnknown = OnUnknown.RESEND,
        unless: Callable[[], Awaitable[bool]] | None = None,
    ) -> T:
        """Perform a platform operation in the chat's order.

        Args:
            unless: called just before the operation is sent; if it returns True, nothing is sent, and the
                result is None.
        """
        own = self.enter(OperationKind.SEND)
        if self.giving is not None and not isinstance(getattr(operation, "content", ""), str):
            # A file may be the paid goods.
            self.gives("")
        if self.dry is not None:
            self.dry.look.sends(own, operation)
        if self.changed is not None:
            self.changed.sends(own, operation)

        async def body() -> T:
            recorded = None if repeatable(operation) or not self.route.durable else trio.Event()
            try:
                if unless is not None and await unless():
                    return cast("T", None)
                return await self.services.outbox.perform(
                    operation, urgency=urgency, on_unknown=on_unknown, recorded=recorded
                )
            finally:
                if recorded is not None:
                    self.work.commits.when_written(recorded.set)

        chat_id = getattr(operation, "chat_id", None)
        try:
            sent: T = await self.run.effect(
                f"send {operation.path}",
                body,
                print=fingerprint(operation),
                lane=str(chat_id),
                in_doubt=lost_in_flight(operation) if on_unknown is OnUnknown.RAISE else None,
                beneath=2,
            )
        except ForbiddenError:  # from the platform, or from a replayed record
            self.refused = self.refused or chat_id == self.life.chat_id
            raise
        return sent

    def typing(self) -> AbstractContextManager[None]:
        """Show the typing indicator while the block runs.

        The block has no checkpoint, since a replay shows nothing and has none.
        """
        self.enter(OperationKind.TYPING)
        return nullcontext() if self.replaying else self.services.outbox.typing(self.life.chat_id)

    @contextmanager
    def reading(self) -> Generator[None]:
        """Park the conversation if the block meets a record that this program can't read."""
        try:
            yield
        except UnreadableRecordError as error:
            # A conversation that isn't durable fails instead.
            if self.route.durable:
                self.give_up(error.what)
            raise

    def give_up(self, what: str) -> None:
        """Stop the run here as stuck, with `what` as the reason."""
        run = self.run
        run.get_stuck(run.main.turn, what, run.tasks.get(""))

    def take_press(self, press: Press[object]) -> None:
        """Remember a press: until the next operation, the author's code may answer it."""
        self._press = press
        if not self.replaying:
            self.services.outbox.press_taken(press)

    async def answer(self, text: str, *, alert: bool) -> bool:
        """Answer the newest press. Return False if there is no press to answer."""
        own = self.enter(OperationKind.ANSWER)
        press, self._press = self._press, None
        if self.dry is not None and press is not None:
            with suppress(LocalProtocolError):  # recording the answer raises, too
                self.dry.look.sends(own, AnswerCallback(press.chat_id, press.callback_id, text, alert))

        async def body() -> bool:
            if press is None:
                await trio.lowlevel.checkpoint()
                return False
            return await self.services.outbox.answer(press, text, alert=alert)

        return cast("bool", await self.run.effect("answer", body))

    def effect(
        self, kind: OperationKind, body: Body[T], *, holds: bool = False, inside: bool = False
    ) -> Awaitable[T]:
        """Run `body` at least once, and not again once its outcome is recorded. Await the result at once.

        Args:
            body: gets the operation's id.
            holds: make deadlines around the effect wait for it, up to `HELD` milliseconds.
            inside: `body` changes only the store, so that it need not wait for earlier records to be durable.
        """
        own = self.enter(kind)
        # An event taken before it was stored may be taken back. Then `body`'s writes must not survive, so
        # `body` waits until that is decided.
        inside = inside and (self.writer is None or self.writer.ahead is None)
        hold = HELD if holds else 0
        return self.run.effect(kind.value, lambda: body(own), holds=hold, inside=inside)
