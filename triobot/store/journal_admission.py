"""Which writes to conversations may enter a store. Pure; see `admission`."""

from __future__ import annotations

from typing import Final, assert_never, get_args

from ..errors import LocalProtocolError
from ..journals import (
    LARGEST_RECORD,
    AppendRecords,
    BeginConversation,
    ContinueConversation,
    ConversationId,
    DropEffects,
    EndConversation,
    JournalWrite,
    KeepIntent,
    KeepResult,
    ParkConversation,
    PutStanding,
    RunKind,
    TakeInHand,
    WakeEarlier,
)
from ..wire.rules import check_integer, check_word
from .columns import LARGEST_CHAT, check_chat, check_column

_KINDS: Final[tuple[str, ...]] = get_args(RunKind)


def admit_journal_write(write: JournalWrite) -> None:
    """Refuse a write to a conversation that can't be stored.

    Raises:
        LocalProtocolError: names the field. Repeating never helps.
    """
    check_integer("lease.shard", write.lease.shard, least=0)
    check_integer("lease.fence", write.lease.fence, least=0)
    match write:
        case BeginConversation():
            admit_conversation(write.id)
            check_chat(write.chat_id)
            if write.sender_id is not None:
                check_integer("sender_id", write.sender_id, least=-LARGEST_CHAT, most=LARGEST_CHAT)
            if write.key is not None:
                check_column("key", write.key)
            check_integer("at", write.at, least=0)
            _wake(write.wake_at)
            _code(write.route, write.kind, write.version)
        case AppendRecords():
            admit_conversation(write.conversation)
            _records(write.position, write.records)
        case ContinueConversation():
            admit_conversation(write.conversation)
            check_integer("at", write.at, least=0)
            _records(write.position, write.records)
            _code(write.route, write.kind, write.version)
        case PutStanding():
            admit_conversation(write.conversation)
            check_integer("at", write.at, least=0)
            _wake(write.wake_at)
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
        case _:
            assert_never(write)


def admit_conversation(conversation: ConversationId) -> None:
    """Refuse a conversation's number that is none."""
    check_integer("conversation", conversation, least=1)


def journal_size(write: JournalWrite) -> int:
    """Roughly how many bytes this write brings."""
    match write:
        case AppendRecords() | ContinueConversation():
            return 256 + sum(len(record) for record in write.records)
        case KeepIntent() | KeepResult():
            return 256 + len(write.text)
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
        # Records of one append lie in one row, a line each.
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
