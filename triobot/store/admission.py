"""Checks of every value that enters a store, made before the value joins a batch. Pure.

Group commit puts the writes of unrelated callers into one transaction. A value that the database can't store
(half a surrogate pair, an integer beyond 64 bits, U+0000 in PostgreSQL) would make the writes of the other
callers fail. So such a value is refused before the value joins a batch, and only the value's caller gets an
error. The error names the field, and doesn't repeat the content.

Fields of the same name in different classes have the same check, with a few exceptions. A field without a
check here can't be written at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import Any, Final, TypeAlias, get_args

import attrs

from ..errors import LocalProtocolError
from ..seams.broadcasts import BroadcastWrite, check_key
from ..seams.journals import (
    LARGEST_RECORD,
    BeginConversation,
    ContinueConversation,
    RunKind,
)
from ..seams.money import AcknowledgeAlarms, AlarmTold, Decided, MovePayment, PaymentRow, RaiseAlarm
from ..seams.rooms import LARGEST_PLACE
from ..seams.writes import LARGEST_VALUE, KeepRaw, PutSetting, Write
from ..wire.ids import ChatId
from ..wire.rules import LARGEST_INTEGER, check_integer, check_text, check_word
from .rules import as_kept

LARGEST_SENDER: Final = 10**18 - 1
LARGEST_BODY: Final = 32 * 1024 * 1024
"""Maximum size of one request's body in bytes; the webhook's own limit is far lower."""

_Check: TypeAlias = Callable[[str, Any], object]


def check_column(field: str, value: str, *, empty: bool = False, most: int | None = None) -> None:
    """Check that SQLite and PostgreSQL can store `value`, the text of this field.

    Args:
        most: maximum length in characters.
    """
    if not (type(value) is str and (value or empty) and value.isascii()):
        check_text(field, value, empty=empty)
    if "\0" in value:
        raise LocalProtocolError(field, "must not hold U+0000")
    if most is not None and len(value) > most:
        raise LocalProtocolError(field, f"must be at most {most} characters")


def _number(least: int, most: int = LARGEST_INTEGER) -> _Check:
    def check(field: str, value: Any) -> None:
        if type(value) is not int or not least <= value <= most:
            check_integer(field, value, least=least, most=most)

    return check


def _each(check: _Check) -> _Check:
    def check_all(field: str, values: Iterable[object]) -> None:
        for value in values:
            check(field, value)

    return check_all


def _check_body(field: str, body: bytes) -> None:
    if len(body) > LARGEST_BODY:
        raise LocalProtocolError(field, f"must be at most {LARGEST_BODY} bytes")


def _check_records(field: str, records: Sequence[str]) -> None:
    if not records:
        raise LocalProtocolError(field, "must hold at least one")
    for record in records:
        _RECORD(field, record)
        # The database stores the records of one append in one row, one record in each line.
        if "\n" in record:
            raise LocalProtocolError(field, "must be one line each")


def _check_key(field: str, key: str) -> None:
    check_key(key)


def _check_kind(field: str, kind: str) -> None:
    check_word(field, kind, *get_args(RunKind))


def _check_values(field: str, rows: Iterable[Sequence[object]]) -> None:
    for row in rows:
        for value in row:
            if isinstance(value, str):
                check_text(field, value, empty=True)


def _check_fields(field: str, value: attrs.AttrsInstance) -> None:
    admit(value)


def _accept_any(field: str, value: object) -> None:
    pass


_NATURAL: Final = _number(0)
_POSITIVE: Final = _number(1)
_PLACE: Final = _number(-LARGEST_PLACE, LARGEST_PLACE)
_EMPTY: Final[_Check] = partial(check_column, empty=True)
_VALUE: Final[_Check] = partial(check_column, most=LARGEST_VALUE)
_RECORD: Final[_Check] = partial(check_column, most=LARGEST_RECORD)

_CHECKS: Final[Mapping[str, _Check]] = {
    **dict.fromkeys(("at", "by", "meant", "position", "wake_at", "build"), _NATURAL),
    **dict.fromkeys(("amount", "made_at", "due_at", "urgent", "captured", "captured_at"), _NATURAL),
    **dict.fromkeys(("conversation", "run", "revision"), _POSITIVE),
    **dict.fromkeys(("route", "operation", "because", "error", "rests", "name", "id"), check_column),
    **dict.fromkeys(("base_url", "salt", "digest"), check_column),
    **dict.fromkeys(("key", "state", "group", "invoice_id", "fact", "function", "was", "now"), check_column),
    **dict.fromkeys(("version", "content_type", "content"), _EMPTY),
    **dict.fromkeys(("value", "record"), _VALUE),
    **dict.fromkeys(("text", "begun"), _RECORD),
    **dict.fromkeys(("arrival", "row"), _check_fields),
    **dict.fromkeys(("sources", "sites"), _check_values),
    "chat_id": _PLACE,
    "sender_id": _number(-LARGEST_SENDER, LARGEST_SENDER),
    "body": _check_body,
    "records": _check_records,
    "seqs": _each(_NATURAL),
    "outcomes": _each(_NATURAL),
    "operations": _each(check_column),
    "chats": _each(_number(1 - 10**18, 10**18 - 1)),
    **dict.fromkeys(("once", "came", "kind", "kinds", "unfinished", "kept", "folds"), _accept_any),
    **dict.fromkeys(("deployed", "move", "committed"), _accept_any),
}
_EXCEPTIONS: Final[Mapping[type, Mapping[str, _Check]]] = {
    BeginConversation: {"id": _POSITIVE, "kind": _check_kind},
    ContinueConversation: {"kind": _check_kind},
    PutSetting: {"value": _EMPTY},
    **{kind: {"key": _EMPTY} for kind in (RaiseAlarm, AcknowledgeAlarms, AlarmTold)},
    **{kind: {"key": _check_key} for kind in get_args(BroadcastWrite)},
}


@cache
def _checks_of(kind: type[attrs.AttrsInstance]) -> tuple[Sequence[tuple[str, _Check, bool]], attrgetter[Any]]:
    checks = {**_CHECKS, **_EXCEPTIONS.get(kind, {})}
    fields = [(field.name, checks[field.name], "None" in str(field.type)) for field in attrs.fields(kind)]
    found = [field for field in fields if field[1] is not _accept_any]
    # `attrgetter` of a single name returns no tuple, so two more names are added.
    return found, attrgetter(*(name for name, _, _ in found), "__class__", "__class__")


def admit(value: attrs.AttrsInstance) -> None:
    """Check that a value's fields can be stored.

    Raises:
        LocalProtocolError: a field can't be stored; names the field. Retrying never helps.
    """
    checks, read = _checks_of(type(value))
    for (name, check, optional), content in zip(checks, read(value), strict=False):
        if content is not None or not optional:
            check(name, content)


def admit_begun(begun: str | None) -> str | None:
    """Check that a value for `InboxRow.begun` can be stored, and return the value unchanged.

    Raises:
        LocalProtocolError: the value can't be stored.
    """
    if begun is not None:
        _RECORD("begun", begun)
    return begun


def admit_writes(writes: Sequence[Write]) -> tuple[Write, ...]:
    """Check the writes. Return the same writes, with unreadable requests truncated to the stored length.

    Raises:
        LocalProtocolError: a write can't be stored; names the field.
    """
    return tuple([_admitted(write) for write in writes])


def _admitted(write: Write) -> Write:
    if isinstance(write, KeepRaw):  # `as_kept` replaces characters that can't be stored
        _NATURAL("at", write.at)
        return as_kept(write)
    admit(write)
    return write


def check_chat(chat_id: ChatId) -> None:
    """Check that `chat_id` is the number of a chat or another place."""
    _PLACE("chat_id", chat_id)


def decided(write: MovePayment, row: PaymentRow | None) -> Sequence[Decided]:
    """Call `write.move` with a payment's current row, and return the resulting writes.

    Raises:
        StaleRowError: this row doesn't allow the change; the caller must then store none of the commit's
            writes.
        LocalProtocolError: one of the resulting writes can't be stored.
    """
    comes = write.move(row)
    admit_writes(comes)
    return comes
