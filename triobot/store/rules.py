"""What a store decides: what is a redelivery, and what is kept for how long. Pure.

Redelivery is the rule of `triobot.seams.inbox.Arrival`. The platform repeats a request whose 200 it did not
get, and its events carry no id. A callback's id is unique in itself, so a second one is dropped for a week; a
key that code gives is known as long as `Retention` says.

Anything else may honestly be said twice ("yes", "yes"): an equal event is a redelivery only within a minute
of one whose 200 was not fully written. Only accepted deliveries count; a dropped one does not prolong the
minute, because losing a message is worse than hearing it twice.

A request that could not be read is kept so that an operator sees what the platform sent. Whoever knows the
webhook's address can fill that ring, so it is small, its rows are cut, and the oldest go first.

`Tally` counts what waits in memory, so that quota and statistics cost no query. Transactions fail, and counts
must fail with them: every change is noted until `settle`, and `undo` takes back what came after a mark.
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
"""How long a key of the platform's that is unique in itself is remembered, in milliseconds."""

OF_CODE: Final = ("call:", "signal:")
"""What the keys begin with that code gives to what it starts and signals."""

REPEATED_WITHIN: Final = 60 * 1000
"""How long after an unacknowledged delivery an equal one is taken for its repetition, in milliseconds."""

UNSURE_BEFORE_A_CRASH: Final = 1000
"""Acknowledgements this close to a crash of the machine are not believed: its kernel may not have sent what
the process had written. In milliseconds."""

NAMING: Final = "substr(key, instr(key, ':')) GLOB ':' || ?1 || ':*' OR key GLOB '*:' || ?1 || '/[0-9]*/*'"
"""`names_chat` in SQL. A key is a word, the chat it goes to, and behind that what tells it from others."""

FIRST_ROWS: Final = 100
MOST_ROWS: Final = FIRST_ROWS + 1_000
MOST_BYTES: Final = 16 * 1024 * 1024
MOST_BYTES_A_ROW: Final = 64 * 1024
_MOST_CHARACTERS: Final = 500
DAY: Final = 24 * 60 * 60 * 1000


@final
@guarded
class Delivery:
    """The last accepted delivery of a key."""

    at: int
    acknowledged: bool


def is_redelivery(arrival: Arrival, previous: Delivery | None, known_for: int) -> bool:
    """Tell whether `arrival` is here already, given the last accepted delivery of its key.

    Args:
        known_for: see `Retention.keys`.
    """
    if arrival.key is None or previous is None:
        return False
    if arrival.once:
        return arrival.at - previous.at < (known_for if arrival.key.startswith(OF_CODE) else ONCE_FOR)
    # Both ways, so that a clock that was set back by hours suppresses nothing.
    return not previous.acknowledged and abs(arrival.at - previous.at) <= REPEATED_WITHIN


def names_chat(key: str, chat_id: ChatId) -> bool:
    """Tell whether a key is the chat's, or of what its conversations have sent to others; see `NAMING`."""
    _, _, rest = key.partition(":")
    return rest.startswith(f"{chat_id}:") or re.search(f":{chat_id}/[0-9]+/", key) is not None


@final
@guarded
class Cutoff:
    """Deliveries accepted before these instants decide nothing any more."""

    once: int
    of_code: int
    repeatable: int


def cutoff(now: int, known_for: int) -> Cutoff:
    """Return the instants before which deliveries may be forgotten at `now`."""
    return Cutoff(once=now - ONCE_FOR, of_code=now - known_for, repeatable=now - REPEATED_WITHIN)


def as_kept(write: KeepRaw) -> KeepRaw:
    """Cut the row, and make its texts such as any engine can hold.

    What could not be read is often unreadable in its headers too, so nothing is refused here.
    """
    return KeepRaw(
        write.at, _storable(write.reason), _storable(write.content_type), write.body[:MOST_BYTES_A_ROW]
    )


def overflows(rows: int, size: int) -> bool:
    """Tell whether a row must go: the oldest behind the first `FIRST_ROWS`, which say how it began."""
    return rows > MOST_ROWS or size > MOST_BYTES


def _storable(text: str) -> str:
    # U+0000 is text to SQLite, but not to every engine.
    return text[:_MOST_CHARACTERS].encode(errors="replace").decode().replace("\0", "?")


