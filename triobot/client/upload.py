"""A file on its way out: read in pieces while it is sent, counted and digested as it goes.

Memory holds one piece at a time, whatever the file's size. Disk work runs in a thread.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from io import FileIO
from typing import Final, Protocol, Self, TypeAlias, final

import attrs
import httpx
import trio

from ..errors import LocalProtocolError
from ..wire.content import Blob, Descriptor, LocalFile
from .exchange import Patience
from .multipart import Frame

UploadProgress: TypeAlias = Callable[[int, int], None]

# The unit of progress, and so of patience: within 30 s it asks for 2 KiB/s, which the slowest link has.
PIECE: Final = 64 * 1024


@final
@attrs.frozen
class Uploaded:
    """What an upload gave.

    Attributes:
        descriptor: the platform's, which may be sent often.
        digest: SHA-256 of the bytes that were sent, in hexadecimal.
        size: how many those were.
    """

    descriptor: Descriptor
    digest: str
    size: int


class Reader(Protocol):
    """A file's bytes from the start, once."""

    @property
    def size(self) -> int:
        """Return how many bytes there are."""
        ...

    async def read(self) -> bytes:
        """Read the next piece; empty at the end.

        Raises:
            LocalProtocolError: the file can't be read, or isn't the one that was opened any more.
        """
        ...


@asynccontextmanager
async def open_source(source: LocalFile | Blob) -> AsyncGenerator[Reader, None]:
    """Open what is to be uploaded, and close it at the end.

    Raises:
        LocalProtocolError: it can't be opened, or is no regular file. The path is not shown.
    """
    if isinstance(source, Blob):
        yield _BlobReader(source.data)
        return
    reader = await trio.to_thread.run_sync(_FileReader.open, source)
    try:
        yield reader
    finally:
        # Closing a file that was only read doesn't wait, so it needs no thread and no checkpoint.
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
    """A regular file; its size and time of change must stay what they were."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._state = _state(file)
        self._read = 0
        self.size = self._state[0]

    @classmethod
    def open(cls, source: LocalFile) -> Self:
        """Open a regular file; blocks on the disk."""
        try:
            # FileIO has no buffer of its own: a piece is one read.
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
    # Without O_NONBLOCK, opening a pipe that nobody writes to would occupy the thread for ever.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _state(file: FileIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _unreadable(error: OSError) -> LocalProtocolError:
    return LocalProtocolError("source", f"can't be read: {error.strerror or type(error).__name__}")


@final
class UploadBody(httpx.AsyncByteStream):
    """A multipart body with one file. It can be sent once.

    An iterator written out rather than a generator: a generator that a cancelled request leaves behind is
    finished by the garbage collector, whenever that may be.

    Attributes:
        length: of the whole body.
        failure: why the file could not be sent to its end, if so; a transport may have hidden it.
        whole: every byte of the body was handed to the transport.
    """

    def __init__(
        self,
        frame: Frame,
        reader: Reader,
        *,
        patience: Patience,
        on_progress: UploadProgress | None,
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
        """Return the SHA-256 of the file's bytes so far, in hexadecimal."""
        return self._hash.hexdigest()

    def __aiter__(self) -> AsyncIterator[bytes]:
        if self._started:
            raise httpx.StreamConsumed
        return self

    async def __anext__(self) -> bytes:
        # A transport asks for the next piece once it has written the one before.
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
