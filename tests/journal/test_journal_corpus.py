"""Journals that were written by earlier versions are read for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

import triobot.conversations.data.recorded  # noqa: F401  # names the wire's values for records
from triobot.errors import UnreadableRecordError
from triobot.journal.faults import recorded_error
from triobot.journal.records import (
    Continued,
    CutShort,
    DataPut,
    Done,
    Ended,
    Failed,
    Fired,
    Intended,
    Interrupted,
    Jumped,
    Noted,
    OperationId,
    Patched,
    Result,
    Resumed,
    Start,
    Unended,
    Value,
    decode_record,
    encode_record,
)
from triobot.values import decode_value, encode_value
from triobot.wire.events import Message
from triobot.wire.ids import ChatId

JOURNALS = Path(__file__).parents[1] / "corpus" / "journals"


def lines(name: str) -> list[str]:
    return (JOURNALS / name).read_text(encoding="ascii").splitlines()


def test_a_journal_of_format_1() -> None:
    """One of each record."""
    start, *turns = [decode_record(line) for line in lines("format1.jsonl")]

    assert isinstance(start, Start)
    assert (start.fn, start.version, start.seed) == ("shop.order", 2, "c0ffee")
    assert decode_value(start.args) == [7]
    assert decode_value(start.event) == Message(ChatId(5), "hello", None)
    assert {key: decode_value(text) for key, text in start.data.items()} == {"language": "fa"}
    failed, ended = turns[5], turns[-1]
    assert isinstance(failed, Done)
    assert isinstance(failed.outcome, Failed)
    assert isinstance(ended, Ended)
    assert ended.failure is not None
    assert repr(recorded_error(failed.outcome)) == "KeyError('k')"
    assert repr(recorded_error(Failed(ended.failure))) == "ExceptionGroup('', [ValueError('v')])"
    assert [*turns[:5], *turns[6:-1]] == [
        Patched(1700000000000, "new greeting"),
        Done(1700000000250, OperationId("1"), "send", "a1b2", Value(encode_value({"id": 12}))),
        Done(1700000003000, OperationId("3"), "receive", "", Value(encode_value(("text", 3, None))), 41),
        DataPut(1700000004000, "language", encode_value("en")),
        DataPut(1700000004000, "old", None),
        Done(1700000006000, OperationId("4/2.1"), "step", "ff00", CutShort()),
        Fired(1700000007000, OperationId("5")),
        Fired(1700000007000, OperationId("6"), OperationId("5"), 42, encode_value("back")),
        Interrupted(1700000008000, 43, "cancel"),
    ]


def test_what_is_beside_a_journal_of_format_1() -> None:
    """Intents and results."""
    assert [decode_record(line) for line in lines("format1-beside.jsonl")] == [
        Intended(OperationId("1"), "send", "a1b2"),
        Result(OperationId("1"), 1700000000200, Value(encode_value(1))),
    ]


def test_what_is_noted_of_the_world() -> None:
    """What was queued, and whether something may have happened twice."""
    assert [decode_record(line) for line in lines("format1-noted.jsonl")] == [
        Noted(1700000005000, OperationId("7"), "drain", encode_value([])),
        Noted(1700000006000, OperationId("8/1.2"), "in_doubt", encode_value(True)),
    ]


def test_a_journal_of_a_time_of_day_that_jumped() -> None:
    """Where it begins, and while it lasts."""
    assert [decode_record(line) for line in lines("format1-jumped.jsonl")] == [
        Jumped(1700000000000, 0, 7_200_000),
        Jumped(1699992800000, -7_200_000, 0),
    ]


def test_a_journal_of_a_turn_that_a_crash_tore() -> None:
    """What was taken was durable before the turn came to rest."""
    assert [decode_record(line) for line in lines("format1-torn.jsonl")] == [
        Unended(1700000000000),
        Resumed(1700000000000, {"language": encode_value("fa")}),
        Resumed(1700000000000),
    ]


def test_a_journal_that_goes_on_in_another() -> None:
    """Its last record says as what."""
    last = decode_record(lines("format1-continued.jsonl")[-1])

    assert last == Continued(2, "again", encode_value([1]))


@pytest.mark.parametrize("path", sorted(JOURNALS.glob("*.jsonl")), ids=lambda path: path.name)
def test_what_is_read_is_written_in_the_same_way(path: Path) -> None:
    """While the format is the newest; when it no longer is, this file's part of the test goes."""
    for line in lines(path.name):
        assert encode_record(decode_record(line)) == line


def test_another_format_is_refused_with_both_numbers() -> None:
    """Never guessed at."""
    with pytest.raises(UnreadableRecordError, match="format 2; this program reads 1"):
        decode_record(encode_value([2, Value("[1,null]")]))
    with pytest.raises(UnreadableRecordError):
        decode_record(encode_value([1, "no record"]))
