"""Timed and cancellable blocks, and the child tasks, sleeps and steps of a conversation."""

from __future__ import annotations

import inspect
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import Final, Generic, NoReturn, Self, cast, final

import attrs
import trio
from typing_extensions import TypeVar, TypeVarTuple

from ..base.authors import can_be_told, contained, kind_of, split, text_of
from ..base.frozen import guarded
from ..engine import Channel, Nursery
from ..engine import Event as EngineEvent
from ..engine.core import is_cut
from ..errors import ConfigError, ConversationError, LocalProtocolError, StepError
from ..seams.rooms import is_chat
from ..wire.events import Event, Press
from .beginnings import Successor
from .calls.signals import Call, Place
from .charges.paid import named_step
from .notices import Slept
from .operations import Operations
from .revival.stored import StartedWith, open_run
from .routes.filters import Filter, check_filter
from .routes.routing import Delivery, Start, Watch
from .running.abandon import held
from .running.branches import OperationKind, code_tasks, fingerprint_of_call, step_tasks
from .running.failures import happened
from .running.lines import calling_line
from .services import StepCall

E_co = TypeVar("E_co", covariant=True, default=object)
T = TypeVar("T")
Args = TypeVarTuple("Args")


def check_seconds(seconds: object) -> float:
    """Return `seconds` as a float; raise LocalProtocolError if `seconds` is not a number."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or math.isnan(seconds):
        raise LocalProtocolError("seconds", "must be a number of seconds")
    return float(seconds)


def check_sleep(seconds: object) -> float:
    """Check `seconds` as `check_seconds` does; raise LocalProtocolError for infinity, too."""
    length = check_seconds(seconds)
    if math.isinf(length) and length > 0:
        raise LocalProtocolError("seconds", "must come to an end; what waits for something is chat.receive()")
    return length


def wall_time(when: object) -> int:
    """Convert an aware time to wall milliseconds, rounded up, so that nothing happens too early."""
    if not isinstance(when, datetime) or when.utcoffset() is None:
        rule = "must be a datetime with a time zone, such as datetime.now(UTC) + timedelta(days=1)"
        raise LocalProtocolError("when", rule)
    return math.ceil(when.timestamp() * 1000)


@final
class Scope(Generic[E_co]):
    """A block that is ended by a deadline, an event or `cancel`; made by the chat, entered once.

    `E_co` is the type of the value that the filter of `move_on_when` returns. In other blocks, `E_co` is
    None.
    """

    def __init__(
        self,
        operations: Operations,
        seconds: float,
        *,
        at: int | None = None,
        shield: bool = False,
        until: Filter[E_co] | None = None,
    ) -> None:
        if until is not None:
            check_filter(until, "move_on_when()")
        self._operations = operations
        self._watch = (
            None if until is None else Watch(until.look, until.name, cut=lambda: is_cut(self._scope.around))
        )
        length = check_seconds(seconds)
        self._scope = operations.run.scope(length, at=at, takes=self._watch, shield=shield)
        self._event: E_co | None = None

    @property
    def cancelled_caught(self) -> bool:
        """Whether a deadline, an event or `cancel` ended the block; known once the block is left."""
        return self._scope.cancelled_caught

    @property
    def event(self) -> E_co | None:
        """The filter's value for the event that ended the block; None if no event ended the block."""
        return self._event

    def cancel(self) -> None:
        """End the block at its next chat operation."""
        self._scope.cancel()

    def __enter__(self) -> Self:
        operations, scope = self._operations, self._scope
        operations.enter(OperationKind.SCOPE)
        scope.__enter__()
        if self._watch is not None:
            conversation, watch = operations.conversation, self._watch
            watch.scope, watch.owner = scope.id, conversation.facts.owner
            conversation.seat.watches = [*conversation.seat.watches, watch]
            operations.actor.offer_queued(conversation, watch)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        try:
            return bool(self._scope.__exit__(kind, error, traceback))
        finally:
            self._close_watch()

    def _close_watch(self) -> None:
        """Stop watching for events.

        If the block took an event, but ended for another reason, pass the event back to the chat.
        """
        operations, watch = self._operations, self._watch
        if watch is None:
            return
        conversation = operations.conversation
        conversation.seat.watches = [other for other in conversation.seat.watches if other is not watch]
        if conversation.dead:
            return  # an evicted conversation's event is still in the inbox
        if self._scope.event is None:
            operations.actor.free(conversation, watch)
            return
        event, _, _, (value,) = cast("tuple[Event, int, int, tuple[object]]", self._scope.event)
        self._event = cast("E_co", value)
        if isinstance(event, Press):
            operations.take_press(event)


