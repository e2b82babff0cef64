"""Strict JSON: what passes can be stored, encoded again and read by anybody."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from tests.samples import examples
from tests.strategies import json_values
from triobot.wire.json_text import DEEPEST, LONGEST_INTEGER, read_json, read_object
from triobot.wire.rules import JsonValue, compact_json


@given(json_values())
@settings(max_examples=examples(100))
def test_value_survives_its_text(value: JsonValue) -> None:
    """In text and in bytes, with escapes and without."""
    assert read_json(compact_json(value)) == value
    assert read_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "NaN",
        "[Infinity]",
        "-1e999",
        '"\\ud800"',
        '{"\\udfff":1}',
        '{"a":1,"a":1}',
        "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1),
        '{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1),
        "[" * 200_000,
        "9" * (LONGEST_INTEGER + 1),
        "9" * 5_000,
    ],
    ids=range(13),
)
def test_what_chokes_a_reader_is_refused(text: str) -> None:
    """Always as ValueError."""
    with pytest.raises(ValueError):
        read_json(text)


@pytest.mark.parametrize("body", [b"\xff", '{"a":1}'.encode("utf-16"), '{"a":1}'.encode("utf-32")])
def test_only_utf8_is_read(body: bytes) -> None:
    """No guessing of encodings: two readers would guess differently."""
    with pytest.raises(ValueError):
        read_json(body)


@pytest.mark.parametrize("text", ["[]", "1", "null", '"a"'])
def test_object_is_an_object(text: str) -> None:
    """Any other value is refused where an object is asked for."""
    with pytest.raises(ValueError):
        read_object(text)


def test_bounds_are_inside() -> None:
    """The deepest and the longest still pass."""
    read_json("[" * DEEPEST + "]" * DEEPEST)
    assert read_json("9" * LONGEST_INTEGER) == int("9" * LONGEST_INTEGER)
    assert read_json(b"\xef\xbb\xbf[]\n") == []
