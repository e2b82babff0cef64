"""Work files: local files with the work slots, for stores on a server.

A conversation that kills its process must be parked after the third kill. The process is often killed before
it can send a message to the server. So a process writes the work slots to a file on its own computer, one
file for each store that the process opens. A new process takes the first file that no process has locked, and
raises the crash counts of the conversations in this file. A process on another computer can't read the file.
So a conversation that kills processes on several computers is parked only after a few more kills.

Notes that were written before a restart of the computer are ignored, because the restart ended the process.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from pathlib import Path
from typing import Final

from ...base.file_locks import try_lock
from ...base.open_files import CAREFUL, OWNER_ONLY, read_at, restrict, write_at
from ..lock import FileLock
from ..notes import SLOT

_log: Final = logging.getLogger("triobot.store")
_MOST: Final = 8
"""Number of files per store and computer; additional processes get no file."""


def take_work_file(store: str, machine: str | None) -> FileLock | None:
    """Lock a file for this process's notes; return None if the process gets no file.

    A warning is logged if the file can't be used.

    Args:
        store: identity of the store.
        machine: identity of this boot of the computer; None on a system without such an identity, where no
            process gets a file.
    """
    if machine is None:
        return None
    try:
        folder = _state_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = hashlib.blake2b(store.encode(), digest_size=8).hexdigest()
        for number in range(_MOST):
            if (lock := _take(folder / f"at-work-{name}.{number}", machine)) is not None:
                return lock
    except (OSError, RuntimeError) as error:
        _log.warning(
            "a conversation that kills the process will not be parked, since there is no file to note it in:"
            " %s; name a folder that stays in STATE_DIRECTORY",
            error,
        )
    return None


def _take(path: Path, machine: str) -> FileLock | None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | CAREFUL, OWNER_ONLY)
    try:
        if not try_lock(fd):
            os.close(fd)
            return None
        restrict(fd)
        lock = FileLock(fd)
        boot = machine.ljust(SLOT).encode()[:SLOT]
        if read_at(fd, SLOT, 0) != boot:
            lock.notes.clear()
            write_at(fd, boot, 0)
    except BaseException:
        os.close(fd)
        raise
    return lock


def _state_folder() -> Path:
    """Return the folder for data that outlives a process and belongs to this computer only.

    Raises:
        RuntimeError: this user has no home.
    """
    if folders := os.environ.get("STATE_DIRECTORY"):  # set by systemd; the first of several folders
        return Path(folders.partition(":")[0])
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "triobot"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "triobot"
