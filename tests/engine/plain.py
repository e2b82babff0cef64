"""A codec that knows what JSON has, and nothing else."""

from __future__ import annotations

import math
from typing import Final, cast

from triobot.engine import Codec
from triobot.engine.records import Node
from triobot.errors import UnrecordableError

MOST: Final = 2**63
DEPTH: Final = 64


class PlainCodec(Codec):
    """Takes what JSON has."""

    def dump(self, value: object) -> Node:
        """Return the node of a value."""
        return dump(value, "value", 0)

    def load(self, node: Node) -> object:
        """Return a fresh value of what `dump` made."""
        return load(node)


def dump(value: object, path: str, depth: int) -> Node:
    kind = type(value)
    if kind is bool or value is None:
        return value
    if kind is str:
        try:
            cast("str", value).encode()
        except UnicodeEncodeError:
            raise UnrecordableError("str", path, "a text with half a surrogate pair has no code") from None
        return value
    if kind is int:
        if -MOST < cast("int", value) < MOST:
            return value
        raise UnrecordableError("int", path, "a whole number has at most 63 bits")
    if kind is float:
        if math.isfinite(cast("float", value)):
            return value
        raise UnrecordableError("float", path, "a float must be finite")
    if depth > DEPTH:
        raise UnrecordableError(kind.__name__, path, f"values nest at most {DEPTH} deep")
    if kind is list:
        items = cast("list[object]", value)
        return [dump(one, f"{path}[{place}]", depth + 1) for place, one in enumerate(items)]
    if kind is dict:
        entries = cast("dict[object, object]", value)
        for key in entries:
            if type(key) is not str:
                raise UnrecordableError(type(key).__name__, f"a key of {path}", "JSON has keys of text only")
        return {dump(key, path, depth): dump(one, f"{path}[...]", depth + 1) for key, one in entries.items()}
    rule = "JSON has no such type: record what it is made of, or give the run a codec that knows it"
    raise UnrecordableError(kind.__qualname__, path, rule)


def load(node: Node) -> object:
    if type(node) is list:
        return [load(one) for one in cast("list[object]", node)]
    if type(node) is dict:
        return {key: load(one) for key, one in cast("dict[str, object]", node).items()}
    return node


JSON: Final = PlainCodec()
