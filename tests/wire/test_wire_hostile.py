"""Whatever the bytes, decoding ends in a value or in one of our own errors."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import examples
from tests.strategies import events, exchanges, form_operations
from triobot.emulator.requests import decode_operation
from triobot.errors import RefusedError, RemoteProtocolError
from triobot.wire.decode import decode_event, decode_result, shape_of
from triobot.wire.encode import encode_event_data, encode_operation, event_key
from triobot.wire.events import Event, Join, UnknownEvent
from triobot.wire.operations import Operation, SendMessage, VerifyPayment
from triobot.wire.platform_side import encode_event, encode_result
from triobot.wire.results import Sent

_FORMATS = st.sampled_from(
    [
        "",
        "application/x-www-form-urlencoded",
        "application/json; charset=utf-8",
        "application/problem+json",
        "multipart/form-data; boundary=x",
        "multipart/form-data",
        "text/plain",
    ]
)
_SYNTAX = [b'"', b"{", b"}", b"[", b"]", b":", b",", b"&", b"=", b"%", b"?", b"\r\n\r\n", b"--x\r\n"]
_WORDS = [b"null", b"true", b"chat_id", b"type", b"data", b"from", b"callback_id", b"message_id"]
_POISON = [b"%d8", b"%00", b"\\ud800", b"\xff", b"NaN", b"-Infinity", b"1e999", b"9" * 400, b"\xef\xbb\xbf"]
_TOKENS = st.sampled_from([*_SYNTAX, *_WORDS, *_POISON, "۱۲".encode()])

_CONTENT_KINDS = ["text", "image", "video", "audio", "voice", "file", "contact", "location"]
_KINDS = [*_CONTENT_KINDS, "join", "triggerButton", "submitForm", "payCallback", "invoiceCallback", "odd"]


def read(content_type: str, body: bytes) -> Event | None:
    """Decode, and see that whatever came out can be written, keyed and shown."""
    try:
        event = decode_event(content_type, body)
    except RemoteProtocolError as error:
        assert error.field in {"chat_id", "type", "body"}
        assert error.raw == body
        return None
    repr(event).encode()
    key, _ = event_key(event, content_type, body)
    assert key is None or key.isascii()
    if isinstance(event, UnknownEvent):
        encode_event_data(event)[1].encode()
        event.type.encode()
    else:
        written = encode_event(event)
        assert decode_event(written.content_type, written.data) == event
    return event


@st.composite
def mutations(draw: Any) -> tuple[str, bytes]:
    """The body of a true event after an accident: cut, or with other bytes in some places."""
    body = encode_event(draw(events()), as_json=draw(st.booleans()))
    data = body.data
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 8)))
        data = data[:start] + draw(st.one_of(st.just(b""), _TOKENS, st.binary(max_size=4))) + data[end:]
    if draw(st.booleans()):
        data = data[: draw(st.integers(0, len(data)))]
    return draw(st.one_of(st.just(body.content_type), _FORMATS)), data


@given(mutations())
@settings(max_examples=examples(200, every=8))
def test_damaged_event_is_an_event_or_refused(damaged: tuple[str, bytes]) -> None:
    """Nothing but RemoteProtocolError leaves decode_event, and what it returns is sound."""
    read(*damaged)


@given(
    st.one_of(_FORMATS, st.text(max_size=30)),
    st.one_of(st.binary(max_size=200), st.lists(_TOKENS, max_size=30).map(b"".join)),
)
@settings(max_examples=examples(200))
def test_arbitrary_bytes_are_an_event_or_refused(content_type: str, body: bytes) -> None:
    """The same for bytes that never were an event."""
    read(content_type, body)


@given(st.lists(_TOKENS, max_size=12).map(b"".join), st.sampled_from(_KINDS))
@settings(max_examples=examples(200))
def test_arbitrary_data_never_costs_the_event(data: bytes, kind: str) -> None:
    """With a chat and a type there is always an event, whatever the data and the sender."""
    boundary = "multipart/form-data; boundary=zzz"
    parts = [("chat_id", b"1"), ("type", kind.encode()), ("data", data), ("from", data)]
    body = b"".join(
        b'--zzz\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value)
        for name, value in parts
    )

    event = read(boundary, body + b"--zzz--\r\n")

    assert event is not None
    assert event.chat_id == 1


DEEP = 200_000


@pytest.mark.parametrize("opener", ["[", '{"a":', '[{"a":'])
@pytest.mark.parametrize("kind", ["text", "image", "contact", "triggerButton", "submitForm", "payCallback"])
def test_depth_costs_only_the_data(opener: str, kind: str) -> None:
    """Deep nesting in data or from is text, or an unknown event; it never is a RecursionError."""
    deep = opener * DEEP
    event = read("", f"chat_id=1&type={kind}&data={deep}&from={deep}".encode())

    assert event is not None
    assert event.sender is None
    assert isinstance(event, UnknownEvent) == (kind != "text")


@pytest.mark.parametrize("opener", ["[", '{"a":'])
def test_deep_json_body_is_refused(opener: str) -> None:
    """A JSON body that nobody can parse has no chat id."""
    assert read("application/json", ('{"chat_id":1,"type":"join","data":' + opener * DEEP).encode()) is None
    closed = opener * 900 + "1" + ("]" if opener == "[" else "}") * 900
    read("application/json", ('{"chat_id":1,"type":"image","data":' + closed + "}").encode())


@pytest.mark.parametrize("number", ["9" * 5_000, "-" + "9" * 5_000, "1e999", "NaN", "-Infinity"])
def test_odd_number_elsewhere_does_not_cost_the_event(number: str) -> None:
    """A number that nobody can hold, in a field that nobody reads, does no harm."""
    body = f'{{"chat_id":1,"type":"join","extra":{number},"from":{{"id":2,"rank":{number}}}}}'.encode()
    event = read("application/json", body)

    assert isinstance(event, Join)
    assert event.sender is not None


@given(exchanges(), st.data())
@settings(max_examples=examples(150, every=8))
def test_damaged_answer_is_a_result_or_one_of_our_errors(
    exchange: tuple[Operation[Any], Any], data: st.DataObject
) -> None:
    """Nothing else leaves decode_result, and none of its words hold what isn't printable."""
    operation, result = exchange
    body = encode_result(operation, result)
    start = data.draw(st.integers(0, len(body)))
    body = body[:start] + data.draw(_TOKENS) + body[start + data.draw(st.integers(0, 4)) :]
    status = data.draw(st.sampled_from([200, 200, 400, 403, 404, 500, 302]))
    try:
        decode_result(operation, status, body)
    except RemoteProtocolError as error:
        assert error.raw == body
    except RefusedError as error:
        assert len(error.reason) <= 200
        assert error.reason.isprintable()


