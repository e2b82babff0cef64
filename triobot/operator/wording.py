"""Records of a journal as fields that a person can read: what happened, when, to which operation. Pure.

The opposite of `redaction`: what people wrote stays. Values look as an author would write them in Python.
"""

from __future__ import annotations

from typing import Final

from .redaction import Node, parsed, read_record
from .requests import Told

LONGEST: Final = 400
# A wait's value brings its event, and where that was in the inbox; only as what it was taken is of interest.
_OF_A_WAIT: Final = 4
# The sender of an event, and the chat: the same in each record of a conversation.
_ENVELOPE: Final = frozenset({"chat_id", "sender", "callback_id"})


def worded(told: Told) -> Told:
    """Return a line of `ShowJournal`'s answer for people to read."""
    if "record" in told:
        return {"n": told["n"], **record_in_words(str(told["record"]))}
    if "operation" in told:
        shown = {"operation": told["operation"], "intended_at": told["intended_at"]}
        result = told["result"]
        return shown if result is None else {**shown, **record_in_words(str(result)), "what": "Result"}
    return told


def record_in_words(text: str) -> dict[str, object]:
    """Return a record's class (``what``), its time (``at``), and its fields that people can read."""
    found = read_record(text)
    if found is None:
        return {"what": "?"}
    what, fields = found
    shown: dict[str, object] = {"what": what, "at": fields.get("time")}
    names = ("id", "scope", "kind", "event", "why", "by")
    for ours, theirs in [("id" if name == "scope" else name, name) for name in names]:
        if isinstance(part := fields.get(theirs), str | int) and (what, theirs) != ("Start", "event"):
            shown[ours] = part
    for name in ("fn", "patch", "key"):
        if fields.get(name) is not None:
            shown["name"] = fields[name]
    value = _value_of(what, fields)
    if value is not None:
        shown["value"] = value if len(value) <= LONGEST else value[: LONGEST - 1] + "…"
    if _failed(fields):
        shown["failed"] = True
    return shown


def _failed(fields: dict[str, Node]) -> bool:
    match fields.get("outcome"):
        case {"class": ["journal.Failed", _]}:
            return True
        case _:
            return fields.get("failure") is not None


def _value_of(what: str, fields: dict[str, Node]) -> str | None:
    match fields.get("outcome"):
        case {"class": ["journal.Value" | "journal.Failed", {"text": str(text)}]}:
            return _taken(text) if fields.get("kind") == "receive" else in_python(text)
        case {"class": ["journal.CutShort", _]}:
            return None
        case _:
            pass
    if what == "Start":
        return _began_with(str(fields.get("event")))
    kept = fields.get("value", fields.get("failure"))
    if not isinstance(kept, str):
        return None
    return _taken(kept) if what == "Fired" else in_python(kept)


def _began_with(text: str) -> str | None:
    match parsed(text):
        case [_, {"dict": [list(keys), list(values)]}] if "value" in keys:
            return _shown(values[keys.index("value")])
        case _:
            return None


def _taken(text: str) -> str:
    match parsed(text):
        case [_, {"tuple": [*parts]}] if len(parts) == _OF_A_WAIT:
            match parts[-1]:
                case {"tuple": [only]}:
                    return _shown(only)
                case _:
                    return _shown(parts[-1])
        case _:
            return in_python(text)


def in_python(text: str) -> str:
    """Return a recorded value as Python would show it; a text that is none is returned as it is."""
    match parsed(text):
        case [_, node]:
            return _shown(node)
        case _:
            return text


def _shown(node: Node) -> str:
    match node:
        case {"class": [str(name), dict(fields)]}:
            hidden = _ENVELOPE if name.startswith("triobot.") else frozenset[str]()
            parts = [f"{field}={_shown(part)}" for field, part in fields.items() if field not in hidden]
            inside = ", ".join(parts)
            return f"{_last(name)}({inside})"
        case {"enum": [str(name), member]}:
            return f"{_last(name)}.{member}"
        case {"tuple": list(parts)}:
            return f"({', '.join(map(_shown, parts))}{',' if len(parts) == 1 else ''})"
        case {"dict": [list(keys), list(values)]}:
            pairs = zip(keys, values, strict=False)
            return "{" + ", ".join(f"{_shown(key)}: {_shown(value)}" for key, value in pairs) + "}"
        case dict() if len(node) == 1:
            [(tag, part)] = node.items()
            return f"{tag}({_shown(part)})"
        case dict():
            return "{" + ", ".join(f"{name}: {_shown(part)}" for name, part in node.items()) + "}"
        case list():
            return f"[{', '.join(map(_shown, node))}]"
        case _:
            # As in Python, but with its letters: a person who writes Persian wants to read it.
            return repr(node)


def _last(name: str) -> str:
    return name.rpartition(".")[2]
