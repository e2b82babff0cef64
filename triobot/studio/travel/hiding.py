"""Removes people's words from a pass, for operators of a bot in production. Pure.

A pass keeps its lines, kinds, times, deadlines, and names from the code (of variables, functions and
classes). A text is replaced by its length, and a variable by its type. Only listed fields are shown: a new
field of a notch is hidden until it is added to the list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

import attrs

from ...emulator.views import JsonObject
from ...wire.rules import JsonValue
from .passes import Passed

_NOTCH: Final = ("n", "t", "r", "id", "k", "dot", "whole", "thin", "done", "failed", "f", "parked", "blocks")
_CAME: Final = ("what", "message_id", "block", "taken")
_SENT: Final = ("id", "kind", "line", "to", "message_id", "alert", "reworded", "unknown")
_BUTTONS: Final = ("buttons", "keyboard", "form")
_SHORTEST: Final = 8
"""Minimum length of a secret that is removed from sources, in characters."""

_NUMBERS: Final = (int, float, complex)
_SIZED: Final[dict[Any, str]] = {
    str: "letter",
    **dict.fromkeys((bytes, bytearray), "byte"),
    **dict.fromkeys((list, tuple, dict, set, frozenset, deque), "value"),
}
_CODE: Final = {
    type: "class",
    ModuleType: "module",
    FunctionType: "function",
    MethodType: "function",
    BuiltinFunctionType: "function",
}


def outline(value: object) -> str:
    """Return a variable's type and size, without calling any of the variable's own code."""
    if value is None:
        return "None"
    kind: Any = type(value)
    if kind is bool:
        return "bool"
    for base, word in _CODE.items():
        if issubclass(kind, base):
            return word
    name: str = type.__dict__["__qualname__"].__get__(kind).rpartition("<locals>.")[2]
    if issubclass(kind, Enum):
        return name
    if issubclass(kind, _NUMBERS):
        return "number"
    for base, unit in _SIZED.items():
        if issubclass(kind, base):
            count: int = base.__len__(value)
            what = "text" if base is str else name
            return f"{what}, {count} {unit}{'' if count == 1 else 's'}"
    return name


def hidden(passed: Passed, secrets: Collection[str]) -> Passed:
    """Return a pass without people's words. `outline` must already have written the pass's variables.

    Args:
        secrets: secrets to remove from the sources, such as the bot's token.
    """
    head: JsonObject = {**passed.head, "hidden": True, "sender_id": None}
    failures = cast("list[JsonObject]", passed.head["failures"])
    head["failures"] = [_hidden_failure(one) for one in failures]
    if (divergence := cast("JsonObject | None", head["divergence"])) is not None:
        head["divergence"] = {**divergence, "what": covered(str(divergence["what"]), secrets)}
    head["says"] = dict.fromkeys(cast("JsonObject", passed.head["says"]))
    return attrs.evolve(
        passed,
        head=head,
        turns=[hidden_notch(turn) for turn in passed.turns],
        texts=[covered(text, secrets) for text in passed.texts],
    )


def covered(text: str, secrets: Collection[str]) -> str:
    """Return a text with each secret replaced by ``***``."""
    for secret in secrets:
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, "***")
    return text


def _hidden_failure(failure: JsonObject) -> JsonObject:
    causes = cast("list[JsonObject]", failure["causes"])
    return {**failure, "text": "", "causes": [_hidden_failure(one) for one in causes]}


def hidden_notch(notch: Mapping[str, JsonValue]) -> JsonObject:
    """Return a notch without people's words; variables written by `outline` stay."""
    hidden = {name: notch[name] for name in (*_NOTCH, "v", "data") if name in notch}
    if isinstance(came := notch.get("in"), dict):
        hidden["in"] = _hidden_came(came)
    if isinstance(out := notch.get("out"), list):
        hidden["out"] = [_hidden_sent(cast("JsonObject", one)) for one in out]
    return hidden


def _hidden_came(came: JsonObject) -> JsonObject:
    hidden: JsonObject = {name: came[name] for name in _CAME if name in came}
    hidden["text"] = ""
    if came["what"] in ("error", "interrupt"):  # keep only the error's class, or triobot's reason
        hidden["text"] = str(came["text"]).partition(": ")[0]
    elif came["what"] in ("message", "press"):
        hidden["letters"] = len(_said(came))
    hidden |= _content(came)
    if isinstance(fields := came.get("fields"), dict):
        values = enumerate(fields.values(), start=1)
        hidden["fields"] = {str(n): outline(value) for n, value in values}
    return hidden


def _hidden_sent(sent: JsonObject) -> JsonObject:
    hidden: JsonObject = {name: sent[name] for name in _SENT if name in sent}
    if "text" in sent:
        hidden |= {"text": "", "letters": len(_said(sent))}
    hidden |= _content(sent)
    for name in _BUTTONS:
        if isinstance(shown := sent.get(name), list):
            hidden[name] = [_blank(one) for one in shown]
    return hidden


def _said(view: JsonObject) -> str:
    """Return the words of a text, a caption or a pressed button."""
    content = view.get("content")
    if isinstance(content, dict) and content["type"] != "text":
        return str(content.get("caption", ""))
    return str(view.get("label", view["text"]))


def _content(view: JsonObject) -> JsonObject:
    content = view.get("content")
    return {"content": {"type": content["type"]}} if isinstance(content, dict) else {}


def _blank(shown: JsonValue) -> JsonValue:
    """Return a button's or field's kind, and the length of its label; for a row, a list of these."""
    if isinstance(shown, list):
        return [_blank(one) for one in shown]
    one = cast("JsonObject", shown)
    kinds: JsonObject = {name: one[name] for name in ("kind", "type") if name in one}
    return {**kinds, "letters": len(str(one.get("text", one.get("label", ""))))}
