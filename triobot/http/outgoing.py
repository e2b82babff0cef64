"""Encodes the head of a request, and refuses parts that would turn one request into two."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, final

from ..base.frozen import guarded

_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(rb"[^\x00\r\n]*")
_TARGET: Final = re.compile(rb"[\x21-\x7e]+")
_DIGITS: Final = re.compile(rb"[0-9]{1,18}")


class UnsendableError(Exception):
    """The request or response can't be encoded. Our program's fault; no byte of the message was sent."""


@final
@guarded
class Framing:
    """How a request's body is delimited.

    Attributes:
        length: the body's bytes; None if the body is sent in chunks.
        expects: whether the body waits for a 100 from the other side.
    """

    length: int | None
    expects: bool


def encode_head(
    method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]], *, host: bytes = b""
) -> bytes:
    """Return a request's encoded head, including the empty line.

    Args:
        host: value of a Host header, added if `headers` contain none.

    Raises:
        UnsendableError: a part contains a character that would end it early.
    """
    if not _TOKEN.fullmatch(method):
        raise UnsendableError("the method is no token")
    if not _TARGET.fullmatch(target):
        raise UnsendableError("the URL has characters that end it early")
    lines = [b"%s %s HTTP/1.1" % (method, target)]
    named = False
    for name, value in headers:
        if not _TOKEN.fullmatch(name):
            raise UnsendableError("a header's name is no token")
        if not _VALUE.fullmatch(value):
            raise UnsendableError(f"the value of the header {name.decode('ascii')} has a line end in it")
        named = named or name.lower() == b"host"
        lines.append(b"%s: %s" % (name, value))
    if not named:
        if not _TARGET.fullmatch(host):
            raise UnsendableError("the host has characters that end it early")
        lines.insert(1, b"Host: " + host)
    lines += (b"", b"")
    return b"\r\n".join(lines)


def framing_of(headers: Sequence[tuple[bytes, bytes]]) -> Framing:
    """Return how the headers delimit the body. Without a length and an encoding, there is no body.

    Raises:
        UnsendableError: the headers contain two lengths, or an invalid length.
    """
    lengths: set[bytes] = set()
    chunked = expects = False
    for name, value in headers:
        match name.lower():
            case b"content-length":
                lengths.add(value)
            case b"transfer-encoding":
                chunked = True
                if value.lower() != b"chunked":
                    raise UnsendableError("the only transfer encoding is chunked")
            case b"expect":
                expects = value.lower() == b"100-continue"
            case _:
                pass
    if len(lengths) + chunked > 1:
        raise UnsendableError("the length of the body is told in two ways")
    if chunked:
        return Framing(None, expects)
    length = lengths.pop() if lengths else b"0"
    if not _DIGITS.fullmatch(length):
        raise UnsendableError("the length of the body is no number")
    return Framing(int(length), expects)


def encode_chunk(piece: bytes) -> bytes:
    """Return an encoded piece of a chunked body; nothing for an empty piece, which would end the body."""
    return b"%x\r\n%s\r\n" % (len(piece), piece) if piece else b""


LAST_CHUNK: Final = b"0\r\n\r\n"
