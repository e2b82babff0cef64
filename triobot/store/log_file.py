"""The committed part of SQLite's write-ahead log, read as bytes. Pure, except for reads of an open file.

A log is a head, followed by *entries*. Each entry is a header with a page number, followed by the page. Each
entry of a log contains the same two random numbers as the log's head, the *salts*. Entries with other salts
are left over from an earlier log in the same file. The checksum of an entry covers this entry and all earlier
entries. The last entry of a transaction contains the size of the database.

While no transaction is open, all entries with the right salts are committed, except the entries of a
transaction that was rolled back. The entries of a rolled-back transaction end without a commit, or with a
checksum that doesn't match.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, final

from ..base.frozen import guarded
from ..base.open_files import CAREFUL, read_at

_HEAD: Final = 32
_HEADER: Final = 24
_MAGIC: Final = 0x377F0682  # first word of a log; larger by 1 if checksums are big-endian
_AT_ONCE: Final = 64
"""Number of entries per read: a quarter of a megabyte."""


@final
@guarded
class _LogHead:
    """The head of a log.

    Attributes:
        salts: the salts of all entries of the log.
        sum: checksum of the head; the first entry's checksum continues from this sum.
        entry_size: size of an entry in bytes, header included.
        big_endian: byte order of the words in a checksum.
    """

    salts: bytes
    sum: bytes
    entry_size: int
    big_endian: bool


def log_path(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def holds(path: Path, words: bytes) -> bool | None:
    """Return whether committed entries of a closed log contain `words`; None if no entry is committed."""
    found: bool | None = None
    with suppress(OSError), _opened(path) as fd:
        for entries in _committed(fd):
            if found := words in entries:
                break
    return found


def reaches(path: Path, size: int) -> bool:
    """Return whether an open log has an entry behind the first `size` bytes; False for an unreadable log."""
    with suppress(OSError), _opened(path) as fd:
        if (head := _read_head(fd)) is not None:
            entry = _HEAD + size // head.entry_size * head.entry_size
            return read_at(fd, 8, entry + 8) == head.salts
    return False


@contextmanager
def _opened(path: Path) -> Generator[int]:
    fd = os.open(path, os.O_RDONLY | CAREFUL)
    try:
        yield fd
    finally:
        os.close(fd)


def _read_head(fd: int) -> _LogHead | None:
    """Read the head of a log; None if the file doesn't begin with a head."""
    data = read_at(fd, _HEAD, 0)
    if len(data) < _HEAD:
        return None
    magic, page_size = struct.unpack_from(">I4xI", data)
    if magic & ~1 != _MAGIC or not page_size:
        return None
    return _LogHead(data[16:24], data[24:32], _HEADER + page_size, big_endian=bool(magic & 1))


def _committed(fd: int) -> Iterator[bytes]:
    """Yield the committed entries of a log in order, many at a time."""
    if (head := _read_head(fd)) is None:
        return
    size, at, before, found = head.entry_size, _HEAD, head.sum, b""
    own = most = _AT_ONCE * size
    while own == most:
        block = read_at(fd, most, at)
        at += len(block)
        own = _of_this_log(head, block)
        found += block[:own]
        if end := _end_of_commit(head, found, before):
            yield found[:end]
            before, found = found[end - size + 16 : end - size + _HEADER], found[end:]


def _of_this_log(head: _LogHead, block: bytes) -> int:
    """Return how many bytes of a block are complete entries of this log."""
    size = head.entry_size
    for start in range(0, len(block) - size + 1, size):
        if block[start + 8 : start + 16] != head.salts:
            return start
    return len(block) // size * size


def _end_of_commit(head: _LogHead, entries: bytes, before: bytes) -> int:
    """Return the position behind the last commit with a matching checksum; 0 if there is none."""
    size = head.entry_size
    for start in range(len(entries) - size, -1, -size):
        if entries[start + 4 : start + 8] == bytes(4):
            continue
        last = entries[start - size + 16 : start - size + _HEADER] if start else before
        if entries[start + 16 : start + _HEADER] == _sum(head, entries[start : start + size], last):
            return start + size
    return 0


def _sum(head: _LogHead, entry: bytes, before: bytes) -> bytes:
    order = ">" if head.big_endian else "<"
    summed = entry[:8] + entry[_HEADER:]
    first, second = struct.unpack(">2I", before)
    for one, other in struct.iter_unpack(f"{order}2I", summed):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return struct.pack(">2I", first, second)
