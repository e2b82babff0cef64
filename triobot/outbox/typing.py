"""Which chats are to see that the bot is typing, and when they must be told again. Pure.

The indicator fades by itself on the user's screen, so it is refreshed while the block runs. Blocks of one
chat are counted: the first begins it, the last ends it.
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
    """The chats with a typing block. One period for all keeps them in the order in which they are due."""

    def __init__(self, period: float = 4.0) -> None:
        self._period = period
        self._typists: OrderedDict[Recipient, _Typist] = OrderedDict()

    def begin(self, chat: Recipient, now: float) -> bool:
        """Count a block that begins; True if it is the chat's first, which is to be shown at once."""
        typist = self._typists.get(chat)
        if typist is not None:
            typist.blocks += 1
            return False
        self._typists[chat] = _Typist(1, now + self._period)
        return True

    def end(self, chat: Recipient) -> bool:
        """Count a block that ends; True if it was the chat's last."""
        typist = self._typists[chat]
        typist.blocks -= 1
        if typist.blocks:
            return False
        del self._typists[chat]
        return True

    def due(self, now: float) -> list[Recipient]:
        """Return the chats to be told now, and make each due again a period later."""
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
        """Return when the next chat is due; `NEVER` if none has a block."""
        return next((typist.due_at for typist in self._typists.values()), NEVER)

    def __contains__(self, chat: Recipient) -> bool:
        return chat in self._typists
