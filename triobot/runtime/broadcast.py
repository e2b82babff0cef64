"""Operations on broadcasts, used by `Bot.broadcast` and by conversations."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Final, final

import attrs

from ..base.frozen import guarded
from ..conversations.running.branches import refuse_conversations
from ..conversations.services import Also, OnDoubt
from ..outbox import Announcement, Broadcasts
from ..seams.broadcasts import BroadcastStatus
from ..wire.content import Content
from ..wire.ids import ChatId
from ..wire.markup import InlineKeyboard

INSTEAD_OF_TELLING: Final = "chat.broadcast(key)"


@final
@guarded
class LiveAnnouncing:
    """Passes operations to the tasks that send broadcasts.

    Attributes:
        outside: whether calls from conversations are refused.
    """

    _broadcasts: Broadcasts = attrs.field(repr=False)
    outside: bool = False

    async def start(
        self,
        key: str,
        content: Content,
        keyboard: InlineKeyboard | None,
        on_unknown: OnDoubt,
        audience: AsyncIterable[ChatId],
        also: Also | None = None,
    ) -> bool:
        """Begin to send a broadcast to an audience."""
        self._check("start")
        announcement = Announcement(content, keyboard, on_unknown)
        return await self._broadcasts.start(key, announcement, audience, also)

    async def status(self, key: str) -> BroadcastStatus:
        self._check("status")
        return await self._broadcasts.status(key)

    async def stop(self, key: str, also: Also | None = None) -> bool:
        """Stop sending a broadcast."""
        self._check("stop")
        return await self._broadcasts.stop(key, also)

    def gone(self, key: str) -> AsyncIterator[ChatId]:
        """Iterate over the chats that have left."""
        self._check("gone")
        return self._broadcasts.gone(key)

    def _check(self, what: str) -> None:
        if self.outside:
            refuse_conversations(f"Broadcast.{what}()", INSTEAD_OF_TELLING)
