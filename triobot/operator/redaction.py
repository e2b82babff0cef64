"""Journals without what people said: shapes stay, content goes. Pure.

What a bug report needs of a journal is what happened in which order; what somebody wrote, where he lives, how
his bot is paid is nobody's business. So a redacted line keeps its structure: names of fields and of classes,
which operation, what kind, when. Every other text becomes its length, every other number becomes 0; so does a
fingerprint, from which a short answer could be guessed.
"""

from __future__ import annotations

import json
from typing import Final, TypeAlias, cast

from .requests import Told

_Node: TypeAlias = "bool | int | float | str | list[_Node] | dict[str, _Node] | None"

# Of a journal's own records: what tells the order of things, and nothing of what was in them.
# By their full names: an author's module may be called `journal`, too.
_RECORDS: Final = frozenset(
    f"journal.{name}"
    for name in (
        *("Value", "Failed", "CutShort", "Start", "Done", "Fired", "Interrupted"),
        *("Patched", "Noted", "DataPut", "Jumped", "Unended", "Resumed", "Ended", "Continued"),
        *("Result", "Intended"),
    )
)
_KEPT_WORDS: Final = frozenset({"id", "kind", "scope", "mid", "fn", "patch", "why"})
_KEPT_NUMBERS: Final = frozenset({"time", "event", "version", "by", "total"})
# Of a row: everything but whose it is.
_ROW_LOSES: Final = frozenset({"chat_id", "sender_id", "key"})
_NAMED: Final = frozenset({"class", "enum", "flag"})


def redacted(fields: Told) -> Told:
    """One line of `ShowJournal`'s answer, or of `ListJournals`', without content."""
    return {name: _redacted_field(name, value) for name, value in fields.items()}


def _redacted_field(name: str, value: object) -> object:
    if name in {"record", "last_record", "intent", "result"}:
        return None if value is None else redacted_text(str(value))
    if name in _ROW_LOSES:
        return _blank(cast("_Node", value))
    return value


def redacted_text(text: str) -> str:
    """A record without content; what is no JSON becomes its length."""
    try:
        node: _Node = json.loads(text)
    except (ValueError, RecursionError):
        return _length(text)
    return json.dumps(_redact(node), separators=(",", ":"))


def summary(text: str) -> str:
    """What a record is, in a few words without content: ``Done receive 3``."""
    found = read_record(text)
    if found is None:
        return "?"
    name, fields = found
    words = [fields[key] for key in ("kind", "id", "scope", "fn", "patch", "why") if key in fields]
    return " ".join([name, *(str(word) for word in words if isinstance(word, str | int))])


def read_record(text: str) -> tuple[str, dict[str, _Node]] | None:
    """The class and the fields of a record: ``[1,[1,{"class":["journal.Done",{...}]}]]``."""
    try:
        node: _Node = json.loads(text)
    except (ValueError, RecursionError):
        return None
    while isinstance(node, list) and len(node) == 2:
        node = node[1]
    match node:
        case {"class": [str(name), dict(fields)]} if name in _RECORDS:
            return name.removeprefix("journal."), fields
        case _:
            return None


def _redact(node: _Node) -> _Node:
    match node:
        case {"class": [str(name), dict(fields)]} if name in _RECORDS:
            return {"class": [name, {key: _redact_own(key, part) for key, part in fields.items()}]}
        case dict() if len(node) == 1 and (tag := next(iter(node))) in _NAMED:
            return {tag: _redact_named(node[tag])}
        case dict():
            return {key: _redact(part) for key, part in node.items()}
        case list():
            return [_redact(part) for part in node]
        case str() if node.startswith(("[", "{")):
            return redacted_text(node)  # a value within a record is JSON in JSON
        case _:
            return _blank(node)


def _redact_own(key: str, part: _Node) -> _Node:
    number = isinstance(part, int) and key in _KEPT_NUMBERS
    return part if number or key in _KEPT_WORDS else _redact(part)


def _redact_named(node: _Node) -> _Node:
    """The name of a class stays, and which member of an Enum goes."""
    match node:
        case [str(name), *parts]:
            return [name, *(_redact(part) for part in parts)]
        case _:
            return _redact(node)


def _blank(node: _Node) -> _Node:
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
