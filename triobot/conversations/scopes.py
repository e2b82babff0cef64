"""Time, events and cancellation in a conversation: blocks that end by themselves."""

from __future__ import annotations

import math
from datetime import datetime
from types import TracebackType
from typing import Generic, Self, cast, final

import trio
from typing_extensions import TypeVar

from ..errors import LocalProtocolError
from .conversation import Branch, Conversation, OperationKind
from .filters import Filter, check_filter
from .waits import Watch

E_co = TypeVar("E_co", covariant=True, default=object)


def check_seconds(seconds: object) -> float:
    """Refuse what is no length of time."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or math.isnan(seconds):
        raise LocalProtocolError("seconds", "must be a number of seconds")
    return float(seconds)


def wall_time(when: object) -> int:
    """An aware time in wall milliseconds, rounded up: nothing is early."""
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
        self._seconds = check_seconds(seconds)
        self._at = at
        self._scope = trio.CancelScope(shield=shield)
        self._shields = shield
        self._watch = None if until is None else Watch(until.look, until.name, self._scope.cancel)
        self._branch: Branch | None = None
        self._event: E_co | None = None

    @property
    def cancelled_caught(self) -> bool:
        """Whether the block was ended before its time."""
        return self._scope.cancelled_caught

    @property
    def event(self) -> E_co | None:
        """What ended the block, if that was an event."""
        return self._event

    def cancel(self) -> None:
        """End the block at its next chat operation."""
        self._scope.cancel()

    def __enter__(self) -> Self:
        self._conversation.enter(OperationKind.SCOPE)
        self._branch = self._conversation.current_branch()
        if self._at is not None:
            self._seconds = (self._at - self._conversation.services.clock.now()) / 1000
        if self._seconds != math.inf:
            self._scope.deadline = trio.current_time() + self._seconds
            self._branch = self._conversation.current_branch()
            self._branch.timeouts.append(self._scope)
        if self._conversation.house.cut:
            self._scope.shield = False
        self._scope.__enter__()
        if self._shields:
            self._conversation.shielded.add(self._scope)
        if self._watch is not None:
            self._conversation.life.open_watch(self._conversation, self._watch)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._conversation.shielded.discard(self._scope)
        try:
            return bool(self._scope.__exit__(kind, error, traceback))
        finally:
            self._close_watch(failed=_is_failure(error))

    def _close_watch(self, *, failed: bool) -> None:
        """Known only now: whether the event ended the block, or it was over anyway."""
        if self._watch is None or self._branch is None:
            return
        ended = self._scope.cancelled_caught
        self._conversation.close_watch(self._watch, self._branch, ended=ended or failed)
        if ended and self._watch.taken is not None:
            self._event = cast("E_co", self._watch.taken.value)


def _is_failure(error: BaseException | None) -> bool:
    """Whether a block ended with an error, and not only with somebody's cancellation."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return any(_is_failure(one) for one in group.exceptions)
    return error is not None and not isinstance(error, trio.Cancelled)


@final
class FailScope:
    """A block that must be done in time: else `trio.TooSlowError`. Made by `Chat.fail_after`."""

    def __init__(self, conversation: Conversation, seconds: float) -> None:
        self._scope: Scope[None] = Scope(conversation, seconds)

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
            raise trio.TooSlowError from None
