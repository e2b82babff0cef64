"""Work that timeouts have to wait for, a little: money that is being looked at.

Whoever pays in the last second must get what was bought. So a timeout around the work is held until that is
done, or for a few seconds; an interrupt, a leave and the program's end are not held.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from ...engine.records import Id
from ..running.branches import OperationKind

if TYPE_CHECKING:
    from ..conversation import Conversation

T = TypeVar("T")

HELD: Final = 5.0
"""Seconds that a timeout is held."""


async def hold(
    conversation: Conversation, work: Callable[[Id], Awaitable[T]], decided: Callable[[T], bool]
) -> T:
    """Await ``work(id)`` as one operation, of this id.

    Args:
        decided: whether what the work brought ends what it was for.

    Cancellation: a timeout of the author's code comes up to `HELD` late, and not at
    all if the work has decided it by then: what the code does with that is part of the block. Else the
    work is cancelled, which is as *ambiguous* as what it does.
    """
    value = await conversation.effect(OperationKind.VERIFY, work, holds=True, inside=True)
    if decided(value):
        if conversation.journal.interrupted:
            await trio.lowlevel.checkpoint_if_cancelled()
        for scope in conversation.scopes.values():
            if scope.due is not None and scope.due <= conversation.journal.now():
                scope.lift()
    return value
