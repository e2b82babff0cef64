"""What a redacted journal still says, and what it no longer does."""

from __future__ import annotations

import json

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from triobot.journal import records
from triobot.operator import redaction
from triobot.operator.redaction import redacted, redacted_text, summary

DONE = (
    '[1,[1,{"class":["journal.Done",{"time":1800,"id":"0/1.3","kind":"receive","fingerprint":"8f1c",'
    '"outcome":{"class":["journal.Value",{"text":"[1,{\\"class\\":[\\"shop.Order\\",'
    '{\\"street\\":\\"Valiasr 7\\",\\"floor\\":12}]}]"}]},"event":41}]}]]'
)
START = (
    '[1,[1,{"class":["journal.Start",{"time":7,"fn":"pizza","version":2,"seed":"s3cr3t",'
    '"event":"[1,\\"I am Ali\\"]","data":{"dict":[["name"],["[1,\\"Ali\\"]"]]}}]}]]'
)


def test_the_order_of_things_stays_and_what_was_said_goes() -> None:
    text = redacted_text(DONE)

    for word in ("Done", "1800", "0/1.3", "receive", "41", "journal.Value", "shop.Order", "street", "floor"):
        assert word in text, word
    for word in ("Valiasr", "12", "8f1c"):
        assert word not in text, word
    json.loads(text)


def test_neither_seed_nor_event_nor_keys_of_data_stay() -> None:
    text = redacted_text(START)

    assert "pizza" in text
    for word in ("s3cr3t", "Ali", '"name"'):
        assert word not in text, word


def test_an_author_s_class_is_no_record_whatever_its_module_is_called() -> None:
    """Some of a record's words stay; an author's `kind` or `why` is what somebody said."""
    words = {"id": "Ali", "kind": "ill since Monday", "why": "a divorce", "time": 41}
    text = redacted_text(json.dumps([1, {"class": ["journal.Entry", words]}]))

    assert "journal.Entry" in text
    for word in ("Ali", "ill", "divorce", "41"):
        assert word not in text, word
    assert summary(json.dumps([1, {"class": ["journal.Entry", words]}])) == "?"


def test_every_record_of_a_journal_is_known() -> None:
    names = [name for name in vars(records).values() if getattr(name, "__module__", "") == records.__name__]
    known = {f"journal.{cls.__name__}" for cls in names if isinstance(cls, type) and attrs.has(cls)}
    assert known == redaction._RECORDS


def test_a_summary_names_what_happened() -> None:
    assert summary(DONE) == "Done receive 0/1.3"
    assert summary(START) == "Start pizza"
    assert summary("rubbish") == summary("[1,2]") == summary('{"class":["shop.Order",{"id":"x"}]}') == "?"


def test_a_row_loses_whose_it_is() -> None:
    row = redacted({"conversation": 5, "chat_id": 1234, "sender_id": 77, "key": "order-9", "route": "pizza"})
    assert row == {
        "conversation": 5,
        "chat_id": 0,
        "sender_id": 0,
        "key": "<7 characters>",
        "route": "pizza",
    }


words = st.text(alphabet="qwxz", min_size=6, max_size=9)
values = st.recursive(
    words | st.integers(10**9, 10**12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=2).map(lambda items: {"tuple": items})
        | st.tuples(words, inner).map(lambda pair: {"dict": [[pair[0]], [pair[1]]]})
    ),
    max_leaves=8,
)


def leaves(node: object) -> list[str]:
    match node:
        case dict():
            return [leaf for part in node.values() for leaf in leaves(part)]
        case list():
            return [leaf for part in node for leaf in leaves(part)]
        case _:
            return [str(node)]


@settings(max_examples=150, deadline=None)
@given(values, st.integers(0, 3))
def test_no_content_survives_however_deep(value: object, wrapped: int) -> None:
    """In values within values, and in text that isn't JSON at all."""
    text = json.dumps([1, value])
    for _ in range(wrapped):
        text = json.dumps([1, {"class": ["journal.Value", {"text": text}]}])
    for given_text in (text, text[:-1]):
        said = redacted_text(given_text)
        assert not [leaf for leaf in leaves(value) if leaf in said]
