"""What a crash tore is run again before anybody else reads or writes what its chat keeps.

A turn that was torn reckons with what was kept when it began. Until it has been run again, what others read
would lack what it writes, and what they write would be overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from ...seams import Store
from ...wire.ids import ChatId

if TYPE_CHECKING:
    from ..life import ChatLife
    from .waking import Waking


@final
class Settling:
    """Waits for chats that come back.

    Args:
        find: a chat that is in memory.
        recall: brings a chat back, unless it is there, or the bot stops.
    """

    def __init__(
        self,
        store: Store,
        waking: Waking,
        find: Callable[[ChatId], ChatLife | None],
        recall: Callable[[ChatId], None],
    ) -> None:
        self._store = store
        self._waking = waking
        self._find = find
        self._recall = recall

    async def settle(self, chat_id: ChatId) -> None:
        """Wait until this chat is back, if something was under way in it when the last process ended.

        Not longer than it holds up the events of its chat.
        """
        if self._find(chat_id) is None and not self._waking.looked_through:
            rows = await self._store.conversations(chat_id)
            if any(row.unfinished and row.parked_because is None for row in rows):
                self._recall(chat_id)
        life = self._find(chat_id)
        if life is not None and life.back is not None:
            await life.back.wait()
