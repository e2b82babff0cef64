"""Copies of a closed store, made for inspection. No process has the store open, and the store itself is not
changed.

To read a store that has a log, SQLite must write files beside the store. Moreover, the opening would count as
a visit to the store. So the files are copied unchanged, including the log and the notes of the last process.
A shared lock prevents processes from opening the store during the copying.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ..base.file_locks import try_lock
from ..base.open_files import CAREFUL
from ..errors import ConfigError
from .lock import is_held, lock_path, locked
from .private_files import checked_path

_FILES: Final = ("", "-wal", "-journal", ".lock")


def copy_offline(path: Path, folder: Path) -> Path:
    """Copy a store into a folder that only its owner can read; return the copy's path.

    A bot that starts during the copying fails with StoreLockedError. Without a lock file, the copy fails.

    Raises:
        ConfigError: there is no store, or no room for a copy.
        StoreLockedError: a process has the store open.
    """
    path = checked_path(path)
    if not path.is_file():
        raise ConfigError(f"there is no store at {path}")
    copy = folder / path.name
    with _held_still(path):
        for end in _FILES:
            source = path.with_name(f"{path.name}{end}")
            try:
                if source.is_file():
                    shutil.copyfile(source, f"{copy}{end}")
            except OSError as error:
                raise ConfigError(
                    f"{source} can't be copied into {folder} to be looked at: {error.strerror}; TMPDIR names"
                    " another place for the copy"
                ) from None
    return copy


@contextmanager
def _held_still(database: Path) -> Generator[None]:
    """Prevent processes from opening a store with a lock file while the block runs; copies may be made.

    Raises:
        StoreLockedError: a process has the store open; raised after the block if a process opened the store
            during the block.
        ConfigError: the lock file can't be read, or its filesystem has no locks.
    """
    path = lock_path(database)
    try:
        fd = os.open(path, os.O_RDONLY | CAREFUL)
    except FileNotFoundError:
        # No lock file: no process has opened this store here.
        yield
        if path.exists():
            raise locked(str(database)) from None
        return
    except OSError as error:
        raise ConfigError(f"the store's lock file {path} can't be opened: {error.strerror}") from None
    try:
        if not try_lock(fd, shared=True):
            raise locked(str(database), here=is_held(fd))
        yield
    finally:
        os.close(fd)
