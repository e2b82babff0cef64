"""What a process notes without an fsync, several times an event, for the process that comes after a kill.

Which deliveries were answered, and what is at work. A store in a file keeps both in its lock file; one in
memory needs them for tests that have its process killed.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias, final

from ..seams import WORK_SLOTS

SLOT: Final = 128
"""Bytes of a line in a lock file: the first holds the process, each other one note."""

_SLOTS: Final = 4_096
"""More than are answered in a second, and the store knows of them after a quarter of one."""


@final
class Notes:
    """The keys of deliveries that were answered and of which the database doesn't know yet.

    Written without fsync, in a microsecond: the kernel keeps what a process wrote, however the process dies.
    It doesn't survive the machine, and need not: whether the kernel sent the answer is unknown then as well.

    When all slots are taken, the oldest note makes room. Used by one thread at a time.
    """

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd
        self._slots: dict[str, int] = {}
        self._free = list(range(_SLOTS, 0, -1))

    def left(self) -> list[str]:
        """Return the keys that are noted in the file, whichever process noted them."""
        if self._fd is None:
            return []
        told = os.pread(self._fd, SLOT * _SLOTS, SLOT)
        notes = (told[at : at + SLOT].rstrip(b"\0") for at in range(0, len(told), SLOT))
        return [note.decode("utf-8", "replace") for note in notes if note]

    def clear(self) -> None:
        """Drop all notes."""
        if self._fd is not None:
            self._slots.clear()
            self._free = list(range(_SLOTS, 0, -1))
            with suppress(OSError):
                os.ftruncate(self._fd, SLOT)

    def add(self, key: str) -> None:
        """Note a key. Never raises: a note that can't be written is one that is missing after a kill."""
        note = key.encode("utf-8", "replace")
        if self._fd is None or len(note) > SLOT:
            return
        slot = self._slots.pop(key, None)
        if slot is None:
            slot = self._free.pop() if self._free else self._slots.pop(next(iter(self._slots)))
        self._slots[key] = slot
        self._write(slot, note)

    def drop(self, keys: Iterable[str]) -> None:
        """Take notes back, before the same keys can stand for other deliveries."""
        if self._fd is None:
            return
        for key in keys:
            slot = self._slots.pop(key, None)
            if slot is not None:
                self._write(slot, b"")
                self._free.append(slot)

    def noted(self) -> Sequence[str]:
        """Return the keys that this process has noted, oldest first."""
        return list(self._slots)

    def close(self) -> None:
        """Write nothing more; what was noted stays."""
        self._fd = None

    def _write(self, slot: int, note: bytes) -> None:
        assert self._fd is not None
        with suppress(OSError):
            os.pwrite(self._fd, note.ljust(SLOT, b"\0"), slot * SLOT)


_AT_WORK: Final = -(-SLOT * (1 + _SLOTS) // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
"""Where the numbers of what is at work begin: a page of their own, behind all notes."""
_NUMBER: Final = struct.Struct("=q")


@final
class AtWork:
    """Numbers of what is at work, each in a slot; a page of the lock file that the kernel keeps after a kill.

    Written through memory, since that happens several times an event. The page is allotted before that: on a
    full disk nothing is noted, and nothing is killed for writing where there is no room.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._page: mmap.mmap | None = None

    def left(self) -> tuple[int, ...]:
        """Return the number in each slot of the file, whichever process noted it; empty if none is noted."""
        told = os.pread(self._fd, WORK_SLOTS * _NUMBER.size, _AT_WORK)
        whole = len(told) // _NUMBER.size * _NUMBER.size
        numbers = tuple(number for (number,) in _NUMBER.iter_unpack(told[:whole]))
        return numbers if any(numbers) else ()

    def begin(self) -> None:
        """Take a page in which nothing is noted."""
        with suppress(OSError, ValueError):
            os.posix_fallocate(self._fd, _AT_WORK, mmap.PAGESIZE)
            self._page = mmap.mmap(self._fd, mmap.PAGESIZE, offset=_AT_WORK)
            self._page[:] = bytes(mmap.PAGESIZE)

    def note(self, slot: int, number: int) -> None:
        """Note a number in a slot. Never raises."""
        if self._page is not None:
            _NUMBER.pack_into(self._page, slot * _NUMBER.size, number)

    def close(self) -> None:
        """Write nothing more; what was noted stays."""
        page, self._page = self._page, None
        if page is not None:
            page.close()


@final
class MemoryNotes:
    """As `Notes`, in memory."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}

    def left(self) -> list[str]:
        """Return the keys that are noted, whichever process noted them."""
        return list(self._keys)

    noted = left

    def clear(self) -> None:
        """Drop all notes."""
        self._keys.clear()

    def add(self, key: str) -> None:
        """Note a key."""
        self._keys[key] = None

    def drop(self, keys: Iterable[str]) -> None:
        """Take notes back."""
        for key in keys:
            self._keys.pop(key, None)


@final
class MemoryAtWork:
    """As `AtWork`, in memory."""

    def __init__(self) -> None:
        self._numbers = [0] * WORK_SLOTS

    def left(self) -> tuple[int, ...]:
        """Return the number in each slot, whichever process noted it; empty if none is noted."""
        return tuple(self._numbers) if any(self._numbers) else ()

    def begin(self) -> None:
        """Note nothing, from now on."""
        self._numbers = [0] * WORK_SLOTS

    def note(self, slot: int, number: int) -> None:
        """Note a number in a slot."""
        self._numbers[slot] = number


AnyNotes: TypeAlias = Notes | MemoryNotes
AnyAtWork: TypeAlias = AtWork | MemoryAtWork