@final
class FailScope:
    """A block that raises `trio.TooSlowError` when its time is over; made by `Chat.fail_after`."""

    def __init__(self, operations: Operations, seconds: float) -> None:
        self._scope: Scope[None] = Scope(operations, seconds)

    def __enter__(self) -> Scope[None]:
        return self._scope.__enter__()

    # With the return type None, type checkers know that names bound in the block are also bound after the
    # block.
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._scope.__exit__(kind, error, traceback) and self._scope.cancelled_caught:
            raise trio.TooSlowError from None


async def _try(
    operations: Operations,
    fn: Callable[..., Awaitable[T]],
    args: tuple[object, ...],
    own: tuple[type[Exception], ...],
    first: Callable[[], Awaitable[None]] | None,
) -> T:
    if not callable(fn):
        raise ConfigError(
            "step() takes an async function and its arguments, as in chat.step(bake, 3), and not what calling"
            " it returned, as in chat.step(bake(3))"
        )
    operations.enter(OperationKind.STEP)
    print, instead = fingerprint_of_call(fn, args), operations.services.instead

    async def body() -> T:
        task = trio.lowlevel.current_task()
        if first is not None:
            await first()
        step_tasks.add(task)
        try:
            seq = operations.facts.seq
            begun = fn(*args) if instead is None else instead(StepCall(fn, args, print, own, seq))
            if inspect.isawaitable(begun):
                return await begun
        except own as error:
            live.append(contained(error))
            raise
        except ConversationError:
            # The author misused the chat: the step itself didn't fail.
            raise
        except BaseException as raised:
            if (rest := split(raised)[1]) is None:
                raise
            live.append(contained(rest))
            raise StepError(kind_of(rest), text_of(rest)) from rest
        finally:
            step_tasks.discard(task)
        raise ConfigError(
            "step() takes an async function; this one returned without being awaited: declare it with"
            " `async def`, or wait for it in one"
        )

    live: list[Exception] = []
    tracing, work = operations.services.tracing, body
    if tracing is not None:
        work = tracing.stepping(getattr(fn, "__qualname__", type(fn).__name__), body)
    try:
        done: T = await operations.run.effect("step", work, print=print, raises=own)
    except Exception as failed:
        # `failed` is made from the step's record, as on replay. Only reports use the original error.
        if live:
            happened(failed, live.pop())
        raise
    return done


LONGEST_PAUSE: Final = 24 * 3600.0
"""Longest pause between two tries of a step, in seconds."""


