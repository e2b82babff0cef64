"""Decisions of a store: which events are redeliveries, and how long data is kept. Pure.

The rule for redeliveries is documented at `triobot.seams.inbox.Arrival`. The platform repeats a webhook
request until the bot answers 200. Each callback has a unique id. For a week after a callback, every other
callback with the same id is dropped. A key that the author's code passes is remembered for `Retention.keys`.

Other events have no id, and two equal events may both be real, such as the texts "yes" and "yes". So an equal
event counts as a redelivery only if it arrives within a minute of a delivery whose 200 was not fully written.
Only accepted deliveries count: a dropped delivery doesn't prolong the minute, because losing a message is
worse than handling a message twice.

A request that could not be parsed is stored, so that an operator can see what the platform sent. Anybody who
knows the webhook's address can fill the table of unreadable requests. So this table's size is limited: long
bodies are truncated, and old rows are deleted, except the first `FIRST_ROWS`.

`Tally` counts the waiting events in memory, so that quota and statistics need no query. When a transaction
fails, its counts must be undone too. So the tally keeps a list of the changes since the last `settle`, and
`undo` reverts all changes behind a position in this list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, final

from ..base.frozen import guarded
from ..seams.inbox import Arrival, OverQuota, Quota
from ..seams.money import MovePayment
from ..seams.writes import KeepRaw, StoreStatistics, Write
from ..wire.ids import ChatId

ONCE_FOR: Final = 7 * 24 * 60 * 60 * 1000
"""How long a unique key from the platform, such as a callback's id, is remembered; in milliseconds."""

OF_CODE: Final = ("call:", "signal:")
"""Prefixes of the keys that code gives to its calls and signals."""

REPEATED_WITHIN: Final = 60 * 1000
"""How long after an unacknowledged delivery an equal event counts as a redelivery; in milliseconds."""

NAMING: Final = "substr(key, instr(key, ':')) GLOB ':' || ?1 || ':*' OR key GLOB '*:' || ?1 || '/[0-9]*/*'"
"""`names_chat` as an SQL condition. A key has three parts, separated by colons: a word, the event's chat, and
a part that distinguishes the chat's events."""

FIRST_ROWS: Final = 100
MOST_ROWS: Final = FIRST_ROWS + 1_000
MOST_BYTES: Final = 16 * 1024 * 1024
MOST_BYTES_A_ROW: Final = 64 * 1024
_MOST_CHARACTERS: Final = 500
DAY: Final = 24 * 60 * 60 * 1000


@final
@guarded
class AcceptedDelivery:
    """The last accepted delivery of a key."""

    at: int
    acknowledged: bool


def is_redelivery(arrival: Arrival, previous: AcceptedDelivery | None, known_for: int) -> bool:
    """Return whether `arrival` is in the store already, given the last accepted delivery of its key.

    Args:
        known_for: how long keys from the author's code are remembered, in milliseconds.
    """
    if arrival.key is None or previous is None:
        return False
    if arrival.once:
        return arrival.at - previous.at < (known_for if arrival.key.startswith(OF_CODE) else ONCE_FOR)
    # `arrival` may also be earlier than `previous`: without `abs`, events would be dropped for hours after
    # the clock was set back.
    return not previous.acknowledged and abs(arrival.at - previous.at) <= REPEATED_WITHIN


def names_chat(key: str, chat_id: ChatId) -> bool:
    """Return whether `key` belongs to an event of this chat, or to an event from a conversation of this chat;
    see `NAMING`.
    """
    _, _, rest = key.partition(":")
    return rest.startswith(f"{chat_id}:") or re.search(f":{chat_id}/[0-9]+/", key) is not None


def as_kept(write: KeepRaw) -> KeepRaw:
    """Return the write in its stored form: truncated, and without characters that some databases can't store.

    No request is refused here, because a request that could not be parsed often has unreadable headers too.
    """
    return KeepRaw(
        write.at, _storable(write.reason), _storable(write.content_type), write.body[:MOST_BYTES_A_ROW]
    )


def overflows(rows: int, size: int) -> bool:
    """Return whether the store has too many unreadable requests.

    If so, the caller deletes the oldest request except the first `FIRST_ROWS`. The first requests are never
    deleted here, because they show how the trouble began.
    """
    return rows > MOST_ROWS or size > MOST_BYTES


def _storable(text: str) -> str:
    # SQLite accepts U+0000 in a text, PostgreSQL doesn't.
    return text[:_MOST_CHARACTERS].encode(errors="replace").decode().replace("\0", "?")


def tell_moved(writes: Sequence[Write]) -> None:
    """Call the `committed` function of each MovePayment. To be called once the writes are durable."""
    for write in writes:
        if isinstance(write, MovePayment):
            write.committed()


