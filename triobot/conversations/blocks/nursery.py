"""Children of a conversation: more branches of the same chat, which end with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import final

import trio
from typing_extensions import TypeVarTuple

from ...engine import Nursery
from ..conversation import Branch, Conversation, OperationKind
from ..running.branches import enter_branch, leave_branch
from ..running.leash import held

Args = TypeVarTuple("Args")


@final
class ChatNursery:
    """Starts children that may use the chat; made by `Chat.open_nursery`."""

    def __init__(self, conversation: Conversation, nursery: Nursery) -> None:
        self._conversation = conversation
        self._nursery = nursery

    def start_soon(self, fn: Callable[[*Args], Awaitable[object]], *args: *Args) -> None:
        """Start ``fn(*args)`` as a child; an error of a child cancels its siblings and the block."""

        async def child() -> None:
            task = trio.lowlevel.current_task()
            enter_branch(task, Branch("child"))
            try:
                await held(self._conversation.leash, fn(*args))
            finally:
                leave_branch(task)

        self._nursery.start_soon(child)

    def cancel(self) -> None:
        """End the block and all children."""
        self._nursery.cancel()


@asynccontextmanager
async def open_nursery(conversation: Conversation) -> AsyncGenerator[ChatNursery]:
    """Open a nursery of chat children; leaving the block waits for them."""
    conversation.enter(OperationKind.NURSERY)
    conversation.nurseries += 1
    try:
        async with conversation.run.open_nursery() as nursery:
            yield ChatNursery(conversation, nursery)
    finally:
        conversation.nurseries -= 1
