"""Parses requests from bytes, one after another. Never waits.

llhttp parses in its strict mode. This module also refuses some requests that llhttp accepts: HTTP/1.1 without
a host, versions other than 1.1 and 1.0, and any transfer encoding except chunked in HTTP/1.1. This module
also adds the limits that llhttp lacks: on the size of the head, and on the bytes around the chunks of a body.
The parser gets one head at a time, and only when the connection is ready for the next request. So thousands
of pipelined requests stay bytes until their turn, instead of becoming thousands of objects.

A sender's requests have the same few heads again and again. So parsed heads are cached (`KnownHeads`). If one
read returns exactly one request, and its head is cached, the request isn't parsed. The cache saves 27,000 of
the 860,000 instructions that answering a message takes.
"""

from __future__ import annotations

from collections import deque
from typing import Final, TypeAlias, final
from urllib.parse import unquote_to_bytes

import attrs
import httptools

_CHUNK_LINE: Final = 64
# llhttp leaves blanks at the end of a header's value.
_BLANKS: Final = b" \t"

HEAD_END: Final = b"\r\n\r\n"
LONGEST_KNOWN: Final = 1024
"""Number of bytes of the longest head that is cached."""
MOST_KNOWN: Final = 256
"""Largest number of cached heads; the next head clears the cache."""


@final
class MalformedError(Exception):
    """The bytes break the rules of HTTP/1.1. The sender's fault; the connection must be closed.

    Attributes:
        rule: description of the broken rule, without the bytes.
        status: HTTP status with which a server answers.
    """

    def __init__(self, rule: str, status: int = 400) -> None:
        super().__init__(rule, status)
        self.rule = rule
        self.status = status

    def __str__(self) -> str:
        return self.rule


@final
@attrs.define(eq=False, repr=False)
class Incoming:
    """A request, which may not have arrived completely yet.

    Attributes:
        method: in capitals, such as ``POST``.
        target: as received: a path with its query, or a whole URL.
        version: ``1.1`` or ``1.0``.
        headers: headers with names in lower case.
        content_type: the body's content type as received, or empty.
        length: the body's length according to the head; None if the body comes in chunks.
        expects: whether the sender waits for a 100 before the body.
        keep_alive: whether the sender wants to keep the connection.
        upgrade: whether the sender asks for another protocol; bytes after the head are not read.
        pieces: pieces of the body; a consumer empties the list.
        complete: whether the whole body has arrived.
    """

    method: str
    target: bytes
    version: str
    headers: list[tuple[bytes, bytes]]
    content_type: str
    length: int | None
    expects: bool
    keep_alive: bool
    upgrade: bool
    pieces: list[bytes]
    complete: bool = False

    def header(self, name: bytes) -> bytes:
        """Return the value of the first header with this name, or an empty value."""
        for key, value in self.headers:
            if key == name:
                return value
        return b""

    @property
    def path(self) -> str:
        """The target's decoded path."""
        target = self.target
        if not target.startswith(b"/"):
            # A whole URL, which servers must accept too.
            _, found, rest = target.partition(b"://")
            target = b"/" + rest.partition(b"/")[2] if found else target
        path = target.partition(b"?")[0]
        return (unquote_to_bytes(path) if b"%" in path else path).decode("utf-8", "replace")


def _with_body(head: Incoming, body: bytes) -> Incoming:
    """Return a complete request with the head of the request `head`, and with `body`."""
    return Incoming(
        head.method,
        head.target,
        head.version,
        head.headers,
        head.content_type,
        head.length,
        head.expects,
        head.keep_alive,
        head.upgrade,
        [body] if body else [],
        True,
    )


KnownHeads: TypeAlias = dict[bytes, Incoming]
"""Parsed requests by their heads' bytes, without the heads' final line ends.

A head is cached only if a single read returned the head with exactly one body of the announced length. If a
later read returns an equal head and an equally long body, these bytes are again exactly one request.
"""


