"""Records of a journal as fields that a person can read: what happened, when, to which operation. Pure.

The opposite of `redaction`: what people wrote stays. Values look as an author would write them in Python.
"""

from __future__ import annotations

from typing import Final

from .redaction import Node, parsed, read_record
from .requests import Told

LONGEST: Final = 400
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
    """Return a record's word (``what``), its time (``at``), and its fields that people can read."""
    found = read_record(text)
    if found is None:
        return {"what": "?"}
    what, fields = found
    time = fields["time"]
    shown: dict[str, object] = {"what": what, "at": time[0] if isinstance(time, list) else time}
    for name in ("id", "kind", "event", "why"):
        if isinstance(part := fields.get(name), str | int):
            shown[name] = part if name == "kind" else str(part) if name == "id" else part
    for name in ("fn", "patch", "key", "about"):
        if fields.get(name) is not None:
            shown["name"] = fields[name]
    value = _value_of(what, fields)
    if value is not None:
        shown["value"] = value if len(value) <= LONGEST else value[: LONGEST - 1] + "…"
    if fields.get("error") is not None or fields.get("tag") == "E":
        shown["failed"] = True
    return shown


def _value_of(what: str, fields: dict[str, Node]) -> str | None:
    if what == "Start":
        return _began_with(fields.get("args"))
    if isinstance(text := fields.get("text"), str):
        return in_python(text)
    error = fields.get("outcome") if fields.get("tag") == "E" else fields.get("error")
    if error is not None:
        return _error(error)
    if "value" not in fields and "outcome" not in fields:
        return None
    node = fields.get("value", fields.get("outcome"))
    if what == "Fired" and node is None:
        return None
    return _taken(node) if what == "Fired" or fields.get("kind") == "receive" else _shown(node)


def _began_with(args: Node) -> str | None:
    """Return as what the event was taken, or the event."""
    match args:
        case [_, _, _, value, *_]:
            return _shown(value)
        case [event, *_]:
            return _shown(event)
        case _:
            return None


def _taken(node: Node) -> str:
    match node:
        case {"tuple": [_, _, _, {"tuple": [only]}, *_]}:
            return _shown(only)
        case {"tuple": [_, _, _, None, error]}:
            return _error(error)
        case {"tuple": [_, _, _, part]}:
            return _shown(part)
        case _:
            return _shown(node)


def _error(node: Node) -> str:
    match node:
        case ["group", message, [*members]]:
            return f"ExceptionGroup({message!r}, [{', '.join(map(_error, members))}])"
        case ["raised", str(name), [*args], _] | [str(name), [*args]]:
            return f"{_last(name)}({', '.join(map(_shown, args))})"
        case _:
            return _shown(node)


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
