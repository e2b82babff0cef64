"""Journals as they are told: by the operator's desk, or in a file of `triobot journal export`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import attrs

from ...engine.records import FIRED, INTENDED, KNOWN, OUTCOMES, TURNS
from ...errors import ConfigError
from ...journals import ConversationId, ConversationRow, Effect, Journal, Lease
from ..revival.stored import Stored, read_stored

_REDACTED: Final = re.compile(r'"<\d+ characters>"')
_EFFECTS: Final = frozenset((KNOWN, INTENDED))
_ABOUT: Final = OUTCOMES | _EFFECTS | {FIRED}
"""The records that are about one operation, or block."""


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
    records = stored.records
    found = [n for n, record in enumerate(records) if record[0] in _ABOUT and str(record[2]) == operation]
    if not found:
        raise ConfigError(f"the journal knows no operation {operation}; `triobot journal show` has them all")
    ends = next((n for n in found if records[n][0] in TURNS), len(records))
    # What is known of effects belongs to later records.
    return Stored(stored.row, [record for record in records[:ends] if record[0] not in _EFFECTS])


def read_exported(lines: Iterable[Mapping[str, object]]) -> Stored:
    """Read what a conversation is run from.

    Raises:
        ConfigError: these lines are no journal, or were redacted.
        UnreadableRecordError: this program can't read it.
    """
    return read_stored(exported_journal(lines))
