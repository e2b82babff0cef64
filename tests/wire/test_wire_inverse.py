"""What one side writes the other reads back equal: operations, events in every spelling, results."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.samples import examples
from tests.strategies import contents, events, exchanges, form_operations, texts
from triobot.emulator.requests import decode_operation
from triobot.wire.content import Content
from triobot.wire.decode import decode_content, decode_event, decode_result
from triobot.wire.encode import encode_content, encode_form, encode_operation, event_key
from triobot.wire.events import Event, InvoiceCallback, PayCallback, Submission
from triobot.wire.operations import EditMessage, Operation
from triobot.wire.platform_side import encode_event, encode_result


@given(contents())
@settings(max_examples=examples(100))
def test_content_survives_its_type_and_data(content: Content) -> None:
    """What is sent is what is received."""
    assert decode_content(*encode_content(content)) == content


@given(form_operations())
@settings(max_examples=examples(200))
def test_operation_survives_its_request(operation: Operation[Any]) -> None:
    """The emulator performs exactly what the client was asked for, through the very bytes."""
    request = encode_operation(operation)
    fields = parse_qsl(encode_form(request.fields).decode("ascii"), keep_blank_values=True)
    edited = "text"
    if isinstance(operation, EditMessage) and operation.content is not None:
        edited = encode_content(operation.content)[0]

    assert tuple(fields) == request.fields
    assert decode_operation(request.path, fields, edited_type=edited) == operation


@given(events(), st.booleans(), st.booleans())
@settings(max_examples=examples(200))
def test_event_survives_both_formats_and_spellings(event: Event, as_json: bool, lower_case: bool) -> None:
    """A bot sees the same event in a form and in JSON, whatever the content type claims."""
    body = encode_event(event, as_json=as_json, lower_case_callbacks=lower_case)

    assert decode_event(body.content_type, body.data) == event
    assert decode_event("", body.data) == event
    assert decode_event("application/octet-stream", body.data) == event


@given(st.lists(st.tuples(texts(), texts()), max_size=3))
@example([("a&b", "c=d?e")])
@example([("?", "{"), ("{", "?")])
@settings(max_examples=examples(100))
def test_filled_values_survive_their_query(values: list[tuple[str, str]]) -> None:
    """Whatever a user types into a form: the query string is inside JSON inside a form."""
    form = Submission(1, tuple(values), 2)

    assert decode_event("", encode_event(form).data) == form


@given(events())
@settings(max_examples=examples(100))
def test_key_is_the_same_in_both_formats(event: Event) -> None:
    """A redelivery is known by what it says, not by how it is written; payments have no key at all."""
    form, json = encode_event(event), encode_event(event, as_json=True, lower_case_callbacks=True)
    key, once = event_key(decode_event(form.content_type, form.data), form.content_type, form.data)

    assert (key, once) == event_key(decode_event("", json.data), json.content_type, json.data)
    assert (key is None) == isinstance(event, PayCallback | InvoiceCallback)


@given(exchanges())
@settings(max_examples=examples(200))
def test_result_survives_its_body(exchange: tuple[Operation[Any], Any]) -> None:
    """The client returns what the emulator answered."""
    operation, result = exchange

    assert decode_result(operation, 200, encode_result(operation, result)) == result
