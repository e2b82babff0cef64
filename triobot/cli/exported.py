"""Journals as lines of JSON objects, from an operator's socket or from a file of ``triobot journal export``.

Processes that only replay journals import this module, too. So this module imports no command.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast, final

import attrs

from ..base.frozen import guarded
from ..conversations.revival.changed import comparison_with
from ..conversations.revival.code import Code
from ..conversations.revival.stored import Stored, read_stored
from ..engine.records import ENDS, START, TURNS, time_of
from ..errors import ConfigError
from ..exact.verdicts import Comparison
from ..seams.journals import (
    AcceptedChange,
    ConversationId,
    ConversationRow,
    Deployed,
    Effect,
    Journal,
    StoredCode,
)

_REDACTED: Final = re.compile(r'"<\d+ characters>"')


def lines_of_export(path: Path) -> list[Mapping[str, object]]:
    """Read the lines of a file written by `triobot journal export`.

    Raises:
        ConfigError: the file can't be read, or contains no exported journal.
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
    """Build a journal from its lines: the row, the records and the effects.

    Raises:
        ConfigError: the lines are no journal, or were redacted.
    """
    row, *rest = [dict(line) for line in lines] or [{}]
    records = [str(line["record"]) for line in rest if "record" in line]
    if "conversation" not in row:
        raise ConfigError("this is no journal; `triobot journal export NUMBER` writes one")
    if _is_redacted(row, rest):
        raise ConfigError(
            "this export was redacted: what people wrote isn't in it, so no code can be run over it; "
            "export it without --redact, for yourself only"
        )
    first = rest[0].get("n") if rest else None
    effects = {str(one["operation"]): Effect(**_fields(one, Effect)) for one in rest if "operation" in one}
    return Journal(_row(row), first if isinstance(first, int) else 0, tuple(records), effects)


def _is_redacted(row: Mapping[str, object], rest: Sequence[Mapping[str, object]]) -> bool:
    first = next((str(line["record"]) for line in rest if "record" in line), "")
    return row.get("chat_id") == 0 or _REDACTED.search(first) is not None


def _row(answer: Mapping[str, object]) -> ConversationRow:
    id_ = ConversationId(cast("int", answer["conversation"]))
    try:
        return ConversationRow(id=id_, **_fields(answer, ConversationRow))
    except TypeError:
        raise ConfigError("this journal's first line is another version's") from None


def _fields(answer: Mapping[str, object], of: type[attrs.AttrsInstance]) -> dict[str, Any]:
    return {field.name: answer[field.name] for field in attrs.fields(of) if field.name in answer}


def read_exported(lines: Iterable[Mapping[str, object]]) -> Stored:
    """Build the data for a replay from a journal's lines.

    Raises:
        ConfigError: the lines are no journal, or were redacted.
        UnreadableRecordError: this program can't read a record.
    """
    return read_stored(exported_journal(lines))


# --- builds that ran a journal


@final
@guarded
class Stretch:
    """Consecutive turns of a journal that ran on the same sources.

    Attributes:
        first: number of the first turn, from 0.
        last: number of the last turn.
        since: first start of the build, in wall-clock milliseconds; None if unknown.
        digests: digests of the build's sources; None if the store lacks some of the sources.
    """

    first: int
    last: int
    since: int | None
    digests: frozenset[str] | None


def stretches_of(stored: Stored, code: Sequence[Mapping[str, object]]) -> Sequence[Stretch]:
    """Split a journal into stretches, in the order of the turns.

    Args:
        code: the store's lines about builds, from the answer to `journals.code`.
    """
    builds = [(cast("int", one["at"]), frozenset(_digests(one))) for one in code if "sources" in one]
    kept = {str(one["source"]) for one in code if "source" in one}
    found: list[Stretch] = []
    turns = (record for record in stored.records if record[0] in TURNS or record[0] == START)
    for n, record in enumerate(turns):
        since, digests = next((one for one in reversed(builds) if one[0] <= time_of(record)), (None, None))
        if digests is not None and not digests <= kept:
            digests = None
        # The record of the coroutine's end is no turn: it extends the last stretch, even if another build
        # stored this record.
        if found and (found[-1].digests == digests or record[0] in ENDS):
            found[-1] = attrs.evolve(found[-1], last=n)
        else:
            found.append(Stretch(n, n, since, digests))
    return found


def code_of_journal(
    lines: Sequence[Mapping[str, object]], code: Sequence[Mapping[str, object]]
) -> list[Mapping[str, object]]:
    """Return the lines of `code` that a journal needs: the builds that ran the journal, with these builds'
    sources and sites.
    """
    since = {one.since for one in stretches_of(read_exported(lines), code)}
    builds = [one for one in code if "sources" in one and one["at"] in since]
    wanted = {digest for one in builds for digest in _digests(one)}
    sites = (one for one in code if wanted.intersection(cast("Sequence[str]", one.get("site", ()))))
    return [*builds, *(one for one in code if one.get("source") in wanted), *sites]


def comparison_of(code: Code, code_lines: Sequence[Mapping[str, object]]) -> Comparison:
    """Return a comparison of current code with stored code.

    Args:
        code: the current code.
        code_lines: the store's lines about code, from the answer to `journals.code`.
    """
    lines = cast("Sequence[Any]", code_lines)
    builds = [Deployed(one["at"], one["build"], tuple(one["sources"])) for one in lines if "at" in one]
    known = StoredCode(
        tuple(sorted(builds, key=lambda one: one.at)),
        {one["source"]: (one["name"], one["text"]) for one in lines if "source" in one},
        tuple({tuple(one["site"]) for one in lines if "site" in one}),
        tuple(AcceptedChange(*one["accepted"]) for one in lines if "accepted" in one),
    )
    return comparison_with(code.sites, code.formerly, known)


def _digests(build: Mapping[str, object]) -> list[str]:
    return cast("list[str]", build["sources"])
