"""Locks on open files. The system releases a process's locks when the process ends, even after SIGKILL."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Final

# Windows locks bytes, and other processes can't read a locked byte. So lock a byte that is never written.
_BYTE: Final = 1 << 30


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Lock an open file until `fd` is closed. Return False if another process has a lock.

    Args:
        shared: allow other processes' shared locks; not supported on Windows.

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
    # Type checkers find the module's names on Windows only.
    msvcrt: Any = import_module("msvcrt")
    os.lseek(fd, _BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    except PermissionError:
        return False
    finally:
        os.lseek(fd, 0, os.SEEK_SET)
    return True
