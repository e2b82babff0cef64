"""When two deliveries are the same event, and when they only look alike."""

from __future__ import annotations

import re

import pytest

from triobot.wire.decode import decode_event
from triobot.wire.encode import event_key
from triobot.wire.events import Event, InvoiceCallback, Message, PayCallback, Press, Sender, Submission


def key(event: Event, body: bytes = b"") -> tuple[str | None, bool]:
    return event_key(event, "", body)


def test_press_is_known_by_its_callback() -> None:
    """A press is the same whatever else changed on its way, and no other chat's."""
    first = key(Press(1, "a", 2, "c", Sender(3, "old name")))

    assert first == key(Press(1, "a", 2, "c", Sender(3, "new name")))
    assert first[1]
    assert first != key(Press(2, "a", 2, "c"))
    assert first != key(Press(1, "a", 2, "d"))
    assert first != key(Submission(1, (), 2, "c"))


def test_submission_without_callback_is_known_by_its_content() -> None:
    """Older app versions give a form no id: then it may well be filled twice alike."""
    once = key(Submission(1, (("a", "1"),), 2, "c"))
    content = key(Submission(1, (("a", "1"),), 2))

    assert once[1]
    assert not content[1]
    assert content != key(Submission(1, (("a", "2"),), 2))


def test_a_key_says_the_chat_and_is_short() -> None:
    """It is most of what a store keeps of a delivery."""
    for event in (Message(-7, "hi", Sender(3, "Sara")), Message(-7, "hi")):
        assert re.fullmatch("event:-7:[0-9a-f]{32}", str(key(event)[0]))
    unread = decode_event("", b"chat_id=-7&type=triggerButton&data=x")
    keys = [
        event_key(unread, kind, b"chat_id=-7&type=triggerButton&data=x")[0] for kind in ("", "text/plain")
    ]
    assert all(re.fullmatch("bytes:-7:[0-9a-f]{32}", str(one)) for one in keys)
    assert len(set(keys)) == 2


@pytest.mark.parametrize("event", [InvoiceCallback(1, "7"), PayCallback(1, "7", code=1000)])
def test_payment_callback_has_no_key(event: Event) -> None:
    """The first may tell of a failure and the second of the payment, in the same bytes."""
    assert key(event) == (None, False)


@pytest.mark.parametrize("kind", ["payCallback", "paycallback", "invoiceCallback", "INVOICECALLBACK"])
def test_unreadable_payment_callback_has_no_key_either(kind: str) -> None:
    """It is a hint of something still."""
    body = f"chat_id=1&type={kind}&data=x".encode()

    assert event_key(decode_event("", body), "", body) == (None, False)


def test_text_is_known_by_chat_words_and_sender() -> None:
    """Equal words are a redelivery only if everything is equal."""
    said = key(Message(1, "yes", Sender(3)))

    assert said == key(Message(1, "yes", Sender(3)), b"other bytes")
    assert not said[1]
    assert (
        len(
            {
                said,
                key(Message(2, "yes", Sender(3))),
                key(Message(1, "no", Sender(3))),
                key(Message(1, "yes")),
            }
        )
        == 4
    )


def test_key_tells_nothing_of_the_words() -> None:
    """Keys are stored and logged; words are not."""
    assert "secret" not in str(key(Message(1, "secret")))


def test_unreadable_event_is_known_by_its_bytes() -> None:
    """What was replaced to make it storable must not make two events one."""
    first, second = b"chat_id=1&type=text&data=%ff", b"chat_id=1&type=text&data=%fe"
    one, other = decode_event("", first), decode_event("", second)

    assert one == other
    assert key(one, first) != key(other, second)
    assert key(one, first) == key(one, first)
