"""Shipping: sends a store file to one streamer, first an image of the file, then its log as commits are made.

Between two checkpoints, the file doesn't change, and only the log grows. So the image is copied by plain
reads, while checkpoints are postponed. Before a checkpoint ends a log, the unsent part of the log is read
into memory. No commit waits for a streamer. The streamer must begin again if the log grows too long while the
image is copied, or if too many unsent bytes would be in memory.
"""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import Final, final

import attrs

from ..base.open_files import CAREFUL, read_at
from ..errors import ConflictError
from ..seams.writes import Shipped
from .log_file import HEAD, LogHead, log_path, read_committed, read_head

PIECE: Final = 256 * 1024
LONGEST_LOG: Final = 256 * 1024 * 1024
"""Maximum length of the log in bytes while an image is copied."""
MOST_KEPT: Final = 64 * 1024 * 1024
"""Maximum number of bytes in memory of logs that a checkpoint has ended."""


@final
class Shipment:
    """The data for one streamer. All methods except `read_image` are called under the file's `turn`.

    Attributes:
        size: size of the image.
        lost: why the streamer must begin again, or None.
    """

    def __init__(self, file: int, log: Path) -> None:
        self.size = os.fstat(file).st_size
        self.lost: str | None = None
        self._file = file
        self._log = log
        self._imaging = True
        # The current log, how much of it was read, and the checksum of the last entry.
        self._head: LogHead | None = None
        self._at = 0
        self._sum: bytes = b""
        # Whether the log may have committed entries that weren't read yet.
        self._more = True
        self._kept: deque[Shipped] = deque()

    def check(self) -> None:
        """Raise ConflictError if the streamer must begin again."""
        if self.lost is not None:
            raise ConflictError(self.lost)

    def read_image(self, at: int) -> Shipped:
        """Return the next piece of the image; after the last piece, checkpoints are no longer postponed.

        Raises:
            ConflictError: the file may have changed since the image was begun.
        """
        data = read_at(self._file, min(PIECE, self.size - at), at)
        self.check()
        ends = at + len(data) >= self.size
        if ends:
            self._imaging = False
        return Shipped("image", at, data, ends=ends, size=self.size)

    def take(self, now: int) -> Shipped:
        """Return the next piece of the log. The piece's `as_of` is `now` if no further commit follows.

        Raises:
            ConflictError: a part of the log is gone.
        """
        self.check()
        if self._kept:
            return self._kept.popleft()
        piece = self._read()
        if piece is None or not self._more:
            return attrs.evolve(piece or Shipped("log", 0), as_of=now)
        return piece

    def may_fold(self, *, erase: bool) -> bool:
        """Return whether a checkpoint may run now. If so, keep the unsent part of the log that the checkpoint
        ends.

        Args:
            erase: whether the checkpoint must run in any case.
        """
        if self.lost is not None:
            return True
        try:
            if not self._imaging:
                self._keep()
            elif not erase and self._log.stat().st_size < LONGEST_LOG:
                return False
            else:
                self._lose("the store's file had to change while its image was being copied")
        except OSError as error:
            self._lose(f"the store's log can't be read: {error.strerror}")
        return True

    def _keep(self) -> None:
        size = sum(len(piece.data) for piece in self._kept)
        while (piece := self._read()) is not None:
            self._kept.append(piece)
            size += len(piece.data)
            if size > MOST_KEPT:
                self._lose("it takes less than is committed")
                return

    def _lose(self, why: str) -> None:
        self._kept.clear()
        self.lost = f"the streamer has to begin anew: {why}"

    def _read(self) -> Shipped | None:
        self._more = True
        try:
            fd = os.open(self._log, os.O_RDONLY | CAREFUL)
        except FileNotFoundError:
            return self._end_log()
        try:
            head = read_head(read_at(fd, HEAD, 0))
            if self._head is not None and (head is None or head.salts != self._head.salts):
                return self._end_log()
            if head is None:
                return None
            found = read_committed(fd, head, self._at or HEAD, self._sum if self._at else head.sum)
        finally:
            os.close(fd)
        self._more = found.more
        if not found.data:
            return None
        at, data = self._at, found.data if self._at else head.data + found.data
        self._head, self._sum, self._at = head, found.sum, at + len(data)
        return Shipped("log", at, data)

    def _end_log(self) -> Shipped | None:
        """Return the piece that ends the current log; None if nothing of a log has been sent."""
        if self._head is None:
            return None
        over = Shipped("log", self._at, b"", ends=True)
        self._head, self._at = None, 0
        return over


@final
class Shipping:
    """The shipment of a store file, if a streamer is attached.

    Attributes:
        since: when the streamer was attached.
        as_of: time up to which the streamer has all commits; None until the log has been sent completely for
            the first time.
    """

    def __init__(self, database: Path) -> None:
        self.since = 0
        self.as_of: int | None = None
        self._database = database
        self._log = log_path(database)
        self._shipment: Shipment | None = None
        # This descriptor stays open until the store is closed: closing it would drop SQLite's locks on the
        # same file.
        self._fd: int | None = None

    @property
    def attached(self) -> bool:
        return self._shipment is not None

    def refuse_second(self) -> None:
        """Raise ConflictError if a streamer is attached."""
        if self._shipment is not None:
            raise ConflictError("another streamer is attached to this store")

    def begin(self, now: int) -> Shipment:
        """Begin an image of the file, whose log must be empty; called under the file's `turn`.

        Raises:
            ConflictError: the log could not be moved into the file, and so isn't empty.
            OSError: the file can't be read.
        """
        if self._log.exists() and self._log.stat().st_size:
            raise ConflictError("the store's log couldn't be emptied; its disk may be full")
        if self._fd is None:
            self._fd = os.open(self._database, os.O_RDONLY | CAREFUL)
        self.since, self.as_of = now, None
        self._shipment = Shipment(self._fd, self._log)
        return self._shipment

    def end(self) -> None:
        """Detach the streamer; callable in any thread."""
        self._shipment = None

    def may_fold(self, erase: bool) -> bool:
        """Return whether a checkpoint may run now; called before each, under the file's `turn`."""
        shipment = self._shipment
        return shipment is None or shipment.may_fold(erase=erase)

    def close(self) -> None:
        """Close the image's descriptor; only after SQLite's own connection."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
