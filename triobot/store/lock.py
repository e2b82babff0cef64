"""The lock of a store file: one process at a time may have the file open.

Before a process opens the database, the process locks a lock file beside the real path. The process keeps
this lock until the database is closed. The kernel releases the lock when the process dies, however the
process dies. The lock file is never deleted: a deletion would race with the next process that opens the lock
file. The first line names the process that took the lock last. The following bytes are notes that survive the
process, but not a crash of the computer; see `notes`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from ..base.file_locks import try_lock
from ..base.open_files import CAREFUL, OWNER_ONLY, is_root, read_at, restrict, write_at
from ..errors import ConfigError, StoreLockedError
from .notes import SLOT, Notes

# On these filesystems, flock is local to one computer, emulated or absent, and fsync may not make data
# durable.
_FOREIGN: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "lustre", "9p", "fuse", "fuseblk"}
)

_held: Final[set[tuple[int, int]]] = set()
"""Lock files that this process has locked, by device and inode. The process number in a lock file doesn't
identify this process: a process in another container may have the same number."""


@final
class FileLock:
    """A locked lock file.

    Attributes:
        notes: notes in the file; after a kill, the next process reads these notes.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.notes = Notes(fd)
        self._file = _file_of(fd)
        _held.add(self._file)

    def release(self) -> None:
        """Unlock the file, so that the next process can open the store."""
        self.notes.close()
        _held.discard(self._file)
        os.close(self._fd)


def take_lock(database: Path) -> FileLock:
    """Lock the store at this real path; raise at once if another process has locked the store.

    Raises:
        StoreLockedError: another process has the store open; names the file and the number of that process.
        ConfigError: the lock file can't be made, or its filesystem has no locks.
    """
    path = lock_path(database)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | CAREFUL, OWNER_ONLY)
    except OSError as error:
        raise ConfigError(f"the store's lock file {path} can't be opened: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        give_to_owner(fd, database)
        if not try_lock(fd):
            raise locked(str(database), _holder(fd), here=is_held(fd))
        restrict(fd)
    except StoreLockedError:
        os.close(fd)
        raise
    except OSError as error:
        os.close(fd)
        raise ConfigError(f"the store's lock file {path} can't be used: {error.strerror}") from None
    with suppress(OSError):  # a full disk must not prevent the lock
        write_at(fd, f"{os.getpid()}".ljust(SLOT - 1).encode() + b"\n", 0)
    return FileLock(fd)


def locked(store: str, who: str = "", *, here: bool = False) -> StoreLockedError:
    """Return the error for a store that is already open in a process.

    Args:
        who: the process that has the store open, as text that begins with a comma.
        here: whether the present process itself has the store open.
    """
    if here:
        return StoreLockedError(f"the store {store} is open in this process already; close it there first")
    return StoreLockedError(
        f"the store {store} is open in another process{who}; one process at a time can use it"
    )


def is_held(fd: int) -> bool:
    """Return whether this process has locked an open lock file."""
    return _file_of(fd) in _held


def _file_of(fd: int) -> tuple[int, int]:
    file = os.fstat(fd)
    return file.st_dev, file.st_ino


def _holder(fd: int) -> str:
    number = read_at(fd, SLOT, 0).partition(b"\n")[0].strip()
    return f", number {int(number)}" if number.isdigit() else ""


def give_to_owner(fd: int, database: Path) -> None:
    """If root made this file beside a store, give the file to the store's owner, because the bot needs the
    file.
    """
    if is_root():
        owner = (database if database.exists() else database.parent).stat()
        os.fchown(fd, owner.st_uid, owner.st_gid)


def lock_path(database: Path) -> Path:
    return database.with_name(f"{database.name}.lock")


def machine_boot() -> str | None:
    """Return the identity of this boot of the computer; None on systems other than Linux and macOS."""
    if sys.platform == "darwin":
        return _boot_of_macos()
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def _boot_of_macos() -> str | None:
    ask = getattr(ctypes.CDLL(None), "sysctlbyname", None)
    identity, length = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
    if ask is None or ask(b"kern.bootsessionuuid", identity, ctypes.byref(length), None, ctypes.c_size_t(0)):
        return None
    return identity.value.decode("ascii", "replace") or None


def check_filesystem(database: Path) -> None:
    """Refuse a store on a network or user-space filesystem, where neither locks nor fsync can be trusted.

    On a system without ``/proc``, the filesystem is unknown, and every store is accepted.

    Raises:
        ConfigError: the store is on a network or user-space filesystem; names the kind of filesystem.
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
    """Return the kind of the filesystem of an absolute path; `mounts` is the text of ``/proc/mounts``."""
    best: tuple[int, str] | None = None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(_unescaped(fields[1]))
        # Of two mounts with the same mount point, the later mount hides the earlier mount.
        if path.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = (len(point.parts), fields[2])
    return None if best is None else best[1]


def _unescaped(field: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field
