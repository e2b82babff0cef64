"""The platform's reading of a request: an error names the interface's parameter."""

from __future__ import annotations

import json
from typing import Any

import pytest

from triobot.emulator.requests import decode_keyboards, decode_operation
from triobot.errors import RemoteProtocolError
from triobot.wire.content import Blob, Contact, Descriptor, Image
from triobot.wire.encode import encode_operation
from triobot.wire.forms import Checkbox, Form, Submit
from triobot.wire.ids import PhoneNumber
from triobot.wire.markup import CallbackButton, InlineKeyboard, Key, LinkButton, PayButton, ReplyKeyboard
from triobot.wire.operations import (
    AnswerCallback,
    CreateInvoice,
    DeleteMessage,
    EditMessage,
    Operation,
    SendAction,
    SendMessage,
    Upload,
    VerifyInvoice,
    VerifyPayment,
)
from triobot.wire.undocumented import GetLeaderBoard, PutGameData

KEYBOARD = InlineKeyboard(
    (
        (CallbackButton("Yes", "y"), LinkButton("See", "https://example.org/", "webview")),
        (PayButton("Pay", 5_000, "12", desc="tea"),),
    )
)
WHOLE = SendMessage(
    PhoneNumber("+989120000000"),
    "سلام",
    ReplyKeyboard(((Key("$contact", "Share"),),), once=True),
    KEYBOARD,
    Form((Checkbox("ok", "OK?"), Submit("Send"))),
)


def test_fields_are_what_the_platform_documents() -> None:
    """The very text of each field: forms with JSON inside, nothing for what is unset."""
    fields = dict(encode_operation(WHOLE).fields)

    assert list(fields) == ["chat_id", "type", "data", "reply_keyboard", "inline_keyboard", "form"]
    assert fields["chat_id"] == "+989120000000"
    assert fields["data"] == "سلام"
    assert json.loads(fields["reply_keyboard"]) == {"keyboard": [[{"$contact": "Share"}]], "once": True}
    assert json.loads(fields["inline_keyboard"]) == [
        [
            {"text": "Yes", "cb_data": "y"},
            {"text": "See", "url": "https://example.org/", "open_in": "webview"},
        ],
        [{"text": "Pay", "amount": 5000, "currency": "IRR", "ref_id": "12", "desc": "tea"}],
    ]
    assert json.loads(fields["form"]) == [
        {"name": "ok", "type": "checkbox", "label": "OK?"},
        {"type": "submit", "label": "Send"},
    ]
    assert encode_operation(SendMessage(1, "x")).fields == (("chat_id", "1"), ("type", "text"), ("data", "x"))
    assert encode_operation(AnswerCallback(1, "c")).fields == (
        ("chat_id", "1"),
        ("callback_id", "c"),
        ("text", ""),
        ("show_alert", "false"),
    )


def test_keyboards_of_an_upload_are_written_and_read_as_a_message_s() -> None:
    upload = Upload("image", Blob(b"x", "x"), WHOLE.reply_keyboard, WHOLE.inline_keyboard)
    fields = encode_operation(upload).fields
    assert fields == encode_operation(WHOLE).fields[3:5]
    assert decode_keyboards(fields) == (WHOLE.reply_keyboard, WHOLE.inline_keyboard)
    assert decode_keyboards(encode_operation(Upload.of(Image(Blob(b"x", "x")))).fields) == (None, None)
    for name in ("reply_keyboard", "inline_keyboard"):
        for given in ([(name, "{")], [(name, "[[]]"), (name, "[[]]")]):
            with pytest.raises(RemoteProtocolError) as caught:
                decode_keyboards(given)
            assert caught.value.field == name


def test_caption_travels_in_the_descriptor() -> None:
    """The descriptor goes back unchanged but for the key desc."""
    picture = Image(Descriptor.from_object({"path": "https://c/a", "SID": 5}), "sea")
    fields = dict(encode_operation(SendMessage(1, picture)).fields)

    assert fields["type"] == "image"
    assert json.loads(fields["data"]) == {"path": "https://c/a", "SID": 5, "desc": "sea"}


