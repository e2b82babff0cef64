"""Calls on open files, each with what Windows has in its place.

Windows has no modes, no owners' numbers and no links that a mere user could plant: a new file is for those
whom its folder lets in, which below a user's own folder is that user, and the administrators.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

OWNER_ONLY: Final = 0o600
PLAIN: Final[int] = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""How every file is opened: for this process only, and bytes as they are."""
CAREFUL: Final[int] = PLAIN | getattr(os, "O_NOFOLLOW", 0)
"""The same, and no link is followed."""
AT_ONCE: Final[int] = getattr(os, "O_NONBLOCK", 0)


def read_at(fd: int, size: int, at: int) -> bytes:
    """Return what is at a place of a file, as far as there is something. Used by one thread at a time."""
    if hasattr(os, "pread"):
        return os.pread(fd, size, at)
    os.lseek(fd, at, os.SEEK_SET)
    return os.read(fd, size)


def write_at(fd: int, data: bytes, at: int) -> None:
    """Write all of this to a place of a file. Used by one thread at a time.

    Raises:
        OSError: there is no room; some of it may be written.
    """
    # The last write that there is room for is shorter, and no error.
    while data:
        if hasattr(os, "pwrite"):
            written = os.pwrite(fd, data, at)
        else:
            os.lseek(fd, at, os.SEEK_SET)
            written = os.write(fd, data)
        data, at = data[written:], at + written


def restrict(fd: int) -> None:
    """Let only its owner read and write an open file, as far as the system has modes."""
    if hasattr(os, "fchmod"):
        os.fchmod(fd, OWNER_ONLY)


def is_root() -> bool:
    """Return whether this process may do everything."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def is_stranger(owner: int, folder_owner: int) -> bool:
    """Return whether what has this owner is neither this user's nor the folder's; no where none is known."""
    return hasattr(os, "geteuid") and owner not in (os.geteuid(), folder_owner)


def room_beside(path: Path) -> int:
    """Return how many bytes the disk of a file has left; more than anything where the system doesn't say."""
    if not hasattr(os, "statvfs"):
        return 1 << 62
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize
