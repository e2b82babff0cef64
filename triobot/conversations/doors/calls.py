"""What comes to a chat through the events' own door, and is none: signals, calls of code, orders.

All are rows of the inbox: durable when they have been said, in order with what people do.

Signals are what other programs, operators and other chats tell a chat. They go to the same filters and routes
as events. Unlike these they are never unexpected: one that nobody takes waits for whoever takes it later.

By calls code starts and stops routes, by orders an operator ends what is parked. No filter sees them: the
routing table takes calls by the route's name, and orders by the conversation's number.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, TypeAlias, cast, final

import attrs

from ...base.frozen import guarded
from ...errors import LocalProtocolError, ProtocolError, RecordError
from ...seams.inbox import Arrival, InboxRow
from ...seams.journals import ConversationId
from ...seams.values import decode_value, encode_value, register
from ...wire.decode import decode_event
from ...wire.events import Event, Sender
from ...wire.ids import ChatId
from ...wire.rules import check_text
from ..codec import recordable

# No header of a request can hold a line feed: nothing from the web passes for a call.
CALL: Final = "triobot/call\n"


class Place(Enum):
    """Which place in the chat a called route takes."""

    OWN = "own"
    """That of its kind."""

    LIVE = "live"
    """It goes on in the place of the chat's live conversation."""

    SENDER = "sender"
    """It goes on in the place of its sender's conversation."""

    BESIDE = "beside"
    """It goes on in the place of an aside."""


@final
@guarded
class Call:
    """Start a route.

    Attributes:
        name: the route's.
        args: what its function gets besides the chat.
        value: what `Chat.event` is: of whoever called; None if that was no conversation.
        sender: whose conversation it is, if anybody's.
        key: a second call of the route with this key starts nothing.
    """

    chat_id: ChatId
    name: str
    args: tuple[object, ...] = attrs.field(default=(), repr=False)
    value: object = attrs.field(default=None, repr=False)
    sender: Sender | None = attrs.field(default=None, repr=False)
    key: str | None = attrs.field(default=None, repr=False)
    place: Place = Place.OWN


@final
@guarded
class Halt:
    """Stop a route, where it was started with this key; with None wherever it runs in the chat."""

    chat_id: ChatId
    name: str
    key: str | None = attrs.field(default=None, repr=False)
    sender: Sender | None = None

    def ends(self, name: str, key: str | None) -> bool:
        """Return whether this stops a run of the route `name` that has this key."""
        return name == self.name and (self.key is None or key == self.key)


@final
@guarded
class Order:
    """What an operator wants of a conversation that is parked.

    Attributes:
        conversation: its number.
        end: end it; otherwise it is tried once more.
        say: what its user hears when it has ended; empty for nothing.
        sender, key: an event and a call have them.
    """

    chat_id: ChatId
    conversation: ConversationId
    end: bool
    say: str = attrs.field(default="", repr=False)
    sender: Sender | None = None
    key: str | None = attrs.field(default=None, repr=False)


for _cls in (Place, Call, Halt, Order):
    register(_cls, name=f"triobot.{_cls.__name__}")


def check_key(key: str | None) -> None:
    """Refuse a key that no store can hold, at the door: behind it, the writer would fail for everybody.

    Raises:
        LocalProtocolError: it is empty, no text, or holds what can't be stored.
    """
    if key is not None and "\0" in check_text("key", key):
        raise LocalProtocolError("key", "must not hold U+0000")


def order_arrival(order: Order, now: int) -> Arrival:
    """Return an order as a row for the inbox, which drops a second one to end the same conversation."""
    once = f"order:{order.conversation}" if order.end else None
    return Arrival(order.chat_id, None, now, CALL, encode_value(order).encode(), once, once=order.end)


def call_arrival(asked: Call | Halt, once: str | None, now: int, called: str | None = None) -> Arrival:
    """Return a call as a row for the inbox.

    Args:
        once: a second call of the route with this key is dropped.
        called: the name by which the route is known for that, if not by the call's.

    Raises:
        LocalProtocolError: the run's key, or `once`, can't be stored.
        UnrecordableError: an argument can't be recorded.
    """
    check_key(asked.key)
    check_key(once)
    body = recordable(asked).encode()
    whole = None if once is None else f"call:{asked.chat_id}:{called or asked.name}:{once}"
    return Arrival(asked.chat_id, None, now, CALL, body, whole, once=once is not None)


