"""A value that exists has passed its checks: every class refuses each bad field by its name."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import examples
from tests.strategies import events, exchanges, form_operations, uploads
from triobot.errors import LocalProtocolError
from triobot.wire import content, forms, markup, operations, results, undocumented
from triobot.wire import events as event_values
from triobot.wire.content import (
    Audio,
    Blob,
    Contact,
    Descriptor,
    File,
    Image,
    LocalFile,
    Location,
    Video,
    Voice,
)
from triobot.wire.encode import encode_form, encode_operation
from triobot.wire.events import (
    Event,
    InvoiceCallback,
    Join,
    Leave,
    Message,
    PayCallback,
    Press,
    Sender,
    Submission,
    UnknownEvent,
)
from triobot.wire.forms import Checkbox, Form, Inbuilt, Radio, Select, Submit, TextArea, TextField
from triobot.wire.markup import CallbackButton, InlineKeyboard, Key, LinkButton, PayButton, ReplyKeyboard
from triobot.wire.operations import (
    AnswerCallback,
    CreateInvoice,
    DeleteMessage,
    EditMessage,
    InquireInvoice,
    InquirePayment,
    Operation,
    SendAction,
    SendMessage,
    Upload,
    VerifyInvoice,
    VerifyPayment,
)
from triobot.wire.platform_side import encode_event
from triobot.wire.results import InvoiceCreated, PaymentState, Sent
from triobot.wire.traits import Traits
from triobot.wire.undocumented import (
    GetGameConfig,
    GetGameData,
    GetLeaderBoard,
    PutGameData,
    RequestWalletCharge,
    SendGameEvent,
)

PATH = Descriptor.from_object({"path": "x"})
KEYBOARD = InlineKeyboard(((CallbackButton("a", "b"),),))

# A sound value of each class, and for each field values that it must refuse, with the name in the error when
# it isn't the attribute's own.
BAD_CHAT = (None, True, 1.0, "x", "۱۲", "1_2", " 1", 10**18, "1" * 19)
BAD_TEXT = (None, 1, b"x", "\ud800")
BAD_WORD = (*BAD_TEXT, "")
BAD_MESSAGE = (None, True, 1.0, -1, "-1", "x", 10**18)
BAD_OPAQUE = (None, 1, "", "a b", "é", "x" * 513)
BAD_AMOUNT = (None, True, 0, -1, 1.0, "5", 2**53)
BAD_REF = (None, 5, "", "a b", "a'b", "x" * 129)
BAD_RECIPIENT = (None, True, 1.5, "x", "+12", "@", "@a b", "+۱۲۳۴۵")
BAD_CONTENT = (None, 1, b"x", [], "\ud800")
BAD_SENDER = ("x", 1)

CASES: list[tuple[object, dict[str, tuple[object, ...]], dict[str, str]]] = [
    (
        PATH,
        {"json": (*BAD_WORD, "[]", "{}", '{"path":1}', '{"path":"x","a":NaN}', "[" * 9_999)},
        {"json": "descriptor"},
    ),
    (LocalFile("x", "x"), {"path": (None, 5), "filename": BAD_WORD}, {}),
    (Blob(b"x", "x"), {"data": (None, "x"), "filename": BAD_WORD}, {}),
    *(
        (kind(PATH), {"source": (None, "x"), "caption": BAD_TEXT}, {})
        for kind in (Image, Video, Audio, Voice, File)
    ),
    (Contact("+981", "x"), {"phone": (*BAD_WORD, "x", "+"), "name": BAD_TEXT}, {}),
    (
        Location(1, 1),
        {
            "lat": (None, True, "x", "91", 91.0, 10**9_999, float("nan"), "1e1", []),
            "long": ("181", -180.5, float("inf")),
            "desc": BAD_TEXT,
        },
        {},
    ),
    (Key("a", "b"), {"value": BAD_WORD, "label": BAD_WORD}, {}),
    (
        ReplyKeyboard(((Key("a", "b"),),)),
        {"rows": (None, [], ((),), (1,), ((1,),)), "once": (1, "true"), "selective": (1,)},
        {"rows": "keyboard"},
    ),
    (CallbackButton("a", "b"), {"text": BAD_WORD, "data": BAD_WORD}, {}),
    (
        LinkButton("a", "https://x"),
        {"text": BAD_WORD, "url": (*BAD_WORD, "x", "https://a b", "//x"), "open_in": (1, "window")},
        {},
    ),
    (
        PayButton("a", 1, "1"),
        {
            "text": BAD_WORD,
            "amount": BAD_AMOUNT,
            "ref_id": BAD_REF,
            "currency": (None, "USD"),
            "desc": (1, ""),
        },
        {},
    ),
    (KEYBOARD, {"rows": (None, [], ((),), (1,), ((Key("a", "b"),),))}, {"rows": "inline_keyboard"}),
    *(
        (kind("a", "b"), {"name": BAD_WORD, "label": BAD_WORD, "value": (1, "")}, {})
        for kind in (TextField, TextArea)
    ),
    *(
        (
            kind("a", "b", (("x", "y"),)),
            {
                "name": BAD_WORD,
                "label": BAD_WORD,
                "options": (None, [], (), ("xy",), (("x",),), (("x", "y"),) * 2),
            },
            {},
        )
        for kind in (Radio, Select)
    ),
    (Checkbox("a", "b"), {"name": BAD_WORD, "label": BAD_WORD}, {}),
    (Inbuilt("a", "b", "qrcode"), {"name": BAD_WORD, "label": BAD_WORD, "reader": (None, "nfc")}, {}),
    (Submit("a"), {"label": BAD_WORD}, {}),
    (
        Form((Checkbox("a", "b"), Submit("c"))),
        {
            "fields": (
                None,
                [],
                (),
                (Submit("c"),),
                (Checkbox("a", "b"),),
                (Checkbox("a", "b"), Checkbox("a", "b"), Submit("c")),
                (Checkbox("a", "b"), Submit("c"), Submit("c")),
                (1,),
            )
        },
        {"fields": "form"},
    ),
    (Sender(1), {"id": BAD_CHAT, "name": BAD_TEXT, "username": BAD_TEXT}, {"id": "from.id"}),
    *((kind(1), {"chat_id": BAD_CHAT, "sender": BAD_SENDER}, {}) for kind in (Join, Leave)),
    (Message(1, "x"), {"chat_id": BAD_CHAT, "content": BAD_CONTENT, "sender": BAD_SENDER}, {}),
    (
        Press(1, "x", 1, "c"),
        {"chat_id": BAD_CHAT, "message_id": BAD_MESSAGE, "callback_id": BAD_OPAQUE, "sender": BAD_SENDER},
        {},
    ),
    (
        Submission(1, (("a", "b"),), 1),
        {
            "chat_id": BAD_CHAT,
            "values": (None, [], ("ab",), (("a",),), (("a", 1),), (("\ud800", "b"),)),
            "message_id": BAD_MESSAGE,
            "callback_id": BAD_OPAQUE[1:],
            "sender": BAD_SENDER,
        },
        {},
    ),
    (InvoiceCallback(1, "x"), {"chat_id": BAD_CHAT, "invoice_id": BAD_OPAQUE, "sender": BAD_SENDER}, {}),
    (
        PayCallback(1, "x"),
        {
            "chat_id": BAD_CHAT,
            "ref_id": BAD_REF,
            "message_id": BAD_MESSAGE[1:],
            "status": BAD_TEXT,
            "code": (True, "1", 2**53),
            "charge_url": BAD_TEXT[1:],
            "sender": BAD_SENDER,
        },
        {},
    ),
    (
        UnknownEvent(1, "x"),
        {"chat_id": BAD_CHAT, "type": BAD_WORD, "data": BAD_TEXT, "reason": BAD_TEXT, "sender": BAD_SENDER},
        {},
    ),
    (
        SendMessage(1, "x"),
        {
            "chat_id": BAD_RECIPIENT,
            "content": (*BAD_CONTENT, ""),
            "reply_keyboard": (1, KEYBOARD),
            "inline_keyboard": (1, ()),
            "form": (1, ()),
        },
        {"content": "data"},
    ),
    (
        EditMessage(1, 1, "x"),
        {
            "chat_id": BAD_RECIPIENT,
            "message_id": BAD_MESSAGE,
            "content": (*BAD_CONTENT[1:], "", None),
            "inline_keyboard": (1, ()),
        },
        {"content": "data"},
    ),
    (DeleteMessage(1, 1), {"chat_id": BAD_RECIPIENT, "message_id": BAD_MESSAGE}, {}),
    (SendAction(1), {"chat_id": BAD_RECIPIENT, "action": (None, "dancing", [])}, {}),
    (
        AnswerCallback(1, "c"),
        {
            "chat_id": BAD_RECIPIENT,
            "callback_id": BAD_OPAQUE,
            "text": BAD_TEXT,
            "show_alert": (None, 1, "true"),
        },
        {},
    ),
    (
        Upload("image", Blob(b"", "x")),
        {
            "kind": (None, "picture"),
            "source": (None, b"", PATH),
            "reply_keyboard": (1, KEYBOARD),
            "inline_keyboard": (1, ()),
        },
        {},
    ),
    (
        CreateInvoice(1, 1, "x"),
        {
            "chat_id": (*BAD_CHAT, "+989120000000", "@group"),
            "amount": BAD_AMOUNT,
            "description": BAD_WORD,
            "currency": ("USD", 1),
            "expire_time": (299, 604_801, True, 300.0),
        },
        {},
    ),
    *(
        (kind(1, "x"), {"chat_id": BAD_CHAT, "invoice_id": BAD_OPAQUE}, {})
        for kind in (VerifyInvoice, InquireInvoice)
    ),
    *(
        (kind(1, "x"), {"chat_id": BAD_CHAT, "ref_id": BAD_REF}, {})
        for kind in (VerifyPayment, InquirePayment)
    ),
    (RequestWalletCharge(1, "x"), {"chat_id": BAD_CHAT, "desc": BAD_WORD}, {}),
    (GetGameData(1, "x"), {"chat_id": BAD_CHAT, "type": BAD_WORD}, {}),
    (
        PutGameData(1, "x", "x"),
        {"chat_id": BAD_CHAT, "type": BAD_WORD, "data": BAD_TEXT, "force": (None, 1)},
        {},
    ),
    (GetGameConfig(1, "x"), {"chat_id": BAD_CHAT, "key": BAD_WORD}, {}),
    (SendGameEvent(1, "x", "x"), {"chat_id": BAD_CHAT, "event": BAD_WORD, "value": BAD_TEXT}, {}),
    (GetLeaderBoard(1), {"chat_id": BAD_CHAT, "time": (None, "year")}, {}),
    (Sent(1, 1), {"chat_id": BAD_RECIPIENT, "id": BAD_MESSAGE[1:]}, {"id": "message_id"}),
    (InvoiceCreated("x"), {"id": BAD_OPAQUE}, {"id": "invoice_id"}),
    (PaymentState(True, 1), {"verified": (None, 1), "amount": (None, True, -1, "1", 1.0, 2**53)}, {}),
]

# Fields whose every value is sound: a press may carry what a button's value was decoded to.
FREE = {(Press, "value")}


@pytest.mark.parametrize(
    ("value", "field", "values", "name"),
    [
        pytest.param(value, field, values, names.get(field, field), id=f"{type(value).__name__}-{field}")
        for value, fields, names in CASES
        for field, values in fields.items()
    ],
)
def test_bad_field_is_refused_by_its_name(
    value: Any, field: str, values: Sequence[object], name: str
) -> None:
    """The error names the field and the rule, never the value."""
    assert values
    for bad in values:
        try:
            attrs.evolve(value, **{field: bad})
        except LocalProtocolError as error:
            assert error.field == name, repr(bad)
            assert len(str(error)) < 150, repr(bad)
        else:
            pytest.fail(f"{bad!r} is not refused")


def test_every_class_and_field_is_covered() -> None:
    """A new value, or a new field of one, needs its line above."""
    covered = {(type(value), field) for value, fields, _ in CASES for field in fields} | FREE
    existing: set[tuple[type, str]] = set()
    for module in (content, event_values, forms, markup, operations, results, undocumented):
        for kind in vars(module).values():
            own = isinstance(kind, type) and attrs.has(kind) and kind.__module__ == module.__name__
            if own and kind not in (content.Media, undocumented.Answer):
                existing.update((kind, field.name) for field in attrs.fields(kind))

    assert covered == existing


def test_each_operation_has_its_traits_and_is_listed() -> None:
    """One that isn't would not be read by the emulated platform."""
    declared = [
        kind
        for module in (operations, undocumented)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Operation) and kind.__module__ == module.__name__
    ]
    listed = (*operations.OPERATIONS, *undocumented.UNDOCUMENTED)

    assert [kind for kind in declared if kind is not Operation] == [*listed]
    assert all(isinstance(kind.traits, Traits) for kind in listed)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Descriptor.from_object({"path": "x", "a": object()}),  # type: ignore[dict-item]
        lambda: Image.open("/"),
        lambda: Image.from_bytes(b"x", "x").descriptor,
        lambda: encode_operation(SendMessage(1, Image.from_bytes(b"x", "x"))),
        lambda: encode_operation(object()),  # type: ignore[arg-type]
        lambda: encode_event(Press(1, 5, 1, "c")),
        lambda: encode_event(Message(1, Image.from_bytes(b"x", "x"))),
        lambda: encode_form([("a", "\ud800")]),
        lambda: Upload.of(Image(PATH)),
    ],
)
def test_what_cannot_be_sent_is_refused(make: Callable[[], object]) -> None:
    """Before a byte of it exists."""
    with pytest.raises(LocalProtocolError):
        make()


