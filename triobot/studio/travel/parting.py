"""Differences between new code and a conversation's journal: different operations, and changed words."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten
from typing import cast

from ...emulator.views import JsonObject
from ...exact.verdicts import Parting, SourceLine
from ...wire.rules import JsonValue


def parting_of(head: JsonObject, texts: Sequence[str], parting: Parting | None) -> JsonObject | None:
    """Return where the replayed code diverges from the journal; None if it doesn't.

    ``notch`` is the notch of the divergence; ``was`` and ``now`` are the lines of the old and new source, if
    known; ``what`` describes the divergence.

    Args:
        head: head of the pass.
        texts: sources of the pass.
        parting: the old and new line, if the sources were compared.
    """
    divergence = cast("JsonObject | None", head["divergence"])
    if divergence is None:
        return None
    was, now = (None, None) if parting is None else (_line(parting.was), _line(parting.now))
    return {
        "notch": divergence["notch"],
        "was": was,
        "now": now or _line_of(head, texts, divergence["line"]),
        "what": divergence["what"],
    }


def _line(line: SourceLine) -> JsonObject | None:
    return {"file": line.file, "line": line.line, "code": line.text[:200]} if line.line else None


def _line_of(head: JsonObject, texts: Sequence[str], place: JsonValue) -> JsonObject | None:
    if not isinstance(place, list):
        return None
    source, line = cast("Sequence[int]", place)
    file = cast("Sequence[JsonObject]", head["sources"])[source]["name"]
    code = "".join(texts[source].splitlines()[line - 1 : line]).strip()
    return {"file": file, "line": line, "code": code[:200]}


def reworded(was: SourceLine, now: SourceLine) -> str:
    """Describe the changed words of a line."""
    pairs = zip(was.words, now.words, strict=False)
    changes = [f"{_quoted(old)} is now {_quoted(new)}" for old, new in pairs if old != new]
    return f"{was.file}:{was.line} {', '.join(changes) or 'says other words'}"


def _quoted(text: str) -> str:
    return f'"{shorten(text, 60, placeholder="...")}"'


def worded(parting: JsonObject) -> str:
    """Describe a divergence in one line, for the terminal."""
    was, now = (cast("JsonObject | None", parting[name]) for name in ("was", "now"))
    if was is None and now is None:
        return f"at notch {parting['notch']}: {parting['what']}"
    before = "another line" if was is None else f"`{was['code']}` in line {was['line']}"
    after = "nothing" if now is None else f"`{now['code']}` in line {now['line']}"
    return f"at notch {parting['notch']}: was {before}, is {after}"
