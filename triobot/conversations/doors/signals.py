"""Signals: what other programs, operators and other chats tell a chat.

They come through the door of the events: the durable inbox, in order with them, to the same filters and
routes. Unlike events they are never unexpected: one that nobody takes waits for whoever takes it later.
"""

from __future__ import annotations

from typing import Final, TypeVar, cast, final

import attrs

from ...errors import LocalProtocolError, RecordError
from ...seams import Arrival, InboxRow
from ...values import decode_value
from ...wire.events import Event, Sender
from ...wire.ids import ChatId
from ..codec import recordable
from ..data.slots import register_wire_values
from .calls import Call, Halt, Order

T = TypeVar("T")

# No header of a request can hold a line feed: nothing from the web passes for a signal.
SIGNAL: Final = "triobot/signal\n"
SIGNALS: Final = 256
"""Rows of a chat that may wait when a signal comes: well below what is kept for the platform's events."""

register_wire_values()


@final
@attrs.frozen
class Signal:
    """A signal, as filters see it besides the platform's events; a conversation gets its value.

    Attributes:
        sender: always None: no user sent it.
    """

    chat_id: ChatId
    value: object = attrs.field(repr=False)
    sender: Sender | None = None


@final
@attrs.frozen
class PaymentArrived:
    """Money for an aside, as filters see it; the aside gets its `Paid`. It comes from the ledger's rows.

    Attributes:
        sender: always None: who paid is in the `Paid`.
    """

    chat_id: ChatId
    paid: object = attrs.field(repr=False)
    sender: Sender | None = None


def is_signal(event: object) -> bool:
    """Return whether this is a signal, or what code asks for, and no event of the platform."""
    return isinstance(event, Signal | Call | Halt | Order | PaymentArrived)


def signal_arrival(chat_id: ChatId, value: object, key: str | None, now: int) -> Arrival:
    """Return a signal as a row for the inbox.

    Raises:
        LocalProtocolError: there is no value.
        UnrecordableError: the value can't be recorded.
    """
    if value is None:
        raise LocalProtocolError("value", "must be a value: None is what a filter doesn't take")
    whole = None if key is None else f"signal:{chat_id}:{key}"
    return Arrival(chat_id, None, now, SIGNAL, recordable(value).encode(), whole, once=key is not None)


def stored_signal(row: InboxRow) -> Event | None:
    """Decode the signal of a stored row; return None if its class is unknown to this process."""
    try:
        # The wire's own union stays closed; only the filters made for signals look at one.
        return cast("Event", Signal(row.chat_id, decode_value(row.body.decode())))
    except (RecordError, UnicodeDecodeError):
        return None
