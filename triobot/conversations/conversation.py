"""One run of a route's coroutine: its branches, its one door, its end.

Every wait and every effect of an author's code passes `enter`: there it gets its id (the branch's path and
the branch's own counter, never the scheduler's order), there a foreign task is refused, there the newest
press is answered and the events in hand are given back to the inbox as consumed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Final, NewType, TypeVar, final

import attrs
import trio

from ..errors import ConversationEndedError, ForbiddenError, ForeignTaskError, StepError, TriobotError
from ..seams import OnUnknown, Outbox, RaiseAlarm, Store, Urgency, WallClock
from ..wire.events import Event, Press
from ..wire.operations import Operation, SendMessage
from .filters import Setting
from .lines import calling_line, failing_line
from .texts import Texts
from .waits import Answer, Delivery, OtherwisePolicy, Taken, Wait

if TYPE_CHECKING:
    from .chat import Chat
    from .life import ChatLife
    from .routes import Route

T = TypeVar("T")
OperationId = NewType("OperationId", str)

log: Final = logging.getLogger("triobot.conversations")


class OperationKind(Enum):
    """What an operation of a conversation is: it waits, it has an effect, or it shapes the code."""

    RECEIVE = "receive"
    SLEEP = "sleep"
    SEND = "send"
    ANSWER = "answer"
    TYPING = "typing"
    STEP = "step"
    SCOPE = "scope"
    NURSERY = "nursery"


_WAITING: Final = (OperationKind.RECEIVE, OperationKind.SLEEP)


class Ending(Enum):
    """How a conversation ended."""

    NORMAL = "normal"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    LEFT = "left"


@final
@attrs.frozen
class Services:
    """What conversations use of the world around them."""

    outbox: Outbox
    store: Store
    clock: WallClock
    texts: Texts
    raise_alarm: RaiseAlarm
    charge_hosts: Sequence[str] = ()


@final
@attrs.define(eq=False)
class Branch:
    """One task of a conversation.

    Attributes:
        path: empty for the coroutine itself, else the nursery's id and the child's number in it.
        count: operations begun so far.
        in_hand: inbox rows taken since the branch last waited.
        in_step: a step's body is running.
    """

    path: str
    count: int = 0
    in_hand: list[int] = attrs.Factory(lambda: list[int]())
    in_step: bool = False


@final
class Conversation:
    """A live conversation, interrupt or aside of one chat."""

    def __init__(
        self,
        services: Services,
        life: ChatLife,
        route: Route,
        value: object,
        delivery: Delivery,
        interrupted: str | None = None,
    ) -> None:
        self.services = services
        self.life = life
        self.route = route
        self.value = value
        self.interrupted = interrupted
        self.event: Event = delivery.event
        self.waits: list[Wait] = []
        self.ending: Ending | None = None
        self._scope = trio.CancelScope()
        self._main = Branch("", in_hand=[delivery.seq])
        self._branches: dict[trio.lowlevel.Task, Branch] = {}
        self._press: Press[object] | None = None
        if isinstance(delivery.event, Press):
            self.take_press(delivery.event)

    # --- life and death

    async def run(self, chat: Chat[Event]) -> None:
        """Run the coroutine to its end, whatever that is; never raises an author's error."""
        failure: BaseExceptionGroup[Exception] | None = None
        finished = False
        try:
            with self._scope, self.branch(self._main):
                try:
                    await self.route.run(self)
                    finished = True
                except* Exception as group:
                    failure = group
            # Reached after a normal end, a failure, or our own cancellation; not when the program stops.
            if self.ending is None:
                self.ending = Ending.NORMAL if finished else Ending.FAILED
            if failure is not None:
                await self._report(failure)
            self._consume(self._main)
        finally:
            self.life.ended(self)

    def end(self, ending: Ending) -> None:
        """Cancel the coroutine: an interrupt took over, or the user left."""
        if self.ending is None:
            self.ending = ending
            self._scope.cancel()

    async def _report(self, failure: BaseExceptionGroup[Exception]) -> None:
        errors = list(_leaves(failure))
        if self.ending is Ending.LEFT or all(isinstance(error, ForbiddenError) for error in errors):
            # A person who left, or blocked the bot: the end of a conversation, not a crash.
            self.life.count("gone")
            return
        self.life.count("crashed")
        for error in errors:
            log.error(
                "conversation %s of chat %s failed: %s at %s",
                self.route.name,
                self.life.chat_id,
                type(error).__name__,
                failing_line(error.__traceback__),
                exc_info=error if log.isEnabledFor(logging.DEBUG) else None,
            )
        if self.ending is not Ending.FAILED or not self.services.texts.apology:
            return
        try:
            await self.services.outbox.perform(SendMessage(self.life.chat_id, self.services.texts.apology))
        except TriobotError as error:
            log.warning("the apology to chat %s was not sent: %s", self.life.chat_id, type(error).__name__)

    # --- the one door

    def enter(self, kind: OperationKind) -> OperationId:
        """Begin an operation of the current task.

        Raises:
            ConversationEndedError: the conversation is over.
            ForeignTaskError: the task is none of this conversation's, or runs a step.
        """
        branch = self.current_branch()
        branch.count += 1
        if self._press is not None and kind not in (OperationKind.ANSWER, OperationKind.SCOPE):
            press, self._press = self._press, None
            self.services.outbox.press_due(press)
        if kind in _WAITING:
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

    def owns(self, task: trio.lowlevel.Task) -> bool:
        """Whether this task runs the conversation's code."""
        return task in self._branches

    @contextmanager
    def branch(self, branch: Branch) -> Generator[None]:
        """Make the current task a branch while the block runs."""
        task = trio.lowlevel.current_task()
        self._branches[task] = branch
        self.life.working(1)
        try:
            yield
        finally:
            del self._branches[task]
            self.life.working(-1)

    @contextmanager
    def parked(self) -> Generator[None]:
        """The current branch waits for an event, a time, or its children, which count for themselves."""
        self.life.working(-1)
        try:
            yield
        finally:
            self.life.working(1)

    def consume_branch(self, branch: Branch) -> None:
        """A branch has ended: what it had in hand is dealt with."""
        self._consume(branch)

    def _consume(self, branch: Branch) -> None:
        if branch.in_hand:
            self.life.consumed(branch.in_hand)
            branch.in_hand = []

    # --- operations

    async def perform(
        self,
        operation: Operation[T],
        *,
        urgency: Urgency = Urgency.REPLY,
        on_unknown: OnUnknown = OnUnknown.RESEND,
    ) -> T:
        """Send something, in the order of the chat."""
        self.enter(OperationKind.SEND)
        return await self.services.outbox.perform(operation, urgency=urgency, on_unknown=on_unknown)

    def typing(self) -> AbstractAsyncContextManager[None]:
        """Show typing while the block runs."""
        self.enter(OperationKind.TYPING)
        return self.services.outbox.typing(self.life.chat_id)

    def drain(self) -> Sequence[Event]:
        """Take what is queued."""
        self.enter(OperationKind.SCOPE)
        return self.life.drain(self)

    def open_wait(
        self,
        look: Callable[[Event, Setting], object | None],
        otherwise: OtherwisePolicy,
        *,
        question: bool = False,
    ) -> Wait:
        """Begin to take events, before anything is sent; `close_wait` it however it ends."""
        wait = Wait(look, otherwise, question)
        self.reopen_wait(wait)
        return wait

    def reopen_wait(self, wait: Wait) -> None:
        """Take events again: another one than the last is wanted."""
        if wait not in self.waits:
            self.waits.append(wait)
        self.life.offer_queued(self, wait)

    def close_wait(self, wait: Wait) -> None:
        """Stop taking events; one that was given and not looked at goes back to the mailbox."""
        if wait in self.waits:
            self.waits.remove(wait)
        if wait.answer is not None:
            self.life.give_back(self, wait.answer.delivery)
            wait.answer = None

    async def next_answer(self, wait: Wait) -> Answer:
        """Wait for the next event that the wait takes, or that doesn't fit."""
        self.enter(OperationKind.RECEIVE)
        self.life.offer_queued(self, wait, parking=True)
        with self.parked():
            answer = await wait.wait_answer()
        self.current_branch().in_hand.append(answer.delivery.seq)
        event = answer.delivery.event
        if isinstance(answer, Taken) and isinstance(event, Press):
            self.take_press(event)
        return answer

    def take_press(self, press: Press[object]) -> None:
        """This conversation took a press: the author may answer it until the next operation."""
        self._press = press
        self.services.outbox.press_taken(press)

    async def answer(self, text: str, *, alert: bool) -> bool:
        """Answer the newest press."""
        self.enter(OperationKind.ANSWER)
        press, self._press = self._press, None
        if press is None:
            await trio.lowlevel.checkpoint()
            return False
        return await self.services.outbox.answer(press, text, alert=alert)

    async def sleep(self, seconds: float) -> None:
        """Wait for a time."""
        self.enter(OperationKind.SLEEP)
        with self.parked():
            await trio.sleep(seconds)

    async def step(
        self,
        fn: Callable[..., Awaitable[T]],
        args: tuple[object, ...],
        raises: type[Exception] | tuple[type[Exception], ...],
    ) -> T:
        """Run a side effect; chat operations inside it are refused."""
        self.enter(OperationKind.STEP)
        branch = self.current_branch()
        branch.in_step = True
        try:
            return await fn(*args)
        except raises:
            raise
        except Exception as error:
            raise StepError(type(error).__name__, str(error)) from error
        finally:
            branch.in_step = False

    def tidy(self, operation: Operation[None]) -> None:
        """Do this outside the author's operations: a question's buttons go however it ended."""
        self.life.tidy(operation)


def _leaves(group: BaseExceptionGroup[Exception]) -> Generator[Exception]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield error
