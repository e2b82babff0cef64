"""Journals as they are told: by the operator's desk, or in a file of `triobot journal export`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import attrs

from ...errors import ConfigError
from ...journal.records import Done, Fired, Interrupted, Noted, Patched, Record, Resumed, Unended
from ...journals import ConversationId, ConversationRow, Effect, Journal, Lease
from ..revival.stored import Stored, read_stored

_REDACTED: Final = re.compile(r'"<\d+ characters>"')


def exported_journal(lines: Iterable[Mapping[str, object]]) -> Journal:
    """Read the journal of such lines: its row, its records, its effects.

    Raises:
        ConfigError: they are none, or were redacted.
    """
    row, *rest = [dict(line) for line in lines] or [{}]
    records = [str(line["record"]) for line in rest if "record" in line]
    if "conversation" not in row or not records:
        raise ConfigError("this is no journal; `triobot journal export NUMBER` writes one")
    if row.get("chat_id") == 0 or _REDACTED.search(records[0]):
        raise ConfigError(
            "this export was redacted: what people wrote isn't in it, so no code can be run over it; "
            "export it without --redact, for yourself only"
        )
    first = rest[0].get("n")
    effects = {str(line["operation"]): _effect(line) for line in rest if "operation" in line}
    return Journal(_row(row), first if isinstance(first, int) else 0, tuple(records), effects)


def _row(told: Mapping[str, object]) -> ConversationRow:
    known = {field.name for field in attrs.fields(ConversationRow)}
    fields: dict[str, Any] = {name: value for name, value in told.items() if name in known}
    try:
        return ConversationRow(
            id=ConversationId(cast("int", told["conversation"])), lease=Lease(0, 0), **fields
        )
    except TypeError:
        raise ConfigError("this journal's first line is another version's") from None


def _effect(told: Mapping[str, object]) -> Effect:
    known = {field.name for field in attrs.fields(Effect)}
    fields: dict[str, Any] = {name: value for name, value in told.items() if name in known}
    return Effect(**fields)


def until(stored: Stored, operation: str) -> Stored:
    """Return the journal up to where this operation has begun, and has no outcome.

    Raises:
        ConfigError: nothing is recorded of it.
    """
    found = next((n for n, record in enumerate(stored.records) if _concerns(record, operation)), None)
    if found is None:
        raise ConfigError(f"the journal knows no operation {operation}; `triobot journal show` has them all")
    while found > 1 and _within_a_turn(stored.records[found]):
        found -= 1
    # What is known of effects belongs to later records.
    return Stored(stored.row, stored.records[:found], ())


def _concerns(record: Record, operation: str) -> bool:
    match record:
        case Done(id=id) | Noted(id=id) | Fired(scope=id):
            return id == operation
        case _:
            return False


def _within_a_turn(record: Record) -> bool:
    """Return whether this came about in the turn of the record before it."""
    return isinstance(record, Noted | Patched | Unended | Resumed) or (
        isinstance(record, Fired | Interrupted) and record.mid is not None
    )


def read_exported(lines: Iterable[Mapping[str, object]]) -> Stored:
    """Read what a conversation is run from.

    Raises:
        ConfigError: these lines are no journal, or were redacted.
        UnreadableRecordError: this program can't read it.
    """
    return read_stored(exported_journal(lines))
