"""What may enter a store: every value is checked before it joins a batch. Pure.

Group commit puts strangers into one transaction. A value that the engine can't hold (half a surrogate
pair, an integer beyond 64 bits, U+0000, which PostgreSQL refuses) would disturb its neighbours there, so
it is refused at the door, alone, with the field's name and without its content.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..errors import LocalProtocolError
from ..jobs import AddReceivers, AdvanceBroadcast, DropBroadcast, OpenBroadcast, TurnBroadcast, check_key
from ..journals import LARGEST_RECORD
from ..money import AcknowledgeAlarms, AlarmTold, MovePayment, PutPayment, RaiseAlarm
from ..seams import (
    LARGEST_VALUE,
    Acknowledge,
    Arrival,
    Consume,
    KeepRaw,
    PutData,
    PutSetting,
    Write,
)
from ..wire.ids import ChatId
from ..wire.rules import LARGEST_INTEGER, check_integer
from .broadcasts import admit_broadcast, size_of_broadcast
from .columns import LARGEST_CHAT, check_chat, check_column
from .journal_admission import admit_journal_write, journal_size
from .money_admission import admit_money_write, money_size
from .ring import as_kept

LARGEST_BODY: Final = 32 * 1024 * 1024
"""One request's bytes; the webhook's own limit is far lower."""


def admit_arrival(arrival: Arrival) -> None:
    """Refuse an arrival that can't be stored.

    Raises:
        LocalProtocolError: names the field. Repeating never helps.
    """
    check_chat(arrival.chat_id)
    if arrival.sender_id is not None:
        check_integer("sender_id", arrival.sender_id, least=-LARGEST_CHAT, most=LARGEST_CHAT)
    check_integer("at", arrival.at, least=0)
    check_column("content_type", arrival.content_type, empty=True)
    if arrival.key is not None:
        check_column("key", arrival.key)
    if len(arrival.body) > LARGEST_BODY:
        raise LocalProtocolError("body", f"must be at most {LARGEST_BODY} bytes")


def admit_begun(begun: str | None) -> str | None:
    """What has begun with an event, as it is to be stored.

    Raises:
        LocalProtocolError: it can't be.
    """
    if begun is not None:
        check_column("begun", begun)
        if len(begun) > LARGEST_RECORD:
            raise LocalProtocolError("begun", f"must be at most {LARGEST_RECORD} characters")
    return begun


def admit_keyed(key: str, after: ChatId | None, limit: int) -> None:
    """Refuse bounds of a page over the chats that have a key."""
    check_column("key", key)
    if after is not None:
        check_chat(after)
    check_integer("limit", limit, least=0)


def admit_receivers(key: str, after: int, limit: int) -> None:
    """Refuse bounds of a page over a broadcast's receivers."""
    check_key(key)
    admit_page(after, limit)


def admit_writes(writes: Sequence[Write]) -> tuple[Write, ...]:
    """The writes as they are to be stored.

    Raises:
        LocalProtocolError: one of them can't be; names the field.
    """
    return tuple(_admitted(write) for write in writes)


def admit_due(now: int, after: tuple[int, int], limit: int) -> None:
    """Refuse bounds of a page over what is due."""
    check_integer("now", now, least=0)
    check_integer("after", after[0], least=-1)
    check_integer("after", after[1], least=-1)
    check_integer("limit", limit, least=0)


def admit_page(after: int, limit: int) -> None:
    """Refuse bounds of a page that are no row numbers."""
    check_integer("after", after, least=0)
    check_integer("limit", limit, least=0)


def size_of(writes: Sequence[Write]) -> int:
    """Roughly how many bytes these writes bring."""
    return sum(_size(write) for write in writes)


def _size(write: Write) -> int:
    match write:
        case KeepRaw(body=body):
            return len(body)
        case PutData(value=str(value)):
            return 256 + len(value)
        case OpenBroadcast() | AddReceivers() | AdvanceBroadcast() | TurnBroadcast() | DropBroadcast():
            return size_of_broadcast(write)
        case Consume() | Acknowledge() | PutSetting() | PutData():
            return 256
        case PutPayment() | RaiseAlarm() | AcknowledgeAlarms() | AlarmTold():
            return money_size(write)
        case MovePayment():
            return 2048
        case _:
            return journal_size(write)


def _admitted(write: Write) -> Write:
    match write:
        case Consume(seqs):
            for seq in seqs:
                check_integer("seq", seq, least=0)
        case Acknowledge(keys):
            for key in keys:
                check_column("key", key)
        case KeepRaw():
            check_integer("at", write.at, least=0, most=LARGEST_INTEGER)
            return as_kept(write)
        case PutSetting(name, value):
            check_column("name", name)
            check_column("value", value, empty=True)
        case PutData(chat_id, key, value):
            check_chat(chat_id)
            check_column("key", key)
            if value is not None:
                check_column("value", value)
                if len(value) > LARGEST_VALUE:
                    raise LocalProtocolError("value", f"must be at most {LARGEST_VALUE} characters")
        case PutPayment() | RaiseAlarm() | AcknowledgeAlarms() | AlarmTold():
            admit_money_write(write)
        case MovePayment(id=number):
            check_column("id", number)
        case OpenBroadcast() | AddReceivers() | AdvanceBroadcast() | TurnBroadcast() | DropBroadcast():
            admit_broadcast(write)
        case _:
            admit_journal_write(write)
    return write
