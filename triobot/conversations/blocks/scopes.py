"""Time, events and cancellation in a conversation: blocks that end by themselves."""

from __future__ import annotations

import math
from datetime import datetime
from types import TracebackType
from typing import Generic, Self, cast, final

import trio
from typing_extensions import TypeVar

from ...errors import LocalProtocolError
from ...seams import Consume
from ...wire.events import Event, Press
from ..conversation import Conversation, OperationKind
from ..routes.filters import Filter, check_filter
from ..running.waits import Delivery, Taken, Watch

E_co = TypeVar("E_co", covariant=True, default=object)


def check_seconds(seconds: object) -> float:
    """Refuse what is no length of time."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or math.isnan(seconds):
        raise LocalProtocolError("seconds", "must be a number of seconds")
    return float(seconds)


def check_sleep(seconds: object) -> float:
    """Refuse what is no length of time, and one without an end."""
    length = check_seconds(seconds)
    if math.isinf(length) and length > 0:
        raise LocalProtocolError("seconds", "must come to an end; what waits for something is chat.receive()")
    return length


def wall_time(when: object) -> int:
    """Convert an aware time to wall milliseconds, rounded up: nothing is early."""
    if not isinstance(when, datetime) or when.utcoffset() is None:
        rule = "must be a datetime with a time zone, such as datetime.now(UTC) + timedelta(days=1)"
        raise LocalProtocolError("when", rule)
    return math.ceil(when.timestamp() * 1000)


@final
class Scope(Generic[E_co]):
    """A block that a deadline, an event or `cancel` may end; made by the chat, entered once.

    `E_co` is what the filter of `move_on_when` gives; None for blocks that no event ends.

    Attributes:
        cancelled_caught: the block was ended before its time; set when it is left.
        event: what ended it, as the filter took it; None if that was no event.
    """

    def __init__(
        self,
        conversation: Conversation,
        seconds: float,
        *,
        at: int | None = None,
        shield: bool = False,
        until: Filter[E_co] | None = None,
    ) -> None:
        if until is not None:
            check_filter(until, "move_on_when()")
        self._conversation = conversation
        journal = conversation.journal
        told = None if until is None else self._replayed
        self._scope = journal.scope(seconds=check_seconds(seconds), at=at, shield=shield, told=told)
        self._watch = (
            None if until is None else Watch(until.look, until.name, self._take, cut=lambda: self._scope.cut)
        )
        self._event: E_co | None = None

    @property
    def cancelled_caught(self) -> bool:
        """Return whether the block was ended before its time."""
        return self._scope.cancelled_caught

    @property
    def event(self) -> E_co | None:
        """Return what ended the block, if that was an event."""
        return self._event

    def cancel(self) -> None:
        """End the block at its next chat operation."""
        self._scope.cancel()

    def __enter__(self) -> Self:
        there = self._conversation
        there.enter(OperationKind.SCOPE)
        self._scope.__enter__()
        # By id: a charge that was paid in the last second takes the deadlines around it away.
        there.scopes[self._scope.id] = self._scope
        if self._watch is not None:
            self._watch.scope = self._scope.id
            there.life.open_watch(there, self._watch)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._conversation.scopes.pop(self._scope.id, None)
        try:
            return bool(self._scope.__exit__(kind, error, traceback))
        finally:
            self._close_watch(failed=_is_failure(error))

    def _take(self, taken: Taken) -> None:
        """End the block when the turn comes of an event that was routed to it.

        Its row stays in the inbox until the block is left: only then is it known who has the event.
        """
        there, delivery = self._conversation, taken.delivery
        value = (delivery.event, delivery.seq, delivery.at, (taken.value,))
        there.stirred()
        there.journal.end_scope(
            self._scope.id, value, stamp=delivery.at, event=delivery.seq, withdraw=self._give_up_taken
        )

    def _replayed(self, seq: int) -> None:
        """Hold the row of the event that ended the block in the journal, while that is replayed."""
        if not self._conversation.journal.live:
            self._conversation.life.house.hold(self._conversation.life, seq)

    def _give_up_taken(self) -> None:
        """Give back the event that was to end the block, and came too late for that."""
        watch = self._watch
        if watch is not None and watch.taken is not None:
            taken, watch.taken = watch.taken, None
            self._conversation.life.give_up(self._conversation, taken.delivery)

    def _close_watch(self, *, failed: bool) -> None:
        """Take the event that ended the block, or give it back if the block was over anyway."""
        there, watch = self._conversation, self._watch
        if watch is None:
            return
        there.watches.remove(watch)
        if there.journal.over:
            return  # the conversation isn't: whatever the block had taken is in the inbox
        if self._scope.value is None:
            self._give_up_taken()
            return
        event, seq, at, (value,) = cast("tuple[Event, int, int, tuple[object]]", self._scope.value)
        ended = self._scope.cancelled_caught
        if not (ended or failed):
            if there.replaying:
                # It was given back then, too: whoever took it since will say so, or it is still to be routed.
                there.life.house.release(seq)
            else:
                there.life.give_up(there, Delivery(seq, event, at))
            return
        if ended:
            self._event = cast("E_co", value)
        there.journal.also([Consume((seq,))])
        if isinstance(event, Press):
            there.take_press(event)


def _is_failure(error: BaseException | None) -> bool:
    """Return whether a block ended with an error, and not only with a cancellation."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return any(_is_failure(one) for one in group.exceptions)
    return error is not None and not isinstance(error, trio.Cancelled)


@final
class FailScope:
    """A block that must be done in time: else `trio.TooSlowError`. Made by `Chat.fail_after`."""

    def __init__(
        self,
        conversation: Conversation,
        seconds: float,
        error: type[trio.TooSlowError] = trio.TooSlowError,
        *,
        at: int | None = None,
    ) -> None:
        self._scope: Scope[None] = Scope(conversation, seconds, at=at)
        self._error = error

    def __enter__(self) -> Scope[None]:
        return self._scope.__enter__()

    # Typed None, so that type checkers know that what the block bound is bound after it.
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._scope.__exit__(kind, error, traceback) and self._scope.cancelled_caught:
            raise self._error from None
