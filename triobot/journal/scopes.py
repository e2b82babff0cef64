"""Blocks that end by themselves: a Trio scope without a deadline, and a deadline that is the journal's.

A deadline is an absolute wall time, reckoned from the time of the turn that opened the block, so it is the
same on replay. Trio's own deadlines would end blocks between two records, where no journal could say so.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self, final

import trio

from ..errors import UnreadableRecordError
from ..values import decode_value
from .branches import Branch
from .foreign import replay_cuts
from .records import OperationId
from .stimuli import OpenScope
from .turns import Turns


@final
class Scope:
    """A block that a deadline, an event or `cancel` may end; entered once.

    Attributes:
        id: to `Incarnation.end_scope` it by an event.
        event: the inbox row that ended it.
        value: as what that was taken.

    Args:
        told: told the inbox row that ends it, each time that this is replayed, too.
    """

    def __init__(
        self,
        turns: Turns,
        current: Callable[[], Branch],
        *,
        after: int | None = None,
        at: int | None = None,
        shield: bool = False,
        told: Callable[[int], None] | None = None,
    ) -> None:
        self.id = OperationId("")
        self.event: int | None = None
        self.value: object = None
        self._turns = turns
        self._current = current
        self._after = after
        self._due = at
        self._told = told
        self._scope = trio.CancelScope(shield=shield)
        self._branch: Branch | None = None

    @property
    def due(self) -> int | None:
        """Its deadline in wall milliseconds, once it has begun."""
        opened = self._turns.scopes.get(self.id)
        return self._due if opened is None else opened.due

    @property
    def cancelled_caught(self) -> bool:
        """Whether the block was ended before its time."""
        return self._scope.cancelled_caught

    @property
    def cancel_called(self) -> bool:
        """Whether the block is to end."""
        return self._scope.cancel_called

    @property
    def cut(self) -> bool:
        """Whether the block is on its way out, because it was ended or one around it was."""
        return self._branch is not None and self._branch.cuts(self._scope)

    def lift(self) -> None:
        """Take its deadline away."""
        self._due = None
        self._open()

    def cancel(self) -> None:
        """End the block at its next operation."""
        self._turns.cut(self._scope)

    def __enter__(self) -> Self:
        branch = self._branch = self._current()
        self.id = branch.next_id()
        if self._after is not None:
            self._due = self._turns.time + self._after
        self._scope.__enter__()
        branch.around.append(self._scope)
        if self._due is not None and self._due <= self._turns.time:
            self._scope.cancel()
        self._open()
        return self

    def _open(self) -> None:
        assert self._branch is not None, "the block has not begun"
        steady = self._after is not None
        self._turns.open_scope(OpenScope(self.id, self._scope, self._due, self._branch, self._fired, steady))

    def _fired(self, event: int | None, value: str | None) -> None:
        self.event = event
        if event is not None and self._told is not None:
            self._told(event)
        try:
            self.value = None if value is None else decode_value(value)
        except UnreadableRecordError as error:
            self._turns.get_stuck(self.id, str(error))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._turns.close_scope(self.id)
        if self._branch is not None:
            self._branch.around.remove(self._scope)
        caught = bool(self._scope.__exit__(kind, error, traceback))
        if self._branch is not None and self._branch is self._turns.holder:
            replay_cuts(self._turns, self._branch)
        return caught
