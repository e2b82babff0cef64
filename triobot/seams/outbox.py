"""What sends requests to the platform, and what lets them wait in order."""

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
    """The platform as the client sees it: one operation in, its result out."""

    async def perform(self, operation: Operation[R], /) -> R:
        """Perform one operation, once.

        Raises:
            LocalProtocolError: the operation can't be sent; nothing was.
            RefusedError: the platform answered, and said no.
            NotDeliveredError: the request never left.
            DeliveryUnknownError: it may have taken effect.

        Cancellation: *ambiguous* once the request is being written.
        """
        ...


class Begun(Protocol[R_co]):
    """A request that is written out, and carried by whichever task awaits its result.

    Attributes:
        within: seconds that the platform's client gives it; `expire` is up to whoever began it.
    """

    @property
    def within(self) -> float:
        """See the class."""
        ...

    @property
    def may_have_left(self) -> bool:
        """Return whether a byte of it may have left this machine."""
        ...

    async def result(self) -> R_co:
        """Send it, the first time, and wait for its result.

        Raises: as `Platform.perform`.

        Cancellation: nothing is lost: the request goes on, and another task may await this. Only one that
        had not left yet, or not to its end, is over.
        """
        ...

    def expire(self, seconds: float) -> None:
        """End it, since so many seconds have brought no answer; the task that waits is told. Instant."""
        ...

    def close(self) -> None:
        """End it, if no task waits for its result; nothing is left of it. Instant."""
        ...


@runtime_checkable
class BeginsRequests(Protocol):
    """A platform whose requests need no task and no scope of their own."""

    def begin(self, operation: Operation[R], /, *, fresh: bool = False) -> Begun[R] | None:
        """Write a request out; None if only `Platform.perform` can carry it. Nothing leaves before `result`.

        Args:
            fresh: it takes a new connection. A kept one may have died, and then it would not be known whether
                the request arrived.

        Raises:
            LocalProtocolError: the operation can't be sent.
        """
        ...


class Urgency(IntEnum):
    """What goes first when the platform is slower than we are; smaller goes earlier.

    `BESIDE` is an edit that no code awaits: it is in no order with what else its chat is told.
    """

    MONEY = 0
    REPLY = 1
    BESIDE = 2
    BROADCAST = 3
    TYPING = 4


class OnUnknown(Enum):
    """What to do with a send whose outcome isn't known."""

    RESEND = "resend"
    RAISE = "raise"


class Outbox(Protocol):
    """What a chat sends: in order per recipient, one in flight each."""

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

        The place in the lane is taken by the call itself, before its first checkpoint. Media that has no
        descriptor yet is uploaded first, within the lane. `doubted` is told, at once, when it is sent again
        although it may have arrived. `recorded` is set by the caller, once what came of it is durable: until
        then nothing else with a `recorded` leaves in the lane, so that a kill leaves one of them in doubt.

        Raises: as `Platform.perform`; failures that a repeat may mend are repeated here first.

        Cancellation: *atomic* while queued (the operation is withdrawn); *ambiguous* while in flight: the
        request goes on and its result is dropped.
        """
        ...

    def typing(self, chat: Recipient) -> AbstractContextManager[None]:
        """Show typing while the block runs. Never waits, and never raises on the platform's account."""
        ...

    def press_taken(self, press: Press[object]) -> None:
        """Have a press that a conversation took answered within a second, by the author or by itself."""
        ...

    def press_due(self, press: Press[object]) -> None:
        """Answer this press now, without a word, unless it has been answered."""
        ...

    async def answer(self, press: Press[object], text: str, *, alert: bool) -> bool:
        """Answer a press with the author's words; False if it had been answered."""
        ...

    def refuse_press(self, press: Press[object], text: str) -> None:
        """Answer a press that no wait takes."""
        ...

    def drop(self, chat: Recipient) -> None:
        """Forget what is still queued for a chat that was left; what waits for it gets ForbiddenError."""
        ...
