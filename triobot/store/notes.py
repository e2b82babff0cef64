"""What a process notes without an fsync, several times an event, for the process that comes after a kill.

Which deliveries were answered, which rows of the inbox were consumed, and what is at work: the database knows
of the first two a moment later. A store in a file keeps it in its lock file. In memory, or on a server, the
first two are in the tables at once. The third is in a file of the machine's, if the store is on a server
(`postgres.work_file`), and else in memory: tests that have its process killed need it.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias, final

from ..base.open_files import read_at, write_at
from ..seams.writes import WORK_SLOTS, WorkSlots

SLOT: Final = 128
"""Bytes of a line in a lock file: the first holds the process, each other one note."""

# More than are answered in a second, and the database knows of them much sooner.
_LINES: Final = 4_096
_LINE: Final = struct.Struct(f"{SLOT}s")

# Behind the lines, in a page of their own: what is at work, by slot; the run; rows that were consumed.
_NUMBERS: Final = -(-SLOT * (1 + _LINES) // mmap.PAGESIZE) * mmap.PAGESIZE
_NUMBER: Final = struct.Struct("=q")
_COUNT: Final = 512
_RUN: Final = WORK_SLOTS
_SIZE: Final = _NUMBERS + _COUNT * _NUMBER.size

# Behind them: a log's word, and how long its file was.
_LOG: Final = struct.Struct("=16sq")


@final
class Notes:
    """Notes in a lock file.

    They are written through memory, with neither an fsync nor a call of the system: the kernel keeps what a
    process wrote, however the process dies. They don't survive the machine, and need not: whether the kernel
    sent the answer is unknown then, and what it sent last may be sent again. The pages are allotted before
    that: on a full disk nothing is noted, and nothing is killed for writing where there is no room.

    Used by one thread at a time.

    Attributes:
        at_work: where to note what is at work, from `begin` to `close`.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._pages: mmap.mmap | None = None
        self._numbers: memoryview[int] | None = None
        self.at_work: WorkSlots = [0] * WORK_SLOTS
        self._lines: dict[str, int] = {}
        self._free_lines = list(range(_LINES, 0, -1))
        self._consumed: dict[int, int] = {}
        self._free_numbers = list(range(_COUNT - 1, _RUN, -1))

    # --- what another process has noted

    def answered_left(self) -> list[str]:
        """Return the keys that are noted in the file."""
        told = read_at(self._fd, SLOT * _LINES, SLOT)
        lines = (told[at : at + SLOT].rstrip(b"\0") for at in range(0, len(told), SLOT))
        return [line.decode("utf-8", "replace") for line in lines if line]

    def at_work_left(self) -> tuple[int, ...]:
        """Return the number in each slot; empty if none is noted."""
        numbers = self._read_numbers()[:WORK_SLOTS]
        return numbers if any(numbers) else ()

    def consumed_left(self, run: int) -> list[int]:
        """Return the rows that were consumed, if this run of the program noted them.

        Of another one they may be another database's, which was at this place before.
        """
        numbers = self._read_numbers()
        return [seq for seq in numbers[_RUN + 1 :] if seq] if numbers[_RUN : _RUN + 1] == (run,) else []

    def _read_numbers(self) -> tuple[int, ...]:
        told = read_at(self._fd, _COUNT * _NUMBER.size, _NUMBERS)
        whole = len(told) // _NUMBER.size * _NUMBER.size
        return tuple([number for (number,) in _NUMBER.iter_unpack(told[:whole])])

    def run_left(self) -> int:
        """Return the run that noted something last, or zero: no bot has run at this place."""
        return next(iter(self._read_numbers()[_RUN : _RUN + 1]), 0)

    def log_left(self) -> tuple[str, int]:
        """Return the word and the length of the log that was noted last."""
        word, length = _LOG.unpack(read_at(self._fd, _LOG.size, _SIZE).ljust(_LOG.size, b"\0"))
        return word.hex(), length

    def note_log(self, log: Path, word: str) -> None:
        """Note, durably, a log that has its first commit.

        That commit is durable before the note, and the file of the store has another word before SQLite
        restarts or truncates the log. So the note and the file have the same word only while the log must
        hold that commit, wherever a kill or a power loss comes between; a note that is lost proves nothing.
        """
        with suppress(OSError):
            write_at(self._fd, _LOG.pack(bytes.fromhex(word), log.stat().st_size), _SIZE)
            os.fsync(self._fd)

    def clear(self) -> None:
        """Drop whatever is noted in the file but the run; its room stays, for when the disk is full."""
        run = self.run_left()
        with suppress(OSError):
            write_at(self._fd, bytes(max(os.fstat(self._fd).st_size - SLOT, 0)), SLOT)
            if run:
                write_at(self._fd, _NUMBER.pack(run), _NUMBERS + _RUN * _NUMBER.size)

    # --- what this one notes

    def begin(self, run: int) -> None:
        """Make room for notes of this run; without it none is taken."""
        try:
            _allot(self._fd)
            self._pages = mmap.mmap(self._fd, _SIZE)
        except (OSError, ValueError):
            with suppress(OSError):
                os.ftruncate(self._fd, SLOT)  # else the next start would take this run for an older one
            return
        numbers = memoryview(self._pages)[_NUMBERS:].cast("q")
        numbers[_RUN] = run
        self._numbers = self.at_work = numbers

    def note_answered(self, key: str) -> None:
        """Note a key; the oldest makes room for it if need be."""
        line = key.encode("utf-8", "replace")
        if self._pages is None or len(line) > SLOT:
            return
        at = self._lines.pop(key, None)
        if at is None:
            at = self._free_lines.pop() if self._free_lines else self._lines.pop(next(iter(self._lines)))
        self._lines[key] = at
        _LINE.pack_into(self._pages, at * SLOT, line)

    def note_consumed(self, seqs: Collection[int]) -> bool:
        """Note these rows, all or none; return whether there was room."""
        if self._numbers is None or len(seqs) > len(self._free_numbers):
            return False
        for seq in seqs:
            if seq not in self._consumed:
                self._consumed[seq] = at = self._free_numbers.pop()
                self._numbers[at] = seq
        return True

    def drop(self, keys: Collection[str], seqs: Collection[int]) -> None:
        """Take notes back: the database knows, and the same keys may come to stand for other deliveries."""
        if self._pages is None or self._numbers is None:
            return
        for key in keys:
            at = self._lines.pop(key, None)
            if at is not None:
                _LINE.pack_into(self._pages, at * SLOT, b"")
                self._free_lines.append(at)
        for seq in seqs:
            at = self._consumed.pop(seq, None)
            if at is not None:
                self._numbers[at] = 0
                self._free_numbers.append(at)

    def noted(self) -> Sequence[str]:
        """Return the keys that this process has noted, oldest first."""
        return list(self._lines)

    def close(self) -> None:
        """Write nothing more; what was noted stays."""
        self.at_work = [0] * WORK_SLOTS
        numbers, self._numbers = self._numbers, None
        pages, self._pages = self._pages, None
        if numbers is not None:
            numbers.release()
        if pages is not None:
            pages.close()


