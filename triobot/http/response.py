"""Reads responses: bytes in, one response after another out. Waits for nothing.

llhttp parses, with no leniency switched on, so that a length given twice, a bare line feed or a folded header
ends the connection. What it doesn't bound is bounded here: the head, and what surrounds the pieces of a
chunked body.
"""

from __future__ import annotations

from typing import Final, TypeAlias, final

import httptools

from .request import MalformedError

# Of all that is no body. h11 and nginx take 100 and 32 KiB of a response's head; no server needs more.
LARGEST_HEAD: Final = 64 * 1024
# A chunk's own line, with extensions, which are hardly ever sent.
_CHUNK_LINE: Final = 64
# llhttp leaves them behind a value.
_BLANKS: Final = b" \t"
_CHANGED: Final = "it changed the protocol, which nobody asked for"


Headers: TypeAlias = list[tuple[bytes, bytes]]


@final
class ResponseReader:
    """Reads the responses of one connection. `begin` before each request, then `feed` until `done`.

    Attributes:
        status: of the response; 0 until it has been read, which may be before its head is complete.
        reason: the words behind the status.
        version: ``1.1`` or ``1.0``.
        headers: names as they came.
        pieces: of the body, not taken yet; a reader that takes them empties the list.
        size: of the body so far.
        continued: the other side has asked for the body with a 100.
        head_done: the head is complete.
        done: the response is complete.
        reusable: the connection may carry another request; says so only once it is `done`.
    """

    def __init__(self) -> None:
        self.begin(without_body=False)
        self._parser = httptools.HttpResponseParser(self)

    def begin(self, *, without_body: bool) -> None:
        """Expect the response to a request; `without_body` for one to HEAD."""
        self.status = 0
        self.reason = b""
        self.version = "1.1"
        self.headers: Headers = []
        self.pieces: list[bytes] = []
        self.size = 0
        self.continued = False
        self.head_done = False
        self.done = False
        self.reusable = False
        self._without_body = without_body
        self._until_eof = False
        self._informational = False
        self._framing = 0

    def feed(self, data: bytes) -> None:
        """Take bytes as they came.

        Raises:
            MalformedError: they are no response.
        """
        if self.done:
            # It came without a request: whatever it is, it must not be taken for the next one's response.
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
        """End the response, since the other side will send no more.

        Raises:
            MalformedError: the response is not complete.
        """
        self.reusable = False
        if self._until_eof:
            self.done = True
        if not self.done:
            raise MalformedError("the connection ended " + ("in the body" if self.head_done else "before it"))

    def close(self) -> None:
        """Drop the parser, which refers back to this."""
        del self._parser

    # --- what the parser calls

    def on_message_begin(self) -> None:
        """Start a response, interim or final; a surplus one after the end makes the connection unusable."""
        if self.done:
            self.reusable = False
            return
        self.headers = []
        self.reason = b""

    def on_status(self, reason: bytes) -> None:
        """Note the status, and add to the words behind it, which may come in parts."""
        if not self.done:
            status = self._parser.get_status_code()
            self.status = status if status >= 200 else 0
            self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; ignore trailers behind the body."""
        if not self.head_done:
            self.headers.append((name, value.rstrip(_BLANKS)))

    def on_headers_complete(self) -> None:
        """Check the head; for an interim response, note a 100 and go on."""
        if self.done:
            return
        status = self.status or self._parser.get_status_code()
        self.version = self._parser.get_http_version()
        if self.version not in ("1.1", "1.0"):
            raise MalformedError("neither HTTP/1.1 nor HTTP/1.0")
        if status == 101:
            raise MalformedError(_CHANGED)
        self._informational = status < 200
        if self._informational:
            self.continued = self.continued or status == 100
            return
        self.status = status
        self.head_done = True
        if self._without_body:
            # The parser can't be told that no body follows: it is done with, and so is the connection if
            # the head announced one.
            self.done = True
            self.reusable = self._parser.should_keep_alive() and not self._announces_body()
        else:
            self._until_eof = self._has_no_length(status)

    def on_body(self, piece: bytes) -> None:
        """Add a piece of the body."""
        if not self.done:
            self.size += len(piece)
            self.pieces.append(piece)

    def on_chunk_header(self) -> None:
        """Allow for the line of one more chunk."""
        self._framing -= _CHUNK_LINE

    def on_message_complete(self) -> None:
        """End the interim response, or mark the final one as complete."""
        if self._informational:
            self._informational = False
        elif not self.done:
            self.done = True
            self.reusable = self._parser.should_keep_alive()

    def _announces_body(self) -> bool:
        return any(
            name.lower() == b"transfer-encoding" or (name.lower() == b"content-length" and value != b"0")
            for name, value in self.headers
        )

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
