"""Notes: facts that a process writes without an fsync, several times per event, for the next process after a
kill.

There are three kinds of notes: answered deliveries, consumed inbox rows, and the work slots. The work slots
(`triobot.seams.writes.WorkSlots`) are the numbers of the conversations and events for which code runs now. A
store in a file keeps all notes in its lock file, and writes the first two kinds to its database a moment
later. A store in memory or on a server writes the first two kinds to its tables without a note. A store on a
server keeps the work slots in a file on the bot's computer (`postgres.work_file`). A store in memory keeps
the work slots in memory, for tests that simulate a kill.
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
"""Size in bytes of a line in a lock file. The first line names the process, and each other line is one
note."""

# Each note of an answered delivery needs one line until the database has deleted the delivery, for much less
# than a second. A bot answers fewer deliveries in a second than the file has lines.
_LINES: Final = 4_096
_LINE: Final = struct.Struct(f"{SLOT}s")

# The numbers begin on a new page after the lines: the work slots, the process's random number, and the
# numbers of consumed rows.
_NUMBERS: Final = -(-SLOT * (1 + _LINES) // mmap.PAGESIZE) * mmap.PAGESIZE
_NUMBER: Final = struct.Struct("=q")
_COUNT: Final = 512
_RUN: Final = WORK_SLOTS
_SIZE: Final = _NUMBERS + _COUNT * _NUMBER.size

# After the numbers, the file has the word of a log (`schema.LOG`) and the length of the log file.
_LOG: Final = struct.Struct("=16sq")


@final
class Notes:
    """Notes in a lock file.

    Notes are written through mapped memory, without an fsync or a system call. The kernel keeps the written
    data, however the process dies. A crash of the computer loses the notes. This loss is harmless. After a
    crash of the computer, it is unknown whether the last answers were sent, so events may be repeated in any
    case. Disk space for the pages is allocated beforehand, because a write to a page without disk space would
    kill the process. If the disk is full, the process writes no notes.

    Used by one thread at a time.

    Attributes:
        at_work: the work slots, kept in the file from `begin` to `close`.
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

    # --- notes of another process

    def answered_left(self) -> list[str]:
        """Return the keys of the answered deliveries that the file names."""
        data = read_at(self._fd, SLOT * _LINES, SLOT)
        lines = (data[at : at + SLOT].rstrip(b"\0") for at in range(0, len(data), SLOT))
        return [line.decode("utf-8", "replace") for line in lines if line]

    def at_work_left(self) -> tuple[int, ...]:
        """Return the numbers in the work slots; empty if all slots are empty."""
        numbers = self._read_numbers()[:WORK_SLOTS]
        return numbers if any(numbers) else ()

    def consumed_left(self, run: int) -> list[int]:
        """Return the consumed rows that the file names, if the process with the number `run` wrote these
        notes.

        Notes of another process are ignored, because that process may have had another database at this path.
        """
        numbers = self._read_numbers()
        return [seq for seq in numbers[_RUN + 1 :] if seq] if numbers[_RUN : _RUN + 1] == (run,) else []

    def _read_numbers(self) -> tuple[int, ...]:
        data = read_at(self._fd, _COUNT * _NUMBER.size, _NUMBERS)
        whole = len(data) // _NUMBER.size * _NUMBER.size
        return tuple([number for (number,) in _NUMBER.iter_unpack(data[:whole])])

    def run_left(self) -> int:
        """Return the number of the process that wrote the last notes; 0 if no process has used this file."""
        return next(iter(self._read_numbers()[_RUN : _RUN + 1]), 0)

    def log_left(self) -> tuple[str, int]:
        """Return the word (`schema.LOG`) and the length of the log from the last call of `note_log`."""
        word, length = _LOG.unpack(read_at(self._fd, _LOG.size, _SIZE).ljust(_LOG.size, b"\0"))
        return word.hex(), length

    def note_log(self, log: Path, word: str) -> None:
        """Store a log's word and length durably, after the first commit of the log.

        The commit is durable before the note is written. The store file gets another word before SQLite
        restarts or truncates the log. So if the note and the store file have the same word after a kill or a
        power loss, the log must contain the noted commit. A missing note doesn't prove that the log has no
        commit.
        """
        with suppress(OSError):
            write_at(self._fd, _LOG.pack(bytes.fromhex(word), log.stat().st_size), _SIZE)
            os.fsync(self._fd)

    def clear(self) -> None:
        """Erase all notes in the file except the process's number; the disk space of the notes stays
        allocated.
        """
        run = self.run_left()
        with suppress(OSError):
            write_at(self._fd, bytes(max(os.fstat(self._fd).st_size - SLOT, 0)), SLOT)
            if run:
                write_at(self._fd, _NUMBER.pack(run), _NUMBERS + _RUN * _NUMBER.size)

    # --- notes of this process

    def begin(self, run: int) -> None:
        """Allocate room for the notes of this process, which gets the number `run`.

        If the allocation fails, this process writes no notes.
        """
        try:
            _allot(self._fd)
            self._pages = mmap.mmap(self._fd, _SIZE)
        except (OSError, ValueError):
            with suppress(OSError):
                os.ftruncate(self._fd, SLOT)  # the number of an older process must not stay in the file
            return
        numbers = memoryview(self._pages)[_NUMBERS:].cast("q")
        numbers[_RUN] = run
        self._numbers = self.at_work = numbers

    def note_answered(self, key: str) -> None:
        """Note the key of an answered delivery. If all lines are in use, overwrite the oldest note."""
        line = key.encode("utf-8", "replace")
        if self._pages is None or len(line) > SLOT:
            return
        at = self._lines.pop(key, None)
        if at is None:
            at = self._free_lines.pop() if self._free_lines else self._lines.pop(next(iter(self._lines)))
        self._lines[key] = at
        _LINE.pack_into(self._pages, at * SLOT, line)

    def note_consumed(self, seqs: Collection[int]) -> bool:
        """Note the numbers of these consumed rows, if there is room for all of them; return whether the
        numbers are noted.
        """
        if self._numbers is None or len(seqs) > len(self._free_numbers):
            return False
        for seq in seqs:
            if seq not in self._consumed:
                self._consumed[seq] = at = self._free_numbers.pop()
                self._numbers[at] = seq
        return True

    def drop(self, keys: Collection[str], seqs: Collection[int]) -> None:
        """Delete the notes of these answered keys and consumed rows, which are now in the database.

        After a kill, a leftover note of an answer would also acknowledge a later delivery with an equal key.
        """
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
        """Return the keys of the answered deliveries that this process has noted, oldest first."""
        return list(self._lines)

    def close(self) -> None:
        """Stop writing notes; the existing notes stay."""
        self.at_work = [0] * WORK_SLOTS
        numbers, self._numbers = self._numbers, None
        pages, self._pages = self._pages, None
        if numbers is not None:
            numbers.release()
        if pages is not None:
            pages.close()


