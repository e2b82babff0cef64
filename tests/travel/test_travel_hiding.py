"""What is left of a pass where what people wrote is hidden."""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from enum import Enum, IntEnum
from typing import Any

import attrs
import pytest

from tests.passing import SCHEMA
from tests.schema import wrong
from triobot.studio.travel.hiding import hidden_notch, outline

SAID = "Hannelore"


class Colour(Enum):
    RED = SAID


class Size(IntEnum):
    SMALL = 7


@attrs.frozen
class Order:
    name: str


class Loud:
    def __repr__(self) -> str:
        raise AssertionError("nothing of it is called")

    __len__ = __str__ = __bool__ = __repr__  # type: ignore[assignment]


class Names(list[str]):
    def __len__(self) -> int:
        raise AssertionError("nor of what it is made of")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "None"),
        (True, "bool"),
        (SAID, "text, 9 letters"),
        ("x", "text, 1 letter"),
        (SAID.encode(), "bytes, 9 bytes"),
        (9121234567, "number"),
        (1.5, "number"),
        ([SAID], "list, 1 value"),
        ({SAID: SAID, 1: 2}, "dict, 2 values"),
        (OrderedDict([(SAID, 1)]), "OrderedDict, 1 value"),
        (deque([1, 2, 3]), "deque, 3 values"),
        (Names([SAID]), "Names, 1 value"),
        (Colour.RED, "Colour"),
        (Size.SMALL, "Size"),
        (Order(SAID), "Order"),
        (ValueError(SAID), "ValueError"),
        (Loud(), "Loud"),
        (Loud, "class"),
        (outline, "function"),
        (json, "module"),
    ],
)
def test_a_variable_is_its_kind(value: object, told: str) -> None:
    assert outline(value) == told


def filled(schema: Any) -> Any:
    """A value of this schema with all that it may have, and what somebody wrote in each text."""
    schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if "anyOf" in schema:
        return filled(schema["anyOf"][0])
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    match kinds[0]:
        case "object":
            known = {name: filled(one) for name, one in schema.get("properties", {}).items()}
            more = schema.get("additionalProperties")
            return known | ({SAID: filled(more)} if isinstance(more, dict) else {})
        case "array":
            places = schema.get("prefixItems") or [schema["items"]]
            return [filled(one) for one in places]
        case "integer":
            return 9121234567
        case "boolean":
            return True
        case _:
            return SAID


@pytest.mark.parametrize("what", ["message", "press", "form", "payment", "signal", "call", "result", "error"])
def test_nothing_that_somebody_wrote_stays(what: str) -> None:
    """Whatever a notch may hold, by its schema: also what that gains one day."""
    came = {**filled({"$ref": "#/$defs/came"}), "what": what, "content": {"type": "image", "caption": SAID}}
    button = {"kind": "callback", "text": SAID, "data": SAID}
    sent = {**filled({"$ref": "#/$defs/sent"}), "id": "3", "kind": "send"}
    sent |= {"content": {"type": "text", "text": SAID}, "buttons": [[button]]}
    sent |= {"keyboard": [[{"label": SAID, "value": SAID}]]}
    sent |= {"form": [{"type": "select", "name": SAID, "label": SAID, "options": [{"label": SAID}]}]}
    came["text"] = f"KeyError: {SAID}" if what == "error" else SAID

    told = hidden_notch(
        {"n": 1, "t": 2, "r": 3, "id": "3", "k": "receive", "dot": "person", "in": came, "out": [sent]}
    )

    del told["in"]["block"]  # type: ignore[call-overload,index]
    assert SAID not in json.dumps(told)
    assert wrong(told, SCHEMA["$defs"]["notch"], SCHEMA) is None
    (out,) = told["out"]  # type: ignore[misc,union-attr]
    assert out["buttons"] == [[{"kind": "callback", "letters": 9}]]  # type: ignore[index,call-overload]
