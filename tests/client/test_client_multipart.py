"""The frame around a file, and what a file's name becomes in it."""

from __future__ import annotations

from email.parser import BytesParser
from email.policy import HTTP

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import examples
from triobot.client.upload import escape, frame, media_type


def test_the_frame_byte_by_byte() -> None:
    built = frame(boundary="B", fields=[("chat_id", "7")], name="image", filename="گربه.jpg")

    assert built.content_type == "multipart/form-data; boundary=B"
    assert built.head.decode() == (
        "--B\r\n"
        'Content-Disposition: form-data; name="chat_id"\r\n'
        "\r\n"
        "7\r\n"
        "--B\r\n"
        'Content-Disposition: form-data; name="image"; filename="گربه.jpg"\r\n'
        "Content-Type: image/jpeg\r\n"
        "\r\n"
    )
    assert built.tail == b"\r\n--B--\r\n"


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain.txt", "plain.txt"),
        ('a"b.txt', "a%22b.txt"),
        ("a\r\nX-Evil: 1.txt", "a%0D%0AX-Evil: 1.txt"),
        ("a\x00b\x7f", "a%00b%7F"),
        ("گربه‌ها.jpg", "گربه‌ها.jpg"),
        ("100%.txt", "100%.txt"),
    ],
)
def test_names_are_escaped_as_browsers_do(name: str, escaped: str) -> None:
    assert escape(name) == escaped


@settings(max_examples=examples(100))
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.binary())
def test_no_name_breaks_out_of_its_header(filename: str, data: bytes) -> None:
    built = frame(boundary="0f" * 16, fields=[], name="file", filename=filename)
    whole = f"Content-Type: {built.content_type}\r\n\r\n".encode() + built.head + data + built.tail

    (part,) = BytesParser(policy=HTTP.clone(utf8=True)).parsebytes(whole).iter_parts()
    assert set(part.keys()) == {"Content-Disposition", "Content-Type"}
    assert built.head.count(b"\r\n") == 4


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        ("a.jpg", "image/jpeg"),
        ("a.PNG", "image/png"),
        ("voice.ogg", "audio/ogg"),
        ("a.tar.gz", "application/gzip"),
        ("data:text/html,x.pdf", "application/pdf"),
        ("نامه.pdf", "application/pdf"),
        ("a.nonsense", "application/octet-stream"),
        ("png", "application/octet-stream"),
        (".png", "application/octet-stream"),
        ("a.", "application/octet-stream"),
    ],
)
def test_the_media_type_comes_from_the_ending(filename: str, expected: str) -> None:
    assert media_type(filename) == expected
