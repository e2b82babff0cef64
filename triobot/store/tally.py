"""What waits in a store, counted in memory, so that quota and statistics cost no query. Pure.

Transactions fail, and counts must fail with them: every change is noted until `settle`, and `undo` takes
back what came after a mark. Whoever writes a row counts it here, in the same breath.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, final

from ..seams import OverQuota, Quota, StoreStatistics
from ..wire.ids import ChatId

Total: TypeAlias = Literal["inbox", "inbox_bytes", "raw", "raw_bytes", "conversations", "parked"]


@final
class Tally:
    """Counts that can be taken back."""

    def __init__(self) -> None:
        self._totals: dict[Total, int] = {
            "inbox": 0,
            "inbox_bytes": 0,
            "raw": 0,
            "raw_bytes": 0,
            "conversations": 0,
            "parked": 0,
        }
        self._chats: dict[ChatId, int] = {}
        self._changes: list[tuple[Total | ChatId, int]] = []

    def __getitem__(self, total: Total) -> int:
        return self._totals[total]

    def waiting(self, chat_id: ChatId) -> int:
        """How many events of this chat wait."""
        return self._chats.get(chat_id, 0)

    def count_event(self, chat_id: ChatId, size: int, *, sign: Literal[1, -1]) -> None:
        """One event of `size` bytes more or less."""
        self.add("inbox", sign)
        self.add("inbox_bytes", sign * size)
        self._change(chat_id, sign)

    def add(self, total: Total, amount: int) -> None:
        """Change a total."""
        self._change(total, amount)

    def refusal(self, chat_id: ChatId, size: int, quota: Quota) -> OverQuota | None:
        """Why an event of `size` bytes can't be taken now, or None."""
        if self["inbox_bytes"] + size > quota.bytes_in_all:
            return OverQuota(whole=True)
        if self.waiting(chat_id) >= quota.events_per_chat:
            return OverQuota(whole=False)
        return None

    def mark(self) -> int:
        """A point to come back to; 0 is the last `settle`."""
        return len(self._changes)

    def undo(self, mark: int = 0) -> None:
        """Take back every change since `mark`."""
        undone = self._changes[mark:]
        for key, amount in reversed(undone):
            self._change(key, -amount)
        del self._changes[mark:]

    def settle(self) -> None:
        """Everything so far is durable and won't be taken back."""
        self._changes.clear()

    def statistics(self) -> StoreStatistics:
        """Where the store stands."""
        return StoreStatistics(
            inbox=self["inbox"],
            inbox_bytes=self["inbox_bytes"],
            raw=self["raw"],
            conversations=self["conversations"],
            parked=self["parked"],
        )

    def _change(self, key: Total | ChatId, amount: int) -> None:
        self._changes.append((key, amount))
        if isinstance(key, str):
            self._totals[key] += amount
            return
        left = self._chats.get(key, 0) + amount
        if left:
            self._chats[key] = left
        else:
            # A chat without events leaves no trace: there may be millions of them.
            self._chats.pop(key, None)