@final
@guarded
class Retention:
    """How long a store keeps rows that are no longer needed, in milliseconds.

    With 0, rows are kept until the next sweep, for a minute at most.

    Usually, an event is deleted when a conversation consumes the event, and a journal is deleted when its
    conversation ends. The times of this class apply to rows that stay longer.

    Attributes:
        crashed: conversations that ended with an error, and their journals.
        ended: conversations that ended well, and that the bot keeps because `EndConversation.kept` was set.
        most_ended: maximum number of conversations that ended well; None for no limit.
        raw: requests that could not be parsed. The number of these requests is also limited.
        keys: keys that code passes to its calls and signals. A second call with a kept key has no effect.
    """

    crashed: int = 7 * DAY
    keys: int = 7 * DAY
    raw: int = 7 * DAY
    ended: int = 0
    most_ended: int | None = None


RETENTION: Final = Retention()
"""The default retention: a week for crashed conversations, keys and unreadable requests."""


Total: TypeAlias = Literal["inbox", "inbox_bytes", "raw", "raw_bytes", "conversations", "parked"]


@final
class Tally:
    """Counts of rows, with undo.

    Attributes:
        unsettled: changes since `settle`, in order; read-only.
        statistics: the totals at the last `settle`.
    """

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
        self._begun: dict[ChatId, tuple[int, ...]] = {}
        # Each change has four fields: a total or a chat, the number of rows, the number of bytes, and the
        # row's `seq` if the row has a `begun`. For a deleted row, the three numbers are negative.
        self.unsettled: list[tuple[Total | ChatId, int, int, int]] = []
        self.statistics = StoreStatistics(0, 0, 0, 0, 0)

    def __getitem__(self, total: Total) -> int:
        return self._totals[total]

    def waiting(self, chat_id: ChatId) -> int:
        return self._chats.get(chat_id, 0)

    def begun(self, chat_id: ChatId) -> Sequence[int]:
        """Return the `seq` of each of this chat's inbox rows with a `begun`; rarely more than one row."""
        return self._begun.get(chat_id, ())

    def count_event(self, chat_id: ChatId, size: int, begun: int = 0) -> None:
        """Count one more event.

        Args:
            size: size of the body in bytes.
            begun: the event's `seq` if the event has begun a conversation; else 0.
        """
        self.unsettled.append((chat_id, 1, size, begun))
        self._change(chat_id, 1, size, begun)

    def count_gone(self, chat_id: ChatId, size: int, seq: int) -> None:
        """Remove a deleted event of `size` bytes from the counts."""
        begun = -seq if seq in self._begun.get(chat_id, ()) else 0
        self.unsettled.append((chat_id, -1, -size, begun))
        self._change(chat_id, -1, -size, begun)

    def add(self, total: Total, amount: int) -> None:
        self.unsettled.append((total, amount, 0, 0))
        self._totals[total] += amount

    def refusal(self, chat_id: ChatId, size: int, quota: Quota) -> OverQuota | None:
        """Return the refusal of an event of `size` bytes, or None if the inbox has room."""
        if self._totals["inbox_bytes"] + size > quota.bytes_in_all:
            return OverQuota(whole=True)
        if self._chats.get(chat_id, 0) >= quota.events_per_chat:
            return OverQuota(whole=False)
        return None

    def mark(self) -> int:
        """Return the present position in the list of changes, for `undo`; 0 is the position of the last
        `settle`.
        """
        return len(self.unsettled)

    def undo(self, mark: int = 0) -> None:
        """Undo every change since the call of `mark` that returned this position."""
        for key, amount, bytes_, begun in reversed(self.unsettled[mark:]):
            if isinstance(key, str):
                self._totals[key] -= amount
            else:
                self._change(key, -amount, -bytes_, -begun)
        del self.unsettled[mark:]

    def clear(self) -> None:
        self._totals = dict.fromkeys(self._totals, 0)
        self._chats.clear()
        self._begun.clear()
        self.unsettled.clear()

    def settle(self) -> None:
        """Make all changes so far final. To be called once the changes' transaction is durable."""
        self.unsettled.clear()
        totals = self._totals
        self.statistics = StoreStatistics(
            totals["inbox"], totals["inbox_bytes"], totals["raw"], totals["conversations"], totals["parked"]
        )

    def _change(self, chat_id: ChatId, amount: int, bytes_: int, begun: int) -> None:
        if begun > 0:
            self._begun[chat_id] = (*self._begun.get(chat_id, ()), begun)
        elif begun:
            rows = self._begun.pop(chat_id, ())
            if len(rows) > 1:
                self._begun[chat_id] = tuple([row for row in rows if row != -begun])
        self._totals["inbox"] += amount
        self._totals["inbox_bytes"] += bytes_
        left = self._chats.get(chat_id, 0) + amount
        if left:
            self._chats[chat_id] = left
        else:
            # Keep no entry for a chat without events: there may be millions of such chats.
            self._chats.pop(chat_id, None)
