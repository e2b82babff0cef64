"""Inbox rows that don't come from the platform: signals, calls and orders.

A stored row is durable, and keeps its position among the platform's events.

Other programs, operators and other chats send signals to a chat. Signals go through the same filters and
routes as events. But no signal counts as unexpected: an untaken signal waits for a conversation that takes
the signal.

Code sends calls to start and stop routes. Operators send orders to retry or end parked conversations. Filters
don't get calls and orders: the routing table assigns calls by the route's name, and orders by the
conversation's number.
"""

from __future__ import annotations

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

# A request's header can't contain a line feed, so no web request can pass as a call.
CALL: Final = "triobot/call\n"


class Place(Enum):
    """Position that a called route's run gets in the chat."""

    OWN = "own"
    """The usual position for the route's kind."""

    LIVE = "live"
    """Position of the chat's live conversation, which the started run continues."""

    SENDER = "sender"
    """Position of the sender's conversation, which the started run continues."""

    BESIDE = "beside"
    """Position of an aside, beside the live conversation."""


@final
@guarded
class Call:
    """Request to start a route.

    Attributes:
        name: name of the route.
        args: arguments of the route's function, besides the chat.
        value: `Chat.event` of the new conversation, such as the calling conversation's value; None if there
            is no such value.
        sender: user of the calling conversation; None if there is no user.
        key: key of the run; no run starts while another run of the route has this key.
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
    """Request to stop a route's run with this key. The key None means all runs of the route in the chat."""

    chat_id: ChatId
    name: str
    key: str | None = attrs.field(default=None, repr=False)
    sender: Sender | None = None

    def ends(self, name: str, key: str | None) -> bool:
        """Return whether this request stops a run of the route `name` with the key `key`."""
        return name == self.name and (self.key is None or key == self.key)


@final
@guarded
class Order:
    """An operator's order for a parked conversation.

    Attributes:
        conversation: number of the conversation.
        end: whether to end the conversation; otherwise the conversation is tried once more.
        say: text sent to the user after the end; empty for no text.
        sender, key: always None; the fields exist because events and calls have these fields.
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
    """Check a key before the key reaches the store: a bad key would make the store fail for all callers.

    Raises:
        LocalProtocolError: `key` is empty, not a text, or contains U+0000.
    """
    if key is not None and "\0" in check_text("key", key):
        raise LocalProtocolError("key", "must not hold U+0000")


def order_arrival(order: Order, now: int) -> Arrival:
    """Return an order as an inbox row. The inbox drops a second order to end the same conversation."""
    once = f"order:{order.conversation}" if order.end else None
    return Arrival(order.chat_id, None, now, CALL, encode_value(order).encode(), once, once=order.end)


def call_arrival(asked: Call | Halt, once: str | None, now: int, called: str | None = None) -> Arrival:
    """Return a call as an inbox row.

    Args:
        once: deduplication key: the inbox drops a second call of the route with this key.
        called: the route's name for deduplication, if it differs from the name in the call.

    Raises:
        LocalProtocolError: the run's key, or `once`, can't be stored.
        UnrecordableError: an argument can't be recorded.
    """
    check_key(asked.key)
    check_key(once)
    body = recordable(asked).encode()
    whole = None if once is None else f"call:{asked.chat_id}:{called or asked.name}:{once}"
    return Arrival(asked.chat_id, None, now, CALL, body, whole, once=once is not None)


def asked_of(event: object) -> Call | Halt | Order | None:
    """Return `event` if the event is a call, stop or order, else None."""
    return event if isinstance(event, Call | Halt | Order) else None


# --- signals

RoomName: TypeAlias = tuple[str, str]
"""Name and key of a room. The name is the route's first name, as declared when the signal was sent."""
# A request's header can't contain a line feed, so no web request can pass as a signal.
SIGNAL: Final = "triobot/signal\n"
ROOM_SIGNAL: Final = "triobot/room\n"
"""Content type of a signal to a room; the row's body has the room's name and key before the value."""
SIGNALS: Final = 256
"""A chat with this number of waiting rows gets no further signals, but still gets the platform's events."""


@final
@guarded
class Signal:
    """A signal in the form that filters get. A conversation gets only the signal's value.

    Attributes:
        sender: always None: no user sent the signal.
        room: name and key of the room that gets the signal; None for any other place.
    """

    chat_id: ChatId
    value: object = attrs.field(repr=False)
    sender: Sender | None = None
    room: RoomName | None = attrs.field(default=None, repr=False)


@final
@guarded
class PaymentArrived:
    """Verified money in the form that filters of asides get. The aside itself gets only the `Paid`.

    Attributes:
        paid: the `Paid` of the payment.
        sender: always None: the `Paid` names the payer.
    """

    chat_id: ChatId
    paid: object = attrs.field(repr=False)
    sender: Sender | None = None


# Stored values contain this name, so the name stays although the class has moved to this module.
register(Signal, name="triobot.conversations.doors.calls.Signal")

SIGNAL_TYPES: Final[frozenset[type]] = frozenset({Signal, Call, Halt, Order, PaymentArrived})
"""Types of inputs that are passed on like events, but don't come from the platform."""


def is_signal(event: object) -> bool:
    """Return whether `event` is a signal, call, order or payment, and not an event of the platform."""
    return type(event) in SIGNAL_TYPES


def signal_arrival(
    chat_id: ChatId, value: object, key: str | None, now: int, room: RoomName | None = None
) -> Arrival:
    """Return a signal as an inbox row.

    Args:
        key: deduplication key: the inbox drops a second signal with this key.
        room: name and key of the room that gets the signal, if the place is a room.

    Raises:
        LocalProtocolError: `value` is None.
        UnrecordableError: the value can't be recorded.
    """
    if value is None:
        raise LocalProtocolError("value", "must be a value: None is what a filter doesn't take")
    whole = None if key is None else f"signal:{chat_id}:{key}"
    kind, body = (SIGNAL, value) if room is None else (ROOM_SIGNAL, (*room, value))
    return Arrival(chat_id, None, now, kind, recordable(body).encode(), whole, once=key is not None)


def room_of(event: object) -> RoomName | None:
    """Return the name and key of the room, if `event` is a signal to a room."""
    return event.room if isinstance(event, Signal) else None


# --- events in inbox rows


def stored_event(row: InboxRow) -> Event | None:
    """Decode the event of a stored row; return None if this version can't read the row."""
    kind = row.content_type
    try:
        if kind not in (CALL, SIGNAL, ROOM_SIGNAL):
            return decode_event(kind, row.body)
        decoded, room = decode_value(row.body.decode()), None
    except (ProtocolError, RecordError, UnicodeDecodeError):
        return None
    if kind == ROOM_SIGNAL:
        name, key, decoded = cast("tuple[str, str, object]", decoded)
        room = name, key
    # The type `Event` of the wire doesn't include calls and signals, hence the casts.
    if kind == CALL:
        return cast("Event | None", asked_of(decoded))
    return cast("Event", Signal(row.chat_id, decoded, None, room))
