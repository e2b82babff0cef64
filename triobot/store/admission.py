"""Checks of every value that enters a store, before it joins a batch. Pure.

Group commit puts the writes of unrelated callers into one transaction. A value that the engine can't store
(half a surrogate pair, an integer beyond 64 bits, U+0000, which PostgreSQL refuses) would make the writes of
the other callers fail. So such a value is refused before it joins a batch, and only its caller gets an error.
The error names the field, and doesn't repeat the content.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never, get_args

import attrs

from ..errors import LocalProtocolError
from ..seams.broadcasts import (
    AddReceivers,
    AdvanceBroadcast,
    DropBroadcast,
    OpenBroadcast,
    TurnBroadcast,
    check_key,
)
from ..seams.inbox import Arrival
from ..seams.journals import (
    LARGEST_RECORD,
    AcceptChange,
    AppendRecords,
    BeginConversation,
    ContinueConversation,
    ConversationId,
    DropEffects,
    EndConversation,
    JournalWrite,
    KeepCode,
    KeepIntent,
    KeepResult,
    ParkConversation,
    PutRested,
    PutStanding,
    RunKind,
    TakeInHand,
    WakeEarlier,
)
from ..seams.money import (
    AcknowledgeAlarms,
    AlarmTold,
    Decided,
    MoneyWrite,
    MovePayment,
    PaymentRow,
    PutPayment,
    RaiseAlarm,
)
from ..seams.rooms import LARGEST_PLACE
from ..seams.writes import LARGEST_VALUE, Accept, Consume, KeepRaw, PutData, PutSetting, Write
from ..wire.ids import ChatId
from ..wire.rules import LARGEST_INTEGER, check_integer, check_text, check_word
from .broadcasts import admit_broadcast, size_of_broadcast
from .rules import as_kept

LARGEST_SENDER: Final = 10**18 - 1
LARGEST_BODY: Final = 32 * 1024 * 1024
"""Maximum size of one request's body in bytes; the webhook's own limit is far lower."""
_KINDS: Final[tuple[str, ...]] = get_args(RunKind)


def check_chat(chat_id: ChatId) -> None:
    """Check that `chat_id` is the number of a chat or another place."""
    check_integer("chat_id", chat_id, least=-LARGEST_PLACE, most=LARGEST_PLACE)


def check_column(field: str, value: str, *, empty: bool = False) -> None:
    """Check that every engine can store the text."""
    if type(value) is str and (value or empty) and value.isascii() and "\0" not in value:
        return  # the usual case
    if "\0" in check_text(field, value, empty=empty):
        raise LocalProtocolError(field, "must not hold U+0000")


def admit_arrival(arrival: Arrival) -> None:
    """Check that an arrival can be stored.

    Raises:
        LocalProtocolError: the arrival can't be stored; names the field. Retrying never helps.
    """
    check_chat(arrival.chat_id)
    if arrival.sender_id is not None:
        check_integer("sender_id", arrival.sender_id, least=-LARGEST_SENDER, most=LARGEST_SENDER)
    check_integer("at", arrival.at, least=0)
    check_column("content_type", arrival.content_type, empty=True)
    if arrival.key is not None:
        check_column("key", arrival.key)
    if len(arrival.body) > LARGEST_BODY:
        raise LocalProtocolError("body", f"must be at most {LARGEST_BODY} bytes")


def admit_begun(begun: str | None) -> str | None:
    """Check `InboxRow.begun` of an event, and return it unchanged.

    Raises:
        LocalProtocolError: the record can't be stored.
    """
    if begun is not None:
        check_column("begun", begun)
        if len(begun) > LARGEST_RECORD:
            raise LocalProtocolError("begun", f"must be at most {LARGEST_RECORD} characters")
    return begun


def admit_keyed(key: str, after: ChatId | None, limit: int) -> None:
    """Check the arguments of `Store.keyed`."""
    check_column("key", key)
    if after is not None:
        check_chat(after)
    check_integer("limit", limit, least=0)


def admit_receivers(key: str, after: int, limit: int) -> None:
    """Check the arguments of `Store.receivers`."""
    check_key(key)
    admit_page(after, limit)


def admit_writes(writes: Sequence[Write]) -> tuple[Write, ...]:
    """Check the writes, and return them with unreadable requests cut to the stored length.

    Raises:
        LocalProtocolError: a write can't be stored; names the field.
    """
    return tuple([_admitted(write) for write in writes])


def admit_due(now: int, after: tuple[int, int], limit: int) -> None:
    """Check the arguments of `Store.due`."""
    check_integer("now", now, least=0)
    check_integer("after", after[0], least=-1)
    check_integer("after", after[1], least=-1)
    check_integer("limit", limit, least=0)


def admit_page(after: int, limit: int) -> None:
    """Check the arguments of a query for the rows after a number, up to a limit."""
    check_integer("after", after, least=0)
    check_integer("limit", limit, least=0)


def size_of(writes: Sequence[Write]) -> int:
    """Return roughly how many bytes these writes add."""
    return sum([_size(write) for write in writes])


def _size(write: Write) -> int:
    match write:
        # The most frequent patterns come first, here and below: each pattern that doesn't match costs time.
        case AppendRecords():
            return 256 + sum(map(len, write.records))
        case PutStanding() | Consume():
            return 256
        case Accept(arrival):
            return 256 + len(arrival.key or "")
        case KeepRaw(body=body):
            return len(body)
        case PutData(value=str(value)):
            return 256 + len(value)
        case OpenBroadcast() | AddReceivers() | AdvanceBroadcast() | TurnBroadcast() | DropBroadcast():
            return size_of_broadcast(write)
        case PutSetting() | PutData():
            return 256
        case PutPayment() | RaiseAlarm() | AcknowledgeAlarms() | AlarmTold():
            return money_size(write)
        case MovePayment():
            return 2048
        case _:
            return journal_size(write)


def _admitted(write: Write) -> Write:
    match write:
        case AppendRecords() | PutStanding():
            admit_journal_write(write)
        case Accept(arrival):
            admit_arrival(arrival)
        case Consume(seqs):
            for seq in seqs:
                check_integer("seq", seq, least=0)
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


def admit_money_write(write: MoneyWrite) -> None:
    """Check that a payment or an alarm can be stored.

    Raises:
        LocalProtocolError: the write can't be stored; names the field. Retrying never helps.
    """
    match write:
        case PutPayment(row, fact):
            _admit_payment(row)
            check_column("fact", fact)
        case RaiseAlarm(_, key, text):
            check_column("key", key, empty=True)
            check_column("text", text)
        case AcknowledgeAlarms(_, key):
            if key is not None:
                check_column("key", key, empty=True)
        case AlarmTold(_, key):
            check_column("key", key, empty=True)
        case _:
            assert_never(write)
    check_integer("at", write.at, least=0)


def money_size(write: MoneyWrite) -> int:
    """Return roughly how many bytes this write adds."""
    return 1024 + len(write.row.record) if isinstance(write, PutPayment) else 256


def _admit_payment(row: PaymentRow) -> None:
    for name, text in (("id", row.id), ("state", row.state), ("group", row.group), ("record", row.record)):
        check_column(name, text)
    if row.invoice_id is not None:
        check_column("invoice_id", row.invoice_id)
    if len(row.record) > LARGEST_VALUE:
        raise LocalProtocolError("record", f"must be at most {LARGEST_VALUE} characters")
    check_chat(row.chat_id)
    check_integer("revision", row.revision, least=1)
    for name, number in (
        ("amount", row.amount),
        ("made_at", row.made_at),
        ("due_at", row.due_at),
        ("urgent", row.urgent),
        ("captured", row.captured),
        ("captured_at", row.captured_at),
    ):
        if number is not None:
            check_integer(name, number, least=0)


def admit_journal_write(write: JournalWrite) -> None:
    """Check that a write to a conversation can be stored.

    Raises:
        LocalProtocolError: the write can't be stored; names the field. Retrying never helps.
    """
    if not 0 <= write.lease <= LARGEST_INTEGER:
        raise LocalProtocolError("lease", "is none that a store has given")
    match write:
        case AppendRecords():
            admit_conversation(write.conversation)
            _records(write.position, write.records)
        case PutStanding():
            admit_conversation(write.conversation)
            check_integer("at", write.at, least=0)
            _wake(write.wake_at)
        case PutRested():
            admit_conversation(write.conversation)
            if write.rests is not None:
                check_column("rests", write.rests)
            check_integer("build", write.build, least=0, most=LARGEST_INTEGER)
        case BeginConversation():
            admit_conversation(write.id)
            check_chat(write.chat_id)
            if write.sender_id is not None:
                check_integer("sender_id", write.sender_id, least=-LARGEST_SENDER, most=LARGEST_SENDER)
            if write.key is not None:
                check_column("key", write.key)
            check_integer("at", write.at, least=0)
            _wake(write.wake_at)
            _code(write.route, write.kind, write.version)
        case ContinueConversation():
            admit_conversation(write.conversation)
            check_integer("at", write.at, least=0)
            _records(write.position, write.records)
            _code(write.route, write.kind, write.version)
        case KeepIntent() | KeepResult():
            admit_conversation(write.conversation)
            check_integer("run", write.run, least=1)
            check_integer("at", write.at, least=0)
            check_column("operation", write.operation)
            _long("text", write.text)
        case DropEffects():
            admit_conversation(write.conversation)
            check_integer("run", write.run, least=1)
            for operation in write.operations:
                check_column("operation", operation)
        case ParkConversation():
            admit_conversation(write.conversation)
            check_integer("at", write.at, least=0)
            if write.because is not None:
                check_column("because", write.because)
            _error(write.error)
        case EndConversation():
            admit_conversation(write.conversation)
            check_integer("at", write.at, least=0)
            _error(write.error)
        case WakeEarlier():
            check_integer("by", write.by, least=0)
        case TakeInHand():
            admit_conversation(write.conversation)
            check_integer("at", write.at, least=0)
        case KeepCode():
            for digest, name, text in write.sources:
                for field, value in (("digest", digest), ("name", name), ("text", text)):
                    check_text(field, value, empty=field == "text")
            for site in write.sites:
                check_column("function", site[3], empty=True)
        case AcceptChange(_, change):
            for field, value in attrs.asdict(change).items():
                check_column(field, value)
        case _:
            assert_never(write)


def admit_conversation(conversation: ConversationId) -> None:
    """Check a conversation's number."""
    check_integer("conversation", conversation, least=1)