@given(form_operations(), st.data())
@settings(max_examples=examples(150))
def test_damaged_request_is_an_operation_or_names_the_field(
    operation: Operation[Any], data: st.DataObject
) -> None:
    """Nothing else leaves decode_operation, and its error names a parameter that was sent or is needed."""
    request = encode_operation(operation)
    fields = list(request.fields)
    place = data.draw(st.integers(0, len(fields) - 1))
    name, value = fields[place]
    start = data.draw(st.integers(0, len(value)))
    token = data.draw(_TOKENS).decode("utf-8", "surrogateescape")
    fields[place] = (name, value[:start] + token + value[start:])
    try:
        decode_operation(request.path, fields)
    except RemoteProtocolError as error:
        assert error.field in dict(fields)


HOSTILE = [b"[" * DEEP, b'{"id":' * DEEP, b'{"id":' + b"9" * 5_000 + b"}", b'{"id":NaN}']


@pytest.mark.parametrize("body", HOSTILE)
def test_hostile_answer_is_unreadable(body: bytes) -> None:
    """An answer that no JSON reader takes is unreadable, and its bytes are kept apart."""
    with pytest.raises(RemoteProtocolError) as caught:
        decode_result(VerifyPayment(1, "1"), 200, body)

    assert caught.value.raw == body
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize("body", [*HOSTILE, b"", b"\xff", b'{"id":"x"}', b'{"id":1.5}'])
def test_a_send_was_taken_whatever_the_answer(body: bytes) -> None:
    sent = decode_result(SendMessage(1, "hi"), 200, body)
    assert sent == Sent(1)
    with pytest.raises(RemoteProtocolError, match="can't be edited"):
        _ = sent.message_id


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        (b" ", "empty"),
        (b"<!doctype html>", "a page of 15 bytes"),
        (b"thanks, Sara", "no JSON of 12 bytes"),
        (b"[1]", "a JSON list"),
        (b'"Sara"', "a JSON string"),
        (
            b'{"id": null, "a": 1.5, "b": [], "+98912 Sara": "x"}',
            "{id: null, a: number, b: list, ...: string}",
        ),
        (json.dumps(dict.fromkeys("abcdefghi", True)).encode(), ", h: boolean, ...}"),
    ],
)
def test_the_shape_of_an_answer_says_nothing_of_its_content(body: bytes, shape: str) -> None:
    told = shape_of(body)
    assert told == shape or told.endswith(shape)
    assert "Sara" not in told


