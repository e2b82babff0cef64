"""The head of a response, as bytes: nothing gets in that would make two responses of one."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from .outgoing import UnsendableError

_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(rb"[^\x00\r\n]*")

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

_LINES: Final = {
    status.value: b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}


def encode_answer_head(
    status: int, headers: Iterable[tuple[bytes, bytes]], *, now: float, close: bool
) -> bytes:
    """A response's head, up to and with the empty line.

    Args:
        headers: with what tells the body's length; ``connection`` and ``date`` come from here.
        now: seconds since 1970, for the date.
        close: this is the last response of the connection.

    Raises:
        UnsendableError: a header has a character that would end it early.
    """
    parts = [_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status, _date(int(now))]
    for name, value in headers:
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise UnsendableError("a header of the response has characters that end it early")
        parts.append(b"%s: %s\r\n" % (name, value))
    parts.append(b"connection: close\r\n\r\n" if close else b"\r\n")
    return b"".join(parts)


@lru_cache(32)
def encode_whole_head(
    status: int, headers: tuple[tuple[bytes, bytes], ...], length: int, *, second: int, close: bool
) -> bytes:
    """The head of a response that is there as a whole; nearly all of a second's are the same.

    Args:
        length: of the body.
        second: since 1970, for the date.

    Raises: as `encode_answer_head`, which says the rest.
    """
    told = (*headers, (b"content-length", b"%d" % length))
    return encode_answer_head(status, told, now=second, close=close)


def has_no_body(method: str, status: int) -> bool:
    """Whether a response never has a body, whatever its headers say."""
    return method == "HEAD" or status in (204, 304) or status < 200


@lru_cache(1)
def _date(second: int) -> bytes:
    return b"date: %s\r\n" % formatdate(second, usegmt=True).encode()


def seconds_now() -> float:
    """The time of day, for the date of responses only."""
    return time.time()
