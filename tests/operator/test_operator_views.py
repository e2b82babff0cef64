"""A journal's records as a person reads them."""

from __future__ import annotations

import attrs
import pytest

from triobot.conversations.codec import CODEC
from triobot.engine import Record, encode_record
from triobot.operator.views import LONGEST, in_python, record_in_words, worded
from triobot.seams.values import encode_value, node_of_value
from triobot.wire.events import Join, Message, Sender
from triobot.wire.ids import ChatId, SenderId

SARA = Sender(SenderId(7), "Sara", "sara")
CHAT = ChatId(5)
JOIN = CODEC.node_of(Join(CHAT, SARA))
TAKEN = CODEC.node_of((Message(CHAT, "سلام", SARA), 12, 3, ("سلام",)))
IN_PARTS = node_of_value((Message(CHAT, "سلام", SARA), 12, 3, ("سلام",)))
NOT_TAKEN = CODEC.node_of((Message(CHAT, "سلام", SARA), 12, 3, None))
NO_MILK = CODEC.node_of_error(ValueError("no milk"))


@attrs.frozen
class Cup:
    size: int
    with_milk: bool


CUPS = CODEC.node_of([Cup(2, with_milk=True), (1,)])
RECEIVED = {"what": "Done", "at": 4, "id": "1", "kind": "receive", "event": 12}
SENT = {"sent": [5, 7]}
STEPPED = {"id": "1", "kind": "step"}


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        (
            ["S", 3, "bot.tea", [JOIN, 3, None], "seed", 1],
            {"what": "Start", "at": 3, "name": "bot.tea", "value": "Join()"},
        ),
        (
            ["S", 3, "bot.tea", [JOIN, 3, None, "fa", []], "seed", 1],
            {"what": "Start", "at": 3, "name": "bot.tea", "value": "'fa'"},
        ),
        (["S", 3, "bot.tea", [], "seed", 1], {"what": "Start", "at": 3, "name": "bot.tea"}),
        (["D", 4, 1, "receive", "", TAKEN, 12], {**RECEIVED, "value": "'سلام'"}),
        (["D", 4, 1, "receive", "", IN_PARTS, 12], {**RECEIVED, "value": "'سلام'"}),
        (
            ["R", 5, 1, "step", "f", "D", SENT],
            {"what": "Result", "at": 5, **STEPPED, "value": "Sent(id=7)"},
        ),
        (["D", 4, 1, "receive", "", NOT_TAKEN, 12], {**RECEIVED, "value": "None"}),
        (
            ["D", 4, "3/1.2", "step", "f", CUPS],
            {
                "what": "Done",
                "at": 4,
                "id": "3/1.2",
                "kind": "step",
                "value": "[Cup(size=2, with_milk=True), (1,)]",
            },
        ),
        (["C", 4, 1, "step", "f"], {"what": "CutShort", "at": 4, **STEPPED}),
        (["I", 5, 12, None, "left"], {"what": "Interrupted", "at": 5, "event": 12, "why": "left"}),
        (["F", 5, 1, None, None], {"what": "Fired", "at": 5, "id": "1"}),
        (["F", 5, 1, 12, TAKEN], {"what": "Fired", "at": 5, "id": "1", "event": 12, "value": "'سلام'"}),
        (["F", [5, -7_200_000, 0], 1, None, None], {"what": "Fired", "at": 5, "id": "1"}),
        (["V", 5, "rename"], {"what": "Patched", "at": 5, "name": "rename"}),
        (["O", 5, 1, "drain 1", []], {"what": "Noted", "at": 5, "name": "drain 1", "value": "[]"}),
        (["N", 5, 1, "lang", encode_value("fa")], {"what": "Read", "at": 5, "name": "lang", "value": "'fa'"}),
        (["N", 5, 1, "lang"], {"what": "Read", "at": 5, "name": "lang"}),
        (["P", 5, 1, "lang", 1], {"what": "Wrote", "at": 5, "name": "lang"}),
        (["R", 5, 1, "step", "f", "D", True], {"what": "Result", "at": 5, **STEPPED, "value": "True"}),
        (["Q", 5, 1, "step", "f"], {"what": "Intended", "at": 5, **STEPPED}),
        (["Z", 6, None], {"what": "Ended", "at": 6}),
        (["A", 6, "bot.next", []], {"what": "Continued", "at": 6, "name": "bot.next"}),
    ],
)
def test_each_record_is_told(record: Record, shown: dict[str, object]) -> None:
    assert record_in_words(encode_record(record)) == shown


@pytest.mark.parametrize(
    ("record", "value"),
    [
        (["E", 4, 1, "step", "f", NO_MILK], "ValueError('no milk')"),
        (["R", 4, 1, "step", "f", "E", NO_MILK], "ValueError('no milk')"),
        (["Z", 4, ["raised", "shop.Empty", ["milk"], {}]], "Empty('milk')"),
        (["Z", 4, ["group", "both", [NO_MILK]]], "ExceptionGroup('both', [ValueError('no milk')])"),
    ],
)
def test_a_failure_is_told_as_one(record: Record, value: str) -> None:
    shown = record_in_words(encode_record(record))

    assert (shown["failed"], shown["value"]) == (True, value)


def test_what_is_long_is_cut_and_what_is_no_record_is_told_as_such() -> None:
    long = record_in_words(encode_record(["D", 4, 1, "step", "f", "x" * 10_000]))

    assert len(str(long["value"])) == LONGEST
    assert record_in_words("{") == {"what": "?"}
    assert in_python("nothing of ours") == "nothing of ours"


def test_lines_of_an_answer_are_told() -> None:
    """The row stays as it is; an effect is told by its result, or as one that is under way."""
    meant = encode_record(["Q", 3, 1, "send", "f"])
    known = encode_record(["R", 4, 1, "send", "f", "D", 1])
    effect = {"operation": "1", "intended_at": 3, "intent": meant, "resulted_at": None, "result": None}

    assert worded({"conversation": 3}) == {"conversation": 3}
    assert worded({"n": 2, "record": encode_record(["Z", 6, None])}) == {"n": 2, "what": "Ended", "at": 6}
    assert worded(effect) == {"operation": "1", "intended_at": 3}
    assert worded({**effect, "result": known}) == {
        "operation": "1",
        "intended_at": 3,
        "what": "Result",
        "at": 4,
        "id": "1",
        "kind": "send",
        "value": "1",
    }