@given(st.one_of(events(), form_operations(), uploads(), exchanges().map(lambda exchange: exchange[1])))
@settings(max_examples=examples(100))
def test_values_can_be_copied_and_pickled(value: Event | Operation[Any] | object) -> None:
    """Values travel between processes and through stores."""
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.deepcopy(value) == value


def test_repr_shows_no_words_phones_or_places() -> None:
    """What is logged by accident tells ids and types only."""
    secret = "s3cret"
    shown = [
        Message(1, secret, Sender(1, secret, secret)),
        Press(1, secret, 1, "c"),
        Submission(1, ((secret, secret),), 1),
        PayCallback(1, "1", charge_url=f"https://x/{secret}"),
        UnknownEvent(1, "x", secret),
        SendMessage("+989120000000", secret),
        SendMessage(1, Contact("+989120000000", secret)),
        SendMessage(1, Location("12.345", "12.345", secret)),
        SendMessage(1, Image(Descriptor.from_object({"path": secret}), secret)),
        EditMessage(1, 1, secret),
        AnswerCallback(1, "c", secret),
        CreateInvoice(1, 1, secret),
        encode_operation(SendMessage("+989120000000", secret)),
        encode_event(Message(1, secret)),
        Sent("+989120000000", 1),
    ]

    for value in shown:
        assert secret not in repr(value)
        assert "98912" not in repr(value)
        assert "12.345" not in repr(value)


def test_a_field_of_a_sender_is_written_out_where_senders_are_handled_by_heart() -> None:
    """`_read_usual_text`, `event_key`, `node_of` and `_load_said`: go there first."""
    assert [field.name for field in attrs.fields(Sender)] == ["id", "name", "username"]
