"""SQLite's write-ahead log as bytes: which part of it is committed. Pure, except for reads of an open file.

A log is a head, followed by *entries*. Each entry is a header with a page number, followed by the page. All
entries of a log have the two salts of the log's head. Entries with other salts are left over from an earlier
log. An entry's checksum covers all entries before it. The last entry of a transaction contains the size of
the database.

While no transaction is open, all entries with the right salts are committed, except the entries of a
transaction that was rolled back. Such entries end without a commit, or with a checksum that doesn't match.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from ..base.frozen import guarded
from ..base.open_files import CAREFUL, read_at

HEAD: Final = 32
_HEADER: Final = 24
_MAGIC: Final = 0x377F0682  # first word of a log; one more if checksums are big-endian
_AT_ONCE: Final = 64
"""Number of entries per read: a quarter of a megabyte."""


@final
@guarded
class LogHead:
    """The head of a log.

    Attributes:
        data: the head's bytes.
        salts: the salts of all entries of the log.
        page_size: page size of the database.
        big_endian: byte order of the words in a checksum.
    """

    data: bytes
    salts: bytes
    page_size: int
    big_endian: bool

    @property
    def sum(self) -> bytes:
        """Checksum of the head, with which the first entry's checksum begins."""
        return self.data[24:32]

    @property
    def entry_size(self) -> int:
        """Size of an entry in bytes, header included."""
        return _HEADER + self.page_size


def read_head(data: bytes) -> LogHead | None:
    """Parse the head of a log; None if `data` contains none."""
    if len(data) < HEAD:
        return None
    magic, page_size = struct.unpack_from(">I4xI", data)
    if magic & ~1 != _MAGIC or not page_size:
        return None
    return LogHead(data[:HEAD], data[16:24], page_size, big_endian=bool(magic & 1))


@final
@guarded
class LogEntries:
    """Consecutive entries of a log, up to an entry that commits; or no entries.

    Attributes:
        data: the entries' bytes.
        sum: checksum of the last entry.
        more: whether further committed entries may follow.
    """

    data: bytes
    sum: bytes
    more: bool


def read_committed(fd: int, head: LogHead, at: int, before: bytes) -> LogEntries:
    """Read the next committed entries of a log.

    Args:
        at: position of the first entry in the file.
        before: checksum of the previous entry, or of the head.
    """
    size, found = head.entry_size, b""
    while True:
        block = read_at(fd, _AT_ONCE * size, at + len(found))
        own = _of_this_log(head, block)
        found += block[:own]
        if end := _committed(head, found, before):
            last = found[end - size + 16 : end - size + _HEADER]
            return LogEntries(found[:end], last, more=own == _AT_ONCE * size)
        if own < _AT_ONCE * size:
            return LogEntries(b"", before, more=False)


def log_path(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def holds(path: Path, words: bytes) -> bool | None:
    """Return whether committed entries of a closed log contain `words`; None if no entry is committed."""
    try:
        fd = os.open(path, os.O_RDONLY | CAREFUL)
    except OSError:
        return None
    try:
        if (head := read_head(read_at(fd, HEAD, 0))) is None:
            return None
        at, entries, found = HEAD, LogEntries(b"", head.sum, more=True), False
        while entries.more and not found:
            entries = read_committed(fd, head, at, entries.sum)
            at += len(entries.data)
            found = words in entries.data
        return found if at > HEAD else None
    finally:
        os.close(fd)


def reaches(path: Path, size: int) -> bool:
    """Return whether an open log has an entry behind its first `size` bytes; False if it can't be read."""
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | CAREFUL)
        try:
            if (head := read_head(read_at(fd, HEAD, 0))) is not None:
                entry = HEAD + size // head.entry_size * head.entry_size
                return read_at(fd, 8, entry + 8) == head.salts
        finally:
            os.close(fd)
    return False


def _of_this_log(head: LogHead, block: bytes) -> int:
    """Return how many bytes of a block are complete entries of this log."""
    size = head.entry_size
    for start in range(0, len(block) - size + 1, size):
        if block[start + 8 : start + 16] != head.salts:
            return start
    return len(block) // size * size


def _committed(head: LogHead, entries: bytes, before: bytes) -> int:
    """Return the end of the last entry that commits and has a matching checksum; 0 if there is none."""
    size = head.entry_size
    for start in range(len(entries) - size, -1, -size):
        if entries[start + 4 : start + 8] == bytes(4):
            continue
        last = entries[start - size + 16 : start - size + _HEADER] if start else before
        if entries[start + 16 : start + _HEADER] == _sum(head, entries[start : start + size], last):
            return start + size
    return 0


def _sum(head: LogHead, entry: bytes, before: bytes) -> bytes:
    order = ">" if head.big_endian else "<"
    summed = entry[:8] + entry[_HEADER:]
    first, second = struct.unpack(">2I", before)
    for one, other in struct.iter_unpack(f"{order}2I", summed):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return struct.pack(">2I", first, second)