@final
@guarded
class Retry:
    """How often a failing step is tried again; for ``chat.step(fn, retry=...)``.

    Attributes:
        times: total number of tries, from 2 to 100.
        after: seconds before the second try.
        growth: factor from each pause to the next pause; the longest pause is a day.
        on: classes of the step's errors after which the step is tried again; empty for all errors.

    Raises:
        ConfigError: a value has the wrong type, or is out of range.

    Examples:
        >>> Retry(times=5, after=2)  # tries again after 2, 4, 8 and 16 seconds
    """

    times: int
    after: float = attrs.field(default=1.0, kw_only=True)
    growth: float = attrs.field(default=2.0, kw_only=True)
    on: type[Exception] | tuple[type[Exception], ...] = attrs.field(default=(), kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_raises(self.on, "Retry(on=)")
        if type(self.times) is not int or not 2 <= self.times <= 100:
            raise ConfigError(
                "Retry(times=) is how often a step is tried in all: a whole number from 2 to 100"
            )
        numbers = (self.after, self.growth)
        if not all(type(one) in (int, float) and 0 <= one < math.inf for one in numbers) or self.growth < 1:
            raise ConfigError("Retry(after=) takes seconds, and growth= a number from 1 up")


def pause_behind(tries: int, retry: Retry) -> float:
    """Return the seconds to wait after `tries` failed tries."""
    pause = float(retry.after)
    for _ in range(tries - 1):
        pause = min(pause * retry.growth, LONGEST_PAUSE)
    return min(pause, LONGEST_PAUSE)


async def run_step(
    operations: Operations,
    fn: Callable[..., Awaitable[T]],
    args: tuple[object, ...],
    raises: type[Exception] | tuple[type[Exception], ...],
    retry: Retry | None = None,
) -> T:
    """Run `fn`, a side effect that uses no chat operations. Each try and each pause is an operation."""
    giving = operations.conversation.giving
    # `first` is awaited before the step's function. If `first` fails, the step fails with the same error.
    first = None if giving is None else giving.step(args)
    operations.gives(*named_step(fn, args))
    own = check_raises(raises)
    if retry is not None:
        if giving is not None:
            giving.check_repeatable(args)
        on = check_raises(retry.on)
        again = on or (StepError, *own)
        for tries in range(1, retry.times):
            try:
                return await _try(operations, fn, args, (*own, *on), first)
            except again:
                pause = pause_behind(tries, retry)
            await sleep(operations, pause)
    return await _try(operations, fn, args, own, first)


def check_raises(raises: object, who: str = "step(raises=)") -> tuple[type[Exception], ...]:
    """Return, as a tuple, the error classes that a step raises unchanged.

    Raises:
        ConfigError: `raises` contains something other than classes of errors.
    """
    classes = cast("tuple[object, ...]", raises) if isinstance(raises, tuple) else (raises,)
    if not all(isinstance(cls, type) and issubclass(cls, Exception) for cls in classes):
        raise ConfigError(f"{who} takes a class of errors such as ValueError, or a tuple of them")
    return cast("tuple[type[Exception], ...]", classes)


@final
class ChatEvent(EngineEvent):
    """A flag that is set once, and that child tasks may wait for; made by `Chat.open_event`."""

    __slots__ = ()


@final
class ChatChannel(Channel[T]):
    """A bounded queue between child tasks; made by `Chat.open_channel`. While it is full, `send` waits."""

    __slots__ = ()


@final
class ChatNursery:
    """A nursery for child tasks that may use the chat; made by `Chat.open_nursery`."""

    def __init__(self, operations: Operations, nursery: Nursery) -> None:
        self._operations = operations
        self._nursery = nursery

    def start_soon(self, fn: Callable[[*Args], Awaitable[object]], *args: *Args) -> None:
        """Start ``fn(*args)`` as a child. A child's error cancels the block and all children."""

        async def child() -> None:
            task, dry = trio.lowlevel.current_task(), self._operations.dry
            code_tasks[task] = self._operations.facts.seq
            try:
                await held(None if dry is None else dry.limit, fn(*args))
            except BaseException as error:
                # Trio puts the error's repr into the siblings' cancellation, so the repr must not raise.
                if can_be_told(error, shown=True):
                    raise
                raise contained(error, shown=True) from None
            finally:
                del code_tasks[task]

        self._nursery.start_soon(child)

    def cancel(self) -> None:
        """End the block and all children."""
        self._nursery.cancel()


@asynccontextmanager
async def open_nursery(operations: Operations) -> AsyncGenerator[ChatNursery]:
    """Open a nursery for child tasks that may use the chat; leaving the block waits for these tasks."""
    operations.enter(OperationKind.NURSERY)
    async with operations.run.open_nursery() as nursery:
        yield ChatNursery(operations, nursery)


# --- sleep and continue_as


async def sleep(operations: Operations, seconds: float, at: int | None = None) -> None:
    """Wait for `seconds`, or until the wall time `at`, even if the clock is set or the computer sleeps."""
    operations.enter(OperationKind.SLEEP)
    notice, conversation = operations.services.notice, operations.conversation
    hears = conversation.seat.watches or conversation.seat.waits or operations.facts.beside
    if notice is not None and is_chat(operations.chat_id) and not hears:
        notice(Slept(seconds if at is None else (at - operations.run.now()) / 1000))
    await operations.run.sleep(seconds, at=at)


async def continue_as(
    operations: Operations, fn: Callable[..., object], args: tuple[object, ...]
) -> NoReturn:
    """End this conversation, and start `fn`, the function of a route, as the successor.

    See `Chat.continue_as`.
    """
    operations.enter(OperationKind.CONTINUE)
    line, run, facts = calling_line(), operations.run, operations.facts
    if run.nurseries or trio.lowlevel.current_task() is not run.main.task:
        raise ConfigError(
            f"{line}: continue_as() inside an open chat nursery, whose children would be lost; leave the "
            "nursery's block first"
        )
    room, route = not is_chat(facts.chat_id), facts.route
    route = operations.shared.table.route_of(fn, args, f"{line}: continue_as()", room=room, by=route)
    await trio.lowlevel.checkpoint_if_cancelled()
    event, given = facts.event, operations.conversation.given
    place = Place.BESIDE if facts.beside else Place.LIVE if facts.owner is None else Place.SENDER
    call = Call(facts.chat_id, route.name, args, given, event.sender, facts.key, place)
    opening = StartedWith(event, facts.at, given, args, facts.interrupted)
    first, value, unrecordable = open_run(route, opening, run.journal.since(), run.host.jumped())
    if unrecordable is not None:
        raise unrecordable
    start = Start(route, value, call, facts.interrupted)
    conversation = operations.conversation
    if (writer := conversation.writer) is not None and conversation.ending is None:
        writer.successor = Successor(start, Delivery(facts.seq, event, facts.at), first, facts.run_number + 1)
    run.continue_as(route.name)
