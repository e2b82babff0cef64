"""Operations beside the conversations: old buttons go, a stale form is told so. Nobody waits for them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, final

from ...errors import TriobotError
from ...seams import Outbox
from ...wire.ids import ChatId
from ...wire.operations import Operation
from ..house import House

log: Final = logging.getLogger("triobot.conversations")

TIDYING: Final = 64
"""Operations of a chat that may be on their way; more are left undone."""


@final
class Tidying:
    """Tidies up, a bounded amount at once."""

    def __init__(self, outbox: Outbox, house: House) -> None:
        self._outbox = outbox
        self._house = house
        self._chats: Counter[ChatId] = Counter()

    def __len__(self) -> int:
        return len(self._chats)

    def tidy(self, chat_id: ChatId, operation: Operation[object], still: Callable[[], bool]) -> None:
        """Do this, if it is `still` wanted when its turn comes."""
        if self._chats[chat_id] >= TIDYING:
            self._house.count("left_untidy")
            return
        self._chats[chat_id] += 1

        async def tidy() -> None:
            try:
                if still():
                    await self._outbox.perform(operation)
            except (TriobotError, OSError) as error:
                self._house.count("tidying_failed")
                log.info("tidying up with %s failed: %s", operation.path, type(error).__name__)
            finally:
                self._chats[chat_id] -= 1
                if not self._chats[chat_id]:
                    del self._chats[chat_id]

        self._house.beside(tidy)
