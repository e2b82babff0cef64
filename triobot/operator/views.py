"""Records of a journal for people, in two forms: redacted records, and worded records. Pure.

A bug report needs the order of a journal's records, but not users' messages, addresses or payment data. So a
redacted line keeps its structure: names of fields and classes, the operation, the kind, the time. Redaction
replaces every other text by its length, and every other number by 0. A fingerprint is replaced, too, since a
short answer could be guessed from the fingerprint.

A text in a record is parsed as JSON only if the record's format says that the runtime wrote this text. A user
may type text that looks like JSON.

A worded record keeps users' texts, and shows values as an author would write them in Python.
"""

from __future__ import annotations

import json
from typing import Final, cast

from ..seams.values import TAGS
from .outline import NAME, PLACES, Node, is_id, moment_of, parsed, read_record
from .routes import Answer

# A record's fields that redaction keeps; the content of all other fields is removed.
_KEPT_WORDS: Final = frozenset({"fn", "kind", "why", "patch", "about", "tag"})
_KEPT_NUMBERS: Final = frozenset({"event", "format", "n"})
_IDS: Final = frozenset({"id", "turn"})
# A row's fields that identify its chat or user.
_ROW_LOSES: Final = frozenset({"chat_id", "sender_id", "key"})
_CLASSES: Final = frozenset({"class", "enum", "flag"})


def redacted(fields: Answer) -> Answer:
    """Redact a line of the answer to ``journals.show``."""
    return {name: _redacted_field(name, value) for name, value in fields.items()}


def _redacted_field(name: str, value: object) -> object:
    if name in {"record", "intent", "result"}:
        return None if value is None else redacted_text(str(value))
    if name in _ROW_LOSES:
        return _blank(cast("Node", value))
    return value


def redacted_text(text: str) -> str:
    """Redact a record. Replace a text that is no record by its length."""
    found = read_record(text)
    if found is None:
        return _length(text)
    tag, *places = cast("list[Node]", parsed(text))
    names = PLACES[cast("str", tag)][1].split()
    kept = [_own(name, part, found[1]) for name, part in zip(names, places, strict=False)]
    return json.dumps([tag, *kept], separators=(",", ":"))


# --- a record; its tag defines its fields


def _own(name: str, part: Node, fields: dict[str, Node]) -> Node:
    if name in _KEPT_WORDS and isinstance(part, str):
        return part
    if name == "time" or (name in _KEPT_NUMBERS and isinstance(part, int)):
        return part
    if name in _IDS and is_id(part):
        return part
    if name == "args" and isinstance(part, list):
        return [_value(node) for node in part]
    if name == "text" and isinstance(part, str):
        return _value_text(part)
    if name == "error" or (name == "outcome" and fields.get("tag") == "E"):
        return _error(part)
    return _value(part) if name in {"value", "outcome"} else _blank(part)


def _error(node: Node) -> Node:
    match node:
        case ["group", str(message), [*members]]:
            return ["group", _length(message), [_error(one) for one in members]]
        case ["raised", str(name), [*args], {**attributes}] if NAME.fullmatch(name):
            kept = {key: _value(cast("Node", part)) for key, part in attributes.items()}
            return ["raised", name, [_value(part) for part in args], cast("Node", kept)]
        case [str(name), [*args]] if NAME.fullmatch(name):
            return [name, [_value(part) for part in args]]
        case _:
            return _blank(node)


# --- a value; the tags in the value define its structure


def _value_text(text: str) -> str:
    match parsed(text):
        case [int() as version, node]:
            return json.dumps([version, _value(node)], separators=(",", ":"))
        case _:
            return _length(text)


def _value(node: Node) -> Node:
    match node:
        case list():
            return [_value(part) for part in node]
        case {"class": [str(name), dict(fields)]}:
            return {"class": [name, {field: _value(part) for field, part in fields.items()}]}
        case dict() if len(node) == 1 and (tag := next(iter(node))) in TAGS:
            return {tag: _parts(tag, node[tag])}
        case _:
            return _blank(node)


def _parts(tag: str, parts: Node) -> Node:
    match parts:
        case [str(name), *rest] if tag in _CLASSES:
            # Keep the name of the class; remove an Enum's member.
            return [name, *(_value(part) for part in rest)]
        case list():
            return [_value(part) for part in parts]
        case _:
            return _value(parts)


def _blank(node: Node) -> Node:
    match node:
        case str():
            return _length(node)
        case bool() | None:
            return node
        case int() | float():
            return 0
        case _:
            return None


def _length(text: str) -> str:
    return f"<{len(text)} characters>"


# --- in words

LONGEST: Final = 400
# An event's fields that worded records omit: the sender and the chat are usually the same in all records.
_ENVELOPE: Final = frozenset({"chat_id", "sender", "callback_id"})


def worded(answer: Answer) -> Answer:
    """Return a line of the answer to ``journals.show`` with its record in worded form."""
    if "record" in answer:
        return {"n": answer["n"], **record_in_words(str(answer["record"]))}
    if "operation" in answer:
        shown = {"operation": answer["operation"], "intended_at": answer["intended_at"]}
        result = answer["result"]
        return shown if result is None else {**shown, **record_in_words(str(result)), "what": "Result"}
    return answer


def record_in_words(text: str) -> dict[str, object]:
    """Return a record's name (``what``), time (``at``) and readable fields."""
    found = read_record(text)
    if found is None:
        return {"what": "?"}
    what, fields = found
    shown: dict[str, object] = {"what": what, "at": moment_of(fields["time"])}
    for name in ("id", "kind", "event", "why"):
        if isinstance(part := fields.get(name), str | int) and not (name == "event" and part == 0):
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
        return _shown_error(error)
    if "value" not in fields and "outcome" not in fields:
        return None
    node = fields.get("value", fields.get("outcome"))
    if what == "Fired" and node is None:
        return None
    return _taken(node) if what == "Fired" or fields.get("kind") == "receive" else _shown(node)


def _began_with(args: Node) -> str | None:
    """Return the value that the route's filter made of the first event; without such a value, return
    the event.
    """
    match args:
        case [_, _, _, value, *_]:
            return _shown(value)
        case [event, *_]:
            return _shown(event)
        case _:
            return None


def _taken(node: Node) -> str:
    match node:
        case {"said": [_, text, *_]} | {"heard": [_, text, *_]}:
            return _shown(text)
        case {"tuple": [_, _, _, {"tuple": [only]}, *_]}:
            return _shown(only)
        case {"tuple": [_, _, _, None, error]}:
            return _shown_error(error)
        case {"tuple": [_, _, _, part]}:
            return _shown(part)
        case _:
            return _shown(node)


def _shown_error(node: Node) -> str:
    match node:
        case ["group", message, [*members]]:
            return f"ExceptionGroup({message!r}, [{', '.join(map(_shown_error, members))}])"
        case ["raised", str(name), [*args], _] | [str(name), [*args]]:
            return f"{_last(name)}({', '.join(map(_shown, args))})"
        case _:
            return _shown(node)


def in_python(text: str) -> str:
    """Return a recorded value in Python's notation. Any other text is returned unchanged."""
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
        case {"sent": [_, id]}:
            return f"Sent(id={_shown(id)})"
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
            # `json.dumps` would escape Persian text.
            return repr(node)


def _last(name: str) -> str:
    return name.rpartition(".")[2]