@pytest.mark.parametrize("size", [70, 71, 1_000_000])
def test_boundary_has_a_bound(size: int) -> None:
    """A first line of a megabyte is no boundary to search for."""
    mark = b"--" + b"x" * size
    body = b"".join(
        b'%s\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (mark, name, value)
        for name, value in [(b"chat_id", b"1"), (b"type", b"join")]
    )

    assert (read("", body + mark + b"--") == Join(1)) == (size <= 70)


_FORM = "application/x-www-form-urlencoded"
_JSON_SENDERS = [
    '{"id": 7, "name": "Ali", "user": "ali"}',
    '{"id":-7,"name":"علی","user":""}',
    '{"id": 7, "name": "Ali", "user": "ali", "more": [1, {}]}',
    '{"id": "7", "name": "Ali", "user": "ali"}',
    '{"id": true, "name": "Ali", "user": "ali"}',
    '{"id": 7, "name": null, "user": 5}',
    '{"id": 7, "id": 8, "name": "a", "user": "\\ud800"}',
    '{"id": 1000000000000000000, "name": "a", "user": "b"}',
    ' {"id": 7, "name": "a", "user": "b"} ',
    '{"id": 7, "name": "a", "user": "b"}x',
    "[7]",
    "7",
    "",
]
_PIECES = st.one_of(
    st.sampled_from(
        [b"chat_id=5", b"chat_id=-5", b"chat_id=05", b"chat_id=x", b"chat_id=%35", b"chat%5fid=5"]
    ),
    st.sampled_from([b"type=text", b"type=Text", b"type=join", b"type", b"", b"odd=1", b"=", b"type=te%78t"]),
    st.text(max_size=8).map(lambda text: b"data=" + quote_plus(text, errors="replace").encode()),
    st.sampled_from(
        [b"data=%d8", b"data=%00", b"data=\0", b"data=%", b"data=%0", b"data=a%0Ab", b"data=\xff"]
    ),
    st.sampled_from(
        [b"data=a=b", b"data=a%26b%3Dc", b"data= x+", b"data=x\r\ny ", b"data=%D8%A7", b"data=="]
    ),
    st.sampled_from(_JSON_SENDERS).map(lambda text: b"from=" + quote_plus(text).encode()),
    st.sampled_from(_JSON_SENDERS).map(lambda text: b"from=" + text.encode()),
)


def decoded(content_type: str, body: bytes) -> object:
    try:
        event = decode_event(content_type, body)
    except RemoteProtocolError as error:
        return error.field, error.rule
    return event, event_key(event, _FORM, body)


@settings(max_examples=examples(500))
@given(
    st.lists(_PIECES, min_size=3, max_size=6).map(b"&".join)
    | st.permutations([b"chat_id=5", b"type=text"]).flatmap(
        lambda known: st.lists(_PIECES, min_size=2, max_size=2).map(lambda other: b"&".join([*known, *other]))
    )
)
def test_the_short_way_reads_as_the_long_one(body: bytes) -> None:
    """A type with a parameter is read the long way: what both make of a body is the same."""
    assert decoded(_FORM, body) == decoded(f"{_FORM}; charset=utf-8", body)
