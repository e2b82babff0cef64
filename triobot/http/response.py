"""Parses responses from bytes, one after another. Never waits.

llhttp parses in its strict mode: a length given twice, a bare line feed or a folded header ends the
connection. This module adds the limits that llhttp lacks: on the size of the head, and on the bytes around
the chunks of a body.
"""

from __future__ import annotations

from typing import Final, TypeAlias, final

import httptools

from .request import MalformedError

# Limit for all bytes outside the body. h11 accepts heads of 100 KiB, and nginx heads of 32 KiB; no server
# needs more.
LARGEST_HEAD: Final = 64 * 1024
# Bytes allowed for a chunk's size line. Extensions in this line are rare.
_CHUNK_LINE: Final = 64
# llhttp leaves blanks at the end of a header's value.
_BLANKS: Final = b" \t"
_CHANGED: Final = "it changed the protocol, which nobody asked for"


Headers: TypeAlias = list[tuple[bytes, bytes]]


@final
class ResponseReader:
    """Parses the responses of one connection. Call `begin` before each request, then `feed` until `done`.

    Attributes:
        status: the response's status, which may be set before the head is complete; 0 until it is set.
        headers: headers with their names as received.
        pieces: pieces of the body; a consumer empties the list.
        size: number of the body's bytes so far.
        head_done: whether the head is complete.
        done: whether the response is complete.
        reusable: whether another request may be sent over the connection; valid once `done` is True.
    """

    def __init__(self) -> None:
        self.begin()
        self._parser = httptools.HttpResponseParser(self)

    def begin(self) -> None:
        """Prepare for the response to a request that isn't a HEAD."""
        self.status = 0
        self.headers: Headers = []
        self.pieces: list[bytes] = []
        self.size = 0
        self.head_done = False
        self.done = False
        self.reusable = False
        self._until_eof = False
        self._informational = False
        self._framing = 0

    def feed(self, data: bytes) -> None:
        """Parse received bytes.

        Raises:
            MalformedError: the bytes are no response.
        """
        if self.done:
            # Bytes that arrive without a request must not become the next request's response.
            self.reusable = False
            return
        self._framing += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if not self.done:
                raise MalformedError(str(error)) from None
            self.reusable = False
        except httptools.HttpParserUpgrade:
            raise MalformedError(_CHANGED) from None
        if self._framing - self.size > LARGEST_HEAD and not self.done:
            raise MalformedError(f"more than {LARGEST_HEAD} bytes that are no body")

    def feed_eof(self) -> None:
        """End the response, because the other side has closed its half of the connection.

        Raises:
            MalformedError: the response is not complete.
        """
        self.reusable = False
        if self._until_eof:
            self.done = True
        if not self.done:
            raise MalformedError("the connection ended " + ("in the body" if self.head_done else "before it"))

    def close(self) -> None:
        """Delete the parser, so that parser and reader no longer refer to each other."""
        del self._parser

    # --- the parser's callbacks

    def on_message_begin(self) -> None:
        """Start a response, interim or final; a surplus response makes the connection unusable."""
        if self.done:
            self.reusable = False
            return
        self.headers = []

    def on_status(self, _: bytes) -> None:
        """Store the status; llhttp calls this method for each piece of the reason text."""
        if not self.done:
            status = self._parser.get_status_code()
            self.status = status if status >= 200 else 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; ignore trailers after the body."""
        if not self.head_done:
            self.headers.append((name, value.rstrip(_BLANKS)))

    def on_headers_complete(self) -> None:
        """Check the head; ignore the head of an interim response."""
        if self.done:
            return
        status = self.status or self._parser.get_status_code()
        if self._parser.get_http_version() not in ("1.1", "1.0"):
            raise MalformedError("neither HTTP/1.1 nor HTTP/1.0")
        if status == 101:
            raise MalformedError(_CHANGED)
        self._informational = status < 200
        if not self._informational:
            self.status = status
            self.head_done = True
            self._until_eof = self._has_no_length(status)

    def on_body(self, piece: bytes) -> None:
        if not self.done:
            self.size += len(piece)
            self.pieces.append(piece)

    def on_chunk_header(self) -> None:
        """Allow `_CHUNK_LINE` bytes for one more chunk's line."""
        self._framing -= _CHUNK_LINE

    def on_message_complete(self) -> None:
        """Reset after an interim response, or set `done` after the final response."""
        if self._informational:
            self._informational = False
        elif not self.done:
            self.done = True
            self.reusable = self._parser.should_keep_alive()

    def _has_no_length(self, status: int) -> bool:
        if status in (204, 304):
            return False
        for name, value in self.headers:
            match name.lower():
                case b"content-length":
                    return False
                case b"transfer-encoding":
                    if value.lower() != b"chunked":
                        raise MalformedError("a transfer encoding other than chunked")
                    return False
                case _:
                    pass
        return True