@final
class WorkNotes:
    """Notes of the work slots only, for a store that writes the other facts to its tables at once.

    Args:
        file: file that stores the notes from `begin` on; None: the notes stay in memory.
    """

    def __init__(self, file: Notes | None = None) -> None:
        self._file = file
        self._in_memory = [0] * WORK_SLOTS

    @property
    def at_work(self) -> WorkSlots:
        return self._in_memory if self._file is None else self._file.at_work

    def answered_left(self) -> list[str]:
        return []

    def at_work_left(self) -> tuple[int, ...]:
        """Return the numbers in the work slots of this process or of an earlier one; empty if all slots are
        empty.
        """
        if self._file is not None:
            return self._file.at_work_left()
        return tuple(self._in_memory) if any(self._in_memory) else ()

    def consumed_left(self, run: int) -> list[int]:
        return []

    def clear(self) -> None:
        self._in_memory[:] = [0] * WORK_SLOTS
        if self._file is not None:
            self._file.clear()

    def begin(self, run: int) -> None:
        if self._file is not None:
            self._file.begin(run)

    def note_answered(self, key: str) -> None:
        """Do nothing: the writer's next batch stores the fact that the delivery was answered."""

    def note_consumed(self, seqs: Collection[int]) -> bool:
        """Return False: the caller must commit the rows' consumption."""
        return False

    def drop(self, keys: Collection[str], seqs: Collection[int]) -> None:
        """Do nothing: this class has no notes of answers or consumed rows."""

    def noted(self) -> Sequence[str]:
        return []

    def close(self) -> None:
        """Stop writing notes; the existing notes stay."""
        if self._file is not None:
            self._file.close()


AnyNotes: TypeAlias = Notes | WorkNotes


def _allot(fd: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, _SIZE)
        return
    # macOS and Windows lack `posix_fallocate`; writing zeros allocates the space as well.
    size = os.fstat(fd).st_size
    if size < _SIZE:
        write_at(fd, bytes(_SIZE - size), size)
