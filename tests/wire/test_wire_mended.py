"""Half a character in what somebody said costs that character, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final
from urllib.parse import quote_from_bytes

import attrs
import pytest

from triobot.wire.content import Contact, Descriptor, File, Image, Location
from triobot.wire.decode import decode_event
from triobot.wire.encode import event_key
from triobot.wire.events import Event, Message, PayCallback, Press, Sender, Submission, UnknownEvent

MARK: Final = "MARK"
HALVES: Final = {
    "first-half": rb"\ud83d",
    "second-half": rb"\ude00",
    "three-bytes": b"\xed\xa0\xbd",
    "cut": b"\xf0\x9f",
    "latin": b"\xe9",
}
ESCAPED: Final = {"first-half", "second-half"}

FIELDS: Final[dict[str, tuple[str, object, Callable[[str], Event]]]] = {
    "text": ("text", f"Sara {MARK}!", lambda said: Message(1, f"Sara {said}!")),
    "caption": (
        "image",
        {"path": "p", "desc": f"a {MARK}"},
        lambda said: Message(1, Image(Descriptor('{"path":"p"}'), f"a {said}")),
    ),
    "file-name": (
        "file",
        {"path": "p", "filename": f"{MARK}.pdf"},
        lambda said: Message(1, File(Descriptor(f'{{"path":"p","filename":"{said}.pdf"}}'))),
    ),
    "contact": (
        "contact",
        {"phone": "98912", "name": f"Ali {MARK}"},
        lambda said: Message(1, Contact("98912", f"Ali {said}")),
    ),
    "location": (
        "location",
        {"lat": "1", "long": "2", "desc": f"home {MARK}"},
        lambda said: Message(1, Location("1", "2", f"home {said}")),
    ),
    "press": (
        "triggerButton",
        {"data": f"b.s{MARK}", "message_id": 7, "callback_id": "c"},
        lambda said: Press(1, f"b.s{said}", 7, "c"),
    ),
    "form": (
        "submitForm",
        {"data": {"name": f"Ali {MARK}", "age": "7"}, "message_id": 7},
        lambda said: Submission(1, (("name", f"Ali {said}"), ("age", "7")), 7),
    ),
    "form-in-text": (
        "submitForm",
        {"data": json.dumps({"name": MARK}), "message_id": 7},
        lambda said: Submission(1, (("name", said),), 7),
    ),
    "payment": (
        "payCallback",
        {"ref_id": "12", "status": f"error {MARK}", "charge_url": f"https://x/{MARK}"},
        lambda said: PayCallback(1, "12", None, f"error {said}", None, f"https://x/{said}"),
    ),
}


def as_json(kind: str, data: object, half: bytes) -> tuple[str, bytes]:
    body = json.dumps({"chat_id": 1, "type": kind, "data": data}).encode()
    return "application/json", body.replace(MARK.encode(), half)


def as_json_in_json(kind: str, data: object, half: bytes) -> tuple[str, bytes]:
    text = data if isinstance(data, str) else json.dumps(data)
    body = json.dumps({"chat_id": 1, "type": kind, "data": text}).encode()
    return "application/json", body.replace(MARK.encode(), half)


def told(kind: str, data: object, half: bytes) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return text.encode().replace(MARK.encode(), half)


def as_form(kind: str, data: object, half: bytes) -> tuple[str, bytes]:
    body = f"chat_id=1&type={kind}&data={quote_from_bytes(told(kind, data, half))}".encode()
    return "application/x-www-form-urlencoded", body


def as_bare_form(kind: str, data: object, half: bytes) -> tuple[str, bytes]:
    return "", f"chat_id=1&type={kind}&data=".encode() + told(kind, data, half)


def as_parts(kind: str, data: object, half: bytes) -> tuple[str, bytes]:
    parts = {"chat_id": b"1", "type": kind.encode(), "data": told(kind, data, half)}
    body = b"".join(
        b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value)
        for name, value in parts.items()
    )
    return "multipart/form-data; boundary=x", body + b"--x--\r\n"


@pytest.mark.parametrize("write", [as_json, as_json_in_json, as_form, as_bare_form, as_parts])
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("field", FIELDS)
def test_half_a_character_costs_that_character_alone(
    field: str, half: str, write: Callable[[str, object, bytes], tuple[str, bytes]]
) -> None:
    kind, data, expected = FIELDS[field]
    if half in ESCAPED and kind == "text" and write not in (as_json, as_json_in_json):
        return  # a text in a form is no JSON: it has no escapes
    content_type, body = write(kind, data, HALVES[half])

    event = decode_event(content_type, body)

    assert event == expected("\ufffd")
    repr(event).encode()
    assert event_key(event, content_type, body) == event_key(event, content_type, body)


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES)
def test_halves_that_belong_together_stay_one_character(half: bytes) -> None:
    """A whole emoji is told as ever beside a broken one."""
    content_type, body = as_json("text", f"\U0001f600 {MARK}", half)
    event = decode_event(content_type, body)

    assert isinstance(event, Message)
    assert str(event.content).startswith("\U0001f600 \ufffd")


def test_a_backslash_that_somebody_typed_stays() -> None:
    r"""``\ud83d`` may be just these six characters."""
    content_type, body = as_json_in_json("contact", {"phone": "+98912", "name": r"\ud83d"}, b"")

    assert decode_event(content_type, body) == Message(1, Contact("+98912", r"\ud83d"))


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("image", {"path": MARK}),
        ("contact", {"phone": f"+98912{MARK}", "name": "x"}),
        ("location", {"lat": f"1{MARK}", "long": "2"}),
        ("triggerButton", {"data": "x", "message_id": 7, "callback_id": f"c{MARK}"}),
        ("triggerButton", {"data": "x", "message_id": f"7{MARK}", "callback_id": "c"}),
        ("invoiceCallback", {"invoiceId": f"7{MARK}"}),
        ("payCallback", {"ref_id": f"12{MARK}"}),
    ],
)
@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES)
def test_a_broken_identifier_names_nothing(kind: str, data: object, half: bytes) -> None:
    """With a sign in it, it would be that of something else."""
    assert isinstance(decode_event(*as_form(kind, data, half)), UnknownEvent)


@pytest.mark.parametrize("name", ["chat_id", "type"])
def test_the_same_name_twice_is_no_less_strange_beside_something_broken(name: str) -> None:
    data = f'{{"phone":"+98912","phone":"+98913","name":"\\ud83d","{name}":1}}'
    assert isinstance(decode_event("", f"chat_id=1&type=contact&data={data}".encode()), UnknownEvent)


@pytest.mark.parametrize("depth", [20, 40, 900, 100_000])
def test_depth_is_as_bounded_beside_something_broken(depth: int) -> None:
    data = '{"phone":"98912","name":"\\ud83d","x":' + "[" * depth + "]" * depth + "}"
    event = decode_event("", f"chat_id=1&type=contact&data={data}".encode())

    assert isinstance(event, Message if depth < 32 else UnknownEvent)


def test_what_was_broken_tells_two_events_apart() -> None:
    """Their values are equal; a redelivery of one of them has its bytes."""
    sender = b'&from={"id":3}'
    one, other = b"chat_id=1&type=text&data=%ff" + sender, b"chat_id=1&type=text&data=%fe" + sender
    first, second = decode_event("", one), decode_event("", other)

    assert first == second == Message(1, "\ufffd", Sender(3))
    assert event_key(first, "", one) != event_key(second, "", other)
    assert event_key(first, "", one) == event_key(attrs.evolve(first), "", one)
