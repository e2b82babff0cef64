"""Locks on open files, which the system lets go of when the process dies, however it dies."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def try_lock(fd: int) -> bool:
    """Lock an open file until it is closed; return False if another process has it.

    Raises:
        OSError: the filesystem has no locks.
    """
    try:
        import fcntl
    except ImportError:
        return _try_lock_on_windows(fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _try_lock_on_windows(fd: int) -> bool:
    # Checkers know its names on Windows only.
    msvcrt: Any = import_module("msvcrt")
    try:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    except PermissionError:
        return False
    return True
