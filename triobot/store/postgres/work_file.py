"""A file in which a process notes what is at work, for the next one on its machine: the store is on a server.

What kills its process is to be parked the third time, and often dies too fast for a word to the server. So
each process has a file of its machine's, for each store that it has open; the first one free is the next
process's. A process that takes the store over on another machine doesn't know of it. But each machine's own
next process counts what it finds in the store, so that who kills one machine's process after the other's is
parked after some more deaths.

What a machine noted before it was started anew counts for nothing: nobody's code ended it.
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
"""Processes of one store on one machine; more have no file."""


def take_work_file(store: str, machine: str | None) -> FileLock | None:
    """Lock a file for the notes of one process; None where there can be none, which the log says.

    Args:
        store: names the store among all there are.
        machine: names this boot of the machine; None: nothing does, and nothing is counted here.
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
    """Return the folder of what is to outlive a process and is of this machine only.

    Raises:
        RuntimeError: this user has no home.
    """
    if told := os.environ.get("STATE_DIRECTORY"):  # systemd's; the first of several
        return Path(told.partition(":")[0])
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "triobot"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "triobot"
