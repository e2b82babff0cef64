"""Work that timeouts have to wait for, a little: money that is being looked at.

Whoever pays in the last second must get what was bought. So a timeout around the work is held until that is
done, or for a few seconds; an interrupt, a leave and the program's end are not held.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

import trio

if TYPE_CHECKING:
    from .conversation import Conversation

T = TypeVar("T")

HELD: Final = 5.0
"""Seconds that a timeout is held."""


async def hold(
    conversation: Conversation, work: Callable[[], Awaitable[T]], unclaimed: Callable[[T], None]
) -> T | None:
    """Await ``work()`` as a task of its own; None if it was given up because the program stops.

    Args:
        unclaimed: told what the work brought when nobody waits for it any more.

    Cancellation: a timeout of the author's code comes up to `HELD` seconds late, and not at all if the work
    has brought a yes by then: what the code does with that is part of the block. Else the work is cancelled,
    which is as *ambiguous* as what it does.
    """
    if conversation.house.cut:
        await trio.lowlevel.checkpoint()
        return None
    held = _Held(conversation, work, unclaimed)
    timeouts = conversation.current_branch().timeouts
    # Without a deadline it is put off already, by another branch, which gives it back.
    put_off = {t: t.deadline for t in timeouts if not t.cancel_called and t.deadline < inf}
    for timeout in put_off:
        timeout.deadline = inf
    value: T | None = None
    try:
        value = await held.wait_done(min(put_off.values(), default=inf))
        return value
    finally:
        for timeout, deadline in put_off.items():
            if not value or deadline > trio.current_time():
                timeout.deadline = deadline


@final
class _Held(Generic[T]):
    def __init__(
        self, conversation: Conversation, work: Callable[[], Awaitable[T]], unclaimed: Callable[[T], None]
    ) -> None:
        self._conversation = conversation
        self._work = work
        self._unclaimed = unclaimed
        self._scope = trio.CancelScope()
        self._waiter: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        self._raise_cancel: Callable[[], object] | None = None
        self._value: T | None = None
        self._error: Exception | None = None

    async def run(self) -> None:
        try:
            with self._scope:
                try:
                    self._value = value = await self._work()
                except Exception as error:
                    self._error = error
                else:
                    if self._waiter is None:
                        self._unclaimed(value)
        finally:
            self._conversation.held.discard(self._scope)
            if self._waiter is not None:
                trio.lowlevel.reschedule(self._waiter)

    async def wait_done(self, due: float) -> T | None:
        """Start the work, and wait for its end; `due` is when the next timeout would have come."""
        self._scope.deadline = due + HELD
        self._conversation.house.beside(self.run)
        await trio.lowlevel.wait_task_rescheduled(self._abort)
        if self._error is not None:
            raise self._error
        if self._scope.cancelled_caught and self._raise_cancel is not None:
            self._raise_cancel()
        return self._value

    def _abort(self, raise_cancel: Callable[[], object]) -> trio.lowlevel.Abort:
        if self._conversation.ending is not None or self._conversation.house.cut:
            self._waiter = None
            self._scope.cancel()
            return trio.lowlevel.Abort.SUCCEEDED
        # An interrupt that comes while the timeout is held ends this at once.
        self._conversation.held.add(self._scope)
        self._scope.deadline = min(self._scope.deadline, trio.current_time() + HELD)
        self._raise_cancel = raise_cancel
        return trio.lowlevel.Abort.FAILED