@final
class WorkNotes:
    """As `Notes`, where the tables have all but what is at work.

    Args:
        file: where that is noted, once `begin` was called; None: in memory.
    """

    def __init__(self, file: Notes | None = None) -> None:
        self._file = file
        self._in_memory = [0] * WORK_SLOTS

    @property
    def at_work(self) -> WorkSlots:
        """Return where to note what is at work."""
        return self._in_memory if self._file is None else self._file.at_work

    def answered_left(self) -> list[str]:
        """Return no key."""
        return []

    def at_work_left(self) -> tuple[int, ...]:
        """Return the number in each slot, whichever process noted it; empty if none is noted."""
        if self._file is not None:
            return self._file.at_work_left()
        return tuple(self._in_memory) if any(self._in_memory) else ()

    def consumed_left(self, run: int) -> list[int]:
        """Return no row."""
        return []

    def clear(self) -> None:
        """Drop whatever is noted."""
        self._in_memory[:] = [0] * WORK_SLOTS
        if self._file is not None:
            self._file.clear()

    def begin(self, run: int) -> None:
        """Make room for notes of this run."""
        if self._file is not None:
            self._file.begin(run)

    def note_answered(self, key: str) -> None:
        """Do nothing: it is written soon."""

    def note_consumed(self, seqs: Collection[int]) -> bool:
        """Return that there is no room: it is to be committed."""
        return False

    def drop(self, keys: Collection[str], seqs: Collection[int]) -> None:
        """Do nothing: nothing of that kind is noted."""

    def noted(self) -> Sequence[str]:
        """Return no key."""
        return []

    def close(self) -> None:
        """Write nothing more; what was noted stays."""
        if self._file is not None:
            self._file.close()


AnyNotes: TypeAlias = Notes | WorkNotes


def _allot(fd: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, _SIZE)
        return
    # macOS and Windows have no such call. What is written has its room, too.
    size = os.fstat(fd).st_size
    if size < _SIZE:
        write_at(fd, bytes(_SIZE - size), size)