@final
class RequestReader:
    """Parses the requests of one connection.

    Args:
        head_bytes: largest size of the request line with the headers.
        known: cache of heads, shared with other connections.

    Attributes:
        begun: whether a request has begun, and its head is incomplete.
    """

    def __init__(self, *, head_bytes: int, known: KnownHeads | None = None) -> None:
        self._head_bytes = head_bytes
        self._known: KnownHeads = {} if known is None else known
        self._unread, self._at = b"", 0
        self._requests: deque[Incoming] = deque()
        self._current: Incoming | None = None
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._framing = 0
        self._left = 0
        self._ended = False
        self._refusal: MalformedError | None = None
        self.begun = False
        self._parser = httptools.HttpRequestParser(self)

    def feed(self, data: bytes) -> None:
        """Append received bytes, which `next` and `more` parse."""
        self._unread, self._at = self._unread[self._at :] + data, 0

    def read(self, data: bytes) -> Incoming | None:
        """Append received bytes, and return the next request as `next` does.

        Call `read` only after `next` has returned None.

        Raises: as `next`.
        """
        if self._unread or self.begun or self._current is not None or self._refusal is not None:
            self.feed(data)
            return self.next()
        head, end, body = data.partition(HEAD_END)
        known = self._known.get(head) if end else None
        if known is not None and known.length == len(body):
            return _with_body(known, body)
        self.feed(data)
        request = self.next()
        if end and request is not None and request.complete and request.length == len(body):
            self._remember(head, request)
        return request

    def _remember(self, head: bytes, request: Incoming) -> None:
        alone = not self._unread and not self._requests and not self.begun and self._refusal is None
        if alone and request.keep_alive and len(head) <= LONGEST_KNOWN:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[head] = _with_body(request, b"")

    def next(self) -> Incoming | None:
        """Return the next request as soon as its head is complete; None if more bytes are needed.

        Raises:
            MalformedError: the next bytes are no request. All requests before these bytes have been returned.
        """
        if not self._unread and not self._requests and self._refusal is None:
            return None
        while not self._requests:
            if not self._read_slice():
                return None
        request = self._requests.popleft()
        if 0 < self._left <= len(self._unread) - self._at:
            self._read_slice()  # the body has arrived too
        return request

    def more(self, incoming: Incoming) -> bool:
        """Parse one more slice of a request's body; False if more bytes are needed, or the body is complete.

        Raises:
            MalformedError: as `next`.
        """
        return not incoming.complete and self._read_slice()

    def close(self) -> None:
        """Delete the parser, so that parser and reader no longer refer to each other."""
        del self._parser

    def _read_slice(self) -> bool:
        if self._refusal is not None:
            raise self._refusal
        if not self._unread:
            return False
        if self._current is None and not self.begun:
            self._framing = 0
            if self._unread.startswith((b"\r", b"\n"), self._at):  # skip empty lines
                self._at = len(self._unread) - len(self._unread[self._at :].lstrip(b"\r\n"))
        at, end = self._at, self._end_of_slice()
        if at == end:
            return False
        piece = memoryview(self._unread)[at:end]
        if end == len(self._unread):
            self._unread, end = b"", 0
        self._at = end
        self._framing += len(piece)
        self._ended = False
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            # The server never switches to another protocol: the request is served, but the bytes after the
            # request can't be parsed.
            self._refusal = MalformedError("something behind the wish for another protocol")
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refusal = cause if isinstance(cause, MalformedError) else MalformedError(str(error))
            if not self._requests and not self._ended:
                raise self._refusal from None
        if self._framing >= self._head_bytes and self.begun:
            self._refusal = MalformedError("a head that is too long", 431)
        elif self._framing > self._head_bytes and self._current is not None:
            self._refusal = MalformedError("more around the chunks of a body than in it")
        return True

    def _end_of_slice(self) -> int:
        """Return the position up to which the parser gets bytes in the next call.

        The position is at most the end of the body, or of the empty line after a head.
        """
        unread, at = self._unread, self._at
        if self._left > 0:
            return min(at + self._left, len(unread))
        end = unread.find(HEAD_END, at) + len(HEAD_END)
        if end < len(HEAD_END):
            # Bytes at the end that may begin an empty line are not parsed before the rest of the line
            # arrives.
            begun = (part for part in (3, 2, 1) if unread.endswith(HEAD_END[:part], at))
            end = len(unread) - next(begun, 0)
        # The slice exceeds the limit by at most one byte, which is enough to refuse the request.
        return min(end, at + self._head_bytes - self._framing + (self._current is not None))

    # --- the parser's callbacks

    def on_message_begin(self) -> None:
        self.begun = True
        self._target = b""
        self._headers = []

    def on_url(self, target: bytes) -> None:
        """Append to the target, which llhttp may report in several pieces."""
        self._target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; ignore trailers after the body."""
        if self.begun:
            self._headers.append((name.lower(), value.rstrip(_BLANKS)))

    def on_headers_complete(self) -> None:
        """Check the head, and queue the request."""
        self.begun = False
        parser = self._parser
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise MalformedError("neither HTTP/1.1 nor HTTP/1.0", 505)
        length: int | None = 0
        content_type: str | None = None
        hosts = 0
        expects = False
        for name, value in self._headers:
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                length = int(value)
            elif name == b"transfer-encoding":
                if value.lower() != b"chunked" or version == "1.0":
                    raise MalformedError("a transfer encoding other than chunked in HTTP/1.1", 501)
                length = None
            elif name == b"content-type" and content_type is None:
                content_type = value.decode("latin-1")
            elif name == b"expect":
                expects = value.lower() == b"100-continue" and version == "1.1"
        if hosts > 1 or (not hosts and version == "1.1"):
            raise MalformedError("not exactly one host")
        upgrade = parser.should_upgrade()
        if upgrade and length != 0:
            raise MalformedError("a body in front of another protocol")
        self._framing = 0
        self._left = length or 0
        self._current = Incoming(
            parser.get_method().decode("ascii"),
            self._target,
            version,
            self._headers,
            content_type or "",
            length,
            expects,
            parser.should_keep_alive() and not upgrade,
            upgrade,
            [],
        )
        self._requests.append(self._current)

    def on_body(self, piece: bytes) -> None:
        if self._current is not None:
            self._framing -= len(piece)
            self._left -= len(piece)
            self._current.pieces.append(piece)

    def on_chunk_header(self) -> None:
        """Allow `_CHUNK_LINE` bytes for one more chunk's line."""
        self._framing -= _CHUNK_LINE

    def on_message_complete(self) -> None:
        if self._current is not None:
            self._current.complete = True
            self._ended = True
            self._current = None