def tell_moved(writes: Sequence[Write]) -> None:
    """Tell each move that it is durable."""
    for write in writes:
        if isinstance(write, MovePayment):
            write.committed()


@final
@guarded
class Retention:
    """How long a store keeps its leftovers, in milliseconds; 0 is until the next sweep, a minute at most.

    Events go when they are consumed, journals when their conversation ends: this is for what is left over.

    Attributes:
        crashed: conversations that ended with an error, with their journals.
        ended: those that ended well and were to be kept.
        most_ended: so many of these are kept at most; None for all.
        raw: requests that could not be read; their number is bounded besides.
        keys: what was started or signalled with a key, so that a second time does nothing.
    """

    crashed: int = 7 * DAY
    keys: int = 7 * DAY
    raw: int = 7 * DAY
    ended: int = 0
    most_ended: int | None = None


RETENTION: Final = Retention()
"""The default: a week for each."""


Total: TypeAlias = Literal["inbox", "inbox_bytes", "raw", "raw_bytes", "conversations", "parked"]


@final
class Tally:
    """Counts that can be taken back.

    Attributes:
        unsettled: every change that can be, in order; to be read only.
        statistics: the totals as they were last settled.
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
        # What was counted, how many, how many bytes; and the row with which something has begun, negative
        # once that is gone.
        self.unsettled: list[tuple[Total | ChatId, int, int, int]] = []
        self.statistics = StoreStatistics(0, 0, 0, 0, 0)

    def __getitem__(self, total: Total) -> int:
        return self._totals[total]

    def waiting(self, chat_id: ChatId) -> int:
        """Return how many events of this chat wait."""
        return self._chats.get(chat_id, 0)

    def begun(self, chat_id: ChatId) -> Sequence[int]:
        """Return the rows with which conversations have begun that are nowhere else: one at most, mostly."""
        return self._begun.get(chat_id, ())

    def count_event(self, chat_id: ChatId, size: int, begun: int = 0) -> None:
        """Count one event of `size` bytes more.

        Args:
            begun: its row's number, if a conversation has begun with it.
        """
        self.unsettled.append((chat_id, 1, size, begun))
        self._change(chat_id, 1, size, begun)

    def count_gone(self, chat_id: ChatId, size: int, seq: int) -> None:
        """Count this event of `size` bytes no more."""
        begun = -seq if seq in self._begun.get(chat_id, ()) else 0
        self.unsettled.append((chat_id, -1, -size, begun))
        self._change(chat_id, -1, -size, begun)

    def add(self, total: Total, amount: int) -> None:
        """Change a total."""
        self.unsettled.append((total, amount, 0, 0))
        self._totals[total] += amount

    def refusal(self, chat_id: ChatId, size: int, quota: Quota) -> OverQuota | None:
        """Return why an event of `size` bytes can't be taken now, or None."""
        if self._totals["inbox_bytes"] + size > quota.bytes_in_all:
            return OverQuota(whole=True)
        if self._chats.get(chat_id, 0) >= quota.events_per_chat:
            return OverQuota(whole=False)
        return None

    def mark(self) -> int:
        """Return a point to which `undo` can come back; 0 is the last `settle`."""
        return len(self.unsettled)

    def undo(self, mark: int = 0) -> None:
        """Take back every change since `mark`."""
        for key, amount, bytes_, begun in reversed(self.unsettled[mark:]):
            if isinstance(key, str):
                self._totals[key] -= amount
            else:
                self._change(key, -amount, -bytes_, -begun)
        del self.unsettled[mark:]

    def clear(self) -> None:
        """Count nothing, as before anything was counted."""
        self._totals = dict.fromkeys(self._totals, 0)
        self._chats.clear()
        self._begun.clear()
        self.unsettled.clear()

    def settle(self) -> None:
        """Settle every change so far: it is durable and can't be taken back."""
        self.unsettled.clear()
        totals = self._totals
        self.statistics = StoreStatistics(
            totals["inbox"],
            totals["inbox_bytes"],
            totals["raw"],
            totals["conversations"],
            totals["parked"],
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
            # A chat without events leaves no trace: there may be millions of them.
            self._chats.pop(chat_id, None)
