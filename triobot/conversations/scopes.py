"""Time and cancellation in a conversation: blocks that end by themselves."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Self, final

import trio

from ..errors import LocalProtocolError
from .conversation import Conversation, OperationKind


def check_seconds(seconds: object) -> float:
    """Refuse what is no length of time."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or math.isnan(seconds):
        raise LocalProtocolError("seconds", "must be a number of seconds")
    return float(seconds)


@final
class Scope:
    """A block that a deadline or `cancel` may end; made by the chat, entered once.

    Attributes:
        cancelled_caught: the block was ended this way; set when it is left.
    """

    def __init__(self, conversation: Conversation, seconds: float, *, shield: bool = False) -> None:
        self._conversation = conversation
        self._seconds = check_seconds(seconds)
        self._scope = trio.CancelScope(shield=shield)
        self._shields = shield

    @property
    def cancelled_caught(self) -> bool:
        """Whether the block was ended before its time."""
        return self._scope.cancelled_caught

    def cancel(self) -> None:
        """End the block at its next chat operation."""
        self._scope.cancel()

    def __enter__(self) -> Self:
        self._conversation.enter(OperationKind.SCOPE)
        if self._seconds != math.inf:
            self._scope.deadline = trio.current_time() + self._seconds
        if self._conversation.house.cut:
            self._scope.shield = False
        self._scope.__enter__()
        if self._shields:
            self._conversation.shielded.add(self._scope)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._conversation.shielded.discard(self._scope)
        return bool(self._scope.__exit__(kind, error, traceback))


@final
class FailScope:
    """A block that must be done in time: else `trio.TooSlowError`. Made by `Chat.fail_after`."""

    def __init__(self, conversation: Conversation, seconds: float) -> None:
        self._scope = Scope(conversation, seconds)

    def __enter__(self) -> Scope:
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
