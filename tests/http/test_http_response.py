"""Responses from bytes: however they are cut, the same comes out; what can't be trusted is refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import examples
from triobot.http.request import MalformedError
from triobot.http.response import LARGEST_HEAD, ResponseReader

BODY = bytes(range(256)) * 3


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x;x=y\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\nT: railer\r\n\r\n"


# What came, whether the end of the connection belongs to it, the status, the body, and whether it may go on.
GOOD: dict[str, tuple[bytes, bool, int, bytes, bool]] = {
    "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 768\r\n\r\n" + BODY, False, 200, BODY, True),
    "no body": (b"HTTP/1.1 403 No\r\nContent-Length: 0\r\nX:\r\n\r\n", False, 403, b"", True),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(BODY, 50),
        False,
        200,
        BODY,
        True,
    ),
    "until the end": (b"HTTP/1.1 200 OK\r\n\r\n" + BODY, True, 200, BODY, False),
    "announced": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Soon\r\nLink: x\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        False,
        200,
        b"ok",
        True,
    ),
    "no content": (b"HTTP/1.1 204 None\r\nContent-Length: 9\r\n\r\n", False, 204, b"", True),
    "not modified": (b"HTTP/1.1 304 Same\r\n\r\n", False, 304, b"", True),
    "closing": (
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        False,
        200,
        b"ok",
        False,
    ),
    "old": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", False, 200, b"ok", False),
    "old, kept alive": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        False,
        200,
        b"ok",
        True,
    ),
    "blanks": (b"HTTP/1.1 200 OK\r\nX:  a b \t\r\nContent-Length: 2 \r\n\r\nok", False, 200, b"ok", True),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", False, 200, b"ok", True),
}

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BAD: dict[str, bytes] = {
    "no HTTP": b"220 mail.test ESMTP\r\n\r\n",
    "another version": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n" + CHUNKED[17:] + b"0\r\n\r\n",
    "chunks and length": CHUNKED[:-2] + b"Content-Length: 5\r\n\r\n0\r\n\r\n",
    "a length that is none": b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
    "another encoding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nzip",
    "two encodings": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a folded header": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "a chunk that is none": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "another protocol": b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nabc",
    "another protocol, unannounced": b"HTTP/1.1 101 Go\r\n\r\n",
    "an endless head": b"HTTP/1.1 200 OK\r\nX: " + b"x" * (LARGEST_HEAD + 10),
    "endless headers": b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * (LARGEST_HEAD // 6 + 10),
    "endless announcements": b"HTTP/1.1 100 Continue\r\n\r\n" * (LARGEST_HEAD // 25 + 10),
    "an endless chunk extension": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"
    + b"x" * LARGEST_HEAD * 2,
    "endless trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    + b"X: x\r\n" * LARGEST_HEAD,
}


def read(data: bytes, cuts: list[int], *, eof: bool) -> ResponseReader:
    reader = ResponseReader()
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(edges):
        reader.feed(data[start:end])
    if eof:
        reader.feed_eof()
    return reader


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(sorted(GOOD)), st.lists(st.integers(0, 5000), max_size=30))
def test_however_it_is_cut(name: str, cuts: list[int]) -> None:
    data, eof, status, body, reusable = GOOD[name]

    reader = read(data, cuts, eof=eof)

    assert reader.done
    assert (reader.status, b"".join(reader.pieces), reader.reusable) == (status, body, reusable)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_byte_by_byte_and_with_its_headers(name: str) -> None:
    data, eof, status, _, _ = GOOD[name]

    reader = read(data, list(range(len(data))), eof=eof)
    whole = read(data, [], eof=eof)

    assert (reader.status, reader.headers) == (status, whole.headers)


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(sorted(BAD)), st.lists(st.integers(0, 5000), max_size=10))
def test_what_is_no_response_is_refused(name: str, cuts: list[int]) -> None:
    with pytest.raises(MalformedError):
        read(BAD[name], cuts, eof=False)


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(sorted(GOOD)), st.integers(0, 5000), st.lists(st.integers(0, 5000), max_size=5))
def test_no_beginning_of_a_response_is_one(name: str, length: int, cuts: list[int]) -> None:
    """Unless the end of the connection is the end of the body, and the head was complete."""
    data, eof, _, _, _ = GOOD[name]
    part = data[: length % len(data)]
    reader = read(part, cuts, eof=False)

    assert not reader.done
    if eof and reader.head_done:
        reader.feed_eof()
        assert not reader.reusable
    else:
        with pytest.raises(MalformedError):
            reader.feed_eof()


@pytest.mark.parametrize("name", sorted(name for name, good in GOOD.items() if good[4]))
@pytest.mark.parametrize("extra", [b"x", b"\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"])
@pytest.mark.parametrize("cut", [True, False])
def test_what_nobody_asked_for_ends_the_connection(name: str, extra: bytes, cut: bool) -> None:
    """Else it would be taken for the answer to the next request."""
    data, _, status, body, _ = GOOD[name]

    reader = read(data + extra, [len(data)] if cut else [], eof=False)

    assert (reader.done, reader.status, b"".join(reader.pieces)) == (True, status, body)
    assert extra == b"\r\n" or not reader.reusable


def test_one_reader_reads_one_response_after_another() -> None:
    reader = ResponseReader()
    for name, (data, eof, status, body, reusable) in GOOD.items():
        if reusable and not eof:
            reader.begin()
            reader.feed(data)
            assert (reader.done, reader.status, b"".join(reader.pieces)) == (True, status, body), name


def test_the_pieces_of_a_long_chunked_body_are_no_overhead() -> None:
    body = b"x" * 300_000
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(body, 7)

    assert b"".join(read(data, list(range(0, len(data), 60_000)), eof=False).pieces) == body


def test_a_response_that_is_complete_stays_so_whatever_follows() -> None:
    """A server that sends more than it announced, and in bulk: the answer counts, the connection not."""
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    reader.feed(b"x" * LARGEST_HEAD * 2)

    assert (reader.done, b"".join(reader.pieces)) == (True, b"ok")
    assert not reader.reusable