def test_edit_is_read_with_the_type_of_its_message() -> None:
    """An edit doesn't say what it holds: the platform knows (gap 20)."""
    edit = EditMessage(1, 2, Contact("+989120000000", "Sara"))
    request = encode_operation(edit)

    assert decode_operation(request.path, request.fields, edited_type="contact") == edit
    assert decode_operation(request.path, request.fields) == EditMessage(1, 2, dict(request.fields)["data"])


def test_leniencies_of_the_live_platform() -> None:
    """Capitalised types, unknown fields, show_alert left out, amounts as text, slashes around the path."""
    button = json.dumps([[{"text": "Pay", "amount": "5000", "currency": "IRR", "ref_id": "12"}]])
    sent = [("chat_id", "1"), ("type", "Text"), ("data", "x"), ("from", "{}"), ("inline_keyboard", button)]

    assert decode_operation("/sendMessage/", sent) == SendMessage(
        1, "x", inline_keyboard=InlineKeyboard(((PayButton("Pay", 5_000, "12"),),))
    )
    assert decode_operation("sendAction", [("chat_id", "1"), ("type", "Typing")]) == SendAction(1)
    answer = [("chat_id", "1"), ("callback_id", "c"), ("text", "")]
    assert decode_operation("answerCallback", answer) == AnswerCallback(1, "c")


def test_what_the_php_client_sends() -> None:
    """An invoice's older name for its expiry, one with a picture; a digit for a boolean; type for time."""
    invoice = [("chat_id", "1"), ("amount", "500"), ("expire_date", "86400"), ("currency", "IRR")]
    plain = [*invoice, ("description", "Tea"), ("type", "text")]
    assert decode_operation("invoice", plain) == CreateInvoice(1, 500, "Tea", "IRR", 86_400)
    picture = [*invoice, ("image", '{"path": "https://c/a", "desc": "Tea"}'), ("type", "image")]
    assert decode_operation("invoice", picture) == CreateInvoice(1, 500, "Tea", "IRR", 86_400)
    for image in ([], [("image", "{}")], [("image", "x")]):
        with pytest.raises(RemoteProtocolError):
            decode_operation("invoice", [*invoice, ("type", "image"), *image])
    game = [("chat_id", "1"), ("type", "save"), ("data", "42"), ("force", "0")]
    assert decode_operation("gameData", game) == PutGameData(1, "save", "42", False)
    board = [("chat_id", "1"), ("type", "month")]
    assert decode_operation("leaderBoard", board) == GetLeaderBoard(1, "month")


INLINE = [
    "x",
    "{}",
    "[1]",
    "[[1]]",
    "[[]]",
    "[" * 9_999,
    '[[{"text":"a"}]]',
    '[[{"text":"a","cb_data":"b","url":"https://x"}]]',
    '[[{"text":"","cb_data":"b"}]]',
    '[[{"text":"a","cb_data":5}]]',
    '[[{"text":"a","url":"x"}]]',
    '[[{"text":"a","url":"https://x","open_in":"window"}]]',
    '[[{"text":"a","amount":5,"ref_id":"1"}]]',
    '[[{"text":"a","amount":5,"currency":"USD","ref_id":"1"}]]',
    '[[{"text":"a","amount":5.0,"currency":"IRR","ref_id":"1"}]]',
    '[[{"text":"a","amount":0,"currency":"IRR","ref_id":"1"}]]',
    '[[{"text":"a","amount":5,"currency":"IRR","ref_id":"a b"}]]',
    '[[{"text":"a","amount":5,"currency":"IRR"}]]',
]
REPLY = [
    "x",
    "[]",
    "{}",
    '{"keyboard":{}}',
    '{"keyboard":[[]]}',
    '{"keyboard":[[{"a":"b","c":"d"}]]}',
    '{"keyboard":[[{"a":5}]]}',
    '{"keyboard":[[{"":"b"}]]}',
    '{"keyboard":[],"once":"true"}',
]
FORM = [
    "x",
    "{}",
    "[]",
    "[1]",
    '[{"type":"submit","label":"a"}]',
    '[{"type":"text","name":"a","label":"b"}]',
    '[{"type":"date","name":"a","label":"b"},{"type":"submit","label":"a"}]',
    '[{"type":"inbuilt","name":"a","label":"b","value":"nfc"},{"type":"submit","label":"a"}]',
    '[{"type":"radio","name":"a","label":"b"},{"type":"submit","label":"a"}]',
    '[{"type":"radio","name":"a","label":"b","options":[{"x":1}]},{"type":"submit","label":"a"}]',
]
MEDIA = ["x", "[]", "{}", '{"path":""}', '{"path":"x","desc":5}', '{"path":"x","a":NaN}']

