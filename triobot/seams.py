"""The protocols through which the packages meet; none of them imports another.

webhook, conversations, outbox, payments, client and emulator know `triobot.wire`, these protocols, the store
and memory channels. Only `triobot.bot` knows them all.

Events on their way into the store, and what becomes of them there, are values at the top: `Store.accept`.

Broadcasts are rows, too, one a broadcast and one a receiver. A receiver is in one of three places: behind the
job's `meant` (not tried yet), at or before it without an outcome (after a crash it isn't known whether a
request left), or counted. Only those who are `gone` keep their row; of the others the count remains.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from enum import Enum, IntEnum
from typing import Final, Literal, Protocol, TypeAlias, final, runtime_checkable

import attrs
import trio
from typing_extensions import TypeVar

from .alarm_kinds import Alarm as Alarm
from .alarm_kinds import AlarmKind as AlarmKind
from .alarm_kinds import OnAlarm as OnAlarm
from .alarm_kinds import RaiseAlarm as RaiseAlarm
from .errors import LocalProtocolError, StoreError
from .frozen import frozen, guarded
from .journals import JournalWrite
from .money import MoneyWrite, MovePayment
from .wire.events import Event, Press
from .wire.ids import ChatId, Recipient, SenderId
from .wire.operations import Operation
from .wire.rules import check_text

BroadcastState: TypeAlias = Literal["none", "capturing", "sending", "stopping", "stopped", "done"]

LONGEST_KEY: Final = 200
"""Characters of a broadcast's key."""

LARGEST_VALUE: Final = 1024 * 1024
"""Characters of one value of a chat: all of a chat's are in memory while it lives."""
STREAM_ID: Final = "stream"
"""The setting that names a store for its replicas; a backup and what is restored of one have it, too."""
WORK_SLOTS: Final = 64
"""How many numbers a store can note of what is at work."""

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


def check_key(key: object) -> str:
    """Refuse a key that can't be stored, or shown in a line.

    Raises:
        LocalProtocolError: it is empty, too long or not printable.
    """
    text = check_text("key", key)
    if len(text) > LONGEST_KEY or not text.isprintable():
        raise LocalProtocolError("key", f"must be at most {LONGEST_KEY} printable characters")
    return text


class Outcome(Enum):
    """What became of one receiver.

    AGAIN is none: it is certain that nothing was delivered, and the receiver goes to the end of the queue.
    """

    SENT = "sent"
    GONE = "gone"
    FAILED = "failed"
    UNKNOWN = "unknown"
    AGAIN = "again"


@final
@guarded
class BroadcastStatus:
    """How far a broadcast is.

    Attributes:
        state: ``none`` was never started; ``capturing`` writes its receivers down and has sent nothing;
            ``sending``; ``stopping`` starts nothing more and waits for what is on its way; ``stopped``;
            ``done``.
        total: receivers, each counted once.
        sent: reached.
        gone: left, or blocked the bot.
        failed: refused by the platform for another reason.
        unknown: a request was on its way when the process died or the answer was lost, or a backup from
            before they were told was restored. They are not tried again, so that nobody is told twice, unless
            the broadcast was started with ``on_unknown="resend"``.
    """

    state: BroadcastState
    total: int = 0
    sent: int = 0
    gone: int = 0
    failed: int = 0
    unknown: int = 0

    @property
    def left(self) -> int:
        """Return how many receivers have no outcome yet."""
        return self.total - self.sent - self.gone - self.failed - self.unknown

    @property
    def over(self) -> bool:
        """Tell whether nothing will change any more."""
        return self.state in ("stopped", "done")


@final
@frozen
class BroadcastJob:
    """A broadcast's row.

    Attributes:
        key: the author's name for it, unique in the store.
        at: when it was started, in wall milliseconds.
        content: what is said, recorded; empty once it is over.
        meant: no receiver behind this position has been tried.
        status: how far it is.
    """

    key: str
    at: int
    content: str = attrs.field(repr=False)
    meant: int
    status: BroadcastStatus


@final
@frozen
class Receiver:
    """A receiver's row. Positions grow in the order of the audience, from 1."""

    position: int
    chat_id: ChatId


@final
@frozen
class OpenBroadcast:
    """Begin to capture: a new row, or an unfinished capture's own, without its receivers.

    Nothing happens when the key's broadcast has been captured.
    """

    key: str
    at: int
    content: str = attrs.field(repr=False)


@final
@frozen
class AddReceivers:
    """Add these receivers to a capture, in this order, but for those that it has."""

    key: str
    chats: tuple[ChatId, ...] = attrs.field(repr=False)


