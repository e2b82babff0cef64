"""Nothing of an event is lost where messages are handled by heart: not in its key, and not in a journal.

A field that a class gains is tried at once, with values of its type; no test has to name it.
"""

from __future__ import annotations

from typing import Any, Final, get_type_hints

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import examples
from tests.strategies import chat_ids, events, sender_ids, senders, texts
from triobot.conversations.codec import CODEC
from triobot.wire import decode
from triobot.wire.decode import decode_event
from triobot.wire.encode import event_key
from triobot.wire.events import Event, Join, Leave, Message, Sender
from triobot.wire.platform_side import encode_event

# Fields of which not every value of their type will do.
OF_A_NAME: Final[dict[tuple[type, str], st.SearchStrategy[Any]]] = {
    (Message, "content"): texts(),
    (Sender, "id"): sender_ids(),
    (Sender, "name"): texts(),
    (Sender, "username"): texts(),
}


def other(kind: type, field: str, than: object) -> st.SearchStrategy[Any]:
    """Values of a field that are not this one."""
    values: st.SearchStrategy[Any]
    if field in ("chat_id", "sender"):
        values = chat_ids() if field == "chat_id" else senders()
    elif (kind, field) in OF_A_NAME:
        values = OF_A_NAME[kind, field]
    else:
        values = st.from_type(get_type_hints(kind)[field])
    return values.filter(lambda value: value != than)


def fields_of(*kinds: type[Any]) -> list[tuple[type[Any], str]]:
    return [(kind, field.name) for kind in kinds for field in attrs.fields(kind)]


@pytest.mark.parametrize(("kind", "field"), fields_of(Message, Join, Leave, Sender))
@settings(max_examples=examples(20), deadline=None)
@given(st.data(), chat_ids(), texts(), senders())
def test_each_field_changes_the_key_and_is_in_the_journal(
    kind: type[Any], field: str, data: st.DataObject, chat_id: Any, text: str, sender: Sender
) -> None:
    """Two messages of one key are taken for one; what a journal forgets is gone at a restart."""
    rest = (text,) if kind is Message or kind is Sender else ()
    makes: Any = Message if kind is Sender else kind
    before = makes(chat_id, *rest, sender)
    changed = before.sender if kind is Sender else before
    changed = attrs.evolve(changed, **{field: data.draw(other(kind, field, getattr(changed, field)))})
    after: Any = attrs.evolve(before, sender=changed) if kind is Sender else changed

    assert before != after
    assert event_key(before, "", b"") != event_key(after, "", b"")
    for event in (before, after):
        taken = (event, 1, 2, (event,))  # a wait's record, which has a short form for a text
        assert CODEC.value_of(CODEC.node_of(taken)) == taken
        for as_json in (False, True):
            posted = encode_event(event, as_json=as_json)
            assert decode_event(posted.content_type, posted.data) == event


@settings(max_examples=examples(200), deadline=None)
@given(events())
def test_every_event_comes_back_from_a_journal_as_it_was(event: Event) -> None:
    read: Any = CODEC.value_of(CODEC.node_of(event))

    assert type(read) is type(event) and read == event
    assert event_key(read, "", b"") == event_key(event, "", b"")


def test_a_field_that_is_given_twice_is_as_good_as_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "BESIDE", ("one", "twice"))
    body = b"chat_id=1&type=text&data=hi&one=1&twice=1&twice=2"
    assert decode.open_envelope("application/x-www-form-urlencoded", body).beside == {"one": "1"}
