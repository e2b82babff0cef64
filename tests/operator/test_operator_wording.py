"""A journal's records as a person reads them."""

from __future__ import annotations

import attrs
import pytest

from triobot.journal.faults import record_error, record_value
from triobot.journal.records import (
    Continued,
    CutShort,
    DataPut,
    Done,
    Ended,
    Fired,
    Intended,
    Interrupted,
    Jumped,
    Noted,
    OperationId,
    Patched,
    Record,
    Result,
    Resumed,
    Start,
    Unended,
    encode_record,
)
from triobot.operator.wording import LONGEST, in_python, record_in_words, worded
from triobot.values import encode_value
from triobot.wire.events import Join, Message, Sender
from triobot.wire.ids import ChatId, SenderId

ONE = OperationId("1")
SARA = Sender(SenderId(7), "Sara", "sara")
CHAT = ChatId(5)
EVENT = encode_value({"event": Join(CHAT, SARA), "interrupted": None, "at": 3, "value": Join(CHAT, SARA)})
TAKEN = record_value((Message(CHAT, "سلام", SARA), 12, 3, ("سلام",)))


@attrs.frozen
class Cup:
    size: int
    with_milk: bool


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        (
            Start(3, "bot.tea", 1, "seed", "[1,[]]", EVENT),
            {"what": "Start", "at": 3, "name": "bot.tea", "value": "Join()"},
        ),
        (
            Done(4, ONE, "receive", "", TAKEN, 12),
            {"what": "Done", "at": 4, "id": "1", "kind": "receive", "event": 12, "value": "'سلام'"},
        ),
        (
            Done(4, ONE, "step", "f", record_value([Cup(2, with_milk=True), (1,)])),
            {
                "what": "Done",
                "at": 4,
                "id": "1",
                "kind": "step",
                "value": "[Cup(size=2, with_milk=True), (1,)]",
            },
        ),
        (Done(4, ONE, "step", "f", CutShort()), {"what": "Done", "at": 4, "id": "1", "kind": "step"}),
        (Interrupted(5, why="left"), {"what": "Interrupted", "at": 5, "why": "left"}),
        (Fired(5, ONE), {"what": "Fired", "at": 5, "id": "1"}),
        (Patched(5, "rename"), {"what": "Patched", "at": 5, "name": "rename"}),
        (
            Noted(5, ONE, "drain", encode_value([])),
            {"what": "Noted", "at": 5, "id": "1", "kind": "drain", "value": "[]"},
        ),
        (
            DataPut(5, "lang", encode_value("fa")),
            {"what": "DataPut", "at": 5, "name": "lang", "value": "'fa'"},
        ),
        (Jumped(5, -7_200_000, 0), {"what": "Jumped", "at": 5, "by": -7_200_000}),
        (Unended(5), {"what": "Unended", "at": 5}),
        (Resumed(5), {"what": "Resumed", "at": 5}),
        (Ended(6), {"what": "Ended", "at": 6}),
        (Continued(6, "bot.next", "[1,[]]"), {"what": "Continued", "at": 6, "name": "bot.next"}),
    ],
)
def test_each_record_is_told(record: Record, shown: dict[str, object]) -> None:
    assert record_in_words(encode_record(record)) == shown


def test_a_failure_is_told_as_one() -> None:
    shown = record_in_words(encode_record(Done(4, ONE, "step", "f", record_error(ValueError("no milk")))))

    assert shown["failed"] is True
    assert "no milk" in str(shown["value"])


def test_what_is_long_is_cut_and_what_is_no_record_is_told_as_such() -> None:
    long = record_in_words(encode_record(Done(4, ONE, "step", "f", record_value("x" * 10_000))))

    assert len(str(long["value"])) == LONGEST
    assert record_in_words("{") == {"what": "?"}
    assert in_python("nothing of ours") == "nothing of ours"


def test_lines_of_an_answer_are_told() -> None:
    """The row stays as it is; an effect is told by its result, or as one that is under way."""
    meant = encode_record(Intended(ONE, "send", "f"))
    known = encode_record(Result(ONE, 4, record_value(1)))
    effect = {"operation": "1", "intended_at": 3, "intent": meant, "resulted_at": None, "result": None}

    assert worded({"conversation": 3}) == {"conversation": 3}
    assert worded({"n": 2, "record": encode_record(Ended(6))}) == {"n": 2, "what": "Ended", "at": 6}
    assert worded(effect) == {"operation": "1", "intended_at": 3}
    assert worded({**effect, "result": known}) == {
        "operation": "1",
        "intended_at": 3,
        "what": "Result",
        "at": 4,
        "id": "1",
        "value": "1",
    }