def stored_call(row: InboxRow) -> Call | Halt | Order | None:
    """Decode the call of a stored row; return None if this process doesn't know one of its classes."""
    try:
        asked = decode_value(row.body.decode())
    except (RecordError, UnicodeDecodeError):
        return None
    return asked if isinstance(asked, Call | Halt | Order) else None


def asked_of(event: object) -> Call | Halt | Order | None:
    """Return the call or order that has come in place of an event, or None."""
    return event if isinstance(event, Call | Halt | Order) else None


def runs_behind(runs: bool, halt: Halt, asked: Iterable[object]) -> bool:
    """Return whether there is something for a stop to end once these calls have been routed, in their order.

    Args:
        runs: there is now.
    """
    for one in asked:
        if isinstance(one, Call) and halt.ends(one.name, one.key):
            runs = True
        elif isinstance(one, Halt) and one.ends(halt.name, halt.key):
            runs = False
    return runs


def as_event(asked: Call | Halt | Order) -> Event:
    """Pass a call off as an event, on its way through the chat: the wire's own union stays closed."""
    return cast("Event", asked)


# --- signals

RoomName: TypeAlias = tuple[str, str]
"""The name of a room's route when it was told something, the oldest that it has; and the room's key."""
# No header of a request can hold a line feed: nothing from the web passes for a signal.
SIGNAL: Final = "triobot/signal\n"
ROOM_SIGNAL: Final = "triobot/room\n"
"""A signal to a room: which room that is stands before the value."""
SIGNALS: Final = 256
"""Rows of a chat that may wait when a signal comes: well below what is kept for the platform's events."""


@final
@guarded
class Signal:
    """A signal, as filters see it besides the platform's events; a conversation gets its value.

    Attributes:
        sender: always None: no user sent it.
        room: the name and the key of the room that it is for; None if that is no named room.
    """

    chat_id: ChatId
    value: object = attrs.field(repr=False)
    sender: Sender | None = None
    room: RoomName | None = attrs.field(default=None, repr=False)


@final
@guarded
class PaymentArrived:
    """Money for an aside, as filters see it; the aside gets its `Paid`. It comes from the ledger's rows.

    Attributes:
        sender: always None: who paid is in the `Paid`.
    """

    chat_id: ChatId
    paid: object = attrs.field(repr=False)
    sender: Sender | None = None


SIGNAL_TYPES: Final[frozenset[type]] = frozenset({Signal, Call, Halt, Order, PaymentArrived})
"""What comes as an event and is none of the platform's."""


def is_signal(event: object) -> bool:
    """Return whether this is a signal, or what code asks for, and no event of the platform."""
    return type(event) in SIGNAL_TYPES


def signal_arrival(
    chat_id: ChatId, value: object, key: str | None, now: int, room: RoomName | None = None
) -> Arrival:
    """Return a signal as a row for the inbox.

    Args:
        room: the name and the key of the room that it is for, if it is for one.

    Raises:
        LocalProtocolError: there is no value.
        UnrecordableError: the value can't be recorded.
    """
    if value is None:
        raise LocalProtocolError("value", "must be a value: None is what a filter doesn't take")
    whole = None if key is None else f"signal:{chat_id}:{key}"
    kind, told = (SIGNAL, value) if room is None else (ROOM_SIGNAL, (*room, value))
    return Arrival(chat_id, None, now, kind, recordable(told).encode(), whole, once=key is not None)


def stored_signal(row: InboxRow) -> Event | None:
    """Decode the signal of a stored row; return None if its class is unknown to this process."""
    try:
        value, room = decode_value(row.body.decode()), None
        if row.content_type == ROOM_SIGNAL:
            name, key, value = cast("tuple[str, str, object]", value)
            room = name, key
        # The wire's own union stays closed; only the filters made for signals look at one.
        return cast("Event", Signal(row.chat_id, value, None, room))
    except (RecordError, UnicodeDecodeError):
        return None


def room_of(event: object) -> RoomName | None:
    """Return the name and the key of the room that an event is for, if it is a signal to one."""
    return event.room if isinstance(event, Signal) else None


# --- what a row holds


def stored_event(row: InboxRow) -> Event | None:
    """Decode the event of a stored row; return None if only an earlier version could read it."""
    if row.content_type in (SIGNAL, ROOM_SIGNAL):
        return stored_signal(row)
    if row.content_type == CALL:
        # As a signal's: the wire's own union stays closed.
        return cast("Event | None", stored_call(row))
    try:
        return decode_event(row.content_type, row.body)
    except ProtocolError:
        return None
