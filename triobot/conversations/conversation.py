"""One run of a route's coroutine: its journal, its one door, its end.

Every wait and every effect of an author's code is an operation of its run (`triobot.engine`): it gets a
structural id there, is recorded there, and is given back from there after a restart. What is here is what the
chat adds: which events a wait takes, whose press is to be answered, what the user hears at the end.
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
"""Milliseconds that a deadline waits for an operation that holds it."""
_OF_PLATFORM: Final = frozenset(
    kind.value for kind in (OperationKind.SEND, OperationKind.ANSWER, OperationKind.CHARGE)
)


@final
class Conversation:
    """A live conversation, interrupt or aside of one chat.

    Attributes:
        waits: what its branches would take now.
        watches: the open blocks that an event may end.
        ending: None while it runs, and when the program stops: then it hasn't ended.
        refused: the platform refused something of its own chat: the user may have left.
        owner: whose it is; None when it is the chat's.
        evicted: it has left memory, or is about to, and isn't over.
        key: with which code started it; of a room its own, None for the only one of its kind.
        giving: what it gives; None unless it is the aside for a payment, and has begun.
        awaited: its charges that are paid, and wait for the asides that give what was bought; each is told
            by this what became of that.
        value: what it was started with, as its code sees it.
        given: the same, as it is recorded.
        successor: what goes on in its place.
        beside: it has the place of an aside.
        at: when its event arrived.
        settled: after a revival, until what was recorded has been replayed: set then, or once it is over.
        stored: what it was revived from.
        begin: how it comes to be, until it runs.
        dry: it is a run that only looks at its journal.
        writer: keeps its records; None before it is made, and once it is over.
        stuck: it can't be revived with this code, and waits for other code or an interrupt.
        stuck_at: the author's line where that was found, or "?".
        changed: compares its journal with other code than its own, until it lives.
        copies: what its code has read of what the chat keeps, and may change.
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
        """Return what is the same for this run after a crash, too: the chat, and the row that started it."""
        run = f"/r{self.run_number}" if self.run_number > 1 else ""
        return f"{self.life.chat_id}/{self.seq}{run}"

    @property
    def told_place(self) -> str:
        """Return what its chat or room is called in errors and logs."""
        return told(self.life.chat_id, room_of(self.event))

    # --- life and death

    def make_run(self) -> Run:
        """Make the run, over what is stored or from the first line."""
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
        self._run, self.begin = run, FRESH  # what it was made of may be long
        return run

    def begin_within(self, write: Callable[[Sequence[Write]], int]) -> int | None:
        """Let this write that it has begun, together with whatever else; None, and nothing, if it can't."""
        self.make_run()
        assert self.writer is not None
        return self.writer.begin_within(write) if self.writer.durable else None

    def go_over(self, chat: object, scope: trio.CancelScope | None = None) -> Coroutine[Any, Any, End]:
        """Return what runs the coroutine over its journal, and on from there unless it is a dry run.

        Call `went_over` once that has come to its end.

        Args:
            scope: see `Run.run_within`; by default the run makes one.
        """
        run = self._run or self.make_run()
        if isinstance(self.event, Press):
            self.take_press(self.event)
        if self.ending is not None and (self.stored is None or self.stored.interrupted_by is None):
            run.interrupt(*self._ended_by, self.ending.value)
        # The chat is an argument: the run does not read from the first record what it was started with.
        if scope is None:
            return run.run(self._begun, chat)
        return run.run_within(scope, self._begun, chat)

    def went_over(self) -> None:
        """Note that the coroutine runs no more."""
        copies, self.copies = self.copies, ()
        for copy in copies:
            if self.services.notice is not None and is_changed(copy):
                self.services.notice(Unassigned(copy))

    def came_to(self, end: End) -> Exception | None:
        """Note how the run ended; return the author's error, if there is one."""
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
        """Drop what leads back here, as it would all wait for the garbage collector."""
        if not self.stuck:
            self.writer = self._run = self.giving = None

    def park(self, because: str) -> None:
        """Keep the place without a task; or end, if that was asked: an interrupt waits for no other code."""
        self.stuck = True
        if (ending := self.ending) is None:
            self.life.calls.park(self, because)
        else:
            self.ending = None
            self.end(ending)

    def concluded(self, error: BaseException | None) -> None:
        """Settle what it gives for in the transaction in which it ends."""
        if (giving := self.giving) is not None:
            if not self.route.hooks:
                giving.handled(error, self.run.felt)
            if giving.owes and not self.dead:
                awaited = self.life.places.waiting_for(self) is not None
                ends = giving.conclude(error, goes_on=self.goes_on, awaited=awaited, replaying=self.replaying)
                self.also("ends", ends)
        if self.dead or self.run.interrupted or self.ending is not None:
            return
        # What the user hears of a failure goes with the end: a kill in between takes nothing from it.
        if words := self.verdict(error)[1] if isinstance(error, Exception) else "":
            self.also("words", self.shared.tidying.owe_words(self.life.chat_id, self.seq, words))

    def verdict(self, failure: Exception) -> tuple[str, str]:
        """Return as what a failure counts, and what the user hears of it; empty for nothing."""
        errors = list(leaves(failure))
        # Refused in its own chat: somebody else who has left is no reason to say nothing here.
        refused = self.refused and all(isinstance(error, ForbiddenError) for error in errors)
        if self.ending is Ending.LEFT or refused:
            return GONE, ""
        what, words = verdict(errors, self.texts)
        if (giving := self.giving) is not None and giving.owes and what in (CRASHED, HANDED_OVER):
            # There is nothing to start again: it has been given, or is given again.
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
        """Cancel the coroutine: an interrupt took over, or the user left.

        Args:
            by: the row of the interrupt, which begins once this has ended.
        """
        if self.ending is None:
            self.ending = ending
            if self.stuck:
                self.life.write_end(self, self.end_with())
                abandon(self.shared, self.life.chat_id, self.id, self.key)
                self.life.parked_no_more(self)
                self.life.ended(self)
                return
            # Before it has begun: what came after this is not for it.
            self._ended_by = self.services.clock.now() if at is None else at, by
            if self._run is not None and not self.dead:
                self.stirred()
                self._run.interrupt(*self._ended_by, ending.value)
        elif ending is Ending.LEFT:
            self.ending = ending

    def evict(self) -> None:
        """Leave memory. The conversation isn't over."""
        self.evicted = True
        if self.writer is not None:
            # The row stands for it after a start, but not in this run.
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
        """Whether it waits, and can be brought back as it is stored."""
        return not self.stuck and self.quiescent and self.route.durable

    def give(self, taker: Wait | Watch, answer: Answer) -> None:
        """Close one of its waits, or end a block, with this; the run takes the event once the wait rests."""
        taker.give(answer)
        self.bring(answer.delivery)

    def bring(self, delivery: Delivery) -> None:
        """Give an event to the run: one of its waits or blocks is to take it."""
        if (run := self._run) is None or run.over or run.dying:
            return  # a payment's news, or the event waits in the inbox
        self.stirred()
        if self.services.tracing is not None:
            self.services.tracing.brought(self, delivery.seq)
        run.deliver(delivery.seq, delivery.at, delivery)

    def may_want(self, event: Press[object] | Submission) -> bool:
        """Return whether it can't go on, and may wait for this press or form all the same."""
        if not self.stuck:
            return False
        lived = self._run is not None and self._run.live
        return self.stored is None or lived or self.stored.may_want(event)

    def tick(self) -> None:
        """Look at the clock again."""
        if (run := self._run) is None or self.dead:
            return
        if run.catching_up and self.life.loading:
            return  # it is ticked as soon as it has heard of all that came before
        run.catching_up = False
        self.stirred()
        run.tick()

    def shift(self, by: int) -> None:
        """Move deadlines that were asked for as lengths of time: the clock was set. It is ticked soon."""
        takers: list[Wait | Watch] = [*self.waits, *self.watches]
        for taker in takers:
            taker.since += by
        if self._run is not None:
            self._run.shift(by)

    def lives_on(self) -> None:
        """Note that something new happens, or that it rests: what was recorded has been replayed."""
        if (settled := self.settled) is None or (run := self._run) is None or run.cursor < run.many:
            return
        self.settled = None
        settled.set()
        if self.stored is not None:  # it has been read, and may be long
            self.stored = attrs.evolve(self.stored, records=())
        works, self._when_live = self._when_live, ()
        for work in works:
            work()

    def when_live(self, work: Callable[[], None]) -> None:
        """Do this once what was recorded has been replayed."""
        self._when_live = [*self._when_live, work]

    def stirred(self, *, busy: bool = True) -> None:
        """Count it as at work, or not."""
        if busy is not self._busy:
            self._busy = busy
            self.work.working(1 if busy else -1)

    @property
    def waits_for_platform(self) -> bool:
        """Whether it waits, or would if the platform had answered."""
        run = self._run
        if not self._busy or run is None:
            return not self._busy
        kinds = {kind.partition(" ")[0] for kind in run.effects}
        return bool(kinds) and kinds <= _OF_PLATFORM and run.holder is None

    @property
    def kind(self) -> RunKind:
        """Return as what it is stored: by its place, but for a job's run."""
        return "aside" if self.beside and self.route.job is None else self.route.kind.value

    @property
    def goes_on(self) -> bool:
        """Whether its end is the beginning of its successor, which nothing has ended before."""
        return self.successor is not None and self.ending in (None, Ending.CONTINUED)

    def heir(self, start: Start, delivery: Delivery) -> Conversation:
        """Return the interrupt that has ended this conversation, and takes its place."""
        start = attrs.evolve(start, interrupted=self.route.name)
        return Conversation(self.life, start, delivery, self.owner)

    def next_run(self) -> Conversation:
        """Return what goes on in the place of this conversation; its beginning is written."""
        successor, writer = self.successor, self.writer
        assert successor is not None
        assert writer is not None
        begin = Carried(successor.first, *writer.carries)
        return Conversation(self.life, successor.start, successor.delivery, self.owner, begin)

    def end_with(self) -> Sequence[Write]:
        """Return what ends it in the store."""
        if self.writer is None and self.stored is not None:
            row = self.stored.row
            return [EndConversation(row.lease, row.id, self.services.clock.now())]
        return [] if self.writer is None else self.writer.end_with()

    # --- the one door

    @property
    def run(self) -> Run:
        """Its operations.

        Raises:
            ConversationEndedError: there is no run yet, or no more.
        """
        if self._run is None:
            raise ConversationEndedError(f"this conversation is over ({calling_line()})")
        return self._run

    @property
    def begun(self) -> bool:
        """Whether it has its run."""
        return self._run is not None

    @property
    def dead(self) -> bool:
        """Whether nothing that it does counts any more: it is over, or dies."""
        return self._run is None or self._run.over or self._run.dying

    @property
    def replaying(self) -> bool:
        """Whether what runs now ran before, and what it did beside its operations has been done."""
        run = self._run
        return run is not None and (run.dry or run.cursor < run.many)

    def also(self, key: str, writes: Sequence[Write]) -> bool:
        """Have these written together with a record, once; return False if they were, as on replay."""
        return bool(writes) and self.run.also(key, writes)

    async def done(self, own: Id, kind: OperationKind) -> Sequence[Write]:
        """Return what says that an operation has done its work, for the transaction that does it."""
        if self.writer is None or self.dead:
            return ()
        return await self.writer.with_result(own, kind.value, True)

    def enter(self, kind: OperationKind) -> Id:
        """An operation is about to begin; gives the id that it will have.

        Raises:
            ConversationEndedError: the conversation is over.
            ForeignTaskError: the task is none of this conversation's, or runs a step.
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
        """Return the id of the current task's next operation; refuse tasks that have none."""
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
        """Return what the chat keeps under a key, as text; each read is recorded once a turn.

        Raises:
            ConfigError: no key was declared before the conversation began.
        """
        self._check_declared()
        return cast("str | None", self.run.read(key))

    def _check_declared(self) -> None:
        self.check_task()
        if self.life.kept.values is None:
            raise ConfigError("a Key was declared too late: declare it at the top of its module")

    def keep(self, key: str, value: str | None) -> None:
        """Keep a value for the chat, or with None nothing; it is durable with the turn. Raises: as `kept`."""
        self._check_declared()
        self.copies = [copy for copy in self.copies if copy.key != key]
        if value is None:
            self.run.delete(key)
        else:
            self.run.write(key, value)

    def gives(self, what: str, args: Sequence[object] = ()) -> None:
        """Note that something is done that may be what was paid for.

        Args:
            what: in words that are the same each time; empty if it can't be told from another.
            args: with which it is done.
        """
        if self.giving is not None:
            self.giving.gives(what, args)
        elif self.behind and not self.replaying:
            tell_of_second_gift(self.services, self.route, self.life.chat_id, self.behind, what, args)

    @property
    def texts(self) -> Texts:
        """The runtime's own words, as this chat is to hear them."""
        texts, kept = self.services.texts, self.life.kept
        if isinstance(texts, Texts):
            return texts
        return kept.texts if (run := self._run) is None or run.task is None else words_for(texts, run.read)

    # --- operations

    def touch(self, message_id: MessageId) -> None:
        """Drop what a message needs of tidying: it is about to show something else."""
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
        """Perform an operation in the chat's order, `unless` this finds it needless."""
        own = self.enter(OperationKind.SEND)
        if self.giving is not None and not isinstance(getattr(operation, "content", ""), str):
            self.gives("")  # a file may be what was bought
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
        except ForbiddenError:  # of the platform, or of a record from before a restart
            self.refused = self.refused or chat_id == self.life.chat_id
            raise
        return sent

    def typing(self) -> AbstractContextManager[None]:
        """Show typing while the block runs; no checkpoint, since a replay, which shows nothing, has none."""
        self.enter(OperationKind.TYPING)
        return nullcontext() if self.replaying else self.services.outbox.typing(self.life.chat_id)

    @contextmanager
    def reading(self) -> Generator[None]:
        """Go no further than what this program can read: the conversation is parked, as it is."""
        try:
            yield
        except UnreadableRecordError as error:
            # One that isn't meant to last is better off with its end.
            if self.route.durable:
                self.give_up(error.what)
            raise

    def give_up(self, what: str) -> None:
        """Go no further, and be stuck here because of this."""
        run = self.run
        run.get_stuck(run.main.turn, what, run.tasks.get(""))

    def take_press(self, press: Press[object]) -> None:
        """Note that this conversation took a press: the author may answer it until the next operation."""
        self._press = press
        if not self.replaying:
            self.services.outbox.press_taken(press)

    async def answer(self, text: str, *, alert: bool) -> bool:
        """Answer the newest press."""
        own = self.enter(OperationKind.ANSWER)
        press, self._press = self._press, None
        if self.dry is not None and press is not None:
            with suppress(LocalProtocolError):  # the record of the answer says that
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
        """Do this at least once, and never again once its outcome is recorded; it gets its own id.

        To be awaited at once.
        """
        own = self.enter(kind)
        # What the store alone sees must not outlive an event that is taken back, either.
        inside = inside and (self.writer is None or self.writer.ahead is None)
        hold = HELD if holds else 0
        return self.run.effect(kind.value, lambda: body(own), holds=hold, inside=inside)
