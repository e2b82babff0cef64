"""What a redacted journal still says, and what it no longer does."""

from __future__ import annotations

import enum
import json
import re
from typing import get_args

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from triobot.journal import records
from triobot.journal.records import OperationId, encode_record
from triobot.operator import redaction
from triobot.operator.redaction import redacted, redacted_text, summary
from triobot.values import encode_value

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
    entry = json.dumps([1, {"class": ["journal.Entry", words]}])
    text = redacted_text(encode_record(records.Noted(7, OperationId("3"), "now", entry)))

    assert "journal.Entry" in text
    for word in ("Ali", "ill", "divorce", "41"):
        assert word not in text, word
    assert summary(json.dumps([1, [1, json.loads(entry)[1]]])) == "?"


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


@attrs.frozen
class Order:
    street: object


class Topping(enum.Enum):
    OLIVES = "olives"


SECRETS = st.text(alphabet="QWXZ", min_size=6, max_size=9)


def looks(secret: str) -> st.SearchStrategy[str]:
    """What a person may type: the same words, in texts that look like a journal's own."""
    inner = json.dumps([1, secret])
    return st.sampled_from(
        (
            secret,
            json.dumps({secret: [secret]}),
            json.dumps({"class": [secret, {secret: secret}]}),
            json.dumps([1, {"enum": [secret, secret]}]),
            json.dumps([1, {"class": ["journal.Patched", {"time": 1, "patch": secret}]}]),
            json.dumps([1, [1, {"class": ["journal.Ended", {"time": 1, "why": secret, "failure": inner}]}]]),
            json.dumps([1, {"dict": [[secret], [secret]]}])[:-1],
            f"[{secret}",
        )
    )


typed = SECRETS.flatmap(looks)
values = st.recursive(
    typed | st.integers(10**9, 10**12) | st.sampled_from(Topping),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, typed)
        | st.dictionaries(typed, inner, max_size=2)
        | st.builds(Order, inner)
    ),
    max_leaves=8,
)
texts = values.map(encode_value)
data = st.dictionaries(typed, texts, max_size=2)
at, operation, kind = st.just(7), st.just(OperationId("3")), st.just("receive")
outcomes = st.builds(records.Value, texts) | st.builds(records.Failed, texts) | st.just(records.CutShort())
RECORDS: dict[type, st.SearchStrategy[records.Record | records.Row]] = {
    records.Start: st.builds(
        records.Start, at, st.just("pizza"), st.just(1), typed, args=texts, event=texts, data=data
    ),
    records.Done: st.builds(records.Done, at, operation, kind, typed, outcomes, st.just(41)),
    records.Fired: st.builds(records.Fired, at, operation, value=texts),
    records.Interrupted: st.builds(records.Interrupted, at),
    records.Patched: st.builds(records.Patched, at, st.just("cheaper")),
    records.Noted: st.builds(records.Noted, at, operation, kind, texts),
    records.DataPut: st.builds(records.DataPut, at, typed, texts),
    records.Jumped: st.builds(records.Jumped, at, st.just(5), st.just(6)),
    records.Unended: st.builds(records.Unended, at),
    records.Resumed: st.builds(records.Resumed, at, data),
    records.Ended: st.builds(records.Ended, at, texts),
    records.Continued: st.builds(records.Continued, at, st.just("pizza"), texts),
    records.Result: st.builds(records.Result, operation, at, outcomes),
    records.Intended: st.builds(records.Intended, operation, kind, typed),
}


def test_each_record_is_tried() -> None:
    assert set(RECORDS) == {*get_args(records.Record), *get_args(records.Row)}


@settings(max_examples=400, deadline=None)
@given(st.one_of(*RECORDS.values()), st.integers(0, 1))
def test_nothing_that_a_person_typed_survives(record: records.Record | records.Row, cut: int) -> None:
    """In no field of no record, whatever the text looks like, and not when the line is damaged either."""
    line = encode_record(record)
    told: dict[str, object] = {
        name: line[: len(line) - cut] for name in ("record", "last_record", "intent", "result")
    }

    said = json.dumps(redacted(told))

    assert not re.findall("[QWXZ]{6}|OLIVES|[0-9]{10}", said)
    if not cut:
        assert f"journal.{type(record).__name__}" in said


@settings(max_examples=400, deadline=None)
@given(values, SECRETS)
def test_a_value_where_none_belongs_loses_all_of_it(value: object, secret: str) -> None:
    """A line that no version of this program wrote."""
    node = json.loads(encode_value(value))[1]
    for line in (node, [1, node], [1, [1, node]], [1, [1, {"class": ["journal.Done", {"id": [node]}]}]]):
        assert not re.findall("[QWXZ]{6}|[0-9]{10}", redacted_text(json.dumps(line)))
    whole = {"class": ["journal.Done", {"outcome": {"class": [secret, {}]}, "data": {secret: 1}}]}
    assert secret not in redacted_text(json.dumps([1, [1, whole]]))