@final
@frozen
class AdvanceBroadcast:
    """Receivers up to `meant` are about to be tried, and these outcomes are known, by position.

    An outcome counts once, however often it is written.
    """

    key: str
    meant: int
    outcomes: Mapping[int, Outcome]


@final
@frozen
class TurnBroadcast:
    """Bring a broadcast to another state, unless it is over.

    ``stopping`` takes away the receivers that were not tried; ``stopped`` and ``done`` the content.
    """

    key: str
    state: Literal["sending", "stopping", "stopped", "done"]


@final
@frozen
class DropBroadcast:
    """Forget a capture that was never finished. Nothing happens to any other broadcast."""

    key: str


BroadcastWrite: TypeAlias = OpenBroadcast | AddReceivers | AdvanceBroadcast | TurnBroadcast | DropBroadcast


@final
@frozen
class Arrival:
    """An event on its way into the inbox.

    Attributes:
        chat_id: the chat it belongs to.
        sender_id: who sent it, if told; makes a chat a group once two were seen.
        at: when it arrived, in wall milliseconds.
        content_type, body: the request as it came.
        key: what makes two deliveries the same one, or None: a callback's id, or a digest of the event. It
            begins with a word and the chat, as in ``press:7:...``, by which it is found to be forgotten.
        once: the key is unique in itself: a second arrival is dropped, acknowledged or not, for seven days,
            or as long as the store is told where code has given the key.
            Without it, an equal key is a redelivery only within a minute of one that wasn't acknowledged.
        came: when its request was read, by the steady clock; what may be taken in for a time only needs it.
    """

    chat_id: ChatId
    sender_id: SenderId | None
    at: int
    content_type: str
    body: bytes = attrs.field(repr=False)
    key: str | None = attrs.field(default=None, repr=False)
    once: bool = False
    came: int | None = attrs.field(default=None, repr=False, eq=False)


@final
@frozen
class InboxRow:
    """An event in the inbox: accepted, durable, not consumed yet.

    Attributes:
        group: two different senders have been seen in this chat.
        parked: this chat has conversations, in memory or not, as of when the row was read.
        begun: what has begun with it, in the words of the code that began it; it is to be done at the next
            start, if the row is still there then.
    """

    seq: int
    chat_id: ChatId
    at: int
    content_type: str
    body: bytes = attrs.field(repr=False)
    group: bool = False
    parked: bool = False
    begun: str | None = attrs.field(default=None, repr=False)


@final
@frozen
class Redelivered:
    """It is here already; answer 200, dispatch nothing."""


@final
@frozen
class OverQuota:
    """Not stored: too much is waiting, in this chat or altogether; answer 503."""

    whole: bool


Acceptance: TypeAlias = InboxRow | Redelivered | OverQuota
"""The event's row, which is durable, or why there is none."""
HandOn: TypeAlias = Callable[[Callable[[InboxRow], bool] | None, InboxRow], None]
"""Hands a durable event on, unless what it is given says that it is handled. Never raises."""
StoreEarly: TypeAlias = Callable[["Event", "Arrival", "Quota", HandOn], Awaitable[Acceptance | None]]
"""Stores an event as `Store.accept` does, together with what it leads to; None: that has happened already."""


@final
@frozen
class Quota:
    """How much may wait in the inbox before events are refused."""

    events_per_chat: int = 1_000
    bytes_in_all: int = 256 * 1024 * 1024


Beginning: TypeAlias = Callable[[Callable[[], Mapping[str, str]]], str | None]
"""See `triobot.store.Store.accept`."""


Held: TypeAlias = Callable[[], float]
"""Returns for how many seconds more a store is this process's for certain; 0 if it isn't.

Instantly, and in any thread. By then another process may have it, if nothing is heard from the database.
"""


class WorkSlots(Protocol):
    """Numbers of what is at work, each in a slot; 0 is nothing. Set several times an event."""

    def __setitem__(self, slot: int, number: int, /) -> None: ...


class WallClock(Protocol):
    """The time of day. Trio's clock is for waiting; this one is for what is written down."""

    def now(self) -> int:
        """Return milliseconds since 1970 in UTC, as an integer."""
        ...


class Platform(Protocol):
    """The platform as the client sees it: one operation in, its result out."""

    async def perform(self, operation: Operation[R], /) -> R:
        """Perform one operation, once.

        Raises:
            LocalProtocolError: the operation can't be sent; nothing was.
            RefusedError: the platform answered, and said no.
            NotDeliveredError: the request never left.
            DeliveryUnknownError: it may have taken effect.

        Cancellation: *ambiguous* once the request is being written.
        """
        ...


