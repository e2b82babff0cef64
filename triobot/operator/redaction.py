"""Takes the content out of journals and keeps their shape. Pure.

A bug report needs to show what happened in which order, and not what people wrote, where they live or how a
bot is paid. So a redacted line keeps its structure: names of fields and of classes, which operation, what
kind, when. Every other text becomes its length, every other number becomes 0; so does a fingerprint, from
which a short answer could be guessed.

A text is read as JSON only where the record's own shape says that the runtime wrote a value there: the look
of a text is up to the person who typed it.
"""

from __future__ import annotations

import json
from typing import Final, TypeAlias, cast

from ..values import TAGS
from .requests import Told

Node: TypeAlias = "bool | int | float | str | list[Node] | dict[str, Node] | None"
"""A recorded value, as JSON."""

# The journal's own records, which tell the order of things and not their content.
# By their full names: an author's module may be called `journal`, too.
_RECORDS: Final = frozenset(
    f"journal.{name}"
    for name in (
        *("Value", "Failed", "CutShort", "Start", "Done", "Fired", "Interrupted"),
        *("Patched", "Noted", "DataPut", "Jumped", "Unended", "Resumed", "Ended", "Continued"),
        *("Result", "Intended"),
    )
)
# The fields of records, by what they hold. A field that is not among them loses its content.
_KEPT_WORDS: Final = frozenset({"id", "kind", "scope", "mid", "fn", "patch", "why"})
_KEPT_NUMBERS: Final = frozenset({"time", "event", "version", "by", "total"})
_VALUES: Final = frozenset({"text", "args", "event", "value", "failure"})
"""In the text of `triobot.values`."""
# The fields of a row that tell whose it is.
_ROW_LOSES: Final = frozenset({"chat_id", "sender_id", "key"})
_CLASSES: Final = frozenset({"class", "enum", "flag"})


def redacted(fields: Told) -> Told:
    """Return a line of `ShowJournal`'s or `ListJournals`' answer without content."""
    return {name: _redacted_field(name, value) for name, value in fields.items()}


def _redacted_field(name: str, value: object) -> object:
    if name in {"record", "last_record", "intent", "result"}:
        return None if value is None else redacted_text(str(value))
    if name in _ROW_LOSES:
        return _blank(cast("Node", value))
    return value


def redacted_text(text: str) -> str:
    """Return a record without content; a text that is no record becomes its length."""
    match parsed(text):
        case [int() as values, [int() as journals, record]] if _is_record(record):
            return json.dumps([values, [journals, _record(record)]], separators=(",", ":"))
        case _:
            return _length(text)


def summary(text: str) -> str:
    """Describe a record in a few words without content: ``Done receive 3``."""
    found = read_record(text)
    if found is None:
        return "?"
    name, fields = found
    words = [fields[key] for key in ("kind", "id", "scope", "fn", "patch", "why") if key in fields]
    return " ".join([name, *(str(word) for word in words if isinstance(word, str | int))])


def read_record(text: str) -> tuple[str, dict[str, Node]] | None:
    """Return the class and the fields of a record: ``[1,[1,{"class":["journal.Done",{...}]}]]``."""
    match parsed(text):
        case [int(), [int(), {"class": [str(name), dict(fields)]}]] if name in _RECORDS:
            return name.removeprefix("journal."), fields
        case _:
            return None


def parsed(text: str) -> Node:
    """Return a recorded value as JSON; None if it can't be read."""
    try:
        return cast("Node", json.loads(text))
    except (ValueError, RecursionError):
        return None


# --- a record, whose fields are known


def _is_record(node: Node) -> bool:
    match node:
        case {"class": [str(name), dict()]}:
            return name in _RECORDS
        case _:
            return False


def _record(node: Node) -> Node:
    match node:
        case {"class": [str(name), dict(fields)]} if name in _RECORDS:
            return {"class": [name, {key: _own(key, part) for key, part in fields.items()}]}
        case _:
            return _blank(node)


def _own(key: str, part: Node) -> Node:
    if isinstance(part, str if key in _KEPT_WORDS else int) and key in _KEPT_WORDS | _KEPT_NUMBERS:
        return part
    if key in _VALUES and isinstance(part, str):
        return _value_text(part)
    if key == "outcome":
        return _record(part)
    match part:
        case {"dict": [list(keys), list(texts)]} if key == "data":
            return {"dict": [[_blank(name) for name in keys], [_kept(text) for text in texts]]}
        case _:
            return _blank(part)


def _kept(text: Node) -> Node:
    return _value_text(text) if isinstance(text, str) else _blank(text)


# --- a value, whose shape its own tags tell


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
            # The name of the class stays, and which member of an Enum goes.
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
