"""The tasks that carry operations to the platform: each goes on with the next, so that few are started.

A task costs several times what waking one does, and so does a cancel scope beside moving the deadline of one;
together they were a tenth of what an operation takes. So a courier has one scope for its life. Its deadline
is that of the operation in hand; behind it, it is what ends a courier that nothing was given to since.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, final

import attrs
import outcome
import trio

from .delivery import Delivery
from .lanes import Place


@final
@attrs.define(eq=False)
class _Courier:
    """One task; `place` is what it carries, `task` is set while it rests."""

    place: Place[Delivery] | None
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    task: trio.lowlevel.Task | None = None


@final
class Couriers:
    """All couriers of an outbox, those that carry an operation and those that rest.

    Args:
        carry: makes one attempt, and deals with its end.
        late: deals with an attempt that has been cancelled, because its time was over.
        start: starts a task in the outbox's nursery.
        landed: called behind each attempt: something may start that could not before.
    """

    def __init__(
        self,
        carry: Callable[[Place[Delivery]], Awaitable[None]],
        late: Callable[[Place[Delivery]], None],
        *,
        start: Callable[[Callable[[], Awaitable[None]]], None],
        landed: Callable[[], None],
    ) -> None:
        self._carry: Final = carry
        self._late: Final = late
        self._start: Final = start
        self._landed: Final = landed
        self._resting: dict[_Courier, None] = {}

    def send(self, place: Place[Delivery], deadline: float) -> None:
        """Have an attempt made, and cut off at `deadline`. Instant."""
        if not self._resting:
            courier = _Courier(place)
            courier.scope.deadline = deadline
            self._start(lambda: self._serve(courier))
            return
        courier, _ = self._resting.popitem()
        courier.place = place
        courier.scope.deadline = deadline
        if courier.task is not None:
            trio.lowlevel.reschedule(courier.task, outcome.Value(None))
            courier.task = None

    async def _serve(self, courier: _Courier) -> None:
        with courier.scope:
            while courier.place is not None:
                await self._carry(courier.place)
                courier.place = None
                if courier.scope.cancel_called:
                    # The answer came in the very moment: it counts, but nothing can be carried in this scope.
                    break
                self._resting[courier] = None
                self._landed()
                if courier.place is None:
                    await self._rest(courier)
        if courier.scope.cancelled_caught and courier.place is not None:
            self._late(courier.place)
        self._landed()

    async def _rest(self, courier: _Courier) -> None:
        courier.task = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            courier.task = None
            del self._resting[courier]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
