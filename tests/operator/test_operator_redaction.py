"""What a redacted journal still says, and what it no longer does."""

from __future__ import annotations

import enum
import json
import re

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import examples
from triobot.conversations.codec import CODEC
from triobot.engine import Record, encode_record
from triobot.engine import records as engine_records
from triobot.operator.outline import PLACES, outlined
from triobot.operator.views import redacted, redacted_text
from triobot.seams.values import encode_value, node_of_value

DONE = (
    '["D",1800,"0/1.3","receive","8f1c",'
    '{"tuple":[{"class":["shop.Order",{"street":"Valiasr 7","floor":12}]},41,1799,null]},41]'
)
START = (
    '["S",7,"pizza",[{"class":["triobot.Message",{"content":"I am Ali","sender":null}]},6,null],"s3cr3t",1]'
)


def test_the_order_of_things_stays_and_what_was_said_goes() -> None:
    text = redacted_text(DONE)

    for word in ("D", "1800", "0/1.3", "receive", "41", "shop.Order", "street", "floor"):
        assert word in text, word
    for word in ("Valiasr", "12", "8f1c"):
        assert word not in text, word
    json.loads(text)


def test_the_short_forms_keep_their_shape_only() -> None:
    said = '["D",1800,3,"receive","",{"said":[5123,"Valiasr 7",7123,"Ali","ali",41,1799]},41]'
    heard = said.replace("said", "heard")
    sent = '["D",1800,4,"send sendMessage","8f1c",{"sent":[5123,977]}]'

    assert '{"said":[0,"<9 characters>",0,"<3 characters>","<3 characters>",0,0]}' in redacted_text(said)
    assert '{"heard":[0,"<9 characters>",0,"<3 characters>","<3 characters>",0,0]}' in redacted_text(heard)
    assert '{"sent":[0,0]}' in redacted_text(sent)


def test_neither_seed_nor_event_nor_keys_of_data_stay() -> None:
    text = redacted_text(START) + redacted_text('["N",7,3,"name","[1,\\"Ali\\"]"]')

    for word in ("pizza", "Message", "content"):
        assert word in text, word
    for word in ("s3cr3t", "Ali", '"name"'):
        assert word not in text, word


def test_an_author_s_class_is_no_record_whatever_it_holds() -> None:
    """Some of a record's words stay; what an author keeps in the same places is what somebody said."""
    for inside in (["D", 41, "Ali", "ill since Monday"], {"class": ["journal.D", {"kind": "a divorce"}]}):
        text = redacted_text(encode_record(["O", 7, 3, "drain 1", inside]))

        assert "drain 1" in text
        for word in ("Ali", "ill", "divorce", "41"):
            assert word not in text, word
        assert outlined(json.dumps([1, inside])) == {"what": "?"}


def test_every_record_of_a_journal_is_known() -> None:
    names = {name for name, value in vars(engine_records).items() if name.isupper() and type(value) is str}
    assert {getattr(engine_records, name) for name in names} == set(PLACES)


def test_an_outline_names_what_happened() -> None:
    assert outlined(DONE) == {"what": "Done", "at": 1800, "kind": "receive", "id": "0/1.3"}
    assert outlined(START) == {"what": "Start", "at": 7, "fn": "pizza"}
    for text in ("rubbish", "[1,2]", '["X",2]', '{"class":["shop.Order",{"id":"x"}]}'):
        assert outlined(text) == {"what": "?"}


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


class Odd(Exception):
    """An author's own, which `raises=` names."""

    def __init__(self, said: str, about: object) -> None:
        super().__init__(said)
        self.about = about


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
            json.dumps(["V", 1, secret]),
            json.dumps(["Z", 1, ["ValueError", [secret, inner]]]),
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
nodes = values.map(node_of_value)
texts = values.map(encode_value)
errors = st.builds(ValueError, typed) | st.builds(Odd, typed, values)
failures = st.builds(lambda error: CODEC.node_of_error(error, (Odd,)), errors) | st.builds(
    lambda one, said: CODEC.node_of_error(ExceptionGroup(said, [one])), errors, typed
)
at = st.just(7) | st.just([7, -7_200_000, 0])
operation, kind, row = st.just("3/1.2") | st.just(3), st.just("receive"), st.just(41)
outcomes = st.tuples(st.just("D"), nodes) | st.tuples(st.just("E"), failures)
RECORDS: dict[str, st.SearchStrategy[Record]] = {
    tag: strategy.map(lambda parts, tag=tag: [tag, *parts])  # type: ignore[misc]
    for tag, strategy in {
        "S": st.tuples(at, st.just("pizza"), st.lists(nodes, max_size=5), typed, st.just(1)),
        "D": st.tuples(at, operation, kind, typed, nodes, row),
        "E": st.tuples(at, operation, kind, typed, failures),
        "C": st.tuples(at, operation, kind, typed),
        "F": st.tuples(at, operation, row, nodes),
        "I": st.tuples(at, row, st.none() | operation, st.just("interrupted")),
        "Z": st.tuples(at, st.none() | failures),
        "A": st.tuples(at, st.just("pizza"), st.lists(nodes, max_size=2)),
        "N": st.tuples(at, operation, typed, texts) | st.tuples(at, operation, typed),
        "P": st.tuples(at, operation, typed, st.just(1)),
        "R": st.tuples(at, operation, kind, typed, outcomes).map(lambda parts: (*parts[:4], *parts[4])),
        "Q": st.tuples(at, operation, kind, typed),
        "O": st.tuples(at, operation, st.just("drain 1"), nodes),
        "V": st.tuples(at, st.just("cheaper")),
    }.items()
}


def test_each_record_is_tried() -> None:
    assert set(RECORDS) == set(PLACES)


@pytest.mark.slow
@settings(max_examples=examples(400), deadline=None)
@given(st.one_of(*RECORDS.values()), st.integers(0, 1))
def test_nothing_that_a_person_typed_survives(record: Record, cut: int) -> None:
    """In no place of no record, whatever the text looks like, and not when the line is damaged either."""
    line = encode_record(record)
    told: dict[str, object] = {name: line[: len(line) - cut] for name in ("record", "intent", "result")}

    said = json.dumps([redacted(told), outlined(line[: len(line) - cut])])

    assert not re.findall("[QWXZ]{6}|OLIVES|[0-9]{10}", said)
    if not cut:
        shape = json.loads(redacted_text(line))
        assert (shape[0], len(shape)) == (record[0], len(record))


@settings(max_examples=examples(400), deadline=None)
@given(values, SECRETS)
def test_a_value_where_none_belongs_loses_all_of_it(value: object, secret: str) -> None:
    """A line that no version of this program wrote."""
    node = node_of_value(value)
    for line in (node, [1, node], ["X", 1, node], ["D", [node]], ["D", 7, *[[node]] * 6]):
        assert not re.findall("[QWXZ]{6}|[0-9]{10}", redacted_text(json.dumps(line)))
    for line in (
        ["D", 7, secret],
        ["E", 7, 3, "step", "", [secret]],
        ["Z", 7, {secret: 1}],
        ["V", 7, [node]],
    ):
        assert secret not in redacted_text(json.dumps(line))
