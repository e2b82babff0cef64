"""Locks on open files, which the system lets go of when the process dies, however it dies."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Final

# Windows locks bytes, and lets nobody else read them: one that is never written.
_BYTE: Final = 1 << 30


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Lock an open file until it is closed; return False if another process has it.

    Args:
        shared: others may do the same meanwhile; not on Windows.

    Raises:
        OSError: the filesystem has no locks.
    """
    try:
        import fcntl
    except ImportError:
        return _try_lock_on_windows(fd)
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _try_lock_on_windows(fd: int) -> bool:
    # Checkers know its names on Windows only.
    msvcrt: Any = import_module("msvcrt")
    os.lseek(fd, _BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    except PermissionError:
        return False
    finally:
        os.lseek(fd, 0, os.SEEK_SET)
    return True
