"""The chats that show typing, and when each indicator must be sent again. Pure.

The indicator disappears by itself on the user's screen, so the indicator is sent again while the block runs.
Blocks of one chat are counted: the first block starts the indicator, the last block ends it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, final

import attrs

from ..wire.ids import Recipient

NEVER: Final = float("inf")


@final
@attrs.define(eq=False)
class _Typist:
    blocks: int
    due_at: float


@final
class Typists:
    """The chats with a typing block, in the order of due times: all have the same period."""

    def __init__(self, period: float = 4.0) -> None:
        self._period = period
        self._typists: OrderedDict[Recipient, _Typist] = OrderedDict()

    def begin(self, chat: Recipient, now: float) -> bool:
        """Count a block that begins; return True for the chat's first block: show the indicator at once."""
        typist = self._typists.get(chat)
        if typist is not None:
            typist.blocks += 1
            return False
        self._typists[chat] = _Typist(1, now + self._period)
        return True

    def end(self, chat: Recipient) -> bool:
        """Count a block that ends; return True for the chat's last block."""
        typist = self._typists[chat]
        typist.blocks -= 1
        if typist.blocks:
            return False
        del self._typists[chat]
        return True

    def due(self, now: float) -> list[Recipient]:
        """Return the chats that need an indicator now; each chat is next due after one period."""
        due: list[Recipient] = []
        for chat, typist in self._typists.items():
            if typist.due_at > now:
                break
            due.append(chat)
        for chat in due:
            self._typists[chat].due_at = now + self._period
            self._typists.move_to_end(chat)
        return due

    def look_again(self) -> float:
        """Return when the next chat is due; `NEVER` if no chat has a block."""
        return next((typist.due_at for typist in self._typists.values()), NEVER)

    def __contains__(self, chat: Recipient) -> bool:
        return chat in self._typists
