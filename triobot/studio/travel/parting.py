"""Where new code parts from what a conversation was: its first turn that stands in another line.

Lines are compared, not records: a line that takes the record of another one fits the journal, and does
something else. Which line of the two versions is which one is what `exact` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from textwrap import shorten
from typing import TypeAlias, cast

from ...emulator.views import JsonObject
from ...exact.alignment import Alignment
from ...exact.sites import read_source
from ...exact.sources import Point, Source
from ...wire.rules import JsonValue
from .passes import Passed

_Place: TypeAlias = Sequence[int]  # a source's number, and the line in it


def trail_of(passed: Passed) -> JsonObject:
    """Return what is compared of a pass: its head, the main branch's line at each notch, what it sent."""
    line: JsonValue = None
    lines: list[JsonValue] = []
    sent: JsonObject = {}
    for notch in passed.notches:
        frames = cast("Mapping[str, JsonValue]", notch.get("f") or {}).get("", False)
        if frames is not False:
            line = cast("list[list[JsonValue]]", frames)[-1][:2] if frames else None
        lines.append(line)
        for out in cast("Sequence[JsonObject]", notch.get("out", ())):
            sent[str(out["id"])] = [out.get("text"), len(lines) - 1]
    texts: list[JsonValue] = list(passed.texts)
    return {"head": passed.head, "lines": lines, "sent": sent, "texts": texts}


def first_parting(old: JsonObject | None, new: JsonObject) -> JsonObject | None:
    """Return where the new code parts from the old, by their trails; None if it doesn't.

    ``notch`` is the first that stands elsewhere; ``was`` and ``now`` are its lines in the two files; ``what``
    is how the journal itself parts, if it does. Without the old code that alone is known.
    """
    divergence = cast("JsonObject | None", cast("JsonObject", new["head"])["divergence"])
    if old is None:
        notch = None if divergence is None else cast("int", divergence["notch"])
        return None if notch is None else {**_told(new, new, notch, divergence), "was": None}
    then, now = (cast("Sequence[_Place | None]", trail["lines"]) for trail in (old, new))
    for n, place in enumerate(then):
        if n >= len(now):
            break
        other = now[n]
        if place is None or other is None:
            if (place is None) is not (other is None):
                return _told(old, new, n, divergence)
            continue
        if not _is_same(old, place, new, other):
            return _told(old, new, n, divergence)
    return None if divergence is None else _told(old, new, cast("int", divergence["notch"]), divergence)


def reworded(old: JsonObject, new: JsonObject) -> Iterator[str]:
    """Yield the lines whose messages have other words than those that were sent, and both."""
    then, now = (cast("Mapping[str, tuple[str | None, int]]", trail["sent"]) for trail in (old, new))
    for id, (was, n) in then.items():
        if id in now and (text := now[id][0]) != was:
            line = cast("JsonObject", _line(old, n) or {"file": "?", "line": 0})
            yield f"{line['file']}:{line['line']} {_quoted(was)} is now {_quoted(text)}"


def _quoted(text: str | None) -> str:
    return f'"{shorten(text or "", 60, placeholder="...")}"'


def breaks(old: JsonObject | None, new: JsonObject) -> bool:
    """Return whether a journal that the new code parts from does not fit it any more, as it fits the old one.

    It would be parked; or a message that was sent is another one now, which nobody is shown.
    """
    parked = cast("JsonObject", new["head"])["divergence"] is not None
    if old is None:
        return parked
    return cast("JsonObject", old["head"])["divergence"] is None and (parked or any(reworded(old, new)))


def _is_same(old: JsonObject, place: _Place, new: JsonObject, other: _Place) -> bool:
    """Return whether two lines are the same operation; of lines without one, whether they say the same."""
    was, now, alignment = _aligned(_texts(old), _texts(new))
    one, another = _point(was, old, place), _point(now, new, other)
    if one is None or another is None:
        return one is another and _words(old, place) == _words(new, other)
    return alignment.to(one) is another


@lru_cache(4)
def _aligned(
    old: tuple[tuple[str, str], ...], new: tuple[tuple[str, str], ...]
) -> tuple[Mapping[str, Source], Mapping[str, Source], Alignment]:
    was, now = (
        {path: one for path, text in texts if (one := read_source(path, text, ""))} for texts in (old, new)
    )
    return was, now, Alignment(was, now)


def _point(sources: Mapping[str, Source], trail: JsonObject, place: _Place) -> Point | None:
    source = sources.get(_path(trail, place[0]))
    return None if source is None else source.at((place[1], None, None, None))


def _texts(trail: JsonObject) -> tuple[tuple[str, str], ...]:
    texts = cast("Sequence[str]", trail["texts"])
    return tuple((_path(trail, n), text) for n, text in enumerate(texts))


def _words(trail: JsonObject, place: _Place) -> str:
    text = cast("Sequence[str]", trail["texts"])[place[0]]
    return "".join(text.splitlines()[place[1] - 1 : place[1]]).strip()


def _path(trail: JsonObject, source: int) -> str:
    sources = cast("Sequence[JsonObject]", cast("JsonObject", trail["head"])["sources"])
    return str(sources[source]["path"])


def _told(old: JsonObject, new: JsonObject, n: int, divergence: JsonObject | None) -> JsonObject:
    what = None if divergence is None else divergence["what"]
    return {"notch": n, "was": _line(old, n), "now": _line(new, n), "what": what}


def _line(trail: JsonObject, n: int) -> JsonValue:
    lines = cast("Sequence[_Place | None]", trail["lines"])
    place = lines[n] if n < len(lines) else None
    if place is None:
        return None
    return {"file": _path(trail, place[0]), "line": place[1], "code": _words(trail, place)[:200]}


def worded(parting: JsonObject) -> str:
    """Say it in one line, for the terminal."""
    was, now = (cast("JsonObject | None", parting[name]) for name in ("was", "now"))
    before = "nothing" if was is None else f"`{was['code']}` in line {was['line']}"
    after = "nothing" if now is None else f"`{now['code']}` in line {now['line']}"
    if was is None and parting["what"] is not None:
        before = "another line"
    return f"at notch {parting['notch']}: was {before}, is {after}"
