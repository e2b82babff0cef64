"""Requests from bytes: however they are cut, the same come out; what can't be trusted is refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import examples
from triobot.http.request import (
    LONGEST_KNOWN,
    MOST_KNOWN,
    Incoming,
    KnownHeads,
    MalformedError,
    RequestReader,
)

HEAD_BYTES = 4096


def whole(method: str, path: str, body: bytes, *, chunk: int | None, close: bool = False) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: bot", "X-Empty:"]
    if close:
        lines.append("Connection: close")
    if chunk is None:
        lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode() + body
    pieces = [body[at : at + chunk] for at in range(0, len(body), chunk)]
    framed = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return "\r\n".join([*lines, "Transfer-Encoding: chunked", "", ""]).encode() + framed + b"0\r\n\r\n"


Request = tuple[str, str, bytes]


def read(
    data: bytes, cuts: list[int], found: list[Request] | None = None, known: KnownHeads | None = None
) -> tuple[list[Request], RequestReader]:
    """Feed it piece by piece, and take requests and their bodies as they come."""
    reader = RequestReader(head_bytes=HEAD_BYTES, known=known)
    found = [] if found is None else found
    current: Incoming | None = None
    body = b""
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(edges):
        if current is None:
            current, body = reader.read(data[start:end]), b""
        else:
            reader.feed(data[start:end])
        while True:
            if current is None:
                current, body = reader.next(), b""
            if current is None:
                break
            while reader.more(current):
                pass
            body += b"".join(current.pieces)
            current.pieces.clear()
            if not current.complete:
                break
            found.append((current.method, current.target.decode(), body))
            current = None
    return found, reader


REQUESTS = st.lists(
    st.tuples(
        st.sampled_from(["GET", "POST", "PUT"]),
        st.sampled_from(["/", "/a?b=c", "/%D8%B1", "http://x/y"]),
        st.binary(max_size=6000),
        st.one_of(st.none(), st.integers(1, 3000)),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples(150), deadline=None)
@given(REQUESTS, st.lists(st.integers(0, 20_000), max_size=20))
def test_however_they_are_cut_and_piled_up(
    requests: list[tuple[str, str, bytes, int | None]], cuts: list[int]
) -> None:
    data = b"".join(whole(method, path, body, chunk=chunk) for method, path, body, chunk in requests)

    found, reader = read(data, cuts)

    assert found == [(method, path, body) for method, path, body, _ in requests]
    assert not reader.begun
    assert len(reader._unread) == 0


def test_byte_by_byte() -> None:
    data = whole("POST", "/a", b"hello", chunk=2) + whole("GET", "/b", b"", chunk=None)

    assert read(data, list(range(len(data))))[0] == [("POST", "/a", b"hello"), ("GET", "/b", b"")]


def test_what_a_head_tells() -> None:
    reader = RequestReader(head_bytes=HEAD_BYTES)
    reader.feed(
        b"\r\nPOST /x HTTP/1.1\r\nHOST: a\r\nExpect: 100-Continue\r\nX-Y:  z \r\nContent-Length: 5\r\n"
        b"Content-Type: text/plain\r\nContent-Type: more\r\n\r\n"
    )
    request = reader.next()

    assert request is not None
    assert request.headers == [
        (b"host", b"a"),
        (b"expect", b"100-Continue"),
        (b"x-y", b"z"),
        (b"content-length", b"5"),
        (b"content-type", b"text/plain"),
        (b"content-type", b"more"),
    ]
    assert request.content_type == "text/plain"
    assert (request.length, request.expects, request.keep_alive, request.version) == (5, True, True, "1.1")
    assert request.header(b"x-y") == b"z"
    assert not request.complete


@pytest.mark.parametrize(
    ("lines", "keep_alive"),
    [
        ("GET / HTTP/1.1\r\nHost: a", True),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close", False),
        ("GET / HTTP/1.0", False),
        ("GET / HTTP/1.0\r\nConnection: keep-alive", True),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c", False),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a", False),
    ],
)
def test_whether_the_connection_goes_on(lines: str, keep_alive: bool) -> None:
    reader = RequestReader(head_bytes=HEAD_BYTES)
    reader.feed(lines.encode() + b"\r\n\r\n")
    request = reader.next()

    assert request is not None
    assert (request.keep_alive, request.complete, request.length) == (keep_alive, True, 0)


HOST = b"POST / HTTP/1.1\r\nHost: a\r\n"
BAD: dict[str, tuple[bytes, int]] = {
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "two lengths": (HOST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345", 400),
    "the same length twice": (HOST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n12345", 400),
    "lengths in one": (HOST + b"Content-Length: 5, 5\r\n\r\n12345", 400),
    "length and chunks": (HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks and length": (HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
    "chunks twice": (
        HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "another encoding": (HOST + b"Transfer-Encoding: gzip\r\n\r\n", 501),
    "another encoding first": (HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "almost chunked": (HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    "chunks in HTTP/1.0": (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
    "a signed length": (HOST + b"Content-Length: +5\r\n\r\n12345", 400),
    "an empty length": (HOST + b"Content-Length:\r\n\r\n12345", 400),
    "a length of another script": (HOST + "Content-Length: ۵\r\n\r\n12345".encode(), 400),
    "a length beyond counting": (HOST + b"Content-Length: 99999999999999999999\r\n\r\n", 400),
    "a folded header": (HOST + b"X: a\r\n b\r\n\r\n", 400),
    "a space before the colon": (HOST + b"X : a\r\n\r\n", 400),
    "no name": (HOST + b": a\r\n\r\n", 400),
    "a bare line feed": (b"GET / HTTP/1.1\nHost: a\n\n", 400),
    "a bare carriage return": (HOST + b"X: a\rb\r\n\r\n", 400),
    "a zero byte": (HOST + b"X: a\x00b\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (HOST + b"Host: b\r\n\r\n", 400),
    "HTTP/0.9": (b"GET /\r\n\r\n", 505),
    "HTTP/2": (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    "HTTP/2's first words": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "a space in the path": (b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "bytes in the path": ("GET /رمز HTTP/1.1\r\nHost: a\r\n\r\n".encode(), 400),
    "a chunk that is none": (HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    "a space behind a chunk's size": (
        HOST + b"Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n",
        400,
    ),
    "a chunk longer than its size": (HOST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", 400),
    "a body before another protocol": (
        HOST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc",
        400,
    ),
    "an endless header": (b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000, 431),
    "endless headers": (b"GET / HTTP/1.1\r\n" + b"X: x\r\n" * 5_000, 431),
    "an endless path": (b"GET /" + b"x" * 20_000, 431),
    "an endless chunk extension": (HOST + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 20_000, 400),
    "endless trailers": (HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: x\r\n" * 5_000, 400),
}


@pytest.mark.parametrize("name", sorted(BAD))
@pytest.mark.parametrize("step", [1, 7, 1000, 100_000])
def test_what_is_no_request_is_refused(name: str, step: int) -> None:
    data, status = BAD[name]

    with pytest.raises(MalformedError) as caught:
        read(data, list(range(0, len(data), step)))

    # Cut into bytes, HTTP/2's preface is seen to be another version before it is seen to be itself.
    assert caught.value.status in ({400, 505} if "HTTP/2" in name else {status})


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(sorted(BAD)), st.integers(0, 3), st.lists(st.integers(0, 5000), max_size=10))
def test_those_before_a_bad_one_are_heard(name: str, before: int, cuts: list[int]) -> None:
    good = whole("POST", "/x", b"abc", chunk=None)
    heard: list[Request] = []

    with pytest.raises(MalformedError):
        read(good * before + BAD[name][0], cuts, heard)

    assert heard == [("POST", "/x", b"abc")] * before


def head_of(size: int, lines: int, sign: bytes, colon: bytes) -> bytes:
    start, length = b"POST /x HTTP/1.1\r\nHost: bot\r\n", b"Content-Length: 3\r\n"
    fill = size - len(start + length) - 2
    names = [b"X-%d%s" % (number, colon) for number in range(lines)]
    each = fill // lines
    sizes = [each] * (lines - 1) + [fill - each * (lines - 1)]
    padded = [name + sign * (one - len(name) - 2) + b"\r\n" for name, one in zip(names, sizes, strict=True)]
    head = start + b"".join(padded) + length + b"\r\n"
    assert len(head) == size
    return head


@settings(max_examples=examples(100), deadline=None)
@given(
    st.sampled_from((-2000, -1, 0, 1, 2, 500, 1500, 2100, 3000, 20_000)),
    st.integers(1, 40),
    st.sampled_from([b"a", b" ", b"\t"]),
    st.sampled_from([b": ", b":"]),
    st.integers(0, 3),
    st.sampled_from([None, 2]),
    st.sampled_from([b"", b"\r\n", b"\n", b"\r\n" * 40]),
    st.lists(st.integers(0, 30_000), max_size=10),
)
def test_the_longest_head_is_as_long_as_the_limit_says(
    over: int,
    lines: int,
    sign: bytes,
    colon: bytes,
    before: int,
    chunk: int | None,
    empty: bytes,
    cuts: list[int],
) -> None:
    """To the byte, blanks included: whatever came before it, empty lines too, and however it is cut."""
    head = head_of(HEAD_BYTES + over, lines, sign, colon)
    data = (empty + whole("POST", "/x", b"abc", chunk=chunk)) * before + empty + head + b"abc"
    heard: list[Request] = []

    if over <= 0:
        read(data, cuts, heard)
        assert heard == [("POST", "/x", b"abc")] * (before + 1)
    else:
        with pytest.raises(MalformedError) as caught:
            read(data, cuts, heard)
        assert caught.value.status == 431
        assert heard == [("POST", "/x", b"abc")] * before


def test_nothing_behind_another_protocol_is_read() -> None:
    reader = RequestReader(head_bytes=HEAD_BYTES)
    upgrade = b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    reader.feed(upgrade + whole("GET", "/smuggled", b"", chunk=None))
    first = reader.next()

    assert first is not None and first.upgrade
    with pytest.raises(MalformedError):
        reader.next()


def test_thousands_of_requests_in_one_write_are_not_thousands_of_objects() -> None:
    reader = RequestReader(head_bytes=HEAD_BYTES)
    reader.feed(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 5_000)
    assert reader.next() is not None

    assert len(reader._requests) < 100
    count = 1
    while reader.next() is not None:
        count += 1
    assert count == 5_000


def test_a_long_body_is_read_in_one_go_and_no_further() -> None:
    reader = RequestReader(head_bytes=HEAD_BYTES)
    data = whole("POST", "/", b"x" * 500_000, chunk=None)
    reader.feed(data + whole("GET", "/next", b"", chunk=None))
    request = reader.next()
    assert request is not None
    slices = 0
    while reader.more(request):
        slices += 1

    assert sum(map(len, request.pieces)) == 500_000
    assert slices <= 2
    following = reader.next()
    assert following is not None and following.target == b"/next"


def told(data: bytes, cuts: list[int], known: KnownHeads) -> object:
    found: list[Request] = []
    try:
        _, reader = read(data, cuts, found, known)
    except MalformedError as error:
        return found, str(error), error.status
    return found, reader.begun, len(reader._unread)


def all_known() -> KnownHeads:
    known: KnownHeads = {}
    for data in ONES:
        told(data, [], known)
    return known


ONES = [
    whole("POST", "/x", b"abcde", chunk=None),
    whole("POST", "/x", b"abcde", chunk=2),
    whole("POST", "/x", b"abcde", chunk=None, close=True),
    whole("GET", "/", b"", chunk=None),
    b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    b"\r\n\r\n" + whole("GET", "/", b"", chunk=None),
]


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(
        st.sampled_from([*ONES, b"\r\n\r\n", *(bad for bad, _ in BAD.values())]), min_size=1, max_size=3
    ),
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 3), st.binary(max_size=6)), max_size=2),
    st.lists(st.integers(0, 500), max_size=3),
    st.booleans(),
)
def test_known_heads_change_nothing(
    parts: list[bytes], changes: list[tuple[int, int, bytes]], cuts: list[int], between: bool
) -> None:
    data = b"".join(parts)
    for at, left_out, put_in in changes:
        at %= len(data) + 1
        data = data[:at] + put_in + data[at + left_out :]
    if between:  # each comes by itself, as a rule
        cuts = [sum(map(len, parts[:count])) for count in range(len(parts))]

    assert told(data, cuts, all_known()) == told(data, cuts, {})


def test_a_known_head_is_not_parsed_again() -> None:
    known = all_known()
    heads = set(known)
    reader = RequestReader(head_bytes=HEAD_BYTES, known=known)
    reader.close()  # there is no parser any more

    for body in (b"vwxyz", b"12345"):
        request = reader.read(whole("POST", "/x", body, chunk=None))
        assert request is not None
        assert (request.complete, request.pieces, request.header(b"host")) == (True, [body], b"bot")

    assert set(known) == heads


def test_what_begins_as_a_known_head_is_read_to_its_end() -> None:
    """The rest of the head comes later, and may say something else."""
    known: KnownHeads = {}
    told(b"GET / HTTP/1.1\r\nHost: bot\r\n\r\n", [], known)
    reader = RequestReader(head_bytes=HEAD_BYTES, known=known)

    assert reader.read(b"GET / HTTP/1.1\r\nHost: bot") is None
    request = reader.read(b".test\r\nContent-Length: 3\r\n\r\nabc")

    assert request is not None
    assert (request.header(b"host"), request.pieces) == (b"bot.test", [b"abc"])


def test_no_more_than_some_heads_are_remembered() -> None:
    known: KnownHeads = {}
    reader = RequestReader(head_bytes=HEAD_BYTES, known=known)
    for number in range(3 * MOST_KNOWN):
        assert reader.read(whole("POST", f"/{number}", b"abc", chunk=None)) is not None
    assert 0 < len(known) <= MOST_KNOWN
    known.clear()
    assert reader.read(whole("POST", "/" + "x" * LONGEST_KNOWN, b"abc", chunk=None)) is not None
    assert not known
