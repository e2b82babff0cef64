"""The outline of a journal's records: names, times and operations, and no content. Pure."""

from __future__ import annotations

import json
import re
from typing import Final, TypeAlias, cast

from .routes import Answer

Node: TypeAlias = "bool | int | float | str | list[Node] | dict[str, Node] | None"
"""A recorded value, as JSON."""

PLACES: Final = {
    "S": ("Start", "time fn args seed format"),
    "D": ("Done", "time id kind print value event"),
    "E": ("Failed", "time id kind print error event"),
    "C": ("CutShort", "time id kind print"),
    "F": ("Fired", "time id event value"),
    "I": ("Interrupted", "time event turn why"),
    "Z": ("Ended", "time error"),
    "A": ("Continued", "time fn args"),
    "N": ("Read", "time turn key text"),
    "P": ("Wrote", "time turn key n"),
    "R": ("Result", "time id kind print tag outcome"),
    "Q": ("Intended", "time id kind print"),
    "O": ("Noted", "time turn about value"),
    "V": ("Patched", "time patch"),
}
"""For each tag: the record's name in words, and the names of the fields after the tag
(`triobot.engine.records`).
"""

NAMES: Final = r"[^\W\d]\w*([.](<locals>|[^\W\d]\w*))*"
NAME: Final = re.compile(NAMES)
# In the id of an operation in a hook, the hook's name precedes the numbers.
_ID: Final = re.compile(rf"({NAMES}[.])?[0-9]+([./][0-9]+)*")
_SIGNAL: Final = "triobot.conversations.doors.calls.Signal"
# Fields that identify a record besides its id. These fields contain no text of a user.
_OUTLINE: Final = ("kind", "fn", "patch", "why")


def outlined(text: str) -> Answer:
    """Return a record's name (``what``), time (``at``) and operation; without content."""
    found = read_record(text)
    if found is None:
        return {"what": "?"}
    what, fields = found
    about = {name: fields[name] for name in _OUTLINE if isinstance(fields.get(name), str)}
    if is_id(id := fields.get("id")):
        about["id"] = id
    return {"what": what, "at": moment_of(fields["time"]), **about}


def room_in(text: str) -> list[Node] | None:
    """Return the name and key of the room that got a conversation's first event.

    `text` is the conversation's first record. Return None if the first event wasn't a room's signal.
    """
    match parsed(text):
        case ["S", _, _, [{"class": [str(of), {"room": {"tuple": [str(name), str(key)]}}]}, *_], *_]:
            return [name, key] if of == _SIGNAL else None
        case _:
            return None


def read_record(text: str) -> tuple[str, dict[str, Node]] | None:
    """Return a record's name and fields. A record looks like ``["D",7,3,"receive","",{"tuple":[...]}]``."""
    match parsed(text):
        case [str(tag), time, *_] as record if tag in PLACES and _is_time(time):
            what, places = PLACES[tag]
            return what, dict(zip(places.split(), record[1:], strict=False))
        case _:
            return None


def _is_time(part: Node) -> bool:
    """Return whether `part` is a record's time: a number, or three numbers if the clock has been set."""
    return isinstance(part, int) or (isinstance(part, list) and [type(one) for one in part] == [int] * 3)


def moment_of(time: Node) -> Node:
    return time[0] if isinstance(time, list) else time


def is_id(part: Node) -> bool:
    """Return whether `part` is an operation's id, and no text of a user."""
    return isinstance(part, int) or (isinstance(part, str) and _ID.fullmatch(part) is not None)


def parsed(text: str) -> Node:
    """Parse a recorded value as JSON; None if the text is invalid."""
    try:
        return cast("Node", json.loads(text))
    except (ValueError, RecursionError):
        return None
