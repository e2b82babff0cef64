"""One process per store file, for as long as it is open.

A lock file beside the real path is held with `flock` from before the database is opened until after it is
closed. The kernel lets go of it when the process dies, however it dies. The file stays behind: deleting it
would race with the next one to open it. Its first line tells people whom to look for; behind that are notes
that must outlive the process and nothing more, see `Notes`.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from ..errors import ConfigError, StoreLockedError
from ..seams import WORK_SLOTS

OWNER_ONLY: Final = 0o600

# Where flock is local to one machine, emulated or absent, and where fsync promises little.
_FOREIGN: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "lustre", "9p", "fuse", "fuseblk"}
)


_SLOT: Final = 128
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
        """The keys that are noted in the file, by whichever process."""
        if self._fd is None:
            return []
        told = os.pread(self._fd, _SLOT * _SLOTS, _SLOT)
        notes = (told[at : at + _SLOT].rstrip(b"\0") for at in range(0, len(told), _SLOT))
        return [note.decode("utf-8", "replace") for note in notes if note]

    def clear(self) -> None:
        """Drop all notes."""
        if self._fd is not None:
            self._slots.clear()
            self._free = list(range(_SLOTS, 0, -1))
            with suppress(OSError):
                os.ftruncate(self._fd, _SLOT)

    def add(self, key: str) -> None:
        """Note a key. Never raises: a note that can't be written is one that is missing after a kill."""
        note = key.encode("utf-8", "replace")
        if self._fd is None or len(note) > _SLOT:
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
        """What this process has noted, oldest first."""
        return list(self._slots)

    def close(self) -> None:
        """Write nothing more; what was noted stays."""
        self._fd = None

    def _write(self, slot: int, note: bytes) -> None:
        assert self._fd is not None
        with suppress(OSError):
            os.pwrite(self._fd, note.ljust(_SLOT, b"\0"), slot * _SLOT)


_AT_WORK: Final = -(-_SLOT * (1 + _SLOTS) // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
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
        """What is noted in the file, by whichever process; empty if nothing is."""
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
class FileLock:
    """A lock that is held.

    Attributes:
        notes, at_work: what is in its file, for the process that comes after a kill.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.notes = Notes(fd)
        self.at_work = AtWork(fd)

    def release(self) -> None:
        """Let the next process in."""
        self.notes.close()
        self.at_work.close()
        os.close(self._fd)


def take_lock(database: Path) -> FileLock:
    """Lock the store at this real path, or refuse at once.

    Raises:
        StoreLockedError: another process has it open; names the file.
        ConfigError: the lock file can't be made.
    """
    path = lock_path(database)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, OWNER_ONLY)
    except OSError as error:
        raise ConfigError(f"the store's lock file {path} can't be opened: {error.strerror}") from None
    try:
        give_to_owner(fd, database)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.fchmod(fd, OWNER_ONLY)
    except BlockingIOError:
        os.close(fd)
        raise StoreLockedError(
            f"the store {database} is open in another process; one process at a time can use it"
        ) from None
    except OSError as error:
        os.close(fd)
        raise ConfigError(f"the store's lock file {path} can't be used: {error.strerror}") from None
    with suppress(OSError):  # a full disk is no reason not to hold the lock
        os.pwrite(fd, f"{os.getpid()}".ljust(_SLOT - 1).encode() + b"\n", 0)
    return FileLock(fd)


def give_to_owner(fd: int, database: Path) -> None:
    """Make root's file beside a store the store's owner's: the bot, which is somebody else, needs it next."""
    if os.geteuid() == 0:
        owner = (database if database.exists() else database.parent).stat()
        os.fchown(fd, owner.st_uid, owner.st_gid)


def lock_path(database: Path) -> Path:
    """The lock file that belongs to a store file."""
    return database.with_name(f"{database.name}.lock")


def machine_boot() -> str | None:
    """What names this boot of the machine; None where the system doesn't tell, which is all but Linux."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def check_filesystem(database: Path) -> None:
    """Refuse a store on a network or user-space filesystem, where neither lock nor fsync can be trusted.

    Where the system doesn't tell (no ``/proc``), nothing is refused.

    Raises:
        ConfigError: names the kind of filesystem.
    """
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    kind = filesystem_of(database, mounts)
    if kind is not None and (kind in _FOREIGN or kind.startswith("fuse.")):
        raise ConfigError(
            f"the store {database} lies on a filesystem of the kind {kind}, where locks and fsync can't be"
            " trusted; put it on a local disk"
        )


def filesystem_of(path: Path, mounts: str) -> str | None:
    """The kind of filesystem that holds an absolute path, by a table in the form of ``/proc/mounts``."""
    best: tuple[int, str] | None = None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(_unescaped(fields[1]))
        # At equal length the later line lies on top.
        if path.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = (len(point.parts), fields[2])
    return None if best is None else best[1]


def _unescaped(field: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field