def journal_size(write: JournalWrite) -> int:
    """Return roughly how many bytes this write adds."""
    match write:
        case ContinueConversation():
            return 256 + sum(map(len, write.records))
        case KeepIntent() | KeepResult():
            return 256 + len(write.text)
        case KeepCode():
            return 256 * (1 + len(write.sites)) + sum(len(text) for *_, text in write.sources)
        case _:
            return 256


def _code(route: str, kind: str, version: str) -> None:
    check_column("route", route)
    check_word("kind", kind, *_KINDS)
    check_column("version", version, empty=True)


def _records(position: int, records: tuple[str, ...]) -> None:
    check_integer("position", position, least=0)
    if not records:
        raise LocalProtocolError("records", "must hold at least one")
    for record in records:
        _long("records", record)
        # The records of one append are lines of one row.
        if "\n" in record:
            raise LocalProtocolError("records", "must be one line each")


def _long(field: str, text: str) -> None:
    check_column(field, text)
    if len(text) > LARGEST_RECORD:
        raise LocalProtocolError(field, f"must be at most {LARGEST_RECORD} characters")


def _wake(wake_at: int | None) -> None:
    if wake_at is not None:
        check_integer("wake_at", wake_at, least=0)


def _error(error: str | None) -> None:
    if error is not None:
        check_column("error", error)


def decided(write: MovePayment, row: PaymentRow | None) -> Sequence[Decided]:
    """Return the writes by which `write.move` changes a payment, given the payment's current row.

    Raises:
        StaleRowError: the payment can't be changed in this way: nothing of the commit may be stored.
        LocalProtocolError: one of these writes can't be stored.
    """
    comes = write.move(row)
    admit_writes(comes)
    return comes
