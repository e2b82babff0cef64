"""What is written in one transaction, and what a store says of itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Literal, Protocol, TypeAlias, final

import attrs

from ..base.frozen import frozen, guarded
from ..errors import StoreError
from ..wire.ids import ChatId
from .broadcasts import BroadcastWrite
from .inbox import Arrival
from .journals import JournalWrite
from .money import MoneyWrite, MovePayment

LARGEST_VALUE: Final = 1024 * 1024
"""Characters of one value of a chat: all of a chat's are in memory while it lives."""
STREAM_ID: Final = "stream"
"""The setting that names a store for its replicas; a backup and what is restored of one have it, too."""
WORK_SLOTS: Final = 64
"""How many numbers a store can note of what is at work."""


Held: TypeAlias = Callable[[], float]
"""Returns for how many seconds more a store is this process's for certain; 0 if it isn't.

Instantly, and in any thread. By then another process may have it, if nothing is heard from the database.
"""


class WorkSlots(Protocol):
    """Numbers of what is at work, each in a slot; 0 is nothing. Set several times an event."""

    def __setitem__(self, slot: int, number: int, /) -> None: ...


@final
@frozen
class Consume:
    """These inbox rows have been dealt with; they go."""

    seqs: tuple[int, ...]


@final
@frozen
class KeepRaw:
    """Keep a request that could not be read: the first hundred and the newest thousand."""

    at: int
    reason: str
    content_type: str
    body: bytes = attrs.field(repr=False)


@final
@frozen
class PutSetting:
    """Remember a small fact of this store, such as the webhook's secret."""

    name: str
    value: str = attrs.field(repr=False)


@final
@frozen
class PutData:
    """Keep a value of a chat under a key; None deletes it."""

    chat_id: ChatId
    key: str
    value: str | None = attrs.field(repr=False)


@final
@frozen
class Accept:
    """Take an event in that has been dealt with: only its delivery is noted, and its sender.

    Raises:
        RedeliveredError: it is here already; nothing of this call was stored.
    """

    arrival: Arrival


PlainWrite: TypeAlias = (
    Consume | KeepRaw | PutSetting | PutData | JournalWrite | BroadcastWrite | MoneyWrite
)  # says what is stored, without a look at what is there
Write: TypeAlias = PlainWrite | MovePayment | Accept


@final
@frozen
class StoreStatistics:
    """Where a store stands.

    Attributes:
        inbox: events that wait.
        inbox_bytes: their size.
        raw: unreadable requests kept.
        conversations: those that have not ended, in memory or not.
        parked: those of them that can't be revived by this code.
    """

    inbox: int
    inbox_bytes: int
    raw: int
    conversations: int = 0
    parked: int = 0


@final
@frozen
class Latencies:
    """How long batches of transactions took, fsync included, since the start.

    Attributes:
        bounds: in seconds, ascending.
        counts: how many took no longer than each bound and longer than the one before; the last, longer than
            all of them.
        seconds: of all together.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    seconds: float


@final
@frozen
class Forgotten:
    """What was deleted of a chat, in numbers."""

    events: int
    conversations: int
    records: int
    values: int
    others: int


@final
class StaleRowError(StoreError):
    """A payment has moved since it was read, and nothing of this commit is stored. Read it, and decide again.

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
    """Another process has this chat now; nothing was stored. Drop what is in memory of it."""

    remedy = "another process has it now; look at what kept this one from renewing its lease"


@final
class JournalConflictError(StoreError):
    """Somebody else wrote this conversation, or it is gone; nothing was stored. Drop it, or read it anew.

    Attributes:
        conversation: its number.
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
    """An operator's request that a store carries to the process that has it: HTTP's, without headers."""

    method: str
    target: str
    body: bytes = attrs.field(default=b"", repr=False)


Answered: TypeAlias = tuple[int, bytes]
"""What came of an order: its status, and lines of JSON."""
CarryOut: TypeAlias = Callable[[OperatorOrder, Callable[[bytes], Awaitable[None]]], Awaitable[int]]
"""Carries out an order: tells some lines at a time, and returns the status."""


@final
@guarded
class Shipped:
    """A piece of a store's stream: bytes of its image, and then of one log after the other.

    Attributes:
        of: which of them it belongs to.
        at: where its bytes begin there.
        ends: the image, or this log, is complete with it.
        size: of the whole image.
        as_of: all that had been committed at this time has been sent; None: there is more.
    """

    of: Literal["image", "log"]
    at: int
    data: bytes = attrs.field(default=b"", repr=False)
    ends: bool = False
    size: int = 0
    as_of: int | None = None


News: TypeAlias = Callable[[Callable[[], None], CarryOut], Awaitable[None]]
"""Calls the first whenever another process may have put events into the inbox, until cancelled, and has the
second answer orders that reach the store itself."""