BAD: list[tuple[Operation[Any], str, list[str | None]]] = [
    (WHOLE, "chat_id", [None, "", "x", "+12", "۱۲", "1" * 19]),
    (WHOLE, "type", [None, "", "poke", "text "]),
    (WHOLE, "data", [None, ""]),
    (WHOLE, "inline_keyboard", [*INLINE]),
    (WHOLE, "reply_keyboard", [*REPLY]),
    (WHOLE, "form", [*FORM]),
    (SendMessage(1, Image(Descriptor.from_object({"path": "x"}))), "data", [None, *MEDIA]),
    (SendMessage(1, Contact("+981")), "data", ["x", "{}", '{"phone":5}', '{"phone":"x"}']),
    (EditMessage(1, 2, "x"), "message_id", [None, "", "x", "-1", "۱۲", "1" * 19]),
    (EditMessage(1, 2, "x"), "data", [None, ""]),
    (EditMessage(1, 2, "x", KEYBOARD), "inline_keyboard", [*INLINE]),
    (DeleteMessage(1, 2), "chat_id", [None, "x"]),
    (DeleteMessage(1, 2), "message_id", [None, "", "x"]),
    (SendAction(1), "type", [None, "", "dancing"]),
    (AnswerCallback(1, "c"), "callback_id", [None, "", "a b"]),
    (AnswerCallback(1, "c"), "text", [None]),
    (AnswerCallback(1, "c"), "show_alert", ["", "1", "True"]),
    (CreateInvoice(1, 5, "x", expire_time=300), "chat_id", [None, "+989120000000", "@group"]),
    (
        CreateInvoice(1, 5, "x", expire_time=300),
        "amount",
        [None, "", "0", "-5", "5.0", "۵", "1" * 19, "9" * 18],
    ),
    (CreateInvoice(1, 5, "x", expire_time=300), "description", [None, ""]),
    (CreateInvoice(1, 5, "x", "IRR"), "currency", ["", "USD"]),
    (CreateInvoice(1, 5, "x", expire_time=300), "expire_time", ["", "299", "x"]),
    (VerifyInvoice(1, "7"), "chat_id", [None, "x"]),
    (VerifyInvoice(1, "7"), "ref_id", [None, "", "a b"]),
    (VerifyPayment(1, "7"), "ref_id", [None, "", "a b", "'"]),
    (GetLeaderBoard(1), "time", [None, "year"]),
]


@pytest.mark.parametrize(
    ("operation", "field", "value"),
    [
        pytest.param(operation, field, value, id=f"{operation.path}-{field}-{place}")
        for operation, field, values in BAD
        for place, value in enumerate(values)
    ],
)
def test_bad_parameter_is_named(operation: Operation[Any], field: str, value: str | None) -> None:
    """None stands for a parameter that is left out."""
    request = encode_operation(operation)
    assert field in dict(request.fields)
    fields = [pair for pair in request.fields if pair[0] != field]
    if value is not None:
        fields.append((field, value))
    with pytest.raises(RemoteProtocolError) as caught:
        decode_operation(request.path, fields)

    assert caught.value.field == field
    assert "989120000000" not in str(caught.value)


@pytest.mark.parametrize("field", ["chat_id", "type", "data", "reply_keyboard", "inline_keyboard", "form"])
def test_parameter_given_twice_is_named(field: str) -> None:
    """Which of them was meant is anybody's guess."""
    fields = encode_operation(WHOLE).fields
    with pytest.raises(RemoteProtocolError) as caught:
        decode_operation("sendMessage", (*fields, (field, dict(fields)[field])))

    assert caught.value.field == field


@pytest.mark.parametrize("path", ["", "/", "upload", "sendmessage", "invoice/inquery", "payVerify", "getMe"])
def test_unknown_path_is_named(path: str) -> None:
    """Paths that never were, and paths that are gone."""
    with pytest.raises(RemoteProtocolError) as caught:
        decode_operation(path, [("chat_id", "1")])

    assert caught.value.field == "path"
