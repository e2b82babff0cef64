"""A platform that is written down and read again is the same to the bot and to people."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import examples
from tests.strategies import contents, events, forms, inline_keyboards, reply_keyboards
from triobot.emulator.acts import Acting
from triobot.emulator.chats import ChatMessage
from triobot.emulator.faults import HOUR
from triobot.emulator.follower import view_history
from triobot.emulator.performing import perform
from triobot.emulator.remembering import VERSION, UnreadableWorldError, dump_world, load_world
from triobot.emulator.views import view_bill, view_chat, view_user
from triobot.emulator.world import World
from triobot.seams.values import decode_value, encode_value
from triobot.wire.events import Event
from triobot.wire.forms import Form, Submit, TextField
from triobot.wire.ids import MessageId, SenderId
from triobot.wire.markup import CallbackButton, InlineKeyboard, Key, PayButton, ReplyKeyboard
from triobot.wire.operations import AnswerCallback, CreateInvoice, SendMessage, VerifyPayment

NOW = 1_800_000_000_000
PAY = PayButton("Pay", 700, "1234567890123456")  # type: ignore[arg-type]
ASK = Form((TextField("city", "City"), Submit("Go")))
BOTH = InlineKeyboard(((CallbackButton("Yes", "y"), PAY),))


def new_world() -> World:
    return World(chance=random.Random(1))


def again(
    world: World, pending: Sequence[Event] = (), *, closed: bool = True
) -> tuple[World, Sequence[Event]]:
    """The world of the next run."""
    other = new_world()
    return other, load_world(other, dump_world(world, pending, closed=closed))


def seen(world: World, now: int = NOW) -> list[Any]:
    """All that people see of it."""
    chats = [
        view_chat(world, chat, now, after=world.seq) | view_history(chat, None, 50) for chat in world.chats()
    ]
    return [
        [view_user(user) for user in world.people],
        [{**chat, "seq": 0} for chat in chats],
        [view_bill(bill, now) for bill in world.bills],
    ]


def test_everything_that_people_see_is_there_again() -> None:
    world = new_world()
    sara = world.add_user("سارا", irr=10_000, coin=3)
    team = world.add_group("team")
    for chat in (None, team.id):
        Acting(world, sara, NOW, chat).join()
    Acting(world, sara, NOW, team.id).say("سلام")
    keys = ReplyKeyboard(((Key("a", "A"),),), once=True)
    perform(world, SendMessage(sara.chat_id, "Which?", keys, BOTH, ASK), NOW)
    perform(world, CreateInvoice(sara.chat_id, 50, "Tea"), NOW)
    Acting(world, sara, NOW).submit({"city": "Rasht"})
    [asked] = [entry for entry in world.chat(sara.chat_id).in_sight() if entry.form]
    Acting(world, sara, NOW).pay(asked.id, PAY)
    Acting(world, sara, NOW).pay(asked.id, PAY, code=1004)

    other, pending = again(world)

    assert seen(other) == seen(world)
    assert [line["kind"] for line in seen(other)[1][0]["lines"]] == [
        "join",
        "form",
        "money",
        "payment_failed",
    ]
    assert pending == []
    # Whoever comes next takes nobody's number.
    assert [user.id for user in (world.add_user("B"), other.add_user("B"))] == [1002, 1002]
    assert other.next_message_id() == world.next_message_id()
    assert other.next_invoice_id() == world.next_invoice_id()


def test_what_was_under_way_goes_on() -> None:
    """A press is answered, money is captured or goes back, for a bot that asked in the run before."""
    world = new_world()
    sara = world.add_user("Sara", irr=1_400)
    Acting(world, sara, NOW).join()
    other_button = attrs.evolve(PAY, ref_id="2234567890123456")
    buttons = InlineKeyboard(((CallbackButton("Yes", "y"), PAY, other_button),))
    perform(world, SendMessage(sara.chat_id, "Which?", None, buttons), NOW)
    message = world.last_message
    [press] = Acting(world, sara, NOW).press(MessageId(message), CallbackButton("Yes", "y"))
    for button in (PAY, other_button):
        Acting(world, sara, NOW).pay(MessageId(message), button)

    other, _ = again(world)

    answer, _ = perform(other, AnswerCallback(sara.chat_id, press.callback_id, "Yes"), NOW)  # type: ignore[union-attr]
    assert answer is None
    state, _ = perform(other, VerifyPayment(sara.chat_id, PAY.ref_id), NOW + HOUR - 1)
    assert state == perform(world, VerifyPayment(sara.chat_id, PAY.ref_id), NOW + HOUR - 1)[0]
    other.catch_up(NOW + HOUR)
    assert next(iter(other.people)).wallet["IRR"] == 700


def test_numbers_after_a_crash_are_nobody_s() -> None:
    """What happened after the last writing was told to the bot, which remembers the numbers."""
    world = new_world()
    sara = world.add_user("Sara")
    Acting(world, sara, NOW).join()
    other, _ = again(world, closed=False)
    for _ in range(100):
        world.next_message_id()

    assert other.next_message_id() > world.last_message


@pytest.mark.slow
@given(
    contents(),
    st.none() | reply_keyboards(),
    st.none() | inline_keyboards(),
    st.none() | forms(),
    st.booleans(),
)
@settings(max_examples=examples(100))
def test_every_message_comes_back(content: Any, keys: Any, buttons: Any, form: Any, deleted: bool) -> None:
    world = new_world()
    sara = world.add_user("Sara")
    filled = ((SenderId(1), (("a", "b"),)),)
    entry = ChatMessage(MessageId(1), None, content, NOW, keys, buttons, form, NOW + 1, deleted, 2, filled)
    world.chat(sara.chat_id).put(entry)

    other, _ = again(world)

    assert list(other.chat(sara.chat_id).entries.values()) == [entry]


@given(st.lists(events(), max_size=3))
@settings(max_examples=examples(100))
def test_events_that_nobody_took_wait_again(pending: list[Event]) -> None:
    _, waiting = again(new_world(), pending)

    assert list(waiting) == pending


@pytest.mark.parametrize(
    "damage",
    [
        {"version": VERSION + 1},
        {"people": None},
        {"people": [(1,)]},
        {"chats": [()]},
        {"bills": [("odd",)]},
        {"files": None},
        {"messages": "1"},
    ],
)
def test_what_is_damaged_is_refused(damage: dict[str, Any]) -> None:
    text = dump_world(new_world(), (), closed=True)
    kept: Any = decode_value(text)
    with pytest.raises(UnreadableWorldError):
        load_world(new_world(), encode_value({**kept, **damage}))
    with pytest.raises(UnreadableWorldError):
        load_world(new_world(), text[: len(text) // 2])