class Begun(Protocol[R_co]):
    """A request that is written out, and carried by whichever task awaits its result.

    Attributes:
        within: seconds that the platform's client gives it; `expire` is up to whoever began it.
    """

    @property
    def within(self) -> float:
        """See the class."""
        ...

    @property
    def may_have_left(self) -> bool:
        """Return whether a byte of it may have left this machine."""
        ...

    async def result(self) -> R_co:
        """Send it, the first time, and wait for its result.

        Raises: as `Platform.perform`.

        Cancellation: nothing is lost: the request goes on, and another task may await this. Only one that
        had not left yet, or not to its end, is over.
        """
        ...

    def expire(self, seconds: float) -> None:
        """End it, since so many seconds have brought no answer; the task that waits is told. Instant."""
        ...

    def close(self) -> None:
        """End it, if no task waits for its result; nothing is left of it. Instant."""
        ...


@runtime_checkable
class BeginsRequests(Protocol):
    """A platform whose requests need no task and no scope of their own."""

    def begin(self, operation: Operation[R], /, *, fresh: bool = False) -> Begun[R] | None:
        """Write a request out; None if only `Platform.perform` can carry it. Nothing leaves before `result`.

        Args:
            fresh: it takes a new connection. A kept one may have died, and then it would not be known whether
                the request arrived.

        Raises:
            LocalProtocolError: the operation can't be sent.
        """
        ...


# --- outbox


class Urgency(IntEnum):
    """What goes first when the platform is slower than we are; smaller goes earlier.

    `BESIDE` is an edit that no code awaits: it is in no order with what else its chat is told.
    """

    MONEY = 0
    REPLY = 1
    BESIDE = 2
    BROADCAST = 3
    TYPING = 4


class OnUnknown(Enum):
    """What to do with a send whose outcome isn't known."""

    RESEND = "resend"
    RAISE = "raise"


class Outbox(Protocol):
    """What a chat sends: in order per recipient, one in flight each."""

    async def perform(
        self,
        operation: Operation[R],
        *,
        urgency: Urgency = Urgency.REPLY,
        on_unknown: OnUnknown = OnUnknown.RESEND,
        doubted: Callable[[], None] | None = None,
        recorded: trio.Event | None = None,
    ) -> R:
        """Queue an operation in its recipient's lane, and wait for its result.

        The place in the lane is taken by the call itself, before its first checkpoint. Media that has no
        descriptor yet is uploaded first, within the lane. `doubted` is told, at once, when it is sent again
        although it may have arrived. `recorded` is set by the caller, once what came of it is durable: until
        then nothing else with a `recorded` leaves in the lane, so that a kill leaves one of them in doubt.

        Raises: as `Platform.perform`; failures that a repeat may mend are repeated here first.

        Cancellation: *atomic* while queued (the operation is withdrawn); *ambiguous* while in flight: the
        request goes on and its result is dropped.
        """
        ...

    def typing(self, chat: Recipient) -> AbstractContextManager[None]:
        """Show typing while the block runs. Never waits, and never raises on the platform's account."""
        ...

    def press_taken(self, press: Press[object]) -> None:
        """Have a press that a conversation took answered within a second, by the author or by itself."""
        ...

    def press_due(self, press: Press[object]) -> None:
        """Answer this press now, without a word, unless it has been answered."""
        ...

    async def answer(self, press: Press[object], text: str, *, alert: bool) -> bool:
        """Answer a press with the author's words; False if it had been answered."""
        ...

    def refuse_press(self, press: Press[object], text: str) -> None:
        """Answer a press that no wait takes."""
        ...

    def drop(self, chat: Recipient) -> None:
        """Forget what is still queued for a chat that was left; what waits for it gets ForbiddenError."""
        ...


# --- store


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
class RedeliveredError(StoreError):
    """An event that was to be stored is there already: it has been delivered twice. Nothing was stored."""


@final
@guarded
class Relayed:
    """An operator's request that a store carries to the process that has it: HTTP's, without headers."""

    method: str
    target: str
    body: bytes = attrs.field(default=b"", repr=False)


Hear: TypeAlias = Callable[[int, bytes], Awaitable[None]]
"""Takes the next part of an answer: its status, and whole lines of JSON."""
Relay: TypeAlias = Callable[[Callable[[Relayed, Hear], Awaitable[None]]], Awaitable[None]]
"""Has each request answered by this function, until cancelled; an answer nobody waits for is cancelled."""


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


News: TypeAlias = Callable[[Callable[[], None]], Awaitable[None]]
"""Has this called whenever another process may have put events into the inbox, until cancelled."""
