"""The pairs of a form: the same that the standard library finds, whatever the text."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triobot.wire.decode import MOST_FIELDS, read_pairs

TEXTS = st.lists(
    st.one_of(
        st.sampled_from(["&", "=", "+", "%", "%D8%B1", "%d8", "%ff", "%zz", "%2", "%00", "a", ";", " "]),
        st.characters(exclude_categories=()),
    ),
    max_size=40,
).map("".join)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_the_same_pairs(text: str) -> None:
    assert read_pairs(text) == parse_qsl(text, keep_blank_values=True, errors="surrogateescape")


def test_too_many_are_refused() -> None:
    assert len(read_pairs("&".join(["a=1"] * MOST_FIELDS))) == MOST_FIELDS
    with pytest.raises(ValueError, match="too many"):
        read_pairs("&".join(["a=1"] * (MOST_FIELDS + 1)))
