"""Encodes the head of a request, and refuses parts that would turn one request into two."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(rb"[^\x00\r\n]*")
_TARGET: Final = re.compile(rb"[\x21-\x7e]+")


class UnsendableError(Exception):
    """The request or response can't be encoded. Our program's fault; no byte of the message was sent."""


def encode_head(method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a request's encoded head, including the empty line.

    Raises:
        UnsendableError: a part contains a character that would end it early.
    """
    if not _TOKEN.fullmatch(method):
        raise UnsendableError("the method is no token")
    if not _TARGET.fullmatch(target):
        raise UnsendableError("the URL has characters that end it early")
    lines = [b"%s %s HTTP/1.1" % (method, target)]
    for name, value in headers:
        if not _TOKEN.fullmatch(name):
            raise UnsendableError("a header's name is no token")
        if not _VALUE.fullmatch(value):
            raise UnsendableError(f"the value of the header {name.decode('ascii')} has a line end in it")
        lines.append(b"%s: %s" % (name, value))
    lines += (b"", b"")
    return b"\r\n".join(lines)


def encode_chunk(piece: bytes) -> bytes:
    """Return an encoded piece of a chunked body; nothing for an empty piece, which would end the body."""
    return b"%x\r\n%s\r\n" % (len(piece), piece) if piece else b""


LAST_CHUNK: Final = b"0\r\n\r\n"
