"""What nearly every turn records has a short form, by places; what has that of its parts is read, too."""

from __future__ import annotations

import enum

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triobot.conversations.codec import CODEC
from triobot.errors import UnreadableRecordError
from triobot.seams.values import node_of_value, register
from triobot.wire.events import Join, Message, Sender
from triobot.wire.ids import ChatId, MessageId, SenderId
from triobot.wire.results import Sent

NUMBERS = st.integers(-(10**18) + 1, 10**18 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(NUMBERS, TEXTS, NUMBERS, TEXTS, TEXTS, st.integers(-1, 10**12))
@example(5, "\0", 7, "", "é", 0)
@example(5, "x" * 20_000, 7, "", "", 0)
def test_a_text_that_was_taken(chat: int, text: str, sender: int, name: str, user: str, seq: int) -> None:
    event = Message(ChatId(chat), text, Sender(SenderId(sender), name, user))
    for as_what in (text, event):
        told = (event, seq, 1_700_000_000_000, (as_what,))
        assert CODEC.is_frozen(told)
        assert CODEC.value_of(CODEC.node_of(told)) == told
        assert CODEC.value_of(node_of_value(told)) == told


@given(NUMBERS | st.just("@group"), st.none() | st.integers(0, 10**18 - 1))
def test_what_a_send_returned(chat: int | str, message: int | None) -> None:
    sent = Sent(ChatId(chat), None if message is None else MessageId(message))  # type: ignore[arg-type]

    assert CODEC.is_frozen(sent)
    assert CODEC.value_of(CODEC.node_of(sent)) == sent
    assert CODEC.value_of(node_of_value(sent)) == sent


def test_a_question_and_its_answer_take_little_room() -> None:
    answer = (Message(ChatId(5), "a", Sender(SenderId(7), "Sara", "sara")), 41, 1_700_000_000_000, ("a",))

    parts = [5, "a", 7, "Sara", "sara", 41, 1_700_000_000_000]
    assert CODEC.node_of(answer) == {"said": parts}
    assert CODEC.node_of((*answer[:3], (answer[0],))) == {"heard": parts}
    assert CODEC.node_of(Sent(ChatId(5), MessageId(9))) == {"sent": [5, 9]}


@pytest.mark.parametrize(
    "node", [{"said": [5, "a"]}, {"sent": 5}, {"sent": [5, 9, 1]}, {"said": {}}, {"heard": [5]}]
)
def test_a_damaged_short_form_is_refused(node: object) -> None:
    with pytest.raises(UnreadableRecordError):
        CODEC.value_of(node)


TEXT = Message(ChatId(5), "a")
SAID = Message(ChatId(5), "a", Sender(SenderId(7), "Sara", "sara"))


class Letter(enum.StrEnum):
    A = "a"


def test_what_only_equals_the_text_comes_back_as_what_it_is() -> None:
    register(Letter, name="test_codec.Letter")
    told = (SAID, 1, 2, (Letter.A,))

    assert not CODEC.is_frozen(told)
    event, _, _, (letter,) = CODEC.value_of(CODEC.node_of(told))  # type: ignore[misc]
    assert (event, type(letter)) == (SAID, Letter)


@pytest.mark.parametrize(
    "told",
    [
        (TEXT, 1, 2, ("a",)),  # nobody is known to have sent it
        (TEXT, 1, 2, (["a"],)),
        (TEXT, 1, 2, None),
        (TEXT, 1, 2, ("b",)),
        (TEXT, 1, 2, (TEXT,)),
        (attrs.evolve(SAID, chat_id=ChatId(2**53 + 1)), 1, 2, ("a",)),
        (attrs.evolve(SAID, content="a" * 10_000), 1, 2, ("a" * 10_000,)),
        (attrs.evolve(SAID, sender=Sender(SenderId(-(2**53) - 1), "", "")), 1, 2, ("a",)),
        (SAID, 1.5, 2, ("a",)),
        (SAID, 1, 1.5, ("a",)),
        (SAID, 1, 2, ["a"]),
        (TEXT, 1, 2, ("a", "a")),
        (Join(ChatId(5)), 1, 2, ("a",)),
        (),
        ("a", 1, 2, ("a",)),
    ],
)
def test_whatever_else_has_the_node_of_its_parts(told: object) -> None:
    assert CODEC.node_of(told) == node_of_value(told)
    assert CODEC.value_of(CODEC.node_of(told)) == told


@pytest.mark.parametrize("told", [(TEXT, 1, 2, (["a"],)), (Join(ChatId(5)), 1, 2, ("a",)), ["a"], {}])
def test_what_can_be_changed_is_read_from_its_record(told: object) -> None:
    assert not CODEC.is_frozen(told)
