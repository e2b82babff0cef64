"""File operations that differ between POSIX and Windows.

Windows has no file modes, no numeric owners and no links that an ordinary user could create. A new file there
inherits its folder's permissions: below a user's own folder, that user and administrators have access.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

OWNER_ONLY: Final = 0o600
PLAIN: Final[int] = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Flags for every open: the descriptor is not inherited, and bytes are unchanged."""
CAREFUL: Final[int] = PLAIN | getattr(os, "O_NOFOLLOW", 0)
"""Flags as `PLAIN`, but opening a symbolic link fails."""
AT_ONCE: Final[int] = getattr(os, "O_NONBLOCK", 0)


def read_at(fd: int, size: int, at: int) -> bytes:
    """Read up to `size` bytes at offset `at`. Only one thread at a time may use the file."""
    if hasattr(os, "pread"):
        return os.pread(fd, size, at)
    os.lseek(fd, at, os.SEEK_SET)
    return os.read(fd, size)


def write_at(fd: int, data: bytes, at: int) -> None:
    """Write all of `data` at offset `at`. Only one thread at a time may use the file.

    Raises:
        OSError: the disk is full; a part of `data` may be written.
    """
    # On a nearly full disk, the system writes as much as fits, and returns a short count instead of an error.
    while data:
        if hasattr(os, "pwrite"):
            written = os.pwrite(fd, data, at)
        else:
            os.lseek(fd, at, os.SEEK_SET)
            written = os.write(fd, data)
        data, at = data[written:], at + written


def restrict(fd: int) -> None:
    """Permit only the owner to read and write an open file, if the system has file modes."""
    if hasattr(os, "fchmod"):
        os.fchmod(fd, OWNER_ONLY)


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def is_stranger(owner: int, folder_owner: int) -> bool:
    """Return whether a file's `owner` is neither this user nor the folder's owner.

    Return False if the system has no numeric owners.
    """
    return hasattr(os, "geteuid") and owner not in (os.geteuid(), folder_owner)


def room_beside(path: Path) -> int:
    """Return the number of free bytes on the disk of `path`; a huge number if it is unknown."""
    if not hasattr(os, "statvfs"):
        return 1 << 62
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize
