"""The writes of a transaction, and values that describe a store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias, final

import attrs

from ..base.frozen import frozen, guarded
from ..errors import StoreError
from ..wire.ids import ChatId
from .broadcasts import BroadcastWrite
from .inbox import Arrival
from .journals import JournalWrite
from .money import MoneyWrite, MovePayment

LARGEST_VALUE: Final = 1024 * 1024
"""Maximum length of one value of a chat, in characters: while a chat is active, all its values are in memory.
"""
WORK_SLOTS: Final = 64
"""Number of slots of `WorkSlots`."""


Held: TypeAlias = Callable[[], float]
"""Returns the number of seconds for which the store will certainly still belong to this process; 0 if the
store may already belong to another process.

After these seconds, another process may own the store, unless the database has answered in the meantime.
Never blocks; callable in any thread.
"""


class WorkSlots(Protocol):
    """A list of slots: each slot has the number of a conversation, event or chat for which code runs
    now, or 0.

    The runtime sets a slot several times per event.
    """

    def __setitem__(self, slot: int, number: int, /) -> None: ...


@final
@frozen
class Consume:
    """Delete inbox rows that have been handled."""

    seqs: tuple[int, ...]


@final
@frozen
class KeepRaw:
    """Store an unreadable request. The store keeps the first hundred and the newest thousand such
    requests.
    """

    at: int
    reason: str
    content_type: str
    body: bytes = attrs.field(repr=False)


@final
@frozen
class PutSetting:
    """Store a setting of the whole store, such as the webhook's secret."""

    name: str
    value: str = attrs.field(repr=False)


@final
@frozen
class PutStamp:
    """Bind the store to a platform and a bot, by the platform's address and a salted digest of the token."""

    base_url: str
    salt: str = attrs.field(repr=False)
    digest: str = attrs.field(repr=False)


@final
@frozen
class PutData:
    """Store a value of a chat under a key; None deletes the value."""

    chat_id: ChatId
    key: str
    value: str | None = attrs.field(repr=False)


@final
@frozen
class Accept:
    """Store the key and the sender of an event without an inbox row, because the same commit handles the
    event.

    Raises:
        RedeliveredError: the event is in the store already; nothing of this commit was stored.
    """

    arrival: Arrival


PlainWrite: TypeAlias = (
    Consume | KeepRaw | PutSetting | PutStamp | PutData | JournalWrite | BroadcastWrite | MoneyWrite
)  # writes with a content that doesn't depend on the stored rows
Write: TypeAlias = PlainWrite | MovePayment | Accept


@final
@frozen
class StoreStatistics:
    """Size of a store.

    Attributes:
        inbox: number of waiting events.
        inbox_bytes: size of the waiting events, in bytes.
        raw: number of unreadable requests.
        conversations: number of conversations that have not ended, in memory or not.
        parked: number of unfinished conversations that this code can't revive.
    """

    inbox: int
    inbox_bytes: int
    raw: int
    conversations: int = 0
    parked: int = 0


@final
@frozen
class Latencies:
    """Durations of the batches that the store has executed since the process started, fsync included.

    Attributes:
        bounds: in seconds, ascending.
        counts: for each bound, the number of batches with a duration up to this bound and above the previous
            bound; the last entry counts the batches above all bounds.
        seconds: sum of the durations of all batches.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    seconds: float


@final
@frozen
class Forgotten:
    """How many rows of a chat were deleted, for each kind of rows."""

    events: int
    conversations: int
    records: int
    values: int
    others: int


@final
class StaleRowError(StoreError):
    """The payment has changed since the caller read its row; nothing of this commit is stored.

    The caller should read the row again.

    Attributes:
        id: the payment's number.
    """

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.id = id

    def __str__(self) -> str:
        return f"payment {self.id} has moved since it was read"


@final
class LeaseLostError(StoreError):
    """Another process owns the store now; nothing was stored.

    The caller should drop the store's data from memory.
    """

    remedy = "another process has it now; look at what kept this one from renewing its lease"


@final
class JournalConflictError(StoreError):
    """The conversation has ended, or another writer changed it; nothing of this commit was stored.

    The caller should drop the conversation from memory, or read the conversation again.

    Attributes:
        conversation: the conversation's number.
    """

    def __init__(self, conversation: int, what: str) -> None:
        super().__init__(conversation, what)
        self.conversation = conversation
        self.what = what

    def __str__(self) -> str:
        return f"conversation {self.conversation}: {self.what}"


@final
@guarded
class OperatorOrder:
    """An operator's HTTP request without headers. The store passes the request to the process that owns the
    store.
    """

    method: str
    target: str
    body: bytes = attrs.field(default=b"", repr=False)


Answered: TypeAlias = tuple[int, bytes]
"""Answer to an order: HTTP status, and lines of JSON."""
CarryOut: TypeAlias = Callable[[OperatorOrder, Callable[[bytes], Awaitable[None]]], Awaitable[int]]
"""Carries out an order: passes the answer's lines in pieces to the second argument, and returns the
status."""


News: TypeAlias = Callable[[Callable[[], None], CarryOut], Awaitable[None]]
"""Runs until cancelled. Calls the first argument whenever another process may have put events into the inbox.
Passes the orders in the store to the second argument, which carries them out."""
