"""Children of a conversation: more branches of the same chat, which end with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import final

import trio
from typing_extensions import TypeVarTuple

from .conversation import Branch, Conversation, OperationId, OperationKind

Args = TypeVarTuple("Args")


@final
class ChatNursery:
    """Starts children that may use the chat; made by `Chat.open_nursery`."""

    def __init__(self, conversation: Conversation, nursery: trio.Nursery, own: OperationId) -> None:
        self._conversation = conversation
        self._nursery = nursery
        self._own = own
        self._children = 0
        self._timeouts = tuple(conversation.current_branch().timeouts)

    def start_soon(self, fn: Callable[[*Args], Awaitable[object]], *args: *Args) -> None:
        """Start ``fn(*args)`` as a child; an error of a child cancels its siblings and the block."""
        self._children += 1
        path = f"{self._own}/{self._children}."

        async def child() -> None:
            branch = Branch(path, timeouts=list(self._timeouts))
            try:
                with self._conversation.branch(branch):
                    await fn(*args)
                self._conversation.branch_ended(branch)
            finally:
                self._conversation.branch_broke_off(branch)

        self._nursery.start_soon(child, name=f"{fn!r} of {self._conversation.route.name}")
        self._conversation.house.working(1)

    def cancel(self) -> None:
        """End the block and all children."""
        self._nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_nursery(conversation: Conversation) -> AsyncGenerator[ChatNursery]:
    """Open a nursery of chat children; leaving the block waits for them."""
    own = conversation.enter(OperationKind.NURSERY)
    conversation.nurseries += 1
    try:
        with ExitStack() as parked:
            async with trio.open_nursery() as nursery:
                yield ChatNursery(conversation, nursery, own)
                parked.enter_context(conversation.parked())
    finally:
        conversation.nurseries -= 1
