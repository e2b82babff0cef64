"""One run of a route's coroutine: its branches, its one door, its end.

Every wait and every effect of an author's code passes `enter`: there it gets its id (the branch's path and
the branch's own counter, never the scheduler's order), there a foreign task is refused, there the newest
press is answered and the events in hand are given back to the inbox as consumed.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar, final

import trio

from ..errors import (
    ConfigError,
    ConversationEndedError,
    ConversationError,
    ForbiddenError,
    ForeignTaskError,
    StepError,
)
from ..seams import OnUnknown, PutData, Urgency
from ..wire.events import Event, Press
from ..wire.ids import MessageId, SenderId
from ..wire.operations import Operation
from .advice import Copy, is_changed
from .branches import Branch as Branch
from .branches import OperationId as OperationId
from .branches import OperationKind as OperationKind
from .branches import enter_branch, leave_branch
from .failures import apologize, report
from .filters import Setting
from .lines import calling_line
from .routing import Start
from .services import Services as Services
from .texts import Texts
from .waits import Broken, Delivery, OtherwisePolicy, Taken, Unfit, Wait, Watch, is_payment

if TYPE_CHECKING:
    from .chat import Chat
    from .life import ChatLife

T = TypeVar("T")
_WAITING: Final = (OperationKind.RECEIVE, OperationKind.SLEEP)
# How wrong a sleep may be after somebody has set the machine's clock.
_LOOK_AGAIN: Final = 60.0


class Ending(Enum):
    """How a conversation ended."""

    NORMAL = "normal"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    LEFT = "left"
    STOPPED = "stopped"
    CONTINUED = "continued"


class HandedOver(BaseException):
    """Unwinds a conversation that goes on as another; no ``except Exception`` stops it."""


@final
class Conversation:
    """A live conversation, interrupt or aside of one chat.

    Attributes:
        waits: what its branches would take now.
        watches: the open blocks that an event may end.
        ending: None while it runs, and when the program stops: then it hasn't ended.
        shielded: the author's open shields.
        refused: the platform refused something of its own chat: the user may have left.
        held: work that a timeout is being held for; an interrupt is not.
        id: the same for this run after a crash, too: the chat, and the inbox row that started it.
        owner: whose it is; None when it is the chat's.
        key: with which code started it.
        successor: what goes on in its place.
        nurseries: the open nurseries of its branches.
    """

    def __init__(
        self,
        services: Services,
        life: ChatLife,
        start: Start,
        delivery: Delivery,
        interrupted: str | None = None,
        owner: SenderId | None = None,
    ) -> None:
        self.services = services
        self.life = life
        self.house = life.house
        self.route = start.route
        self.value = start.value
        self.args = () if start.call is None else start.call.args
        self.key = None if start.call is None else start.call.key
        self.id = f"{life.chat_id}/{delivery.seq}"
        self.owner = owner
        self.interrupted = interrupted
        self.successor: tuple[Start, Delivery] | None = None
        self.nurseries = 0
        self.refused = False
        self._operations = 0
        self._copies: list[Copy] = []
        self.event: Event = delivery.event
        self.waits: list[Wait] = []
        self.watches: list[Watch] = []
        self.ending: Ending | None = None
        self.shielded: set[trio.CancelScope] = set()
        self.held: set[trio.CancelScope] = set()
        self._scope = trio.CancelScope()
        self._main = Branch("", in_hand=[delivery.seq])
        self._branches: dict[trio.lowlevel.Task, Branch] = {}
        self._press: Press[object] | None = None
        self._put: dict[str, None] = {}
        if isinstance(delivery.event, Press):
            self.take_press(delivery.event)

    # --- life and death

    async def run(self, chat: Chat[Event]) -> None:
        """Run the coroutine to its end, whatever that is; never raises an author's error."""
        failure: BaseExceptionGroup[Exception] | None = None
        try:
            with self._scope, self.branch(self._main):
                try:
                    await self.life.load_data()
                    await self._begun(chat)
                except* HandedOver:
                    pass
                except* Exception as group:
                    failure = group
            # Reached after a normal end, a failure, or our own cancellation; not when the program stops.
            if self.ending is None:
                self.ending = Ending.NORMAL if failure is None else Ending.FAILED
            self._consume(self._main)
        finally:
            crashed = failure is not None and report(self, failure)
            # Before the apology: the chat must not wait until that has been sent.
            self.life.ended(self)
        if crashed and self.ending is Ending.FAILED:
            await apologize(self)

    def _begun(self, chat: Chat[Event]) -> Awaitable[None]:
        begun: object = self.route.handler(chat, *self.args)
        if not inspect.isawaitable(begun):
            raise ConfigError(
                f"{self.route.name} can't be awaited; declare it with `async def`, without `yield`"
            )
        return begun

    def end(self, ending: Ending) -> None:
        """Cancel the coroutine: an interrupt took over, or the user left."""
        if self.ending is None:
            self.ending = ending
            self._scope.cancel()
            for held in list(self.held):
                held.cancel()
        elif ending is Ending.LEFT:
            self.ending = ending

    def succeed(self, start: Start, delivery: Delivery) -> None:
        """End, and let this go on in the same place."""
        self._main.in_hand = []
        self._put = {}
        self.successor = (start, delivery)
        self.end(Ending.CONTINUED)

    async def continue_as(self, fn: Callable[..., object], args: tuple[object, ...]) -> NoReturn:
        """Go on as another route's function, in this one's place; see `Chat.continue_as`."""
        self.enter(OperationKind.CONTINUE)
        line = calling_line()
        if self.nurseries or self.current_branch() is not self._main:
            raise ConfigError(
                f"{line}: continue_as() inside an open chat nursery, whose children would be lost; leave the "
                "nursery's block first"
            )
        elsewhere = self.house.elsewhere
        route = elsewhere.table.route_of(fn, args, f"{line}: continue_as()")
        await trio.lowlevel.checkpoint_if_cancelled()
        await elsewhere.hand_over(self, route.name, args)
        raise HandedOver

    def in_hand(self) -> tuple[list[int], list[PutData]]:
        """The rows that the coroutine has in hand, and what it has put meanwhile."""
        return list(self._main.in_hand), self._puts()

    @property
    def left(self) -> bool:
        """The user has left the chat."""
        return self.ending is Ending.LEFT

    def unshield(self) -> None:
        """The program stops: what the author shielded is cancelled like the rest."""
        for shielded in self.shielded:
            shielded.shield = False

    # --- the one door

    def enter(self, kind: OperationKind) -> OperationId:
        """Begin an operation of the current task.

        Raises:
            ConversationEndedError: the conversation is over.
            ForeignTaskError: the task is none of this conversation's, or runs a step.
        """
        branch = self.current_branch()
        branch.count += 1
        if (advice := self.services.advice) is not None:
            self._operations += 1
            advice.operated(self._operations)
        if self._press is not None and kind not in (OperationKind.ANSWER, OperationKind.SCOPE):
            press, self._press = self._press, None
            self.services.outbox.press_due(press)
        # A wait in the cleanup after a stop isn't the one that says that the work before it is done.
        if kind in _WAITING and not self.house.cut:
            self._consume(branch)
        return OperationId(f"{branch.path}{branch.count}")

    def current_branch(self) -> Branch:
        """The current task's branch; refuses tasks that have none."""
        branch = self._branches.get(trio.lowlevel.current_task())
        if branch is None:
            if not self._branches:
                raise ConversationEndedError(f"this conversation is over ({calling_line()})")
            line = calling_line()
            raise ForeignTaskError(
                f"{line}: a chat operation from a task that the conversation doesn't know; "
                "start it with chat.open_nursery()"
            )
        if branch.in_step:
            raise ForeignTaskError(
                f"{calling_line()}: a chat operation inside a step; return a value instead"
            )
        return branch

    @contextmanager
    def branch(self, branch: Branch) -> Generator[None]:
        """Make the current task a branch while the block runs. Whoever started it counted it as working."""
        task = trio.lowlevel.current_task()
        self._branches[task] = branch
        enter_branch(task, branch)
        try:
            yield
        finally:
            del self._branches[task]
            leave_branch(task)
            self.house.working(-1)

    @contextmanager
    def parked(self) -> Generator[None]:
        """The current branch waits for a time, or for its children, which count for themselves."""
        self.house.working(-1)
        try:
            yield
        finally:
            self.house.working(1)

    def branch_ended(self, branch: Branch) -> None:
        """A branch came to its normal end: what it had in hand is dealt with."""
        self._consume(branch)

    def branch_broke_off(self, branch: Branch) -> None:
        """A branch failed or was cancelled: the coroutine answers for what it had in hand."""
        self._main.in_hand.extend(branch.in_hand)
        branch.in_hand = []

    def _consume(self, branch: Branch) -> None:
        self.look_at_copies()
        if branch.in_hand or self._put:
            self.house.consumed(branch.in_hand, self._puts())
            branch.in_hand = []
            self._put = {}

    def _puts(self) -> list[PutData]:
        # As the values are now: another conversation of the chat may have written since.
        chat_id, data = self.life.chat_id, self.life.data or {}
        return [PutData(chat_id, key, data.get(key)) for key in self._put]

    # --- what the chat keeps

    @property
    def texts(self) -> Texts:
        """The runtime's own words, as this chat is to hear them."""
        return self.life.texts

    def data(self) -> Mapping[str, str]:
        """What the chat keeps, by key.

        Raises:
            ConfigError: no key was declared before the conversation began.
        """
        self.current_branch()
        if self.life.data is None:
            raise ConfigError("a Key was declared too late: declare it at the top of its module")
        return self.life.data

    def lent(self, copy: Copy) -> None:
        """A copy of a value is out, which its reader may change; for a developer to be told of."""
        self._copies.append(copy)

    def look_at_copies(self) -> None:
        """Tell of copies that were changed and not assigned."""
        copies, self._copies = self._copies, []
        for copy in copies:
            if self.services.advice is not None and is_changed(copy):
                self.services.advice.unassigned(copy)

    def put_data(self, key: str, value: str | None) -> None:
        """Keep a value; it is written down with the end of the event in hand."""
        self.data()
        self._copies = [copy for copy in self._copies if copy.key != key]
        self.life.put_data(key, value)
        self._put[key] = None

    # --- operations

    def touch(self, message_id: MessageId) -> None:
        """A message is about to show something else: it needs no tidying any more."""
        self.life.untidy.pop(message_id, None)

    async def perform(
        self,
        operation: Operation[T],
        *,
        urgency: Urgency = Urgency.REPLY,
        on_unknown: OnUnknown = OnUnknown.RESEND,
    ) -> T:
        """Send something, in the order of the chat."""
        self.enter(OperationKind.SEND)
        # Cleanup after a cancellation never sends, not even what would leave before the next checkpoint.
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            return await self.services.outbox.perform(operation, urgency=urgency, on_unknown=on_unknown)
        except ForbiddenError:
            self.refused = self.refused or getattr(operation, "chat_id", None) == self.life.chat_id
            raise

    def typing(self) -> AbstractAsyncContextManager[None]:
        """Show typing while the block runs."""
        self.enter(OperationKind.TYPING)
        return self.services.outbox.typing(self.life.chat_id)

    def drain(self) -> Sequence[Event]:
        """Take what is queued."""
        self.enter(OperationKind.SCOPE)
        taken = self.life.drain(self)
        self.current_branch().in_hand.extend(delivery.seq for delivery in taken)
        return [delivery.event for delivery in taken]

    def open_wait(
        self,
        look: Callable[[Event, Setting], object | None],
        otherwise: OtherwisePolicy,
        *,
        question: bool = False,
        token: str = "",
        also: Callable[[Event, Setting], object | None] | None = None,
    ) -> Wait:
        """Begin to take events, before anything is sent; `close_wait` it however it ends."""
        self.current_branch()
        wait = Wait(look, otherwise, question, token, self.house.working, also, owner=self.owner)
        self.waits.append(wait)
        self.reopen_wait(wait)
        return wait

    def reopen_wait(self, wait: Wait) -> None:
        """Take events again: another one than the last is wanted."""
        if wait.hints:
            wait.answer = wait.hints.popleft()
        self.life.offer_queued(self, wait)

    def close_wait(self, wait: Wait) -> None:
        """Stop taking events; what was given and not looked at goes back to the chat."""
        self.waits.remove(wait)
        self.look_again(wait)

    def look_again(self, wait: Wait) -> None:
        """What the wait takes has changed: what it was given and has not looked at is routed again."""
        given = [*([wait.answer] if wait.answer is not None else []), *wait.hints]
        wait.answer = None
        wait.hints.clear()
        for answer in given:
            self.life.give_back(self, answer.delivery)

    def disregard(self, wait: Wait) -> None:
        """Take the payment's callbacks that the wait was given as dealt with: they say nothing new."""
        given, wait.hints = list(wait.hints), deque()
        if isinstance(wait.answer, Taken) and is_payment(wait.answer.delivery.event):
            given.append(wait.answer)
            wait.answer = None
        self.current_branch().in_hand.extend(hint.delivery.seq for hint in given)

    async def next_answer(self, wait: Wait) -> Taken | Unfit:
        """Wait for the next event that the wait takes, or that doesn't fit.

        Raises: what the author's filter raised on an event.

        Cancellation: *atomic*: an event is returned, or it is next for another wait.
        """
        self.enter(OperationKind.RECEIVE)
        if wait.open:
            # A wait that is over before it begins must not decide over what is queued.
            await trio.lowlevel.checkpoint_if_cancelled()
        self.life.offer_queued(self, wait, parking=True)
        answer = await wait.wait_answer()
        self.current_branch().in_hand.append(answer.delivery.seq)
        event = answer.delivery.event
        if isinstance(answer, Broken):
            raise answer.error
        if isinstance(answer, Taken) and isinstance(event, Press):
            self.take_press(event)
        return answer

    def close_watch(self, watch: Watch, branch: Branch, *, ended: bool) -> None:
        """A block is over: the event that ended it is in hand now; one that came too late goes on."""
        self.watches.remove(watch)
        if watch.taken is None:
            return
        delivery = watch.taken.delivery
        if not ended:
            self.life.give_up(self, delivery)
            return
        branch.in_hand.append(delivery.seq)
        if isinstance(delivery.event, Press):
            self.take_press(delivery.event)

    def take_press(self, press: Press[object]) -> None:
        """This conversation took a press: the author may answer it until the next operation."""
        self._press = press
        self.services.outbox.press_taken(press)

    async def answer(self, text: str, *, alert: bool) -> bool:
        """Answer the newest press."""
        self.enter(OperationKind.ANSWER)
        await trio.lowlevel.checkpoint_if_cancelled()
        press, self._press = self._press, None
        if press is None:
            await trio.lowlevel.checkpoint()
            return False
        return await self.services.outbox.answer(press, text, alert=alert)

    async def sleep(self, seconds: float) -> None:
        """Wait for a time."""
        self.enter(OperationKind.SLEEP)
        if self.services.advice is not None:
            self.services.advice.sleeps(self, seconds)
        with self.parked():
            await trio.sleep(seconds)

    async def sleep_until(self, at: int) -> None:
        """Wait until the time of day is `at`; a clock that is set, or stood still, is followed."""
        self.enter(OperationKind.SLEEP)
        if self.services.advice is not None:
            self.services.advice.sleeps(self, (at - self.services.clock.now()) / 1000)
        with self.parked():
            await trio.lowlevel.checkpoint()
            while (left := at - self.services.clock.now()) > 0:  # noqa: ASYNC110  # time is all we wait for
                await trio.sleep(min(left / 1000, _LOOK_AGAIN))

    async def pause(self, seconds: float) -> None:
        """Wait within an operation: what is in hand stays in hand."""
        with self.parked():
            await trio.sleep(seconds)

    async def step(
        self,
        fn: Callable[..., Awaitable[T]],
        args: tuple[object, ...],
        raises: type[Exception] | tuple[type[Exception], ...],
    ) -> T:
        """Run a side effect; chat operations inside it are refused."""
        if not callable(fn):
            raise ConfigError(
                "step() takes an async function and its arguments, not what calling it returned"
            )
        self.enter(OperationKind.STEP)
        await trio.lowlevel.checkpoint_if_cancelled()
        branch = self.current_branch()
        branch.in_step = True
        try:
            body = fn(*args)
            if inspect.isawaitable(body):
                return await body
        except raises:
            raise
        except ConversationError:
            # The author's mistake, not the step's failure.
            raise
        except Exception as error:
            raise StepError(type(error).__name__, str(error)) from error
        finally:
            branch.in_step = False
        raise ConfigError("step() takes an async function: what it was given returned without being awaited")
