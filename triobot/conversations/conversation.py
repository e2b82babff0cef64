"""One run of a route's coroutine: its journal, its one door, its end.

Every wait and every effect of an author's code is an operation of the journal (`triobot.journal`): it gets a
structural id there, is recorded there, and is given back from there after a restart. What is here is what the
chat adds: which events a wait takes, whose press is to be answered, what the user hears at the end.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias, TypeVar, cast, final

import trio

from ..errors import (
    ConfigError,
    ConversationEndedError,
    ForbiddenError,
    ForeignTaskError,
    UnreadableRecordError,
)
from ..journal.incarnation import (
    ContinuesAs,
    Crashed,
    End,
    Evicted,
    Incarnation,
    Returned,
    Stuck,
    WasInterrupted,
)
from ..journal.records import OperationId
from ..journal.scopes import Scope
from ..journal.world import World
from ..journals import EndConversation
from ..money import Captured
from ..seams import Consume, OnUnknown, Urgency, Write
from ..wire.events import Event, Press, Submission
from ..wire.ids import MessageId, SenderId
from ..wire.operations import Operation, repeatable
from .advice import Copy
from .charges.paid import Debts, abandon
from .data.own import OwnData
from .inspection.fingerprint import fingerprint
from .revival.beginning import begun, begun_elsewhere, opened, revived
from .revival.journaling import ConversationWorld
from .revival.opening import Opened
from .revival.stored import Stored
from .routes.routing import Start
from .running.branches import Branch as Branch
from .running.branches import OperationKind as OperationKind
from .running.branches import enter_branch, leave_branch
from .running.endings import Ending as Ending
from .running.failures import apologize, lost_in_flight, parting, parting_words, report
from .running.leash import Leash
from .running.lines import calling_line
from .running.waits import Delivery, Wait, Watch
from .services import Services as Services
from .texts import Texts

if TYPE_CHECKING:
    from .chat import Chat
    from .life import ChatLife

T = TypeVar("T")
Body: TypeAlias = Callable[[OperationId], Awaitable[T]]

_WAITS: Final = frozenset({OperationKind.RECEIVE, OperationKind.SLEEP, OperationKind.CHARGE})
_OF_PLATFORM: Final = frozenset(
    kind.value for kind in (OperationKind.SEND, OperationKind.ANSWER, OperationKind.CHARGE)
)


@final
class Conversation:
    """A live conversation, interrupt or aside of one chat.

    Attributes:
        waits: what its branches would take now.
        watches: the open blocks that an event may end.
        scopes: the open blocks, by id.
        ending: None while it runs, and when the program stops: then it hasn't ended.
        refused: the platform refused something of its own chat: the user may have left.
        id: the same for this run after a crash, too: the chat, and the inbox row that started it.
        owner: whose it is; None when it is the chat's.
        key: with which code started it.
        money: what it was paid for and has not settled.
        value: what it was started with, as its code sees it.
        given: the same, as it is recorded.
        successor: what goes on in its place.
        beside: it has the place of an aside.
        settled: it has come to rest after all that was recorded, or is over, or can't be revived.
        stored: what it was revived from.
        dry: the world of a run that only looks at its journal.
        leash: of a dry run, which holds its tasks.
        stuck: it can't be revived with this code, and waits for other code or an interrupt.
        stuck_at: the author's line where that was found, or "?".
        copies: what its code has read of what the chat keeps, and may change.
    """

    def __init__(
        self,
        services: Services,
        life: ChatLife,
        start: Start,
        delivery: Delivery,
        interrupted: str | None = None,
        owner: SenderId | None = None,
        stored: Stored | None = None,
        dry: World | None = None,
        leash: Leash | None = None,
        made: Opened | None = None,
    ) -> None:
        self.services = services
        self.life = life
        self.house = life.house
        self.route = start.route
        self.value = self.given = start.value
        self.args = () if start.call is None else start.call.args
        self.key = None if start.call is None else start.call.key
        self.beside = start.beside
        self.seq = delivery.seq
        self.id = f"{life.chat_id}/{delivery.seq}"
        self.owner = owner
        self.interrupted = interrupted
        self.successor: tuple[Start, Delivery] | None = None
        self.nurseries = 0
        self.refused = False
        self.event: Event = delivery.event
        self.waits: list[Wait] = []
        self.watches: list[Watch] = []
        self.scopes: dict[OperationId, Scope] = {}
        self.ending: Ending | None = None
        self.money = Debts(self)
        self.settled = trio.Event()
        self.stuck = False
        self.stuck_at = "?"
        self._at = delivery.at
        self.stored = stored
        self.dry = dry
        self.leash = leash
        self._opened = made
        self._written: tuple[ConversationWorld, Incarnation] | None = None
        self._operations = 0
        self.copies: list[Copy] = []
        self._when_live: list[Callable[[], None]] = []
        self._incarnation: Incarnation | None = None
        self.world: ConversationWorld | None = None
        self._press: Press[object] | None = None
        self._busy = True
        self._over = False

    # --- life and death

    async def run(self, chat: Chat[Event]) -> None:
        """Run the coroutine to its end, whatever that is; never raises an author's error."""
        failure: BaseExceptionGroup[Exception] | None = None
        self.house.care.begin_work(self)
        try:
            await self.life.kept.load()
            made = self.incarnate()
            await self.house.care.begins(self, made)
            if self.house.cut:
                return  # the row that starts it is in the inbox
            failure = await self._live(chat, made)
        finally:
            self.settled.set()
            self.stirred(busy=False)
            self._over = True
            if not self.stuck:
                self.house.wake_at(self, None)
            words = "" if failure is None else report(self, failure)
            # Before the apology: the chat must not wait until that has been sent.
            self.life.ended(self)
        if words and self.ending is Ending.FAILED:
            await apologize(self, words)
        if not self.stuck:  # they lead back here, and it would all wait for the garbage collector
            self.world = self._incarnation = self._written = None
            del self.money

    async def run_over(self, chat: Chat[Event], incarnation: Incarnation) -> End:
        """Run the coroutine over its journal, and on from there unless it is a dry run."""
        self._incarnation = incarnation
        task = trio.lowlevel.current_task()
        enter_branch(task, Branch(""))
        try:
            if isinstance(self.event, Press):
                self.take_press(self.event)
            if self.ending is not None and (self.stored is None or self.stored.interrupted_by is None):
                incarnation.interrupt(stamp=self.services.clock.now(), why=self.ending.value)
            return await incarnation.run(lambda: self._concluded(chat))
        finally:
            leave_branch(task)
            self.data.look_at_copies()

    async def _live(self, chat: Chat[Event], made: Incarnation) -> BaseExceptionGroup[Exception] | None:
        end = await self.run_over(chat, made)
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
                return error
            case Stuck(error, failure):
                self.stuck = True
                self.house.get_stuck(self, parting(error, failure, self.stuck_at))
                if self.ending is not None:
                    # It was on its way out: the interrupt that ended it need not wait for other code.
                    ending, self.ending = self.ending, None
                    self.end(ending)
        return None

    def incarnate(self) -> Incarnation:
        """Return what `run_over` runs: over what is stored, or from the first line."""
        if self._written is not None:
            self.world, incarnation = self._written
        elif self.stored is not None:
            self.world, incarnation = revived(self, self.dry)
        elif self._opened is not None:
            self.world, incarnation = opened(self, self._opened, self._at)
        else:
            self.world, incarnation = begun(self, self._at)
        return incarnation

    def begin_within(self, write: Callable[[Sequence[Write]], int]) -> int | None:
        """Let this write that it has begun, together with whatever else; None, and nothing, if it can't."""
        self._written = begun_elsewhere(self, self._at)
        return None if self._written is None else self._written[0].begin_within(write)

    @property
    def was_written(self) -> bool:
        """Return whether its beginning was written down before it came to run."""
        return self._written is not None

    async def _concluded(self, chat: Chat[Event]) -> None:
        """Run the coroutine, and settle what it was paid for in the transaction in which it ends."""
        try:
            if isinstance(self.value, Captured):
                self.value = self.money.owe(self.value, late=True)
            await self._begun(chat)
        except BaseException as error:
            # It was handed over, or failed, or was cancelled.
            self.money.conclude(well=self.ending is Ending.CONTINUED)
            self._owe_words(error)
            raise
        # Who came to the end all the same, under a shield or with the answer at hand, gave all there was.
        self.money.conclude(well=not self.journal.felt)

    def _owe_words(self, error: BaseException) -> None:
        """Store what the user hears of a failure together with the end, so that no kill comes in between."""
        if self.journal.over or self.journal.interrupted or self.ending is not None:
            return
        failure: BaseExceptionGroup[BaseException] = BaseExceptionGroup("", [error])
        failed = failure.split(Exception)[0]
        words = "" if failed is None else parting_words(self, failed)
        if words:
            self.journal.also(self.house.tidying.owe_words(self.life.chat_id, self.seq, words))

    def _begun(self, chat: Chat[Event]) -> Awaitable[None]:
        awaitable: object = self.route.handler(chat, *self.args)
        if not inspect.isawaitable(awaitable):
            raise ConfigError(
                f"{self.route.name} can't be awaited; declare it with `async def`, without `yield`"
            )
        return awaitable

    def end(self, ending: Ending, at: int | None = None, by: int | None = None) -> None:
        """Cancel the coroutine: an interrupt took over, or the user left.

        Args:
            by: the row of the interrupt, which begins once this has ended.
        """
        if self.ending is None:
            self.ending = ending
            if self.stuck:
                self.life.write_end(self, self.end_with())
                abandon(self.house, self.services, self.life.chat_id, self.id, self.key)
                self.life.parked_no_more(self)
                self.life.ended(self)
            elif self._incarnation is not None:
                self.stirred()
                stamp = self.services.clock.now() if at is None else at
                self._incarnation.interrupt(stamp=stamp, event=by, why=ending.value)
        elif ending is Ending.LEFT:
            self.ending = ending

    def evict(self) -> None:
        """Leave memory. The conversation isn't over."""
        if self._incarnation is not None:
            self._incarnation.evict()
        if self.world is not None:
            self.world.let_out()

    @property
    def quiescent(self) -> bool:
        """Return whether it could leave memory unnoticed."""
        there = self._incarnation
        return self.stuck or (there is not None and there.quiescent and not there.over)

    def may_want(self, event: Press[object] | Submission) -> bool:
        """Return whether it can't go on, and may wait for this press or form all the same."""
        if not self.stuck:
            return False
        lived = self._incarnation is not None and self._incarnation.live
        return self.stored is None or lived or self.stored.may_want(event)

    def tick(self) -> None:
        """Do what is due by now."""
        if self._incarnation is not None:
            self.stirred()
            self._incarnation.tick()

    def revived(self) -> None:
        """Go live, when all that was recorded has been replayed: do what waited for that."""
        self.life.kept.tell_revived(self)
        works, self._when_live = self._when_live, []
        for work in works:
            work()

    def when_live(self, work: Callable[[], None]) -> None:
        """Do this once what was recorded has been replayed."""
        self._when_live.append(work)

    def rested(self) -> None:
        """Tell that nothing comes next: it waits, and perhaps an effect is under way."""
        if self._incarnation is not None and self._incarnation.rests:
            self.settled.set()
        if self._busy and self._incarnation is not None and self._incarnation.quiescent:
            self.stirred(busy=False)

    def stirred(self, *, busy: bool = True) -> None:
        """Tell the house that it works, or rests."""
        if busy is not self._busy and not self._over:
            self._busy = busy
            self.house.working(1 if busy else -1)

    @property
    def waits_for_platform(self) -> bool:
        """Return whether it waits, or would if the platform had answered."""
        there = self._incarnation
        if not self._busy or there is None:
            return not self._busy
        return there.rests and {kind.partition(" ")[0] for kind in there.effects} <= _OF_PLATFORM

    def succeed(self, start: Start, delivery: Delivery) -> None:
        """End, and let this go on in the same place."""
        self.successor = (start, delivery)
        self.ending = Ending.CONTINUED

    async def continue_as(self, fn: Callable[..., object], args: tuple[object, ...]) -> NoReturn:
        """Go on as another route's function, in this one's place; see `Chat.continue_as`."""
        self.enter(OperationKind.CONTINUE)
        line = calling_line()
        if self.nurseries or self.journal.current().path:
            raise ConfigError(
                f"{line}: continue_as() inside an open chat nursery, whose children would be lost; leave the "
                "nursery's block first"
            )
        elsewhere = self.house.elsewhere
        route = elsewhere.table.route_of(fn, args, f"{line}: continue_as()")
        await trio.lowlevel.checkpoint_if_cancelled()
        self.journal.hand_over()
        await self.house.wait_written()
        await elsewhere.hand_over(self, route.name, args)
        self.journal.continue_as(route.name)

    def end_with(self) -> Sequence[Write]:
        """Return the writes that end it in the store."""
        if self.world is None and self.stored is not None:
            row = self.stored.row
            return [EndConversation(row.lease, row.id, self.services.clock.now())]
        return [] if self.world is None else self.world.end_with()

    # --- the one door

    @property
    def journal(self) -> Incarnation:
        """Return its operations.

        Raises:
            ConversationEndedError: there is none yet, or no more.
        """
        if self._incarnation is None:
            raise ConversationEndedError(f"this conversation is over ({calling_line()})")
        return self._incarnation

    @property
    def rests(self) -> bool:
        """Return whether it stands somewhere, and nothing comes next."""
        return self._incarnation is not None and self._incarnation.rests

    @property
    def replaying(self) -> bool:
        """Return whether what runs now ran before; what it did beside its operations has been done."""
        return self._incarnation is not None and self._incarnation.replaying

    def enter(self, kind: OperationKind) -> OperationId:
        """Prepare for an operation that is about to begin, and return the id that it will have.

        Raises:
            ConversationEndedError: the conversation is over.
            ForeignTaskError: the task is none of this conversation's, or runs a step.
        """
        branch = self.check_task()
        if (advice := self.services.advice) is not None and not self.replaying:
            self._operations += 1
            advice.operated(self._operations)
            if kind in _WAITS and self.money.given:
                advice.unsettled()
        if self._press is not None and kind not in (OperationKind.ANSWER, OperationKind.SCOPE):
            press, self._press = self._press, None
            if not self.replaying:
                self.services.outbox.press_due(press)
        return branch

    def check_task(self) -> OperationId:
        """Return the id of the current task's next operation; refuse tasks that have none."""
        try:
            return self.journal.upcoming()
        except (ConversationEndedError, ForeignTaskError) as error:
            raise type(error)(f"{calling_line()}: {error}") from None

    @property
    def listens(self) -> bool:
        """Return whether what happens now is given to it."""
        return self._incarnation is not None and not self._incarnation.over

    @property
    def data(self) -> OwnData:
        """Return what the chat keeps, as this conversation sees it."""
        return OwnData(self)

    @property
    def texts(self) -> Texts:
        """Return the runtime's own words, as this chat is to hear them."""
        kept, there = self.life.kept, self._incarnation
        return kept.texts if there is None else kept.words(there.data)

    # --- operations

    def touch(self, message_id: MessageId) -> None:
        """Drop what a message needs of tidying: it is about to show something else."""
        self.house.tidying.touch(self, message_id)

    async def perform(
        self,
        operation: Operation[T],
        *,
        urgency: Urgency = Urgency.REPLY,
        on_unknown: OnUnknown = OnUnknown.RESEND,
    ) -> T:
        """Send something, in the order of the chat."""
        self.enter(OperationKind.SEND)

        async def body() -> T:
            noted = None if repeatable(operation) or not self.route.durable else trio.Event()
            try:
                return await self.services.outbox.perform(
                    operation, urgency=urgency, on_unknown=on_unknown, noted=noted
                )
            except ForbiddenError:
                self.refused = self.refused or getattr(operation, "chat_id", None) == self.life.chat_id
                raise
            finally:
                if noted is not None:
                    self.house.when_written(noted.set)

        return await self.journal.effect(
            f"send {operation.path}",
            body,
            fingerprint(operation),
            lane=str(getattr(operation, "chat_id", None)),
            in_doubt=lost_in_flight(operation) if on_unknown is OnUnknown.RAISE else None,
        )

    def typing(self) -> AbstractAsyncContextManager[None]:
        """Show typing while the block runs."""
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
                self.journal.give_up(error.what)
            raise

    def drain(self) -> Sequence[Event]:
        """Take what is queued."""
        self.enter(OperationKind.SCOPE)

        def take() -> tuple[object, Sequence[Consume]]:
            taken = self.life.drain(self)
            moves = [Consume(tuple(delivery.seq for delivery in taken))] if taken else []
            return [delivery.event for delivery in taken], moves

        return cast("list[Event]", self.journal.note("drain", take))

    def take_press(self, press: Press[object]) -> None:
        """Note that this conversation took a press: the author may answer it until the next operation."""
        self._press = press
        if not self.replaying:
            self.services.outbox.press_taken(press)

    async def answer(self, text: str, *, alert: bool) -> bool:
        """Answer the newest press."""
        self.enter(OperationKind.ANSWER)
        press, self._press = self._press, None

        async def body() -> bool:
            if press is None:
                await trio.lowlevel.checkpoint()
                return False
            return await self.services.outbox.answer(press, text, alert=alert)

        return await self.journal.effect("answer", body)

    async def sleep(self, seconds: float) -> None:
        """Wait for a time."""
        self.enter(OperationKind.SLEEP)
        if self.services.advice is not None:
            self.services.advice.sleeps(self, seconds)
        await self.journal.sleep(seconds)

    async def sleep_until(self, at: int) -> None:
        """Wait until the time of day is `at`; a clock that is set, or stood still, is followed."""
        self.enter(OperationKind.SLEEP)
        if self.services.advice is not None:
            self.services.advice.sleeps(self, (at - self.journal.now()) / 1000)
        await self.journal.sleep_until(at)

    async def effect(
        self, kind: OperationKind, body: Body[T], *, holds: bool = False, inside: bool = False
    ) -> T:
        """Do this at least once, and never again once its outcome is recorded; it gets its own id."""
        own = self.enter(kind)
        return await self.journal.effect(kind.value, lambda: body(own), holds=holds, inside=inside)
