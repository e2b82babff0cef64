"""The pairs of a form: the same that the standard library finds, whatever the text."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import examples
from triobot.errors import RemoteProtocolError
from triobot.wire.decode import MOST_FIELDS, decode_event, read_pairs

TEXTS = st.lists(
    st.one_of(
        st.sampled_from(["&", "=", "+", "%", "%D8%B1", "%d8", "%ff", "%zz", "%2", "%00", "a", ";", " "]),
        st.characters(exclude_categories=()),
    ),
    max_size=40,
).map("".join)


@settings(max_examples=examples(200), deadline=None)
@given(TEXTS)
def test_the_same_pairs(text: str) -> None:
    assert read_pairs(text) == parse_qsl(text, keep_blank_values=True, errors="surrogateescape")


def test_too_many_are_refused() -> None:
    assert len(read_pairs("&".join(["a=1"] * MOST_FIELDS))) == MOST_FIELDS
    with pytest.raises(ValueError, match="too many"):
        read_pairs("&".join(["a=1"] * (MOST_FIELDS + 1)))


FORM = "application/x-www-form-urlencoded"
SENDER = "%7B%22id%22%3A7%2C%22name%22%3A%22a%22%2C%22user%22%3A%22b%22%7D"
USUAL = f"chat_id=5&type=text&data=hello+there&from={SENDER}"
PIECES = st.sampled_from(
    [
        "&",
        "=",
        "%3D",
        "%26",
        "%00",
        "%01",
        "\x01",
        "%0A",
        "\n",
        "%",
        "%2",
        "%g1",
        "%D8%B1",
        "ر",
        "\ufeff",
        "5",
    ]
)


def read(content_type: str, body: str) -> object:
    try:
        return decode_event(content_type, body.encode())
    except RemoteProtocolError as error:
        return str(error)


@settings(max_examples=examples(400), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(USUAL)), st.integers(0, 3), PIECES), max_size=3),
)
def test_the_short_way_of_a_text_reads_as_the_long_one(changes: list[tuple[int, int, str]]) -> None:
    body = USUAL
    for at, left_out, put_in in changes:
        body = body[:at] + put_in + body[at + left_out :]
    # The parameter leads past what reads usual texts.
    assert read(FORM, body) == read(FORM + "; charset=utf-8", body)


@pytest.mark.parametrize(
    "body",
    [
        USUAL.replace("type=text", "type%3Dtext"),
        USUAL.replace("chat_id=5", "chat_id%3D5"),
        USUAL.replace("chat_id=5", "chat_id%015"),
        USUAL.replace("hello", "he%01llo"),
        USUAL.replace("hello", "a=b"),
        USUAL.replace("hello", "%"),
        USUAL + "%",
        USUAL.replace("&", "%26", 1),
        USUAL.replace("&", "\0", 1),
        USUAL.replace("chat_id=5", "chat_id\x015"),
    ],
)
def test_an_odd_text_reads_as_on_the_long_way(body: str) -> None:
    assert read(FORM, body) == read(FORM + "; charset=utf-8", body)
