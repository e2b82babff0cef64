"""Outgoing files.

A file is read in pieces while it is sent, and the sent bytes are counted and hashed.

Only one piece of the file is in memory at a time. Disk work runs in a thread.

The file's bytes are framed as a multipart body (RFC 7578).
"""

from __future__ import annotations

import hashlib
import mimetypes
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import cache
from io import FileIO
from typing import Final, Self, TypeAlias, final

import attrs
import httpx
import trio

from ..base.frozen import guarded
from ..errors import LocalProtocolError
from ..wire.content import Blob, LocalFile
from .exchange import Patience
from .terms import UploadProgress

_PACKED: Final = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}

# Browsers escape the quote and the line ends as percent codes (HTML, "multipart/form-data encoding
# algorithm"). Other control characters are escaped too, since no server needs these characters.
_ESCAPES: Final = {code: f"%{code:02X}" for code in (*range(0x20), 0x22, 0x7F)}
# Progress is counted once for each sent piece of this size in bytes. With a patience of 30 s, the link must
# transfer 2 KiB/s; even slow connections are faster.
PIECE: Final = 64 * 1024


@final
@guarded
class Frame:
    """The bytes before and after a file, and the body's content type."""

    content_type: str
    head: bytes = attrs.field(repr=False)
    tail: bytes = attrs.field(repr=False)


def frame(*, boundary: str, fields: Iterable[tuple[str, str]], name: str, filename: str) -> Frame:
    """Return the bytes around one file in a multipart body. The text fields precede the file.

    Args:
        boundary: random letters and digits that the file doesn't contain, for all practical purposes.
        fields: names and values of the text fields, in order.
        name: the file's field name.
        filename: name that the receiver sees; any text.
    """
    line = f"--{boundary}\r\n"
    texts = "".join(
        f'{line}Content-Disposition: form-data; name="{escape(field)}"\r\n\r\n{value}\r\n'
        for field, value in fields
    )
    head = (
        f"{texts}{line}"
        f'Content-Disposition: form-data; name="{escape(name)}"; filename="{escape(filename)}"\r\n'
        f"Content-Type: {media_type(filename)}\r\n\r\n"
    )
    return Frame(
        f"multipart/form-data; boundary={boundary}", head.encode(), f"\r\n--{boundary}--\r\n".encode()
    )


def escape(text: str) -> str:
    """Escape characters that are invalid between the quotes in a header of a multipart section."""
    return text.translate(_ESCAPES)


@cache
def _types() -> mimetypes.MimeTypes:
    """Return Python's own table of media types, which is the same on all computers.

    The table is created for the first file and not at import, because Python then also reads the computer's
    table from the disk.
    """
    types = mimetypes.MimeTypes(filenames=())
    for kind, suffix in (
        ("audio/ogg", ".ogg"),
        ("audio/ogg", ".oga"),
        ("audio/mp4", ".m4a"),
        ("audio/wav", ".wav"),
        ("video/x-matroska", ".mkv"),
        ("video/3gpp", ".3gp"),
    ):
        types.add_type(kind, suffix)
    return types


def media_type(filename: str) -> str:
    """Return the media type for a file's name; ``application/octet-stream`` if the ending is unknown."""
    # `guess_type` gets the ending only, because it parses its argument as a URL.
    stem, dot, ending = filename.rpartition(".")
    if not (stem and dot):
        return "application/octet-stream"
    guess, packed = _types().guess_type(f"file.{ending}", strict=False)
    if packed is not None:
        return _PACKED.get(packed, "application/octet-stream")
    return guess or "application/octet-stream"


@asynccontextmanager
async def open_source(source: LocalFile | Blob) -> AsyncGenerator[Reader, None]:
    """Open a file or bytes for an upload, and close it at the end of the block.

    Raises:
        LocalProtocolError: the file can't be opened, or is no regular file. The error doesn't contain the
            path.
    """
    if isinstance(source, Blob):
        yield _BlobReader(source.data)
        return
    reader = await trio.to_thread.run_sync(_FileReader.open, source)
    try:
        yield reader
    finally:
        # Closing a read-only file doesn't block, so no thread and no checkpoint are needed.
        reader.close()


@final
class _BlobReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.size = len(data)

    async def read(self) -> bytes:
        await trio.lowlevel.checkpoint()
        piece = self._data[self._at : self._at + PIECE]
        self._at += len(piece)
        return piece


@final
class _FileReader:
    """A regular file.

    A change of the file's size or modification time during the upload is an error.
    """

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._state = _state(file)
        self._read = 0
        self.size = self._state[0]

    @classmethod
    def open(cls, source: LocalFile) -> Self:
        """Open a regular file; blocks on the disk."""
        try:
            # FileIO has no buffer, so reading a piece takes one system call.
            file = FileIO(source.path, opener=_open_without_waiting)
        except OSError as error:
            raise _unreadable(error) from None
        try:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise LocalProtocolError("source", "must be a regular file")
            return cls(file)
        except BaseException:
            file.close()
            raise

    async def read(self) -> bytes:
        return await trio.to_thread.run_sync(self._read_piece)

    def _read_piece(self) -> bytes:
        try:
            piece = self._file.read(PIECE)
            self._read += len(piece)
            if self._read > self.size or (not piece and _state(self._file) != self._state):
                raise LocalProtocolError("source", "changed while it was being sent")
        except OSError as error:
            raise _unreadable(error) from None
        return piece

    def close(self) -> None:
        self._file.close()


def _open_without_waiting(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a pipe without a writer would block the thread forever.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _state(file: FileIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _unreadable(error: OSError) -> LocalProtocolError:
    return LocalProtocolError("source", f"can't be read: {error.strerror or type(error).__name__}")


Reader: TypeAlias = _BlobReader | _FileReader
"""A file's bytes, read once: `read` returns the next piece, and an empty piece at the end."""


@final
class UploadBody(httpx.AsyncByteStream):
    """A multipart body with one file. The body can be sent once.

    The class is an iterator, not a generator: a cancelled request would leave a generator to the garbage
    collector.

    Attributes:
        length: length of the whole body.
        failure: the error that stopped the reading of the file, or None; needed because a transport may hide
            the error.
        whole: whether every byte of the body was passed to the transport.
    """

    def __init__(
        self, frame: Frame, reader: Reader, *, patience: Patience, on_progress: UploadProgress | None
    ) -> None:
        self._frame = frame
        self._reader = reader
        self._patience = patience
        self._on_progress = on_progress
        self._hash = hashlib.sha256()
        self._sent = 0
        self._started = False
        self.length = len(frame.head) + reader.size + len(frame.tail)
        self.failure: LocalProtocolError | None = None
        self.whole = False

    @property
    def digest(self) -> str:
        """SHA-256 of the file's bytes so far, in hexadecimal."""
        return self._hash.hexdigest()

    def __aiter__(self) -> AsyncIterator[bytes]:
        if self._started:
            raise httpx.StreamConsumed
        return self

    async def __anext__(self) -> bytes:
        # A transport requests the next piece once the previous piece is written.
        self._patience.renew()
        if self.whole:
            raise StopAsyncIteration
        if not self._started:
            self._started = True
            return self._frame.head
        if self._on_progress is not None:
            self._on_progress(self._sent, self._reader.size)
        self._patience.pause()
        try:
            piece = await self._reader.read()
            if not piece and self._sent != self._reader.size:
                raise LocalProtocolError("source", "changed while it was being sent")
        except LocalProtocolError as error:
            self.failure = error
            raise
        self._patience.renew()
        if not piece:
            self.whole = True
            return self._frame.tail
        self._hash.update(piece)
        self._sent += len(piece)
        return piece
