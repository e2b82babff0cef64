"""Journals as they are told: by an operator's socket, or in a file of ``triobot journal export``.

It loads nothing of the commands: each process that runs journals again reads them with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import attrs

from ..conversations.revival.stored import Stored, read_stored
from ..errors import ConfigError
from ..seams.journals import ConversationId, ConversationRow, Effect, Journal, Lease

_REDACTED: Final = re.compile(r'"<\d+ characters>"')


def lines_of_export(path: Path) -> list[Mapping[str, object]]:
    """Read the lines of a file that `triobot journal export` wrote.

    Raises:
        ConfigError: it can't be read, or is none.
    """
    try:
        texts = path.read_text(encoding="utf-8").splitlines()
        lines: list[object] = [json.loads(text) for text in texts if text]
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        lines = []
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise ConfigError(f"{path} is no exported journal; `triobot journal export NUMBER` writes one")
    return cast("list[Mapping[str, object]]", lines)


def exported_journal(lines: Iterable[Mapping[str, object]]) -> Journal:
    """Read the journal of such lines: its row, its records, its effects.

    Raises:
        ConfigError: they are none, or were redacted.
    """
    row, *rest = [dict(line) for line in lines] or [{}]
    records = [str(line["record"]) for line in rest if "record" in line]
    if "conversation" not in row or not records:
        raise ConfigError("this is no journal; `triobot journal export NUMBER` writes one")
    if is_redacted([row, *rest]):
        raise ConfigError(
            "this export was redacted: what people wrote isn't in it, so no code can be run over it; "
            "export it without --redact, for yourself only"
        )
    first = rest[0].get("n")
    effects = {str(line["operation"]): _effect(line) for line in rest if "operation" in line}
    return Journal(_row(row), first if isinstance(first, int) else 0, tuple(records), effects)


def is_redacted(lines: Sequence[Mapping[str, object]]) -> bool:
    """Return whether these lines of a journal have lost what people wrote."""
    row, *rest = lines
    first = next((str(line["record"]) for line in rest if "record" in line), "")
    return row.get("chat_id") == 0 or _REDACTED.search(first) is not None


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


def read_exported(lines: Iterable[Mapping[str, object]]) -> Stored:
    """Read what a conversation is run from.

    Raises:
        ConfigError: these lines are no journal, or were redacted.
        UnreadableRecordError: this program can't read it.
    """
    return read_stored(exported_journal(lines))
