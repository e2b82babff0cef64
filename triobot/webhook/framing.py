"""How long a request's body is, as its headers tell; pure.

A body whose length is told twice, in two ways, is where one server reads one request and the next one
two. Such a request is refused whatever it contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, final

import attrs

_DIGITS: Final = re.compile(rb"[0-9]{1,18}")


@final
@attrs.frozen
class Framing:
    """What the headers tell of the body.

    Attributes:
        content_type: as it came, or empty.
        length: in bytes; None if not told.
        conflicting: the length is told in two ways, or can't be read.
        unread: a body may follow.
    """

    content_type: str
    length: int | None
    conflicting: bool
    unread: bool


def read_framing(headers: Iterable[tuple[bytes, bytes]], http_version: str) -> Framing:
    """Read the headers, their names in lower case."""
    content_type = ""
    lengths: set[bytes] = set()
    encoded = False
    for name, value in headers:
        if name == b"content-type":
            content_type = value.decode("latin-1")
        elif name == b"content-length":
            lengths.update(part.strip() for part in value.split(b","))
        elif name == b"transfer-encoding":
            encoded = True
    readable = all(_DIGITS.fullmatch(length) for length in lengths)
    length = int(next(iter(lengths))) if len(lengths) == 1 and readable else None
    # HTTP/1 without either header has no body; HTTP/2 needs neither to have one.
    unread = bool(lengths and length != 0) or encoded or not http_version.startswith("1")
    conflicting = len(lengths) > 1 or not readable or bool(encoded and lengths)
    return Framing(content_type, length, conflicting, unread)
