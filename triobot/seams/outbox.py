"""Protocols for sending: the platform's client, and the queue of requests in front of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import Enum, IntEnum
from typing import Protocol, runtime_checkable

import trio
from typing_extensions import TypeVar

from ..wire.events import Press
from ..wire.ids import Recipient
from ..wire.operations import Operation

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Platform(Protocol):
    """A client of the platform: sends operations and returns their results."""

    async def perform(self, operation: Operation[R], /) -> R:
        """Send one operation, once, and return its result.

        Raises:
            LocalProtocolError: the operation can't be sent; nothing was sent.
            RefusedError: the platform answered with a refusal.
            NotDeliveredError: the request never left this computer.
            DeliveryUnknownError: the operation may have taken effect.

        Cancellation: *ambiguous* once the client begins to write the request.
        """
        ...


class Begun(Protocol[R_co]):
    """A serialised request, which the task that awaits `result` sends.

    Attributes:
        within: number of seconds after which the request times out. The code that began the request calls
            `expire` then.
    """

    @property
    def within(self) -> float: ...

    @property
    def may_have_left(self) -> bool:
        """Whether a byte of the request may have left this computer."""
        ...

    async def result(self) -> R_co:
        """Send the request on the first call, and wait for its result.

        Raises: as `Platform.perform`.

        Cancellation: the request goes on, and another task may await `result`. But if the request was not
        completely written yet, it is dropped.
        """
        ...

    def expire(self, seconds: float) -> None:
        """End the request, because `seconds` have passed without an answer. The task that awaits `result`
        gets an error. Never blocks.
        """
        ...

    def close(self) -> None:
        """Drop the request and its connection, if no task waits for the result. Never blocks."""
        ...


@runtime_checkable
class BeginsRequests(Protocol):
    """A platform client that can send a request without a task or a cancel scope for that request."""

    def begin(self, operation: Operation[R], /, *, fresh: bool = False) -> Begun[R] | None:
        """Serialise a request; nothing is sent before `Begun.result`.

        Args:
            fresh: whether to open a new connection instead of using an idle one. An idle connection may have
                died; if a request fails on such a connection, it is unknown whether the request arrived.

        Returns:
            The request; None if only `Platform.perform` can send this operation.

        Raises:
            LocalProtocolError: the operation can't be sent.
        """
        ...


class Urgency(IntEnum):
    """Priority of a request when more requests wait than may be sent now; smaller values go first.

    `BESIDE` is for an edit that no code awaits: such an edit doesn't wait for the chat's other messages.
    """

    MONEY = 0
    REPLY = 1
    BESIDE = 2
    BROADCAST = 3
    TYPING = 4


class OnUnknown(Enum):
    """Whether a send with an unknown outcome is sent again, or raises DeliveryUnknownError."""

    RESEND = "resend"
    RAISE = "raise"


class Outbox(Protocol):
    """The queue of outgoing requests: each recipient's requests are sent in order, one at a time."""

    async def perform(
        self,
        operation: Operation[R],
        *,
        urgency: Urgency = Urgency.REPLY,
        on_unknown: OnUnknown = OnUnknown.RESEND,
        doubted: Callable[[], None] | None = None,
        recorded: trio.Event | None = None,
    ) -> R:
        """Queue an operation in its recipient's lane, and wait for its result.

        The call takes its position in the lane before the first checkpoint. Media without a descriptor is
        uploaded first, at this position.

        Args:
            doubted: called, not awaited, when the operation is sent again after an attempt that may have
                arrived.
            recorded: an event that the caller must set as soon as the outcome is durable. Until then, the
                lane sends no other operation that has a `recorded` event. So a kill leaves at most one such
                operation per lane in doubt.

        Raises: as `Platform.perform`, after retries of the failures that a retry may fix.

        Cancellation: *atomic* while queued: the operation is withdrawn. *Ambiguous* in flight: the request
        goes on, and its result is dropped.
        """
        ...

    def typing(self, chat: Recipient) -> AbstractContextManager[None]:
        """Show the typing indicator in the chat while the block runs.

        Never waits, never raises a platform error.
        """
        ...

    def press_taken(self, press: Press[object]) -> None:
        """Register a press that a conversation's wait has consumed.

        A second later, the outbox answers the press, unless the author answers first.
        """
        ...

    def press_due(self, press: Press[object]) -> None:
        """Answer a press now with an empty text, unless the press has been answered."""
        ...

    async def answer(self, press: Press[object], text: str, *, alert: bool) -> bool:
        """Answer a press with the author's text; return False if the press had been answered."""
        ...

    def refuse_press(self, press: Press[object], text: str) -> None:
        """Answer a press that no conversation's wait accepts."""
        ...

    def drop(self, chat: Recipient) -> None:
        """Delete the queue of a chat that the user has left; callers that wait in the queue get
        ForbiddenError.
        """
        ...
