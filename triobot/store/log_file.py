"""SQLite's write-ahead log as bytes: how far it is committed. Pure, but for reads of an open file.

A log is a head and then *entries*: a page each, behind a header that says which page it is. All entries of
one log have the two salts of its head; those behind them are left over from a log before it. An entry's sum
counts in all before it, and the last entry of a transaction says how long the database is then.

While no transaction is open, what has the right salts is committed, except for what a transaction left that
was taken back. Such entries end with none that commits, or with one whose sum doesn't fit.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final, final

from ..base.frozen import guarded
from ..base.open_files import CAREFUL, read_at

HEAD: Final = 32
_HEADER: Final = 24
_MAGIC: Final = 0x377F0682  # of a log whose sums are made of little-endian words; one more: big-endian
_AT_ONCE: Final = 64
"""Entries that are read at once: a quarter of a megabyte."""


@final
@guarded
class LogHead:
    """The head of a log.

    Attributes:
        data: as it is in the file.
        salts: what all its entries have.
        page_size: of the database.
        big_endian: how sums read words.
    """

    data: bytes
    salts: bytes
    page_size: int
    big_endian: bool

    @property
    def sum(self) -> bytes:
        """Return the sum that the first entry counts on from."""
        return self.data[24:32]

    @property
    def entry_size(self) -> int:
        """Return how long an entry is, its header included."""
        return _HEADER + self.page_size


def read_head(data: bytes) -> LogHead | None:
    """Read the head of a log; None if there is none."""
    if len(data) < HEAD:
        return None
    magic, page_size = struct.unpack_from(">I4xI", data)
    if magic & ~1 != _MAGIC or not page_size:
        return None
    return LogHead(data[:HEAD], data[16:24], page_size, big_endian=bool(magic & 1))


@final
@guarded
class Entries:
    """Entries of a log that end with one that commits; or none.

    Attributes:
        data: as they are in the file.
        sum: of the last one.
        more: there may be more that are committed.
    """

    data: bytes
    sum: bytes
    more: bool


def read_committed(fd: int, head: LogHead, at: int, before: bytes) -> Entries:
    """Return the next entries of a log.

    Args:
        at: where they begin in the file.
        before: the sum of the entry before them, or the head's.
    """
    size, found = head.entry_size, b""
    while True:
        block = read_at(fd, _AT_ONCE * size, at + len(found))
        own = _of_this_log(head, block)
        found += block[:own]
        if end := _committed(head, found, before):
            last = found[end - size + 16 : end - size + _HEADER]
            return Entries(found[:end], last, more=own == _AT_ONCE * size)
        if own < _AT_ONCE * size:
            return Entries(b"", before, more=False)


def log_path(database: Path) -> Path:
    """Return the path of a store file's log."""
    return database.with_name(f"{database.name}-wal")


def holds(path: Path, words: bytes) -> bool | None:
    """Return whether a log that no program has open has committed these words; None if it has nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | CAREFUL)
    except OSError:
        return None
    try:
        if (head := read_head(read_at(fd, HEAD, 0))) is None:
            return None
        at, entries, found = HEAD, Entries(b"", head.sum, more=True), False
        while entries.more and not found:
            entries = read_committed(fd, head, at, entries.sum)
            at += len(entries.data)
            found = words in entries.data
        return found if at > HEAD else None
    finally:
        os.close(fd)


def _of_this_log(head: LogHead, block: bytes) -> int:
    """Return how many bytes of a block are whole entries of this log."""
    size = head.entry_size
    for start in range(0, len(block) - size + 1, size):
        if block[start + 8 : start + 16] != head.salts:
            return start
    return len(block) // size * size


def _committed(head: LogHead, entries: bytes, before: bytes) -> int:
    """Return where the last entry ends that commits, and whose sum fits; 0 if there is none."""
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
