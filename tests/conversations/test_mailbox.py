"""The mailbox of a chat: what waits, how far the chat is in the inbox, what came too late. No task runs."""

from __future__ import annotations

import random
from functools import partial
from typing import cast

import pytest

from triobot.conversations.calls.signals import Call, Halt, Signal
from triobot.conversations.mailbox import MAILBOX, Mailbox
from triobot.conversations.routes.routing import Delivery
from triobot.wire.events import Event, Leave, Message, Sender
from triobot.wire.ids import ChatId, SenderId

CHAT = ChatId(5)
ALI, SARA = SenderId(71), SenderId(72)


def said(seq: int, *, sender: SenderId | None = ALI, at: int = 0) -> Delivery:
    return Delivery(seq, Message(CHAT, "hi", None if sender is None else Sender(sender)), at)


def signal(seq: int) -> Delivery:
    return Delivery(seq, cast("Event", Signal(CHAT, "now")))


def call(seq: int, name: str, key: str | None = None) -> Delivery:
    return Delivery(seq, cast("Event", Call(CHAT, name, key=key)))


def rows(mailbox: Mailbox) -> list[int]:
    return [delivery.seq for delivery in mailbox.waiting]


def _is_one_of(seqs: set[int], delivery: Delivery) -> bool:
    return delivery.seq in seqs


def filled(*deliveries: Delivery) -> Mailbox:
    mailbox = Mailbox(0, 0)
    for delivery in deliveries:
        mailbox.put(delivery)
    return mailbox


# --- what waits


@pytest.mark.parametrize("seed", range(20))
def test_what_waits_is_in_the_order_of_the_inbox_and_taken_out_once(seed: int) -> None:
    """Whatever the order in which events are given back and taken out."""
    chance = random.Random(seed)
    mailbox, there, taken = Mailbox(0, 0), set[int](), list[int]()
    for seq in chance.sample(range(1, 100), 60):
        mailbox.put(said(seq))
        there.add(seq)
        if chance.random() < 0.3:
            some = set(chance.sample(sorted(there), chance.randint(0, len(there))))
            out = [delivery.seq for delivery in mailbox.take_out(partial(_is_one_of, some))]
            assert out == sorted(some)
            there -= some
            taken += out
        assert rows(mailbox) == sorted(there)

    assert [delivery.seq for delivery in mailbox.take_out()] == sorted(there)
    assert not mailbox.waiting
    assert len({*taken, *there}) == len(taken) + len(there) == 60


def test_it_is_bounded_but_for_signals_and_what_is_beside() -> None:
    mailbox = filled(*map(said, range(1, MAILBOX)))
    assert mailbox.has_room(lambda one: False)
    assert not mailbox.is_full

    mailbox.put(said(MAILBOX))
    assert mailbox.is_full
    assert not mailbox.has_room(lambda one: False)
    assert mailbox.has_room(lambda one: one.seq == 3)

    mailbox.take_out(lambda one: one.seq == 5)
    mailbox.put(signal(99))
    assert mailbox.is_full
    assert mailbox.has_room(lambda one: False)


# --- in the inbox


def test_a_chat_that_has_caught_up_is_behind_no_more() -> None:
    mailbox = Mailbox(3, 3)
    mailbox.behind, mailbox.latest, mailbox.passed = True, 9, frozenset({5, 8})

    mailbox.caught_up(6)  # the dispatcher has come to more meanwhile
    assert (mailbox.cursor, mailbox.behind, mailbox.passed) == (6, True, frozenset({8}))

    mailbox.caught_up(9)
    assert (mailbox.cursor, mailbox.behind, mailbox.passed) == (9, False, frozenset())


def test_a_cursor_goes_no_step_back() -> None:
    mailbox = Mailbox(9, 9)

    mailbox.caught_up(4)

    assert (mailbox.cursor, mailbox.behind) == (9, False)


# --- what a turn that runs again is to find


def test_a_turn_finds_what_came_before_it_and_nothing_else() -> None:
    """What came before the conversation began was kept for somebody else; but signals are for any taker."""
    mailbox, mine = Mailbox(0, 0), object()
    leave = Delivery(14, Leave(CHAT))
    mailbox.shown = mine, [said(8), signal(9), said(11), said(12), said(13, at=51), leave, said(15, at=50)]
    mailbox.passed = frozenset({12})

    assert mailbox.unseen(object(), 10, 50) == ()
    assert [one.seq for one in mailbox.unseen(mine, 10, 50)] == [9, 11, 15]

    mailbox.found(said(11))
    assert [one.seq for one in mailbox.unseen(mine, 10, 51)] == [9, 13, 15]


def test_what_was_found_and_taken_is_not_routed_again() -> None:
    """What was found and waits still is routed by its turn, and waits in the mailbox no more."""
    mailbox, mine = filled(said(1)), object()
    mailbox.shown = mine, [said(2), said(3)]
    for delivery in mailbox.unseen(mine, 0, 50):
        mailbox.put(delivery)
        mailbox.found(delivery)
    mailbox.take_out(lambda one: one.seq == 2)

    mailbox.shows_no_more()

    assert mailbox.passed == {2}
    assert rows(mailbox) == [1]
    assert mailbox.shown is None
    mailbox.shows_no_more()
    assert mailbox.passed == {2}


# --- what came too late


def test_what_an_interrupt_went_ahead_of_is_too_late_for_its_owner() -> None:
    mailbox = Mailbox(0, 0)
    mailbox.ended(SARA, 10)
    mailbox.ended(SARA, 4)  # a later word about an earlier row takes nothing back

    assert mailbox.overtaken(said(9, sender=SARA), SARA)
    assert mailbox.overtaken(said(9, sender=SARA), None), (
        "her conversation is over, so whose it is has changed"
    )
    assert not mailbox.overtaken(said(10, sender=SARA), SARA)
    assert not mailbox.overtaken(said(9), None)
    assert not mailbox.overtaken(said(9), ALI)

    mailbox.ended(None, 7)
    assert mailbox.overtaken(said(6), None)
    assert mailbox.overtaken(said(6, sender=None), None)
    assert not mailbox.overtaken(said(6), ALI)


def test_a_leave_makes_all_before_it_useless_but_signals() -> None:
    mailbox = Mailbox(0, 0)
    assert not mailbox.overtaken(said(1), None)
    mailbox.left(10)
    mailbox.left(3)

    assert mailbox.overtaken(said(9), None)
    assert mailbox.overtaken(said(9, sender=SARA), SARA)
    assert not mailbox.overtaken(signal(9), None)
    assert not mailbox.overtaken(said(10), None)


def test_a_stop_ends_what_was_to_start_before_it() -> None:
    mailbox = Mailbox(0, 0)
    mailbox.halted(10, Halt(CHAT, "remind", "tea"))
    mailbox.halted(20, Halt(CHAT, "order"))

    assert mailbox.stopped(call(9, "remind", "tea"))
    assert not mailbox.stopped(call(9, "remind", "milk"))
    assert not mailbox.stopped(call(11, "remind", "tea"))
    assert mailbox.stopped(call(11, "order", "any"))
    assert not mailbox.stopped(said(9))


def test_mailboxes_share_nothing() -> None:
    one, other = Mailbox(0, 0), Mailbox(0, 0)
    one.put(said(1))
    one.ended(ALI, 9)
    one.halted(9, Halt(CHAT, "order"))
    one.left(5)

    assert not other.waiting
    assert not other.overtaken(said(1), ALI)
    assert not other.stopped(call(1, "order"))
